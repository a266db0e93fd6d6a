"""The smallest and the largest position, and whether positions are consecutive, asked of a device once for all layers.

Reading a number from a CUDA tensor waits until the device has done all work that was queued before. All that schemes
want to know is therefore read together, and remembered for as long as the same tensor of positions is in use.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary


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


_KNOWN: MutableMapping[Tensor, tuple[int, PositionRange]] = WeakIdKeyDictionary()
"""For tensors on devices: the version of their content, and what is known about that."""


def position_range(positions: Tensor) -> PositionRange:
    """Return what is known about at least one integer position ``[L]`` or ``[B, L]``.

    On the CPU nothing is remembered: reading costs little, and the memory may be shared with others who change it.

    Example:
        >>> position_range(torch.arange(3, 7))
        PositionRange(low=3, high=6, is_contiguous=True)
    """
    if positions.device.type == "cpu" or torch.compiler.is_compiling() or positions.is_inference():
        return _read(positions)
    version, found = _KNOWN.get(positions, (-1, None))
    if found is None or version != positions._version:
        found = _read(positions)
        _KNOWN[positions] = positions._version, found
    return found


def _read(positions: Tensor) -> PositionRange:
    ends = positions.aminmax()
    if positions.dim() != 1:
        low, high = torch.stack(ends).tolist()
        return PositionRange(low, high, is_contiguous=False)
    steps = (positions.long().diff() == 1).all()
    low, high, is_contiguous = torch.stack((*(end.long() for end in ends), steps.long())).tolist()
    return PositionRange(low, high, bool(is_contiguous))
