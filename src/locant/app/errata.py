"""The page of errata: statements that tutorials repeat, and the values that refute them. Needs the extra ``report``."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection
from pathlib import Path

from locant.app.rendering import render_template
from locant.errors import UsageError, nearest
from locant.figures import FIGURES
from locant.figures.errata import INTRODUCTION, RECOGNITION, RIGHTLY_SAID, TOPICS, errata_markdown
from locant.figures.files import require_folder
from locant.files import write_text
from locant.lazy import require_package

ERRATA_FORMATS = ("html", "md")
PAGE = "errata.html"


def write_errata(
    folder: Path,
    *,
    page_format: str = "html",
    gallery: str | None = None,
    drawn: Collection[str] = (),
    wrote: Callable[[Path], None] = lambda path: None,
) -> None:
    """Write the errata as one page, ``errata.html`` or ``errata.md``; a page that is there is replaced.

    Args:
        folder: Where to write; made if it is not there.
        page_format: One of :data:`ERRATA_FORMATS`. Markdown is for documentation beside ``figures.md``.
        gallery: Page beside it that shows figures; figures are named and not linked without it.
        drawn: Names of the figures on that page.
        wrote: Called with the file when it is complete.

    Raises:
        UsageError: The format is unknown, or the folder is a file.
        MissingExtraError: jinja2 is not installed (for HTML).
        CheckpointError: The folder cannot be written.
    """
    if page_format not in ERRATA_FORMATS:
        raise UsageError(
            f"Unknown format '{page_format}' of the errata.{nearest(page_format, ERRATA_FORMATS)} "
            f"Known: {', '.join(ERRATA_FORMATS)}."
        )
    if page_format == "html":
        require_package("jinja2", "Writing the page of errata")
    require_folder(folder)
    path = folder / f"errata.{page_format}"
    write_text(path, errata_markdown() if page_format == "md" else render_errata(gallery=gallery, drawn=drawn))
    wrote(path)


def render_errata(*, gallery: str | None = None, drawn: Collection[str] = ()) -> str:
    """Return the text of the page, complete in itself; every erratum has its key as anchor.

    Args:
        gallery: Page beside it that shows figures.
        drawn: Names of the figures on that page.

    Raises:
        MissingExtraError: jinja2 is not installed.
    """
    return render_template(
        "errata.html",
        "the page of errata",
        filters={"inline": _inline},
        topics=TOPICS,
        rightly_said=RIGHTLY_SAID,
        introduction=INTRODUCTION,
        recognition=RECOGNITION,
        gallery=gallery,
        titles={name: FIGURES[name].caption.title for name in drawn} if gallery else {},
    )


def refuted_by(figure: str) -> list[tuple[str, str]]:
    """Return key and title of the errata that a figure shows."""
    return [(entry.key, entry.title) for topic in TOPICS for entry in topic.entries if figure in entry.figures]


def _inline(text: str) -> str:
    """Return Markdown with inline HTML, as the errata have it, as HTML."""
    return re.sub("`([^`]+)`", lambda code: f"<code>{html.escape(code[1], quote=False)}</code>", text)
