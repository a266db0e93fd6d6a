"""Learned absolute position embeddings (Gehring et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.embeddings.position_code import Combination, PositionCode, require_positions
from locant.positions.registry import register_scheme


@register_scheme("learned")
class Learned(PositionCode):
    """Adds a trained vector for every position to the input embeddings.

    Source: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1; compared with sinusoids
    in Vaswani et al. 2017, Table 3, row (E)::

        embed(x, pos) = x + P[pos]

    Where it acts: at the embedding of an encoder, of a decoder, or of both; cross-attention sees it through them.

    Args:
        dim: Width of the model, ``E``.
        max_positions: Number of positions in the table.
        combine: ``add`` to the embedding, or ``concatenate`` to it.
        features: Width of the vectors; the width of the model when added, a quarter of it when concatenated.

    Raises:
        ConfigError: ``max_positions`` is not positive.

    Example:
        >>> import torch
        >>> Learned(8, max_positions=16).embed(torch.zeros(1, 3, 8), torch.arange(3)).shape
        torch.Size([1, 3, 8])
    """

    title = "Learned"
    paper = "Gehring et al. 2017"
    traceable = True

    def __init__(
        self, dim: int, *, max_positions: int = 1024, combine: Combination = "add", features: int | None = None
    ) -> None:
        super().__init__(dim, combine, features)
        if max_positions < 1:
            raise ConfigError(f"max_positions of learned positions must be at least 1; got {max_positions}.")
        self.weight = nn.Parameter(torch.empty(max_positions, self.features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution of standard deviation ``E^-0.5``, like token embeddings."""
        nn.init.normal_(self.weight, std=self.dim**-0.5)

    def resized(
        self, size: int | Sequence[int], *, grid: Sequence[int] | None = None, prefix: int = 0, antialias: bool = True
    ) -> Learned:
        """Return the scheme with a table of another size, interpolated as vision Transformers do for larger images.

        The interpolation is bicubic: of timm's ``resample_abs_pos_embed`` with ``antialias``, of ViT and DeiT without.

        Args:
            size: Positions of the new table; of a grid its rows and columns.
            grid: Rows and columns of the table that there is, whose positions count row by row; none of a plain text.
            prefix: First positions that stay as they are, such as that of a class token; they are counted in no size.
            antialias: Whether a smaller table takes the mean of more neighbours.

        Raises:
            ConfigError: ``grid`` and ``size`` are not of the same kind, or the grid does not hold the positions.
        """
        old = (1, self.max_positions - prefix) if grid is None else tuple(grid)
        new = (1, size) if isinstance(size, int) else tuple(size)
        if isinstance(size, int) != (grid is None) or len(old) != 2 or len(new) != 2 or min(*old, *new) < 1:
            raise ConfigError(
                f"A table is resized from a number of positions to another, or from rows and columns to others; got "
                f"{size} from {grid}, with {prefix} of {self.max_positions} positions before them."
            )
        if prefix < 0 or prefix + math.prod(old) != self.max_positions:
            raise ConfigError(
                f"{prefix} positions and a grid of {old[0]} by {old[1]} are {prefix + math.prod(old)}, and the table "
                f"has {self.max_positions}."
            )
        table = self.weight.detach()
        images = table[prefix:].float().T.reshape(1, self.features, *old)
        resized = nn.functional.interpolate(images, new, mode="bicubic", align_corners=False, antialias=antialias)
        rows = torch.cat((table[:prefix], resized.reshape(self.features, -1).T.to(table.dtype)))
        found = Learned(self.dim, max_positions=len(rows), combine=self.combine, features=self.features)
        found.weight = nn.Parameter(rows.contiguous(), requires_grad=self.weight.requires_grad)
        return found

    @property
    def max_positions(self) -> int:
        """Number of positions in the table."""
        return self.weight.shape[0]

    def encode(self, positions: Tensor) -> Tensor:
        """Return the trained vectors ``[..., P]`` of integer positions ``[...]``.

        Raises:
            DataError: A position is negative or beyond the table; said before any device kernel indexes it.
        """
        require_positions(
            positions,
            self.max_positions,
            "The table of learned positions ends there: shorten the input, or train with a larger max_positions or "
            "with a scheme that has no limit, such as sinusoidal.",
        )
        # Indexing with uint8 would be taken for a mask, and the other small integers are refused.
        return self.weight[positions.long()]
