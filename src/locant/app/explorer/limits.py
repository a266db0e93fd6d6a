"""Values that come from a page are anybody's: each is checked before anything is computed with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from locant.errors import UsageError, nearest

_LONGEST_SHOWN = 40


def whole(name: str, value: Any, lowest: int, highest: int) -> int:
    """Return a whole number within bounds.

    Args:
        name: What the page calls it.
        value: What was sent.
        lowest: Smallest right value.
        highest: Largest right value.

    Raises:
        UsageError: It is anything else.

    Example:
        >>> whole("d", 64.0, 2, 1024)
        64
    """
    if not _is_number(value) or value % 1 or not lowest <= value <= highest:
        raise UsageError(f"{name} must be a whole number from {lowest:,} to {highest:,}; {_got(value)}.")
    return int(value)


def number(name: str, value: Any, lowest: float, highest: float) -> float:
    """Return a finite number within bounds; arguments and errors as for :func:`whole`."""
    if not _is_number(value) or not lowest <= value <= highest:
        raise UsageError(f"{name} must be a number from {lowest:,.10g} to {highest:,.10g}; {_got(value)}.")
    return float(value)


def choice(name: str, value: Any, known: Sequence[str]) -> str:
    """Return a value if it is a known one.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, str) or value not in known:
        hint = nearest(value, known) if isinstance(value, str) and len(value) <= _LONGEST_SHOWN else ""
        raise UsageError(f"{name} must be one of {', '.join(known)}; {_got(value)}.{hint}")
    return value


def flags(name: str, value: Any, known: Sequence[str]) -> list[str]:
    """Return known values without repetition, in the order in which they are known.

    Raises:
        UsageError: One is not known, or they are no list.
    """
    if not isinstance(value, list | tuple):
        raise UsageError(f"{name} must be some of {', '.join(known)}; {_got(value)}.")
    chosen = {choice(name, one, known) for one in value}
    return [one for one in known if one in chosen]


def text(name: str, value: Any, longest: int) -> str:
    """Return a text that is not too long.

    Raises:
        UsageError: It is empty, too long or no text.
    """
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name} is empty.")
    if len(value) > longest:
        raise UsageError(f"{name} is longer than {longest:,} characters, the most that is read here.")
    return value


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or math.isfinite(value))
    )


def _got(value: Any) -> str:
    if value is None or value == "":
        return "the field holds no number"
    if isinstance(value, int) and abs(value) >= 10**_LONGEST_SHOWN:
        return "got a number of more than 40 digits"  # writing it out may take long
    shown = repr(value) if isinstance(value, int | float | str) else f"a {type(value).__name__}"
    return f"got {shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + ' ...'}"
