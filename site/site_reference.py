"""The pages of the reference: what each room exports, from the docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from site_folder import SiteFolder

import locant


def rooms() -> list[str]:
    """Return the names of the rooms that are public, and of the modules that are."""
    names = (name for name in dir(locant) if not name.startswith("_") and inspect.ismodule(getattr(locant, name)))
    return sorted(name for name in names if not _folder(name).is_dir() or (_folder(name) / "__init__.pyi").exists())


def write_reference(folder: SiteFolder) -> None:
    """Write a page for every room, and one that lists them, in reStructuredText."""
    names = rooms()
    homes = _homes(names)
    for name in names:
        folder.write(Path("reference", f"{name}.rst"), _page(name, homes))
    own = [name for name in exported(locant) if not name.startswith("_")]
    lines = [
        *_title("Reference"),
        "What Locant offers in Python, from its docstrings. :doc:`/docs/api` says what is public and what a version",
        "number promises. The names that ``import locant`` offers itself:",
        "",
        *[f"- ``{name}``: {_link(getattr(locant, name), homes)}" for name in own],
        "",
        ".. toctree::",
        "   :caption: Rooms",
        "   :maxdepth: 1",
        "",
        *[f"   {name}" for name in names],
        "",
    ]
    folder.write(Path("reference", "index.rst"), "\n".join(lines))


def exported(room: ModuleType) -> list[str]:
    """Return the public names of a room or module, without packages in it."""
    names = getattr(room, "__all__", None)
    if names is None:
        own = [name for name, value in vars(room).items() if getattr(value, "__module__", "") == room.__name__]
        names = [name for name in own if not name.startswith("_")]
    return sorted((name for name in names if not inspect.ismodule(getattr(room, name))), key=str.lower)


def _folder(room: str) -> Path:
    return Path(str(locant.__file__)).with_name(room)


def _homes(names: list[str]) -> dict[int, tuple[str, str]]:
    """Return the room and name under which something is described, by its identity: the room that holds its module."""
    homes: dict[int, tuple[str, str]] = {}
    for name in names:
        room = importlib.import_module(f"locant.{name}")
        for each in exported(room):
            value = getattr(room, each)
            if f"{getattr(value, '__module__', '')}.".startswith(f"locant.{name}."):
                homes[id(value)] = (name, each)
            else:
                homes.setdefault(id(value), (name, each))
    return homes


def _page(name: str, homes: Mapping[int, tuple[str, str]]) -> str:
    room = importlib.import_module(f"locant.{name}")
    lines = [*_title(f"locant.{name}"), f".. automodule:: locant.{name}", "   :no-members:", "   :no-index:", ""]
    for each in exported(room):
        value = getattr(room, each)
        here = homes[id(value)] == (name, each)
        lines += _title(each, "-")
        lines += _entry(name, each, value) if here else [f"The same as {_link(value, homes)}.", ""]
    return "\n".join(lines)


def _entry(room: str, name: str, value: object) -> list[str]:
    if inspect.isclass(value):
        kind = "autoexception" if issubclass(value, BaseException) else "autoclass"
        return [f".. {kind}:: locant.{room}.{name}", "   :members:", "   :show-inheritance:", ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: locant.{room}.{name}", ""]
    # A room gives its values their names only: what they are stands where they are assigned.
    said = _said_of_values(_module_of(room, name)).get(name, "")
    return [f".. py:data:: locant.{room}.{name}", "", *textwrap.indent(said, "   ").splitlines(), ""]


def _link(value: object, homes: Mapping[int, tuple[str, str]]) -> str:
    kind = "class" if inspect.isclass(value) else "func" if inspect.isroutine(value) else "data"
    return f":py:{kind}:`locant.{'.'.join(homes[id(value)])}`"


def _module_of(room: str, name: str) -> str:
    """Return the module from which a room takes a name, from its stub."""
    for line in ast.walk(ast.parse((_folder(room) / "__init__.pyi").read_text("utf-8"))):
        if isinstance(line, ast.ImportFrom) and name in (alias.name for alias in line.names):
            return str(line.module)
    return f"locant.{room}"


@cache
def _said_of_values(module: str) -> dict[str, str]:
    """Return what a module says of its values: the string below an assignment."""
    path = Path(str(importlib.import_module(module).__file__))
    body = ast.parse(path.read_text("utf-8")).body
    said: dict[str, str] = {}
    for line, below in pairwise(body):
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            said |= {each.id: inspect.cleandoc(below.value.value) for each in targets if isinstance(each, ast.Name)}
    return said


def _title(text: str, line: str = "=") -> list[str]:
    return [text, line * len(text), ""]
