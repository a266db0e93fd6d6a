"""Links between the pages about one figure: the gallery, the figures with knobs, the errata and the course."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from site_folder import SiteFolder
from site_interactive import PAGES

from locant.figures.errata import TOPICS

GALLERY, PLAYED, ERRATA = Path("gallery.md"), Path("interactive.md"), Path("docs", "errata.md")

_NAMED = re.compile(r"(\[`([a-z-]+)`\]\()[^()\s]*figures\.md(\))")
_IMAGE = re.compile(r"^!\[[^\]]*\]\([^()\s]*/([a-z-]+)\.png\)$", re.MULTILINE)
_SECTION = re.compile(r"^(?=\(([a-z-]+)\)=$)", re.MULTILINE)


def crosslink(folder: SiteFolder, drawn: Collection[str]) -> None:
    """Add the links to all pages written so far.

    A figure that a page names, and links to the list of figures, is linked to where it is drawn; below an image of a
    figure, and in its part of the gallery, stand the figures with knobs and the errata that are about it.

    Args:
        folder: The pages.
        drawn: Names of the figures in the gallery.
    """
    for page, text in list(folder.texts.items()):
        if page.suffix != ".md" or page == PLAYED:
            continue

        def named(found: re.Match[str], page: Path = page) -> str:
            name = found[2]
            return f"{found[1]}{_from(page, GALLERY)}#{name}{found[3]}" if name in drawn else found[0]

        def below(found: re.Match[str], page: Path = page) -> str:
            return "\n\n".join([found[0], *_played(page, found[1])])

        text = _IMAGE.sub(below, _NAMED.sub(named, text))
        if page == GALLERY:
            begin, *sections = _SECTION.split(text)
            parts = zip(sections[::2], sections[1::2], strict=True)
            text = begin + "".join(section + _more(name, ERRATA in folder.texts) for name, section in parts)
        folder.write(page, text)


def _more(name: str, errata: bool) -> str:
    """Return the last lines about a figure in the gallery."""
    refuted = [
        f"[{entry.title}]({_from(GALLERY, ERRATA)}#{entry.key.lower()})"
        for topic in TOPICS
        for entry in topic.entries
        if errata and name in entry.figures
    ]
    lines = [*_played(GALLERY, name), *([f"Errors that it refutes: {', '.join(refuted)}."] if refuted else [])]
    return "".join(f"{line}\n\n" for line in lines)


def _played(page: Path, name: str) -> list[str]:
    """Return the line that leads from a figure to the pages of the explorer about the same, where there are some."""
    links = [f"[{title}]({_from(page, PLAYED)})" for title, figures in PAGES.items() if name in figures]
    return [f"With knobs: {', '.join(links)}."] if links else []


def _from(page: Path, target: Path) -> str:
    return Path(os.path.relpath(target, page.parent)).as_posix()
