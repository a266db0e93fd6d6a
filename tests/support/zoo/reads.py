"""Entries about positions that the code of classes of transformers reads, written to ``class_reads.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/reads.py``. No model is built: what
counts are attributes of a configuration, and names that are looked for in one, in the code that models can reach.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import transformers

import locant
from locant.extension.inspect.model_class.small_model import model_class, quiet
from locant.rotary_configs.class_reads import is_of_positions
from locant.rotary_configs.families import model_type

PATH = Path(locant.__file__).parent / "rotary_configs" / "class_reads.json"

_ROOT = Path(transformers.__file__).parent
_SHARED = ("modeling_rope_utils.py", "masking_utils.py", "cache_utils.py")
_OF_ALL_GROUPS = "convert_rope_params_to_dict"  # of every configuration that has a group of rotary parameters
_DEFINES = (ast.ClassDef, ast.FunctionDef)
_LOOKS_UP = ("get", "pop", "setdefault", "getattr", "hasattr")


def reads_of(config_class: Any) -> list[str]:
    """Return the names about positions that a configuration's class, or the models that take it, read of it."""
    found: set[str] = set()
    for each in config_class.__mro__:
        if each.__module__.startswith("transformers.models."):
            found |= _in_configuration(each)
    names: set[str] = set()
    for file in files_of_models(config_class):
        read, used = _in_models(file)
        found |= read
        names |= used
    if "rope_parameters" in getattr(config_class, "__dataclass_fields__", {}):
        names.add(_OF_ALL_GROUPS)
    for file in _SHARED:
        found |= _in_functions(_ROOT / file, frozenset(names))
    return sorted(name for name in found if is_of_positions(name))


def files_of_models(config_class: Any) -> list[Path]:
    """Return the sources of the models that take a configuration."""
    folder = Path(inspect.getsourcefile(config_class) or "").parent
    own = sorted(folder.glob("modeling_*.py"))
    if own:
        return own
    with quiet():
        found = model_class(config_class)
    return [] if found is None else [Path(inspect.getsourcefile(found) or "")]


@cache
def _in_configuration(each: type[Any]) -> frozenset[str]:
    """Return what the methods of a configuration's class read of it, and other names that it takes."""
    tree = ast.parse(inspect.getsource(each))
    names = getattr(each, "attribute_map", {})
    found: set[str] = {*names, *names.values()}  # either of which may be read for both
    for method in ast.walk(tree):
        if isinstance(method, ast.FunctionDef):
            found |= {node.attr for node in _loads(method)}
            found |= {node.value for node in ast.walk(method) if _is_name(node)}
    return frozenset(found)


@cache
def _in_models(file: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return what the models of a file read of a configuration, and all names that their code uses."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    defined = _definitions(file)
    exported = next((_strings(each.value) for each in tree.body if isinstance(each, ast.Assign) and _is_all(each)), [])
    reached = _reached(defined, [name for name in exported or defined if name in defined])
    reads = {name for each in reached for name in defined[each].reads}
    reads |= {name for each in tree.body if not isinstance(each, _DEFINES) for name in _reads(each)}
    return frozenset(reads), frozenset(name for each in reached for name in defined[each].uses)


@cache
def _in_functions(file: Path, names: frozenset[str]) -> frozenset[str]:
    """Return what the functions of a file that are used elsewhere, and those that they use, read of a configuration."""
    defined = _definitions(file)
    reached = _reached(defined, [name for name in defined if name in names])
    return frozenset(name for each in reached for name in defined[each].reads)


@dataclass(frozen=True)
class _Definition:
    """What a class or a function reads of a configuration, and the names that it uses."""

    reads: frozenset[str]
    uses: frozenset[str]


@cache
def _definitions(file: Path) -> dict[str, _Definition]:
    """Return the classes and functions of a file, those of a file that all models share with their methods apart."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    nodes: Iterable[ast.AST] = ast.walk(tree) if file.name in _SHARED else tree.body
    found = {}
    for node in nodes:
        if isinstance(node, _DEFINES) and not (file.name in _SHARED and isinstance(node, ast.ClassDef)):
            used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            used |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            reads = {*_reads(node)}
            if file.name in _SHARED:  # whose methods are those of configurations
                reads |= {each.attr for each in _loads(node)}
            found[node.name] = _Definition(frozenset(reads), frozenset(used))
    return found


def _reached(defined: dict[str, _Definition], roots: Iterable[str]) -> set[str]:
    """Return the names of definitions of a file that some of them use, with those themselves."""
    waiting, found = [*roots], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [each for each in defined[name].uses if each in defined]
    return found


def _reads(part: ast.AST) -> Iterator[str]:
    """Yield attributes that are read of anything but the object itself, and names that are looked for in something."""
    for node in _loads(part):
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            yield node.attr
    for node in ast.walk(part):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in _LOOKS_UP:
                yield from (each.value for each in node.args if _is_name(each))


def _loads(part: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes that are read, and not called."""
    called = {id(node.func) for node in ast.walk(part) if isinstance(node, ast.Call)}
    for node in ast.walk(part):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            yield node


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()


def _is_all(node: ast.Assign) -> bool:
    return any(getattr(each, "id", "") == "__all__" for each in node.targets)


def _strings(node: ast.AST) -> list[str]:
    return [each.value for each in ast.walk(node) if _is_name(each)]


def reads_of_all() -> list[dict[str, Any]]:
    """Return what classes of all known model types read, each with the model types."""
    from transformers import CONFIG_MAPPING

    found: dict[str, tuple[list[str], list[str]]] = {}
    for name in sorted(CONFIG_MAPPING.keys()):
        if model_type(name) is not None:
            reads = reads_of(CONFIG_MAPPING[name])
            found.setdefault(json.dumps(reads), (reads, []))[1].append(name)
    return [{"of": names, "reads": reads} for reads, names in found.values()]


def main() -> None:
    """Write them."""
    lines = ",\n".join(map(json.dumps, reads_of_all()))
    PATH.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
