"""The Markdown of the repository, laid out as Sphinx reads it.

The pages stay where they are and as they are, so that their links to each other hold. Three things change on the way:
``README.md`` becomes ``index.md``, the page of its folder; a link to a folder leads to such a page, which is written
where there is none; and pages that lead to others list them for the navigation, in the order of :data:`PARTS`.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from site_folder import SiteFolder

PARTS: dict[str, list[str]] = {
    "Start": [
        "docs/tutorial-positions",
        "docs/tutorial-compare",
        "docs/tutorial-translate",
        "docs/tutorial-context",
        "examples",
    ],
    "Learn": ["docs/course", "gallery", "interactive", "docs/figures", "docs/errata", "docs/glossary"],
    "Positions": ["docs/positions", "docs/own-model", "docs/new-scheme", "docs/compare", "docs/names"],
    "Models with RoPE": ["docs/inspect", "docs/extend", "docs/convert-layout", "docs/transformers"],
    "Train": ["docs/training", "docs/more-data", "docs/languages", "docs/finetuning", "docs/scale"],
    "Translate": ["docs/translate", "docs/documents", "docs/serving", "docs/web", "docs/interop"],
    "Reference": ["docs/settings", "docs/findings", "docs/api", "reference"],
    "Project": ["docs/results", "docs/architecture", "docs/performance", "CONTRIBUTING", "CHANGELOG"],
}
"""Captions of the navigation, and the pages or folders below each; a page that is not here stands under *More*."""

_INDEX = "index.md"
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"^ *(```|~~~)")
_ALONE = "---\norphan: true\n---\n"  # a page that others link to, and the navigation leaves out


def write_sources(root: Path, folder: SiteFolder) -> None:
    """Write the pages of the repository, those that list the files of a folder, and what they link to.

    Args:
        root: Root of the repository.
        folder: Where to write.
    """
    targets = _targets(root)
    for page in repository_pages(root):
        text = links((root / page).read_text("utf-8"), _of_site(root, page))
        folder.write(_as_index(page), _ALONE + _record_title(page.parent) + text if _is_record(page) else text)
    for target in targets:
        if (root / target).is_dir() and not (root / target / "README.md").exists():
            _write_listing(root, folder, target)
        elif (root / target).is_file() and target.suffix != ".md":
            folder.copy(root / target, target)


def repository_pages(root: Path) -> list[Path]:
    """Return the Markdown of the repository, relative to its root."""
    found = (*root.glob("*.md"), *(root / "examples").glob("*.md"), *(root / "docs").rglob("*.md"))
    return sorted(path.relative_to(root) for path in found)


def _is_record(page: Path) -> bool:
    """Whether a page is a record of a run: it stands in a folder of its own below the results."""
    return page.parent.is_relative_to("docs/results") and page.parent != Path("docs/results")


def _as_index(page: Path) -> Path:
    return page.with_name(_INDEX) if page.name == "README.md" else page


def links(text: str, replace: Callable[[str], str]) -> str:
    """Return Markdown with the target of every link and image outside blocks of code replaced."""
    lines, fence = [], ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1] == fence:
            fence = ""
        elif not fence:
            line = _LINK.sub(lambda found: found[1] + replace(found[2]) + found[3], line)
        lines.append(line)
    return "".join(lines)


def _of_site(root: Path, page: Path) -> Callable[[str], str]:
    """Return what turns the target of a link on a page into the one on the site."""

    def replace(target: str) -> str:
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return target
        if (root / page.parent / path).is_dir():
            path = posixpath.join(path, _INDEX)
        elif posixpath.basename(path) == "README.md":
            path = posixpath.join(posixpath.dirname(path), _INDEX)
        return path + mark + anchor

    return replace


def _targets(root: Path) -> list[Path]:
    """Return what the pages link to in the repository, relative to its root."""
    found: dict[Path, None] = {}
    for page in repository_pages(root):

        def note(target: str, page: Path = page) -> str:
            path = target.partition("#")[0]
            if path and not re.match(r"[a-z]+:", target):
                found[Path(os.path.normpath(page.parent / path))] = None
            return target

        links((root / page).read_text("utf-8"), note)
    return list(found)


def _write_listing(root: Path, folder: SiteFolder, name: Path) -> None:
    """Write the page of a folder of records: its files, which come along."""
    files = sorted(path for path in (root / name).rglob("*") if path.is_file())
    rows = []
    for file in files:
        path = file.relative_to(root / name).as_posix()
        rows.append(f"- [{path}]({path}) ({file.stat().st_size / 1024:,.1f} KB)")
        if file.suffix != ".md":
            folder.copy(file, file.relative_to(root))
    folder.write(name / _INDEX, _ALONE + _record_title(name) + "\n".join([*rows, ""]))


def _record_title(folder: Path) -> str:
    return f"# Records: {folder.name}\n\n"


def write_navigation(folder: SiteFolder) -> None:
    """Add to the pages of folders what stands in them, and to the first page the parts of the site."""
    texts = {path.with_suffix("").as_posix(): text for path, text in folder.texts.items()}
    pages = {page for page, text in texts.items() if not text.startswith(_ALONE)}
    placed = {"index"}
    parts: dict[str, list[str]] = {}
    for caption, names in PARTS.items():
        parts[caption] = []
        for name in names:
            first = f"{name}/index"
            below = sorted(page for page in pages if posixpath.dirname(page) == name and page != first)
            if first in pages:
                below = _as_mentioned(below, texts[first])
                if name != "reference":  # which lists its pages itself
                    _append_tree(folder, Path(first), [posixpath.basename(page) for page in below])
                parts[caption].append(first)
            else:
                parts[caption] += [name] if name in pages else below
            placed.update([name, first, *below])
    parts["More"] = sorted(pages - placed)
    for caption, entries in parts.items():
        _append_tree(folder, Path("index"), entries, caption)


def _as_mentioned(pages: list[str], text: str) -> list[str]:
    """Return the pages of a folder in the order in which a text in it links to them, the others last."""
    places = {page: text.find(f"({posixpath.basename(page)}.md") for page in pages}
    return sorted(pages, key=lambda page: places[page] if places[page] >= 0 else len(text))


def _append_tree(folder: SiteFolder, page: Path, entries: list[str], caption: str = "") -> None:
    if entries:
        options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
        tree = "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])
        path = page.with_suffix(".md")
        folder.write(path, folder.texts[path] + tree)
