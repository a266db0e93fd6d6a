"""Errors about positions and the Transformer that tutorials repeat: statements, why they are wrong, and values instead.

All words are in ``errata.toml``, in the order of the pages; the numbers come from ``errata_values.py``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from locant.errors import DataError, UsageError, nearest
from locant.figures.drawing import MINUS
from locant.rotary_configs import identify


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
        return self._written(self.number)

    @property
    def stated_text(self) -> str:
        """The stated number as it is written; empty where there is none."""
        return "" if self.stated is None else self._written(self.stated)

    def _written(self, number: float) -> str:
        text = self.form.format(round(number, 9) + 0)  # what rounds to -0 has no sign
        return MINUS + text[1:] if text.startswith("-") else text


@dataclass(frozen=True)
class Erratum:
    """One statement and its refutation. Texts are Markdown with inline HTML for powers and indices.

    Attributes:
        key: ``e1``, ``e2`` ...: the anchor on the pages. A key never changes its meaning.
        title: What it is about, in a few words.
        statement: In the form in which people meet it.
        why: Why it is wrong or misleading, and what is right.
        source: Paper, section, equation.
        figures: Names of the figures that show it.
        numbers: What each value is, and its format.
        formula: The right formula; may be empty.
    """

    key: str
    title: str
    statement: str
    why: str
    source: str
    figures: Sequence[str]
    numbers: Sequence[Mapping[str, Any]] = field(repr=False)
    formula: str = ""

    def values(self) -> list[Value]:
        """Compute the numbers."""
        from locant.figures.errata_values import numbers_of

        values = []
        for described, found in zip(self.numbers, numbers_of(self.key), strict=True):
            number, stated = found if isinstance(found, tuple) else (found, None)
            values.append(Value(number=number, stated=stated, **described))
        return values


@dataclass(frozen=True)
class Topic:
    """Errata that belong together.

    Attributes:
        key: Its anchor on the pages.
        title: Heading.
        entries: The errata.
    """

    key: str
    title: str
    entries: tuple[Erratum, ...]


_DATA = tomllib.loads(Path(__file__).with_name("errata.toml").read_text(encoding="utf-8"))

INTRODUCTION: str = _DATA["introduction"]
"""What the pages begin with."""

RECOGNITION: str = _DATA["recognition"]
"""That arrays can be checked."""

TOPICS: tuple[Topic, ...] = tuple(
    Topic(topic["key"], topic["title"], tuple(Erratum(**entry) for entry in topic["entries"]))
    for topic in _DATA["topics"]
)
"""All errata, by topic."""

RIGHTLY_SAID: list[dict[str, Any]] = _DATA["rightly_said"]
"""What the same texts say rightly: each a ``text``, with the ``figures`` that show it."""


def get_erratum(key: str) -> Erratum:
    """Return an erratum.

    Args:
        key: Its key, such as ``e4``.

    Raises:
        UsageError: There is none of this key.

    Example:
        >>> get_erratum("e4").values()[0].computed_text
        '0.0464'
    """
    known = {entry.key: entry for topic in TOPICS for entry in topic.entries}
    if key.lower() not in known:
        raise UsageError(f"There is no erratum '{key}'.{nearest(key, known)} They run from e1 to e{len(known)}.")
    return known[key.lower()]


def errata_markdown() -> str:
    """Return all errata as Markdown, with a heading ``E1`` (anchor ``#e1``) for each.

    Example:
        >>> "### E4" in errata_markdown()
        True
    """

    def links(figures: Sequence[str]) -> str:
        return ", ".join(f"[`{figure}`](figures.md)" for figure in figures)

    def shown(entry: Erratum) -> Iterator[str]:
        values = entry.values()
        stated = any(value.stated_text for value in values)
        yield from (f"### {entry.key.upper()}", f"**{entry.title}**", f"> {entry.statement}", entry.why)
        if entry.formula:
            yield entry.formula
        rows = ["| value | as stated | computed |" if stated else "| value | computed |"]
        rows += ["| --- | --- | --- |" if stated else "| --- | --- |"]
        for value in values:
            cells = [value.what, *([value.stated_text] if stated else []), value.computed_text]
            rows.append(f"| {' | '.join(cells)} |".replace("  ", " "))
        yield "\n".join(rows)
        yield f"Source: {entry.source}." + (f" Shown by {links(entry.figures)}." if entry.figures else "")

    head = "<!-- generated: locant figures errata --format md --output docs -->"
    parts = ["# Errors that tutorials repeat", head, INTRODUCTION, RECOGNITION]
    for topic in TOPICS:
        # The anchor that a heading has in GitHub's Markdown.
        anchor = "".join(each for each in topic.title.lower().replace(" ", "-") if each.isalnum() or each == "-")
        parts.append(f"**[{topic.title}](#{anchor})**")
        parts.append("\n".join(f"- [{entry.key.upper()}](#{entry.key}) {entry.title}" for entry in topic.entries))
    for topic in TOPICS:
        parts.append(f"## {topic.title}")
        parts += [part for entry in topic.entries for part in shown(entry)]
    parts.append("## What the same texts say rightly")
    parts.append("\n".join(f"- {said['text']} ({links(said['figures'])})" for said in RIGHTLY_SAID))
    return "\n\n".join(parts) + "\n"


# What NumPy and PyTorch print around the numbers of an array.
_AROUND = re.compile(r"\b(?:array|tensor)\(|,?\s*\b(?:dtype|device)\s*=\s*[\w.:']+|\)")
_EXPONENTS = {"4i/d": ("e4",), "j/d": ("e33",), "2j/d": ("e33",)}
_BASES = {1000.0: ("e34",), 100.0: ("e19", "e34")}  # a base of 100 is also what is left of 10000 without the factor 2


@dataclass(frozen=True)
class NumberFinding:
    """An explanation of numbers.

    Attributes:
        said: A sentence or two.
        errata: Keys of the errata in them; none where nothing is wrong, or nothing known.
        wrong: Whether something is wrong.
        recognised: Whether a formula was found for them.
    """

    said: str
    errata: tuple[str, ...] = ()
    wrong: bool = False
    recognised: bool = True


def identify_array(values: Tensor, *, decimals: int | None = None) -> NumberFinding:
    """Say of a table or a vector of frequencies which formula gave it, and name known errors.

    Args:
        values: As for :func:`locant.rotary_configs.identify`, which does the work.
        decimals: Likewise.

    Raises:
        ConfigError: It is not a tensor of floating or complex numbers.

    Example:
        >>> import torch
        >>> from locant.positions import sinusoid_table
        >>> identify_array(sinusoid_table(torch.arange(1, 50), 16)).errata
        ('e21',)
    """
    found = identify(values, decimals=decimals)
    errata: tuple[str, ...] = ()
    if found.kind == "sinusoid table":
        errata = (*_EXPONENTS.get(found.exponent or "", ()), *_BASES.get(found.base or 0.0, ()))
        errata += ("e21",) * (found.first_row == 1 and found.padding_row is None)
    wrong = bool(found.mistakes or errata)
    return NumberFinding(str(found).rstrip("."), errata, wrong, recognised=found.kind != "unknown")


def identify_text(text: str) -> NumberFinding:
    r"""Say of an array as text which formula gave it, and name known errors.

    Args:
        text: An array as NumPy or PyTorch print it or Python writes it, or a row of numbers on each line, with two
            decimals or more. Each number must be right in all printed digits.

    Raises:
        DataError: It is not an array of numbers, or some were left out in printing.

    Example:
        >>> rows = "0 1 0 1 0 1", ".8415 .5403 .0022 1 0 1", ".9093 -.4161 .0043 1 0 1", ".1411 -.99 .0065 1 0 1"
        >>> identify_text("\n".join(rows)).errata
        ('e4',)
    """
    plain = _AROUND.sub(" ", text.replace("\N{MINUS SIGN}", "-"))
    rows = re.split(r"[\[\]]+", plain) if "[" in plain else plain.splitlines()
    cells = [row.replace(",", " ").split() for row in rows]
    try:
        numbers = torch.tensor([[float(each) for each in row] for row in cells if row], dtype=torch.float32)
    except ValueError as error:  # something that is no number, or rows of different lengths
        raise DataError(f"This is not an array of numbers: {error}. Give the array alone, or a row a line.") from None
    if not numbers.numel():
        raise DataError("There are no numbers.")
    decimals = max(map(len, re.findall(r"\.(\d*)", plain)), default=0)
    return identify_array(numbers, decimals=decimals if decimals >= 2 else None)
