"""Trials of a file: what is read of it where an entry is left out, or has another value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from locant.positions.scaling.checks import is_number
from locant.rotary_configs.base import UNREADABLE, ParsedConfig

Read = Callable[[Mapping[str, Any]], ParsedConfig]
"""Reads the content of a file."""

Path = tuple[str, ...]
"""The names of the groups that lead to an entry, and its own."""

_SMALL = 2


def states(value: Any) -> bool:
    """Whether a value is a number that says something: by 0, -1 and the like files say that there is none."""
    return is_number(value) and value > 0 and value != 1


def other_values(value: Any) -> list[Any]:
    """Return values in the place of one, of its kind, which no reader refuses for their size alone.

    One of them is small: a number of layers or tokens may be as good as any other that is larger than the model's.
    """
    return [value * 2, value // 2, _SMALL] if isinstance(value, int) else [value * 2, value / 2]


def with_value(content: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a file with another value of one entry."""
    first, *others = path
    return {**content, first: with_value(content[first], tuple(others), value) if others else value}


def without(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a file without one entry."""
    first, *others = path
    if others:
        return {**content, first: without(content[first], tuple(others))}
    return {key: value for key, value in content.items() if key != first}


def is_same(parsed: ParsedConfig, content: Mapping[str, Any], read: Read) -> bool:
    """Whether a changed file is read as the one itself was."""
    other = read_or_none(content, read)
    return other is not None and (
        (other.configs, other.layers, other.multimodal) == (parsed.configs, parsed.layers, parsed.multimodal)
    )


def read_or_none(content: Mapping[str, Any], read: Read) -> ParsedConfig | None:
    """Return what is read of a changed file, ``None`` where it cannot be right."""
    try:
        return read(content)
    except UNREADABLE:
        return None
