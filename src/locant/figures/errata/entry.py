"""One erratum: a statement as it is met, why it is wrong, and the values computed instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from locant.figures.drawing import MINUS


@dataclass(frozen=True)
class Value:
    """A number that decides.

    Attributes:
        what: What it is the value of; Markdown with inline HTML.
        number: As computed.
        stated: As the statement has it, or what would follow from it; ``None`` where it says no number.
        form: Format of both, with their unit, as ``{:,.0f} tokens``.
    """

    what: str
    number: float
    stated: float | None = None
    form: str = "{:,}"

    @property
    def computed_text(self) -> str:
        """The number as it is written."""
        return _written(self.form, self.number)

    @property
    def stated_text(self) -> str:
        """The stated number as it is written; empty where there is none."""
        return "" if self.stated is None else _written(self.form, self.stated)


def _written(form: str, number: float) -> str:
    text = form.format(number)
    unsigned = text.removeprefix("-")
    if text != unsigned and not any(digit in "123456789" for digit in unsigned.partition(" ")[0]):
        return unsigned  # what rounding leaves of a small negative number
    return text.replace("-", MINUS, 1) if text != unsigned else text


@dataclass(frozen=True)
class Erratum:
    """One statement and its refutation. Texts are Markdown with inline HTML for powers and indices.

    Attributes:
        key: ``e1``, ``e2`` ...: the anchor on the pages. A key never changes its meaning.
        title: What it is about, in a few words.
        statement: In the form in which people meet it.
        why: Why it is wrong or misleading, and what is right.
        values: Computes the numbers.
        source: Paper, section, equation.
        figures: Names of the figures that show it.
        formula: The right formula; may be empty.
    """

    key: str
    title: str
    statement: str
    why: str
    values: Callable[[], Sequence[Value]]
    source: str
    figures: tuple[str, ...]
    formula: str = ""

    @property
    def number(self) -> str:
        """The key as it is written in a heading."""
        return self.key.upper()
