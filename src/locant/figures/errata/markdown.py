"""The errata as a page of Markdown, for documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from locant.figures.errata.catalogue import RIGHTLY_SAID, TOPICS
from locant.figures.errata.entry import Erratum

INTRODUCTION = (
    "Statements, listings and numbers about positions and the Transformer that pass from text to text and are wrong or "
    "misleading, in the form in which they are met, each with the values that decide. All values in the column "
    "“computed” are computed by Locant's own modules when this page is written."
)
"""What the pages begin with."""

RECOGNITION = "An array copied from a text can be checked: `locant positions --identify FILE` names the error in it."

_HEAD = "<!-- generated: locant figures errata --format md --output docs -->"


def errata_markdown(link: Callable[[str], str] = lambda figure: "figures.md") -> str:
    """Return all errata as Markdown, with a heading ``E1`` (anchor ``#e1``) for each.

    Args:
        link: Address of a figure by its name.

    Example:
        >>> "### E4" in errata_markdown()
        True
    """
    lines = ["# Errors that tutorials repeat", "", _HEAD, "", INTRODUCTION, "", RECOGNITION]
    for topic in TOPICS:
        lines += ["", f"**[{topic.title}](#{_anchor(topic.title)})**", ""]
        lines += [f"- [{entry.number}](#{entry.key}) {entry.title}" for entry in topic.entries]
    for topic in TOPICS:
        lines += ["", f"## {topic.title}"]
        for entry in topic.entries:
            lines += ["", *_entry(entry, link)]
    lines += ["", "## What the same texts say rightly", ""]
    lines += [f"- {text} ({_links(figures, link)})" for text, figures in RIGHTLY_SAID]
    return "\n".join(lines) + "\n"


def _anchor(title: str) -> str:
    """Return the anchor that a heading has in GitHub's Markdown."""
    return "".join(each for each in title.lower().replace(" ", "-") if each.isalnum() or each == "-")


def _entry(entry: Erratum, link: Callable[[str], str]) -> Iterator[str]:
    yield f"### {entry.number}"
    yield ""
    yield f"**{entry.title}**"
    yield ""
    yield f"> {entry.statement}"
    yield ""
    yield entry.why
    yield ""
    if entry.formula:
        yield entry.formula
        yield ""
    values = entry.values()
    stated = any(value.stated_text for value in values)
    yield "| value | as stated | computed |" if stated else "| value | computed |"
    yield "| --- | --- | --- |" if stated else "| --- | --- |"
    for value in values:
        cells = [value.what, value.stated_text, value.computed_text] if stated else [value.what, value.computed_text]
        yield f"| {' | '.join(cells)} |".replace("  ", " ")
    yield ""
    yield f"Source: {entry.source}. Shown by {_links(entry.figures, link)}."


def _links(figures: tuple[str, ...], link: Callable[[str], str]) -> str:
    return ", ".join(f"[`{figure}`]({link(figure)})" for figure in figures)
