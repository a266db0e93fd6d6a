"""Linear layers whose matrix holds several projections, one below the other."""

from __future__ import annotations

from torch import nn


class StackedLinear(nn.Linear):
    """A linear layer that computes several projections of the same input at once.

    Args:
        in_features: Width of the input.
        out_features: Width of all projections together.
        blocks: How many projections the matrix ``[out_features, in_features]`` holds, each of the same height. Code
            that treats a projection as a matrix of its own (an optimiser that orthogonalises updates) reads it.
    """

    def __init__(self, in_features: int, out_features: int, *, blocks: int) -> None:
        super().__init__(in_features, out_features)
        self.blocks = blocks
