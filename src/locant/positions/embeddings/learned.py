"""Learned absolute position embeddings (Gehring et al. 2017)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError, DataError
from locant.positions.scheme import AttentionShape, PositionScheme, require_integer


class Learned(PositionScheme):
    """Adds a trained vector for every position to the input embeddings.

    Source: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1; compared with sinusoids
    in Vaswani et al. 2017, Table 3, row (E)::

        embed(x, pos) = x + P[pos]

    Args:
        dim: Width of the model, ``E``.
        max_positions: Number of positions in the table.

    Raises:
        ConfigError: ``max_positions`` is not positive.

    Example:
        >>> import torch
        >>> Learned(8, max_positions=16).embed(torch.zeros(1, 3, 8), torch.arange(3)).shape
        torch.Size([1, 3, 8])
    """

    def __init__(self, dim: int, *, max_positions: int = 1024) -> None:
        super().__init__()
        if max_positions < 1:
            raise ConfigError(f"max_positions of learned positions must be at least 1; got {max_positions}.")
        self.weight = nn.Parameter(torch.empty(max_positions, dim))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width of a model."""
        return cls(shape.model_dim, **options)

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution of standard deviation ``E^-0.5``, like token embeddings."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)

    @property
    def max_positions(self) -> int:
        """Number of positions in the table."""
        return self.weight.shape[0]

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the trained vectors of ``positions`` to ``x``; shapes as in :meth:`PositionScheme.embed`.

        Raises:
            DataError: A position is negative or beyond the table; said before any device kernel indexes it.
        """
        require_integer(positions)
        if positions.numel():
            low, high = (int(end) for end in positions.aminmax())
            if low < 0 or high >= self.max_positions:
                wrong = high if high >= self.max_positions else low
                raise DataError(
                    f"Position {wrong} is outside the {self.max_positions} learned positions "
                    f"(0 to {self.max_positions - 1}). Shorten the input, or train with a larger max_positions or with "
                    "a scheme that has no limit, such as sinusoidal."
                )
        # Indexing with uint8 would be taken for a mask, and the other small integers are refused.
        return (x + self.weight[positions.long()]).to(x.dtype)
