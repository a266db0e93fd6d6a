"""The lists of public names in docs/api.md; run as a program, this writes them anew."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import locant

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
BEGIN, END = "<!-- generated: python tests/support/api_page.py -->\n", "<!-- end of what is generated -->\n"
PACKAGE = Path(locant.__file__).parent


def exports(stub: Path) -> list[tuple[str, str]]:
    """Return the module that each export of a package comes from, and its name."""
    nodes = ast.parse(stub.read_text(encoding="utf-8")).body
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", alias.asname or alias.name) for node in imports for alias in node.names]


def lists() -> str:
    """Return the names that ``locant`` and its rooms export, in Markdown."""
    every = exports(PACKAGE / "__init__.pyi")
    rooms = sorted(name for module, name in every if module == "locant")
    parts = []
    for room in ["locant", *(f"locant.{name}" for name in rooms)]:
        stub = PACKAGE.joinpath(*room.split(".")[1:]) / "__init__.pyi"
        if not stub.exists():
            continue
        names = sorted({name for module, name in exports(stub) if module != room}, key=lambda name: name.lower())
        text = textwrap.fill(", ".join(f"`{name}`" for name in names), 120, break_long_words=False)
        parts.append(f"### {room}\n\n{text}\n")
    return "\n".join(parts)


def written(page: str) -> str:
    """Return the part of the page that is generated."""
    return page.split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(old.replace(written(old), f"\n{lists()}\n"), encoding="utf-8")
