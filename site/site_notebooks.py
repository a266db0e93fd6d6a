"""The chapters of the course as notebooks of Jupyter, made of their Markdown; their pages link to them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from site_folder import SiteFolder
from site_sources import links

_RAW = "https://raw.githubusercontent.com/locant/locant/main/"
_PAGE = "https://github.com/locant/locant/blob/main/"
_BLOCK = re.compile(r"^```(python|output)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
_SETUP = "%pip install --quiet 'locant[report]'"


def notebook(page: Path, root: Path) -> dict[str, Any]:
    """Return a page as a notebook: its Python as cells, with what the page shows as their output.

    Args:
        page: The Markdown, relative to the repository.
        root: Root of the repository.
    """

    def whole(target: str) -> str:
        if re.match(r"[a-z]+:|#", target):
            return target
        path, mark, anchor = target.partition("#")
        file = (root / page.parent / path).resolve().relative_to(root.resolve()).as_posix()
        return (_RAW if file.endswith((".png", ".svg")) else _PAGE) + file + mark + anchor

    text = links((root / page).read_text(encoding="utf-8"), whole)
    cells = [_code(_SETUP)]
    place = 0
    for block in _BLOCK.finditer(text):
        _add_text(cells, text[place : block.start()])
        place = block.end()
        if block[1] == "python":
            cells.append(_code(block[2].removesuffix("\n")))
        else:
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": _lines(block[2])}]
    _add_text(cells, text[place:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _add_text(cells: list[dict[str, Any]], text: str) -> None:
    if text.strip():
        cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(text.strip())})


def _code(code: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": _lines(code)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write_notebooks(root: Path, folder: SiteFolder, files: Path) -> None:
    """Write the notebooks, and a link to each below the heading of its page.

    Args:
        root: Root of the repository.
        folder: Pages of the site, which has the chapters already.
        files: Where the notebooks are written, to be copied.
    """
    files.mkdir(parents=True, exist_ok=True)
    for path in sorted((root / "docs" / "course").glob("[0-9]*.md")):
        page = path.relative_to(root)
        file = files / f"{path.stem}.ipynb"
        file.write_text(json.dumps(notebook(page, root), ensure_ascii=False, indent=1), encoding="utf-8")
        folder.copy(file, page.with_suffix(".ipynb"))
        heading, rest = folder.texts[page].split("\n", 1)
        folder.write(page, f"{heading}\n\n[This chapter as a notebook]({file.name})\n{rest}")
