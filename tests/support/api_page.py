"""The lists of public names in docs/api.md; run as a program, this writes them anew."""

from __future__ import annotations

import importlib
import textwrap
from pathlib import Path

import locant

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
BEGIN, END = "<!-- generated: python tests/support/api_page.py -->\n", "<!-- end of what is generated -->\n"
PACKAGE = Path(locant.__file__).parent


def lists() -> str:
    """Return the names that ``locant`` and its rooms export, in Markdown."""
    rooms = sorted(name for name in dir(locant) if not name.startswith("_") and name not in locant.__all__)
    parts = []
    for room in ["locant", *(f"locant.{name}" for name in rooms)]:
        stub = PACKAGE.joinpath(*room.split(".")[1:]) / "__init__.pyi"
        if not stub.exists():
            continue
        names = sorted(importlib.import_module(room).__all__, key=str.lower)
        text = textwrap.fill(", ".join(f"`{name}`" for name in names), 120, break_long_words=False)
        parts.append(f"### {room}\n\n{text}\n")
    return "\n".join(parts)


def written(page: str) -> str:
    """Return the part of the page that is generated."""
    return page.split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(old.replace(written(old), f"\n{lists()}\n"), encoding="utf-8")
