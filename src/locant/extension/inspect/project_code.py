"""The code of the project in which a config.json stands: read for how it pairs features, and never run."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

from locant.extension.inspect.code_beside import ReadCode
from locant.extension.inspect.code_facts import OF_ROTATION, layouts_in, parsed
from locant.rotary_configs.classes.model_types import ModelType

_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_MOST_STEPS = 4
_MOST_FOLDERS = 200
_MOST_FILES = 400
_LARGEST = 300_000
_LEFT_OUT = frozenset(["node_modules", "site-packages", "venv", "env", "build", "dist", "tests", "test"])


def read_project(folder: Path, name: str | None) -> ReadCode | None:
    """Read how the code of a project turns pairs, for a file whose model type and code are not known otherwise.

    Args:
        folder: Where the file stands: a folder of the project.
        name: The model type.

    Returns:
        What all of the project's code says; ``None`` where there is no project, or none of its code turns pairs, or
        parts of it turn them otherwise than others.
    """
    root = _root(folder)
    if root is None:
        return None
    modules: dict[str, ast.Module] = {}
    for path in _files(root):
        tree = parsed(path)
        if tree is not None:
            modules[path.relative_to(root).as_posix()] = tree
    found = layouts_in(modules)
    layouts = {layout for layout, _ in found}
    if len(layouts) != 1:
        return None
    layout, file = min(found)
    facts = ModelType(name or "", layout="half" if layout == "half" else "interleaved", rotates_partly=True)
    return ReadCode(facts, file, f"pairs features in the layout '{layout}'", is_elsewhere=True)


def _root(folder: Path) -> Path | None:
    """Return the folder of a project around a folder, by the files that stand there."""
    resolved = folder.resolve()
    around = (resolved, *resolved.parents)[:_MOST_STEPS]
    return next((each for each in around if any((each / mark).exists() for mark in _MARKS)), None)


def _files(root: Path) -> Iterator[Path]:
    """Yield the files of code that speak of rotation, in the order of their names."""
    folders = files = 0
    for place, inner, names in os.walk(root):
        folders += 1
        inner[:] = sorted(each for each in inner if each not in _LEFT_OUT and not each.startswith("."))
        for name in sorted(name for name in names if name.endswith(".py")):
            files += 1
            if files > _MOST_FILES or folders > _MOST_FOLDERS:
                return
            path = Path(place) / name
            try:
                text = path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size <= _LARGEST else ""
            except OSError:
                continue
            if OF_ROTATION.search(text):
                yield path
