"""Learned absolute position embeddings (Gehring et al. 2017)."""

from __future__ import annotations

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
