"""Checked entries of other software's configurations, and what is found about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from locant.errors import ConfigError
from locant.positions.scaling.checks import MOST_TOKENS, is_number

_LONGEST = 80  # characters of a value in a message

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that the owner of a model should know about its configuration.

    Attributes:
        code: What it is about, a key of the registry of findings: ``lengths-disagree``.
        severity: ``error`` where the configuration cannot be what is meant, ``warning`` where software reads it in
            different ways, ``note`` for what is worth knowing.
        message: What was found.
        remedy: What to do about it.
        entry: The entry that it is about, as the file has it: ``rope_scaling.factor``.
        layer: The layer type that it is about, where it is one of several.
    """

    code: str
    severity: Severity
    message: str
    remedy: str
    entry: str | None = None
    layer: str | None = None


class Fields:
    """The entries of a foreign configuration, checked when they are taken.

    An entry that is ``None`` (``null`` in JSON) counts as missing.

    Args:
        values: The entries.
        where: Where they are, for messages: "rope_scaling of config.json".
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where

    def get(self, *names: str) -> Any:
        """Return the first of several entries that is there, ``None`` where none is."""
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)

    def number(self, *names: str) -> float | None:
        """Return a finite number."""
        return self._checked(names, is_number, "a number")

    def whole(self, *names: str) -> int | None:
        """Return a positive whole number; a float without a fraction, as JSON may hold it, is one."""
        found = self._checked(
            names, lambda value: is_number(value) and value == int(value) >= 1, "a positive whole number"
        )
        if found is not None and found > MOST_TOKENS:
            raise self._wrong(names, found, f"at most {MOST_TOKENS}")
        return None if found is None else int(found)

    def flag(self, *names: str) -> bool | None:
        """Return true or false."""
        return self._checked(names, lambda value: isinstance(value, bool), "true or false")

    def text(self, *names: str) -> str | None:
        """Return a piece of text."""
        return self._checked(names, lambda value: isinstance(value, str), "text")

    def mapping(self, *names: str) -> Mapping[str, Any] | None:
        """Return a group of entries."""
        return self._checked(names, lambda value: isinstance(value, Mapping), "a group of named values")

    def numbers(self, *names: str) -> tuple[float, ...] | None:
        """Return a list of finite numbers."""
        found = self._checked(
            names,
            lambda value: isinstance(value, Sequence) and not isinstance(value, str) and all(map(is_number, value)),
            "a list of numbers",
        )
        return None if found is None else tuple(found)

    def need(self, value: Any, name: str, why: str) -> Any:
        """Return ``value``, or raise ConfigError because ``name`` is missing."""
        if value is None:
            raise ConfigError(f"'{name}' is missing in {self.where}: {why}.")
        return value

    def _checked(self, names: Sequence[str], is_right: Any, expected: str) -> Any:
        value = self.get(*names)
        if value is not None and not is_right(value):
            raise self._wrong(names, value, expected)
        return value

    def _wrong(self, names: Sequence[str], value: Any, expected: str) -> ConfigError:
        name = next(each for each in names if self.values.get(each) is not None)
        return ConfigError(f"'{name}' in {self.where} must be {expected}; got {in_json(value)}.")


def in_json(value: Any) -> str:
    """Return a value in the words of JSON, cut short.

    Example:
        >>> in_json(None), in_json([True, "yarn"])
        ('null', '[true, "yarn"]')
    """
    words = json.dumps(value, default=repr)
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
