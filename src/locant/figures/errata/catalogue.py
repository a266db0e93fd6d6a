"""The errata: statements as they are met, why they are wrong, and the values computed instead; and their Markdown.

All words are in ``errata.toml``, in the order of the pages; the numbers come from ``values.py``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from locant.errors import UsageError, nearest
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
        from locant.figures.errata.values import numbers_of

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
