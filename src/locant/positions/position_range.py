"""The smallest and the largest position, and whether positions are consecutive.

Reading a number from a CUDA tensor waits until the device has done all work that was queued before. All that schemes
want to know is therefore read together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PositionRange:
    """What is known about a tensor of positions.

    Attributes:
        low: The smallest position.
        high: The largest position.
        is_contiguous: Whether they are ``n, n + 1, n + 2, ...`` for all rows of a batch.
    """

    low: int
    high: int
    is_contiguous: bool


def position_range(positions: Tensor) -> PositionRange:
    """Return what is known about at least one integer position ``[L]`` or ``[B, L]``.

    Example:
        >>> position_range(torch.arange(3, 7))
        PositionRange(low=3, high=6, is_contiguous=True)
    """
    ends = positions.aminmax()
    if positions.dim() != 1:
        low, high = torch.stack(ends).tolist()
        return PositionRange(low, high, is_contiguous=False)
    steps = (positions.long().diff() == 1).all()
    low, high, is_contiguous = torch.stack((*(end.long() for end in ends), steps.long())).tolist()
    return PositionRange(low, high, bool(is_contiguous))
