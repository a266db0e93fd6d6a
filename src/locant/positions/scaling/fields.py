"""Checked entries of other software's configurations, and findings about them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.scaling.checks import MOST_TOKENS, is_number

FindingCode = Literal[
    "layers without positions",
    "base of the class",
    "values of the class",
    "refused by the class",
    "refused by the engine",
    "needed by the class",
    "fails with its groups",
    "groups passed over",
    "turns backwards",
    "several axes",
    "odd share",
    "raised base",
    "beyond published values",
    "unknown model type",
    "read by nobody",
    "null entry",
    "reach of the scaling",
    "follows the length in transformers",
]
"""What a finding is about, for those that other findings go by."""


@dataclass(frozen=True)
class Finding:
    """One thing that the owner of a model should know about its configuration.

    Attributes:
        severity: ``error`` where the configuration contradicts itself or cannot mean what it states, ``warning`` where
            it may mean something else to somebody, ``note`` where part of the model's behaviour lies outside of it.
        message: What was found, with both meanings where two engines differ.
        remedy: What to do about it.
        code: What it is about, whatever its words are; ``None`` where nothing goes by it.
    """

    severity: Literal["error", "warning", "note"]
    message: str
    remedy: str
    code: FindingCode | None = None


class WrongValueError(ConfigError):
    """An entry has a value of another kind than its reader takes.

    Args:
        message: What is wrong, where, and what would be right.
        value: The value, where it is the reader that raises.
    """

    def __init__(self, message: str, value: Any = None) -> None:
        super().__init__(message)
        self.value = value


class Fields:
    """The entries of a foreign configuration, which notes what was taken from it so that nothing is dropped.

    An entry that is ``None`` (``null`` in JSON) counts as absent.

    Args:
        values: The entries.
        where: Where they stand, for messages: "rope_scaling of config.json".
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where
        self._taken: set[str] = set()
        self.passed_over: set[str] = set()

    def without(self, names: Iterable[str]) -> Fields:
        """Return the same entries but for some, which count as taken; what is taken there is taken here."""
        left = Fields({name: value for name, value in self.values.items() if name not in names}, self.where)
        self._taken.update(names)
        left._taken, left.passed_over = self._taken, self.passed_over
        return left

    def pass_over(self, name: str) -> None:
        """Note that the engine does not read an entry, so that its value is nobody's concern."""
        self._taken.add(name)
        self.passed_over.add(name)

    def get(self, name: str) -> Any:
        """Take an entry of any type, ``None`` where it is absent."""
        self._taken.add(name)
        return self.values.get(name)

    def number(self, name: str) -> float | None:
        """Take a finite number."""
        value = self.get(name)
        if value is not None and not is_number(value):
            raise self._wrong(name, value, "a number")
        return value

    def whole(self, name: str) -> int | None:
        """Take a positive whole number; a float without a fraction, as JSON may hold it, is one."""
        value = self.get(name)
        if value is None:
            return None
        if not is_number(value) or value != int(value) or value < 1:
            raise self._wrong(name, value, "a positive whole number")
        if value > MOST_TOKENS:
            raise self._wrong(name, value, f"at most {MOST_TOKENS}")
        return int(value)

    def flag(self, name: str) -> bool | None:
        """Take true or false."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def truth(self, name: str, usual: bool) -> bool:
        """Take what Python code takes for true or false without looking: also a number, or a null that is stated.

        Args:
            name: The entry.
            usual: What it is where it is left out.
        """
        value = self.get(name)
        if value is not None and not isinstance(value, bool) and not is_number(value):
            raise self._wrong(name, value, "true or false")
        return bool(value) if name in self.values else usual

    def text(self, name: str) -> str | None:
        """Take a piece of text."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """Take a group of entries."""
        value = self.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self._wrong(name, value, "a group of named values")
        return value

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Take a list of finite numbers."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(is_number(item) for item in value):
            raise self._wrong(name, value, "a list of numbers")
        return tuple(value)

    def need(self, value: float | None, name: str, why: str) -> float:
        """Return ``value``, or raise ConfigError because ``name`` is missing."""
        if value is None:
            raise ConfigError(f"'{name}' is missing in {self.where}: {why}.")
        return value

    def needed_factor(self, scaling: str) -> float:
        """Take the entry ``factor``, which a scaling cannot do without."""
        return self.need(self.number("factor"), "factor", f"the scaling '{scaling}' divides by it")

    def untaken(self) -> list[str]:
        """Return the names of the entries that nobody took and that are not ``None``."""
        return [name for name, value in self.values.items() if value is not None and name not in self._taken]

    def refuse_rest(self, known: Iterable[str], among: Iterable[str] | None = None) -> None:
        """Raise ConfigError for an entry that nobody took.

        Args:
            known: Names to suggest.
            among: The entries to look at; all of them when ``None``.
        """
        for name in self.values if among is None else among:
            if name not in self._taken and self.values[name] is not None:
                raise ConfigError(
                    f"'{name}' in {self.where} is not known here.{nearest(name, known)} Known: "
                    f"{', '.join(sorted(known))}."
                )

    def _wrong(self, name: str, value: Any, expected: str) -> WrongValueError:
        return WrongValueError(f"'{name}' in {self.where} must be {expected}; got {in_json(value)}.", value)


class _JSONWords(reprlib.Repr):
    """Values cut short, with ``null``, ``true`` and ``false`` at any depth."""

    def repr_NoneType(self, value: None, level: int) -> str:  # noqa: N802 - the name is that of the type
        del value, level
        return "null"

    def repr_bool(self, value: bool, level: int) -> str:
        del level
        return "true" if value else "false"


def in_json(value: Any) -> str:
    """Return a value in the words of JSON, cut short.

    Example:
        >>> in_json(None), in_json([True, "yarn"])
        ('null', "[true, 'yarn']")
    """
    return _JSONWords().repr(value)


def agreed(first: float | None, second: float | None, message: str) -> float | None:
    """Return the value that is given, or raise ConfigError with ``message`` where two are given and differ."""
    if first is not None and second is not None and first != second:
        raise ConfigError(message)
    return second if first is None else first
