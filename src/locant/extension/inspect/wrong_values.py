"""All entries of a file whose values are of a wrong kind: a reading ends at the first of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from locant.extension.inspect.trials import Read
from locant.positions.scaling.fields import Finding, WrongValueError
from locant.rotary_configs.base import UNREADABLE, error_finding

_MOST = 20


def other_wrong_values(error: Exception, content: Mapping[str, Any], read: Read, where: str) -> Iterator[Finding]:
    """Yield the errors that come after one about a wrong value, each once those before it are corrected.

    Args:
        error: What the reader raised.
        content: The content of the file.
        read: How it was read.
        where: The file, for the messages.
    """
    for _ in range(_MOST):
        wrong = _wrong_value(error)
        changed = content if wrong is None else _without(content, wrong, f"{error} {wrong}")
        if changed == content:
            return
        content = changed
        try:
            read(content)
        except UNREADABLE as other:
            if _wrong_value(other) is None:
                return
            error = other
            yield error_finding(other, where)
        else:
            return


def _wrong_value(error: BaseException | None) -> WrongValueError | None:
    """Return the error about a wrong value that an error came of, with the value in it."""
    while error is not None and not (isinstance(error, WrongValueError) and error.value is not None):
        error = error.__cause__
    return error


def _without(group: Mapping[str, Any], wrong: WrongValueError, said: str) -> dict[str, Any]:
    """Return entries without a wrong value, or with the number that it is the text of.

    Args:
        group: The entries.
        wrong: The error about it.
        said: Messages that name the entry, in words of the file or in those of the reader.
    """
    left: dict[str, Any] = {}
    for name, value in group.items():
        is_named = f"'{name}' in " in said or f"'{name.partition('.')[2]}' in " in said
        if is_named and type(value) is type(wrong.value) and value == wrong.value:
            if (number := _number_in(value)) is not None:
                left[name] = number
        else:
            left[name] = _without(value, wrong, said) if isinstance(value, Mapping) else value
    return left


def _number_in(value: Any) -> float | None:
    """Return the number whose text a value is, if it is one."""
    try:
        number = float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number
