"""Sinusoidal position embeddings (Vaswani et al. 2017, section 3.5) in the dialects of the field."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.angles import Frequencies, PositionTable
from locant.positions.embeddings.position_code import Combination, PositionCode
from locant.positions.exact import geometric_frequencies
from locant.positions.registry import register_scheme
from locant.positions.scheme import require_choice

SinusoidDialect = Literal["paper", "concatenated", "tensor2tensor"]


def sinusoid_frequencies(dim: int, *, base: float = 10000.0, dialect: SinusoidDialect = "paper") -> Frequencies:
    """Return the angular frequencies of the ``dim / 2`` pairs of sine and cosine.

    Args:
        dim: Even number of features.
        base: The wavelengths run from ``2 pi`` to ``2 pi base`` tokens.
        dialect: ``tensor2tensor`` spaces them so that the last wavelength is exactly ``2 pi base``; in the others it
            would be that of the next pair.

    Raises:
        ConfigError: ``dim`` is odd, ``base`` is not above 1 or the dialect is unknown.
    """
    if dim % 2 or dim < 2:
        raise ConfigError(f"Sinusoidal positions need an even width, because sine and cosine come in pairs; got {dim}.")
    if not base > 1:
        raise ConfigError(f"The base of sinusoidal positions must be above 1; got {base}.")
    require_choice("dialect", dialect, get_args(SinusoidDialect))
    pairs = dim // 2
    steps = max(pairs - 1, 1) if dialect == "tensor2tensor" else pairs
    return Frequencies(geometric_frequencies(pairs, base, steps))


def sinusoid_table(
    positions: Tensor,
    dim: int,
    *,
    base: float = 10000.0,
    dialect: SinusoidDialect = "paper",
    cosine_first: bool = False,
) -> Tensor:
    """Return the sinusoidal embeddings of ``positions [...]``, float32 ``[..., dim]``.

    Args:
        positions: Positions, integers or fractions, of any sign, up to 2^31 in size.
        dim: Even number of features.
        base: Base of the geometric progression of wavelengths.
        dialect: As for :class:`Sinusoidal`.
        cosine_first: As for :class:`Sinusoidal`.

    Raises:
        ConfigError: As for :func:`sinusoid_frequencies`.
    """
    return _arrange(sinusoid_frequencies(dim, base=base, dialect=dialect), positions, dialect, cosine_first)


def _arrange(frequencies: Frequencies, positions: Tensor, dialect: SinusoidDialect, cosine_first: bool) -> Tensor:
    sine, cosine = frequencies.sine_cosine(positions)
    parts = (cosine, sine) if cosine_first else (sine, cosine)
    return torch.stack(parts, dim=-1).flatten(-2) if dialect == "paper" else torch.cat(parts, dim=-1)


@register_scheme("sinusoidal")
class Sinusoidal(PositionCode):
    """Adds sines and cosines of geometrically spaced wavelengths to the input embeddings.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5::

        PE(pos, 2i)   = sin(pos / 10000^(2i/E))
        PE(pos, 2i+1) = cos(pos / 10000^(2i/E))

    Dialects, which differ in the order of the features and in the spacing of the wavelengths:

    * ``paper``: interleaved as above, the exponent is ``2i/E``.
    * ``concatenated``: all sines, then all cosines, with the paper's exponent (Marian models in Hugging Face).
    * ``tensor2tensor``: concatenated, the exponent is ``i/(E/2 - 1)`` (the authors' own code; fairseq and M2M-100 with
      ``start=2``, which is their padding index plus one; OpenNMT-tf with ``start=1``).

    Where it acts: at the embedding of an encoder, of a decoder, or of both; cross-attention sees it through them.

    Precision: within 3.1e-8 of the exact value for positions up to 2^31, in float32 whatever the dtype of the model;
    the table is neither a parameter nor a buffer.

    Args:
        dim: Width of the model, ``E``.
        base: Base of the wavelengths.
        dialect: ``paper``, ``concatenated`` or ``tensor2tensor``.
        start: Number that the first position counts as.
        cosine_first: Whether the cosine comes before the sine, as in the time steps of diffusion models.
        combine: ``add`` to the embedding, or ``concatenate`` to it.
        features: Width of the code, even; the width of the model when added, a quarter of it when concatenated.

    Raises:
        ConfigError: The width is odd, ``base`` is not above 1, or the dialect or combination is unknown.

    Example:
        >>> import torch
        >>> scheme = Sinusoidal(4)
        >>> scheme.embed(torch.zeros(1, 2, 4), torch.arange(2))[0, 1].tolist()  # doctest: +ELLIPSIS
        [0.84147..., 0.54030..., 0.00999..., 0.99994...]
    """

    title = "Sinusoidal"
    paper = "Vaswani et al. 2017"
    traceable = True

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10000.0,
        dialect: SinusoidDialect = "paper",
        start: int = 0,
        cosine_first: bool = False,
        combine: Combination = "add",
        features: int | None = None,
    ) -> None:
        super().__init__(dim, combine, features)
        self.frequencies = sinusoid_frequencies(self.features, base=base, dialect=dialect)
        self.base = base
        self.dialect: SinusoidDialect = dialect
        self.start = start
        self.cosine_first = cosine_first
        self._table = PositionTable(self._rows)

    def _rows(self, positions: Tensor) -> Tensor:
        return _arrange(self.frequencies, positions, self.dialect, self.cosine_first)

    def encode(self, positions: Tensor) -> Tensor:
        """Return the float32 codes ``[..., P]`` of positions ``[...]``, integers or fractions."""
        if self.start:
            positions = (positions if positions.is_floating_point() else positions.long()) + self.start
        return self._table(positions)
