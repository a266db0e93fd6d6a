"""The lists of public names in docs/api.md; run as a program, this writes them again."""

from __future__ import annotations

import ast
import importlib
import inspect
from itertools import pairwise
from pathlib import Path

import locant

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
BEGIN, END = "<!-- generated: python tools/api_page.py -->\n", "<!-- end of what is generated -->\n"
PACKAGE = Path(locant.__file__).parent
ROOMS = sorted(".".join(stub.parent.relative_to(PACKAGE.parent).parts) for stub in PACKAGE.rglob("__init__.pyi"))


def line_of(room: str, name: str) -> str:
    """Return the first line of a public name's docstring, which of a value is the string below its assignment."""
    module = importlib.import_module(room)
    value = getattr(module, name)
    if callable(value):
        return (inspect.getdoc(value) or "").partition("\n")[0]
    place, original = module._homes[name]
    body = ast.parse(Path(inspect.getfile(importlib.import_module(place))).read_text(encoding="utf-8")).body
    for node, below in pairwise(body):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        named = {each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)}
        if original in named and isinstance(below, ast.Expr):
            return str(ast.literal_eval(below.value)).partition("\n")[0]
    return ""


def lists() -> str:
    """Return the names that ``locant`` and its rooms make public, in Markdown, by room; a room inside lists its own."""
    parts, listed = [], {}
    for room in ROOMS:
        module = importlib.import_module(room)
        names = [name for name in module.__all__ if (room.count(".") < 2 or name not in listed.get(_outer(room), ()))]
        listed[room] = module.__all__
        if names:
            rows = [
                f"| `{name}` | {line_of(room, name).replace('|', ' or ')} |" for name in sorted(names, key=str.lower)
            ]
            job = (inspect.getdoc(module) or "").partition("\n")[0]
            parts.append("\n".join([f"### {room}", "", job, "", "| name | what it is |", "| --- | --- |", *rows, ""]))
    return "\n".join(parts)


def _outer(room: str) -> str:
    return room.rpartition(".")[0]


def written(page: str) -> str:
    """Return the part of the page that is generated."""
    return page.split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    old = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(old.replace(written(old), f"\n{lists()}\n"), encoding="utf-8")
