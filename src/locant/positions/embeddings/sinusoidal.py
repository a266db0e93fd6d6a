"""Sinusoidal position embeddings (Vaswani et al. 2017, section 3.5)."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

from locant.errors import ConfigError, nearest
from locant.positions.scheme import AttentionShape, PositionScheme, require_integer

SinusoidLayout = Literal["interleaved", "concatenated"]

# Rows kept in the table; positions beyond it are computed when they occur, so one far position costs one row.
_MAX_TABLE_ROWS = 1 << 16


def sinusoid_angles(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    """Return the angles ``position / base^(2i/dim)`` in radians.

    Args:
        positions: Integer positions ``[...]``.
        dim: Even number of features, ``E``.
        base: The wavelengths run from ``2 pi`` to ``2 pi base`` tokens.

    Returns:
        Angles ``[..., dim / 2]`` in float64: a float32 product is wrong by 2e-4 radians at position 4,000 already.
    """
    exponents = torch.arange(0, dim, 2, dtype=torch.float64, device=positions.device) / dim
    return positions.to(torch.float64).unsqueeze(-1) * base**-exponents


def sinusoid_table(
    positions: Tensor, dim: int, *, base: float = 10000.0, layout: SinusoidLayout = "interleaved"
) -> Tensor:
    """Return the position embeddings of the given positions.

    Args:
        positions: Integer positions ``[...]``.
        dim: Even number of features, ``E``.
        base: Base of the geometric progression of wavelengths.
        layout: ``interleaved`` puts sine and cosine of a frequency side by side, as in the paper; ``concatenated``
            puts all sines first.

    Returns:
        Float32 ``[..., dim]``; the angles are computed in float64 and rounded once.
    """
    angles = sinusoid_angles(positions, dim, base)
    if layout == "interleaved":
        table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
    else:
        table = torch.cat((angles.sin(), angles.cos()), dim=-1)
    return table.to(torch.float32)


class Sinusoidal(PositionScheme):
    """Adds sines and cosines of geometrically spaced wavelengths to the input embeddings.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5::

        PE(pos, 2i)   = sin(pos / 10000^(2i/E))
        PE(pos, 2i+1) = cos(pos / 10000^(2i/E))

    Precision: angles in float64, table in float32 whatever the dtype of the model; the table is neither a parameter
    nor a buffer, so casting the module cannot degrade it and checkpoints do not hold it. It grows by itself.

    Args:
        dim: Width of the model, ``E``; even.
        base: Base of the wavelengths.
        layout: ``interleaved`` (the paper) or ``concatenated`` (sines first).

    Raises:
        ConfigError: ``dim`` is odd, ``base`` is not above 1 or the layout is unknown.

    Example:
        >>> import torch
        >>> scheme = Sinusoidal(4)
        >>> scheme.embed(torch.zeros(1, 2, 4), torch.arange(2))[0, 1].tolist()  # doctest: +ELLIPSIS
        [0.84147..., 0.54030..., 0.00999..., 0.99994...]
    """

    def __init__(self, dim: int, *, base: float = 10000.0, layout: SinusoidLayout = "interleaved") -> None:
        super().__init__()
        if dim % 2 or dim < 2:
            raise ConfigError(
                f"Sinusoidal positions need an even width, because sine and cosine come in pairs; got {dim}."
            )
        if not base > 1:
            raise ConfigError(f"The base of sinusoidal positions must be above 1; got {base}.")
        layouts = get_args(SinusoidLayout)
        if layout not in layouts:
            raise ConfigError(
                f"Unknown layout '{layout}' of sinusoidal positions.{nearest(layout, layouts)} "
                f"Known: {', '.join(layouts)}."
            )
        self.dim = dim
        self.base = base
        self.layout: SinusoidLayout = layout
        self._table = torch.empty(0, dim)

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width of a model."""
        return cls(shape.model_dim, **options)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the sinusoids of ``positions`` to ``x``; shapes as in :meth:`PositionScheme.embed`."""
        require_integer(positions)
        return (x + self.table(positions)).to(x.dtype)

    def table(self, positions: Tensor) -> Tensor:
        """Return the float32 embeddings ``[..., E]`` of integer positions ``[...]``."""
        rows = int(positions.max()) + 1 if positions.numel() else 0
        if rows > _MAX_TABLE_ROWS or (rows and int(positions.min()) < 0):
            return sinusoid_table(positions, self.dim, base=self.base, layout=self.layout)
        if rows > len(self._table) or self._table.device != positions.device:
            size = min(_MAX_TABLE_ROWS, max(256, 1 << rows.bit_length()))
            every = torch.arange(size, device=positions.device)
            self._table = sinusoid_table(every, self.dim, base=self.base, layout=self.layout)
        # Indexing with uint8 would be taken for a mask, and the other small integers are refused.
        return self._table[positions.long()]
