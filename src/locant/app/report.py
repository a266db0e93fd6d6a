"""The report: one web page that tells how a run went, complete in a single file.

A :class:`Report` is a list of sections, and a section a list of blocks. Each kind of block is one dataclass here and
one template of the same name in ``templates/blocks``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from locant.app.rendering import render_template
from locant.app.word_differences import Span, compare
from locant.figures import FigureData, save_figure
from locant.files import write_text

Cell = str | int | float | None


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text.

    Attributes:
        paragraphs: One string each.
    """

    kind: ClassVar[str] = "text"
    paragraphs: Sequence[str]


@dataclass(frozen=True)
class Fact:
    """One value to be seen at a glance.

    Attributes:
        label: What it is, in a few words.
        value: The value with its unit, ready to be read.
        note: A few words below it.
    """

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """Tiles of key facts.

    Attributes:
        facts: From the most important to the least.
    """

    kind: ClassVar[str] = "facts"
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    Attributes:
        headers: Names of the columns.
        rows: Cells; numbers are right-aligned and shown with thousands separators, fractions with two digits
            after the point (give text for anything else). ``None`` is an empty cell.
        caption: What the table shows.
    """

    kind: ClassVar[str] = "table"
    headers: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    def __post_init__(self) -> None:
        """Check that every row has a cell for each column.

        Raises:
            ValueError: One has not.
        """
        for row in self.rows:
            if len(row) != len(self.headers):
                raise ValueError(
                    f"A row of {len(row)} cells does not fit a table of {len(self.headers)} columns: {row}."
                )

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers only."""
        return all(isinstance(row[column], int | float | None) for row in self.rows)


@dataclass(frozen=True)
class Figure:
    """A picture.

    Attributes:
        svg: From :func:`locant.figures.svg`, under a name of its own; it is placed in the page as it is.
        caption: What to see in it.
    """

    kind: ClassVar[str] = "figure"
    svg: str
    caption: str = ""

    def __post_init__(self) -> None:
        """Check that it is an element.

        Raises:
            ValueError: It is not.
        """
        if not self.svg.startswith("<svg"):
            raise ValueError("A figure of a report must be an <svg> element, as from locant.figures.svg.")


@dataclass(frozen=True)
class TranslationExample:
    """One sentence and what became of it.

    Attributes:
        source: The sentence.
        reference: Its translation by people.
        translation: Its translation by the model.
        score: A score of this sentence, or ``None``.
    """

    source: str
    reference: str
    translation: str
    score: float | None = None

    def differences(self) -> tuple[list[Span], list[Span]]:
        """Return the spans of the reference and of the translation, with what the other lacks marked."""
        return compare(self.reference, self.translation)


@dataclass(frozen=True)
class Translations:
    """Sentences side by side with their translations.

    Attributes:
        examples: The sentences.
        source_language: Language code (BCP 47, ``en`` for instance), for fonts and screen readers; may be empty.
        target_language: Likewise.
        score_name: What the scores are, ``chrF`` for instance.
        caption: Which sentences they are.
    """

    kind: ClassVar[str] = "translations"
    examples: Sequence[TranslationExample]
    source_language: str = ""
    target_language: str = ""
    score_name: str = "score"
    caption: str = ""


@dataclass(frozen=True)
class Code:
    """Commands to try, or other text to be copied as it is.

    Attributes:
        code: The lines.
        caption: What they do.
    """

    kind: ClassVar[str] = "code"
    code: str
    caption: str = ""


Block = Text | Facts | Table | Figure | Translations | Code


@dataclass(frozen=True)
class Section:
    """A part of the report under a heading of its own.

    Attributes:
        title: The heading; unique in the report.
        blocks: What is below it.
    """

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Report:
    """A page.

    Attributes:
        title: Its heading.
        summary: One paragraph: what was done and what came of it.
        sections: In the order of the page.
        language: Language of the report's own words (not of the sentences in it).
    """

    title: str
    summary: str
    sections: Sequence[Section]
    language: str = "en"


def render_report(report: Report) -> str:
    """Return a report as the text of one HTML page without scripts and without references to other files.

    All text in it is escaped, so that sentences may contain anything.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return render_template("report.html", "a report", filters={"cell": _shown}, report=report)


def write_report(path: Path, report: Report) -> None:
    """Write a report as one self-contained HTML page.

    Args:
        path: The file to write; replaced if it is there.
        report: What to tell.

    Raises:
        MissingExtraError: jinja2 is not installed.
        CheckpointError: The disk is full or not writable.
    """
    write_text(path, render_report(report))


def write_images(folder: Path, figures: Iterable[tuple[str, FigureData]]) -> list[Path]:
    """Write figures as ``NAME.png`` and return their paths; errors are those of :func:`locant.figures.save_figure`."""
    written = []
    for name, figure in figures:
        written.append(folder / f"{name}.png")
        save_figure(figure, written[-1], dots_per_inch=150)
    return written


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
