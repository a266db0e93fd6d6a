"""Positions of several axes (time, height, width): which of them turns each pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from locant.errors import ConfigError

AxisOrder = Literal["sections", "alternating", "space first", "mixed"]
"""How the pairs are shared out: one axis after the other; in turn, what is left over by the first; or height and width
in turn before time, of sections in the order height, width, time (Ernie 4.5 VL); or not by pairs (HunYuan-VL)."""


def several_axes(sections: Sequence[float], order: AxisOrder, pairs: int) -> dict[str, Any]:
    """Return the entry of a layer type in :attr:`~locant.rotary_configs.base.ParsedConfig.multimodal`.

    Args:
        sections: Numbers of pairs, one for each axis.
        order: How they share out the pairs.
        pairs: Pairs that are rotated.

    Example:
        >>> several_axes([2, 1, 1], "alternating", 4)["axis_of_pair"]
        (0, 1, 2, 0)
        >>> several_axes([1, 1, 2], "space first", 4)["axis_of_pair"]
        (1, 2, 0, 0)
    """
    whole = tuple(int(size) for size in sections)
    return {
        "sections": whole,
        "interleaved": order == "alternating",
        "axis_of_pair": None if order == "mixed" else tuple(_axes(whole, order, pairs)[:pairs]),
    }


def _axes(sections: tuple[int, ...], order: AxisOrder, pairs: int) -> list[int]:
    if order == "sections":
        return [axis for axis, count in enumerate(sections) for _ in range(count)]
    if order == "space first":
        if len(sections) != 3:
            raise ConfigError(f"mrope_section {list(sections)} must hold the pairs of height, width and time.")
        height, width, time = sections
        return [1 + index % 2 for index in range(height + width)] + [0] * time
    axes = [0] * pairs
    for axis in range(1, len(sections)):
        for pair in range(axis, min(len(sections) * sections[axis], pairs), len(sections)):
            axes[pair] = axis
    return axes
