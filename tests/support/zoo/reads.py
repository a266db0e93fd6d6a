"""Entries about positions that the code of classes of transformers reads, written to ``reads.json``.

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
from locant.rotary_configs.classes.families import model_type
from locant.rotary_configs.classes.reads import is_of_positions

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "reads.json"

_ROOT = Path(transformers.__file__).parent
_SHARED = ("modeling_rope_utils.py", "masking_utils.py", "cache_utils.py")
_OF_ALL_GROUPS = "convert_rope_params_to_dict"  # of every configuration that has a group of rotary parameters
_Assumed = tuple[str, str] | None
_DEFINES = (ast.ClassDef, ast.FunctionDef)
_LOOKS_UP = ("get", "pop", "setdefault", "getattr", "hasattr")


def reads_of(config_class: Any) -> dict[str, Any]:
    """Return the names about positions that a configuration's class, or the models that take it, read of it.

    Beside them stands which of them models do not read where an entry has a value that their code compares it with, and
    which others they read for modules alone that they make and never use.
    """
    own: set[str] = set()
    for each in _classes_of(config_class):
        own |= _in_configuration(each)
    reads = own | _in_all_models(config_class, None)
    unread: dict[str, dict[str, list[str]]] = {}
    for name, value in sorted({each for file in files_of_models(config_class) for each in _compared(file)}):
        others = own | _in_all_models(config_class, (name, value))
        if missing := sorted(filter(is_of_positions, reads - others - {name})):
            unread.setdefault(name, {})[value] = missing
    found = {"reads": sorted(filter(is_of_positions, reads))}
    idle = sorted(filter(is_of_positions, _in_all_models(config_class, None, with_unused=True) - reads))
    return found | ({"unread": unread} if unread else {}) | ({"idle": idle} if idle else {})


def _in_all_models(config_class: Any, assumed: _Assumed, *, with_unused: bool = False) -> set[str]:
    """Return what the models that take a configuration, and the code that all of them share, read of it."""
    found: set[str] = set()
    own = (node for each in _classes_of(config_class) for node in _called(_source(each)))
    names = {node.attr for node in own if isinstance(node.value, ast.Name) and node.value.id == "self"}
    for file in files_of_models(config_class):
        read, used = _in_models(file, assumed, with_unused=with_unused)
        found |= read
        names |= used
    if "rope_parameters" in getattr(config_class, "__dataclass_fields__", {}):
        names.add(_OF_ALL_GROUPS)
    for file in _SHARED:
        found |= _in_functions(_ROOT / file, frozenset(names))
    return found


def files_of_models(config_class: Any) -> list[Path]:
    """Return the sources of the models that take a configuration."""
    folder = Path(inspect.getsourcefile(config_class) or "").parent
    own = sorted(folder.glob("modeling_*.py"))
    if own:
        return own
    with quiet():
        found = model_class(config_class)
    return [] if found is None else [Path(inspect.getsourcefile(found) or "")]


def _classes_of(config_class: Any) -> list[type[Any]]:
    """Return the class of a configuration and those that it rests on, of one model or another."""
    return [each for each in config_class.__mro__ if each.__module__.startswith("transformers.models.")]


@cache
def _source(each: type[Any]) -> ast.Module:
    return ast.parse(inspect.getsource(each))


@cache
def _in_configuration(each: type[Any]) -> frozenset[str]:
    """Return what the methods of a configuration's class read of it, and other names that it takes."""
    tree = _source(each)
    names = getattr(each, "attribute_map", {})
    found: set[str] = {*names, *names.values()}  # either of which may be read for both
    for method in ast.walk(tree):
        if isinstance(method, ast.FunctionDef):
            found |= {node.attr for node in _loads(method)}
            found |= {node.value for node in ast.walk(method) if _is_name(node)}
    return frozenset(found)


@cache
def _in_models(file: Path, assumed: _Assumed, *, with_unused: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Return what the models of a file read of a configuration, and all names that their code uses."""
    tree = _tree(file, assumed, with_unused=with_unused)
    defined = _definitions(file, assumed, with_unused=with_unused)
    exported = next((_strings(each.value) for each in tree.body if isinstance(each, ast.Assign) and _is_all(each)), [])
    reached = _reached(defined, [name for name in exported or defined if name in defined])
    reads = {name for each in reached for name in defined[each].reads}
    reads |= {name for each in tree.body if not isinstance(each, _DEFINES) for name in _reads(each)}
    return frozenset(reads), frozenset(name for each in reached for name in defined[each].uses)


@cache
def _in_functions(file: Path, names: frozenset[str]) -> frozenset[str]:
    """Return what the functions of a file that are used elsewhere, and those that they use, read of a configuration."""
    defined = _definitions(file, None)
    reached = _reached(defined, [name for name in defined if name in names])
    return frozenset(name for each in reached for name in defined[each].reads)


def _tree(file: Path, assumed: _Assumed, *, with_unused: bool = False) -> ast.Module:
    """Return the code of a file without branches that an entry with a value does not take, and without unused parts."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    used = None if with_unused else {node.attr for node in (*_loads(tree), *_called(tree))}
    _Reduced(used, assumed).visit(tree)
    return tree


class _Reduced(ast.NodeTransformer):
    """Removes branches that are not taken, and modules that an object makes and nothing asks it for.

    Args:
        used: Attributes that any code of the file asks for; ``None`` to keep all modules.
        assumed: An entry and its value; ``None`` for any values.
    """

    def __init__(self, used: set[str] | None, assumed: _Assumed) -> None:
        self.used, self.assumed = used, assumed

    def visit_If(self, node: ast.If) -> Any:
        """Return the branch that is taken."""
        self.generic_visit(node)
        compared = _comparison(node.test)
        if self.assumed is None or compared is None or compared[0] != self.assumed[0]:
            return node
        return (node.body if compared == self.assumed else node.orelse) or ast.Pass()

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Return nothing where an object keeps what it never takes."""
        if self.used is None:
            return node
        kept = [each for each in node.targets if isinstance(each, ast.Attribute) and each.attr not in self.used]
        makes = isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        return ast.Pass() if makes and len(kept) == len(node.targets) else node


@cache
def _compared(file: Path) -> frozenset[tuple[str, str]]:
    """Return the entries about positions, with texts, that branches of a file go by."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = (_comparison(node.test) for node in ast.walk(tree) if isinstance(node, ast.If))
    return frozenset(each for each in found if each is not None and is_of_positions(each[0]))


def _comparison(test: ast.expr) -> tuple[str, str] | None:
    """Return the attribute that a condition compares with a text, and the text."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        return None
    left, right = test.left, test.comparators[0]
    if isinstance(left, ast.Attribute) and isinstance(right, ast.Constant) and isinstance(right.value, str):
        return left.attr, right.value
    return None


@dataclass(frozen=True)
class _Definition:
    """What a class or a function reads of a configuration, and the names that it uses."""

    reads: frozenset[str]
    uses: frozenset[str]


@cache
def _definitions(file: Path, assumed: _Assumed, *, with_unused: bool = False) -> dict[str, _Definition]:
    """Return the classes and functions of a file, those of a file that all models share with their methods apart."""
    tree = _tree(file, assumed, with_unused=with_unused)
    nodes: Iterable[ast.AST] = ast.walk(tree) if file.name in _SHARED else tree.body
    found = {}
    for node in nodes:
        if isinstance(node, _DEFINES) and not (file.name in _SHARED and isinstance(node, ast.ClassDef)):
            asked = {id(each) for call in ast.walk(node) if _is_question(call) for each in ast.walk(call)}
            used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and id(each) not in asked}
            used |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            reads = {*_reads(node)}
            if file.name in _SHARED:  # whose methods are those of configurations
                reads |= {each.attr for each in _loads(node)}
            found[node.name] = _Definition(frozenset(reads), frozenset(used))
    return found


def _is_question(node: ast.AST) -> bool:
    """Whether code asks of what kind an object is, which makes none."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"


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
    called = {id(node) for node in _called(part)}
    for node in ast.walk(part):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            yield node


def _called(part: ast.AST) -> Iterator[ast.Attribute]:
    return (node.func for node in ast.walk(part) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()


def _is_all(node: ast.Assign) -> bool:
    return any(getattr(each, "id", "") == "__all__" for each in node.targets)


def _strings(node: ast.AST) -> list[str]:
    return [each.value for each in ast.walk(node) if _is_name(each)]


def reads_of_all() -> list[dict[str, Any]]:
    """Return what classes of all known model types read, each with the model types."""
    from transformers import CONFIG_MAPPING

    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name in sorted(CONFIG_MAPPING.keys()):
        if model_type(name) is not None:
            reads = reads_of(CONFIG_MAPPING[name])
            found.setdefault(json.dumps(reads), (reads, []))[1].append(name)
    return [{"of": names, **reads} for reads, names in found.values()]


def main() -> None:
    """Write them."""
    lines = ",\n".join(map(json.dumps, reads_of_all()))
    PATH.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
