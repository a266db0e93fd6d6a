"""Imports run only downwards.

The rule, from the top of the house to the bottom:

* A room imports itself, the rooms below it and the ground floor (modules that every room may import).
* ``positions``, ``rotary_configs`` and ``kernels`` are apart: of all of Locant they may import only what ``APART``
  grants them.
* The ground floor imports nothing but the ground floor.
* ``cli`` imports what it likes, and so does its door ``__main__``.
* Shelves are folders of data files; they hold no code.
* Single modules may import what ``DOORS`` grants them, each for the reason beside it.
* Any other module at the top level of the package puts rooms together (a recipe, say): it imports what it likes
  but the command line, and only the command line and its own kind import it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import modules

import locant

ROOMS = [
    "cli",
    "app",
    "server",
    "figures",
    "lab",
    "extension",
    "training",
    "interop",
    "documents",
    "translation",
    "analysis",
    "models",
    "rotary_configs",
    "positions",
    "text",
    "kernels",
]
SHELVES = {"recipes"}
GROUND = {
    *("errors", "settings", "files", "locks", "version", "runtime", "lazy", "parsing", "signals"),
    "languages",
}
# Rooms that others can take alone: all that they may import.
APART = {
    "positions": {"errors", "lazy", "kernels"},
    "rotary_configs": {"errors", "lazy", "parsing", "positions"},
    "kernels": {"errors", "files", "lazy", "locks"},
}

# Modules that import a room above them, inside a function, for those who do not give what that room would read.
DOORS = {
    # install(model) reads the configuration that the model brings; whoever gives a RotaryConfig needs torch alone.
    "positions/huggingface/install.py": {"rotary_configs"},
}

LONGEST = 700  # lines of a module

PACKAGE = Path(locant.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


def allowed(importer: str, imported: str) -> bool:
    """Whether a module of one room (or top-level module) may import from another."""
    if importer == imported or importer in ("cli", "__main__"):
        return True
    if importer in APART:
        return imported in APART[importer]
    if importer in GROUND or importer == "__init__":
        return imported in GROUND
    if importer in ROOMS:
        return imported in GROUND or (imported in ROOMS and ROOMS.index(imported) > ROOMS.index(importer))
    return imported != "cli"


def imported_rooms(tree: ast.Module, module: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the room of every import of Locant, wherever in the file it is.

    Args:
        tree: The module.
        module: Its dotted name in parts, with ``__init__`` for a package's own file.
    """
    for node in ast.walk(tree):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module[: -node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            names = [[*base, alias.name] for alias in node.names]
        for name in names:
            if name[0] == "locant" and len(name) > 1 and not name[1].startswith("__"):
                yield getattr(node, "lineno", 0), name[1]


def test_imports_run_downwards() -> None:
    wrong = []
    for path, tree in modules().items():
        parts = ["locant", *path.removesuffix(".py").split("/")]
        door = DOORS.get(path, set())
        wrong += [
            f"{path}:{line} imports {room}"
            for line, room in imported_rooms(tree, parts)
            if not allowed(parts[1], room) and room not in door
        ]
    assert not wrong, "\n".join(["Imports that do not run downwards:", *wrong])


def test_modules_are_short_enough_to_read() -> None:
    lengths = {path.relative_to(PACKAGE): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    too_long = [f"{path}: {length} lines" for path, length in lengths.items() if length > LONGEST]
    assert not too_long, "\n".join(too_long)


def test_there_are_no_other_rooms() -> None:
    folders = {path.parent.name for path in MODULES if path.parent.parent == PACKAGE}
    assert {"positions", "models"} <= folders
    assert folders <= {*ROOMS, *SHELVES}


@pytest.mark.parametrize(("page", "row"), [("docs/architecture.md", r"^\| `(\w+)` \|")])
def test_pages_show_all_rooms_from_top_to_bottom(page: str, row: str) -> None:
    text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    assert re.findall(row, text, re.MULTILINE) == ROOMS


def test_shelves_hold_no_code() -> None:
    wrong = []
    for path, tree in modules().items():
        only_text = all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree.body)
        if path.split("/")[0] in SHELVES and not only_text:
            wrong.append(path)
    assert not wrong
