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
class Extent:
    """What is known about a tensor of positions.

    Attributes:
        low: The smallest position.
        high: The largest position.
        is_run: Whether they are ``n, n + 1, n + 2, ...`` for all rows of a batch.
    """

    low: int
    high: int
    is_run: bool


_KNOWN: MutableMapping[Tensor, tuple[int, Extent]] = WeakIdKeyDictionary()
"""For tensors on devices: the version of their content, and what is known about that."""


def extent_of(positions: Tensor) -> Extent:
    """Return what is known about at least one integer position ``[L]`` or ``[B, L]``.

    On the CPU nothing is remembered: reading costs little, and the memory may be shared with others who change it.

    Example:
        >>> extent_of(torch.arange(3, 7))
        Extent(low=3, high=6, is_run=True)
    """
    if positions.device.type == "cpu" or torch.compiler.is_compiling() or positions.is_inference():
        return _read(positions)
    version, found = _KNOWN.get(positions, (-1, None))
    if found is None or version != positions._version:
        found = _read(positions)
        _KNOWN[positions] = positions._version, found
    return found


def _read(positions: Tensor) -> Extent:
    ends = positions.aminmax()
    if positions.dim() != 1:
        low, high = torch.stack(ends).tolist()
        return Extent(low, high, is_run=False)
    steps = (positions.long().diff() == 1).all()
    low, high, is_run = torch.stack((*(end.long() for end in ends), steps.long())).tolist()
    return Extent(low, high, bool(is_run))
