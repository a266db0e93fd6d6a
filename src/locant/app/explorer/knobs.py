"""Knobs of a page: the name of each in the address, its label, what it takes, and what an address says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

from locant.app.explorer.limits import choice, flags, number, text, whole
from locant.errors import UsageError, nearest

_MOST_NAMES = 50


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number, typed or dragged.

    Attributes:
        name: In the address, and in the ids of a page.
        label: What the page calls it.
        lowest: Smallest right value.
        highest: Largest right value.
        hint: What it takes, in words.
        step: What the arrow keys add.
        fraction: Whether it need not be whole.
        scale: How values lie along the slider: evenly, by equal ratios, or at powers of two.
        below: Name of another number on the page that this one stays below.
    """

    name: str
    label: str
    lowest: float
    highest: float
    hint: str
    step: int = 1
    fraction: bool = False
    scale: Literal["even", "ratio", "doubling"] = "even"
    below: str = ""

    def check(self, value: Any) -> float:
        """Return a right value; raises UsageError for any other."""
        if self.fraction:
            return number(self.label, value, self.lowest, self.highest)
        return whole(self.label, value, int(self.lowest), int(self.highest))

    def read(self, written: str) -> float:
        """Return the value that an address says; errors as for :meth:`check`."""
        try:
            value: Any = float(written) if self.fraction else int(written)
        except ValueError:
            value = written
        return self.check(value)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of several names."""

    name: str
    label: str
    values: Sequence[str]

    def check(self, value: Any) -> str:
        """Return a right value; raises UsageError for any other."""
        return choice(self.label, value, self.values)

    read = check


@dataclass(frozen=True, kw_only=True)
class Flags:
    """Any of several names; in the address with full stops between them."""

    name: str
    label: str
    values: Sequence[str]

    def check(self, value: Any) -> list[str]:
        """Return right values; raises UsageError for any other."""
        return flags(self.label, value, self.values)

    def read(self, written: str) -> list[str]:
        """Return the names that an address says; errors as for :meth:`check`."""
        return self.check(written.split(".") if written else [])


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text of a number of characters at most."""

    name: str
    label: str
    longest: int

    def check(self, value: Any) -> str:
        """Return a right value; raises UsageError for any other."""
        return text(self.label, value, self.longest)

    read = check


Knob = Number | Choice | Flags | Text


def read_address(search: Any, knobs: Sequence[Knob], first: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what an address says of a page's knobs, and sentences about what in it is wrong.

    Args:
        search: The address from its question mark on; anything at all.
        knobs: The knobs of the page.
        first: What they are where the address says nothing, or nothing right.
    """
    known: dict[str, Callable[[str], Any]] = {knob.name: knob.read for knob in knobs}
    values, wrong, seen = dict(first), [], set()
    try:
        pairs = parse_qsl(
            search.removeprefix("?") if isinstance(search, str) else "",
            keep_blank_values=True,
            max_num_fields=_MOST_NAMES,
        )
    except ValueError:
        return values, [f"The address names more than {_MOST_NAMES} things; none of it is read."]
    for name, written in pairs:
        if name in seen:
            wrong.append(f"The address says '{name}' twice; the first is taken.")
            continue
        if name not in known:
            shown = name if len(name) <= 40 else f"{name[:40]} ..."
            wrong.append(f"There is nothing called '{shown}' on this page.{nearest(shown, known)}")
            continue
        seen.add(name)
        try:
            values[name] = known[name](written)
        except UsageError as error:
            wrong.append(str(error))
    return values, wrong
