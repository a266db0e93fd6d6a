"""Linear layers whose matrix holds several projections, one below the other."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn


class StackedLinear(nn.Linear):
    """A linear layer that computes several projections of the same input at once.

    Args:
        in_features: Width of the input.
        heights: Width of each projection. Code that treats a projection as a matrix of its own (an optimiser that
            orthogonalises updates) reads it.
        bias: Whether they have biases.
    """

    def __init__(self, in_features: int, heights: Sequence[int], *, bias: bool = True) -> None:
        super().__init__(in_features, sum(heights), bias=bias)
        self.heights = tuple(heights)
