"""Files that classes of transformers refuse by the fields of their configuration alone, rotary positions or not.

``field_kinds.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/field_kinds.py``): kinds of
values that the fields of classes without rotary positions, and of stacks, take, entries that none may be given, and
numbers of heads that must divide the width.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@functools.cache
def entries_of_nobody(model_type: str) -> frozenset[str]:
    """Return the entries that a class of transformers lets nobody set."""
    return frozenset(name for each in _stored()["fixed"] if model_type in each["of"] for name in each["fixed"])


def kinds_of_fields(model_type: str) -> dict[str, tuple[str, ...]]:
    """Return the kinds of values that a class which rotates nothing, or a stack, takes for its fields."""
    found: Mapping[str, list[str]] = next(
        (each["takes"] for each in _stored()["takes"] if model_type in each["of"]), {}
    )
    return {field: tuple(kinds.split(", ")) for kinds, fields in found.items() for field in fields}


@dataclass(frozen=True)
class WholeHeads:
    """A number of heads of a class that must divide its width.

    Attributes:
        widths: Names of the width.
        width: What it is where a file leaves it out.
        heads: Names of the number of heads.
        count: What that is where a file leaves it out.
    """

    widths: tuple[str, ...]
    width: int
    heads: tuple[str, ...]
    count: int


def whole_heads(model_type: str) -> list[WholeHeads]:
    """Return the numbers of heads that must divide the width of a class without rotary positions."""
    found: list[list[Any]] = next((each["heads"] for each in _stored()["heads"] if model_type in each["of"]), [])
    return [WholeHeads(tuple(widths), width, tuple(heads), count) for widths, width, heads, count in found]


@functools.cache
def _stored() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "field_kinds.json").read_text(encoding="utf-8"))
    return stored
