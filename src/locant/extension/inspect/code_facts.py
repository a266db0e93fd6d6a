"""Facts of a rotation from code that is read and never run: how features are paired, and usual numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

_LARGEST = 2_000_000
_TAKEN_APART = "taken apart"  # neighbours that become halves, as in DeepSeek's code
OF_ROTATION = re.compile(r"rotary|rotat|rope|inv_freq|freqs_cis", re.IGNORECASE)
"""Names of classes and functions that rotate."""

OF_IMAGES_AND_SOUND = re.compile(r"vis|vit|siglip|clip|image|audio|whisper|speech|projector", re.IGNORECASE)
"""Names of those that are not about text."""

_CALLED = frozenset(["forward", "__call__", "call", "apply"])  # what a class of rotation does to queries and keys

NUMBERS = {
    **{name: name for name in ("rope_theta", "partial_rotary_factor", "head_dim", "max_position_embeddings")},
    **{name: name for name in ("hidden_size", "num_attention_heads", "num_hidden_layers")},
    **{"rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"},
}
"""Entries whose default in the code counts, by the names that transformers has for them."""


def parsed(path: Path) -> ast.Module | None:
    """Return the syntax tree of a file of code, ``None`` where there is none of a usual size."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def layouts_in(modules: Mapping[str, ast.Module]) -> set[tuple[str, str]]:
    """Return the layouts in which code turns pairs, with the files that say so.

    Args:
        modules: Syntax trees by the names of their files.
    """
    found = {(layout, file) for file, tree in modules.items() for layout in _layouts(file, tree)}
    if any(layout == _TAKEN_APART for layout, _ in found):  # then halves are turned, which were neighbours
        return {("interleaved", file) for layout, file in found if layout == _TAKEN_APART}
    return found


def _layouts(file: str, tree: ast.Module) -> Iterator[str]:
    """Yield how functions that turn pairs take them, but for those of images and sound."""
    if OF_IMAGES_AND_SOUND.search(file.rpartition("/")[2].removesuffix(".py").partition("_")[2]):
        return
    for node in _nodes_of_text(tree):
        if isinstance(node, ast.ClassDef) and OF_ROTATION.search(node.name):
            functions = (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name in _CALLED)
        else:
            functions = (each for each in [node] if isinstance(each, ast.FunctionDef) and OF_ROTATION.search(each.name))
        for function in functions:
            if not OF_IMAGES_AND_SOUND.search(function.name):
                yield from _layouts_in(function)


def _nodes_of_text(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of code, but for the classes of images and sound."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.ClassDef) and OF_IMAGES_AND_SOUND.search(node.name)):
            yield node
            yield from _nodes_of_text(node)


def _layouts_in(function: ast.FunctionDef) -> Iterator[str]:
    apart = {
        id(node.func.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "mT")
    }
    halved = set(_halved(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            is_of_axes = isinstance(node.slice, ast.Tuple)
            for each in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
                if not isinstance(each, ast.Slice):
                    continue
                if isinstance(each.step, ast.Constant) and each.step.value == 2:
                    yield "interleaved"
                elif any(_is_half(bound, halved if is_of_axes else None) for bound in (each.lower, each.upper)):
                    yield "half"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("view", "reshape", "unflatten") and node.args and _is_two(node.args[-1]):
                yield _TAKEN_APART if id(node) in apart else "interleaved"
            if called == "rearrange" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                yield from _layout_of_pattern(str(node.args[1].value), node.keywords)
            if called == "chunk" and any(isinstance(each, ast.Constant) and each.value == 2 for each in node.args):
                yield "half"


def _halved(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names that a function gives to half of a number: ``half = x.shape[-1] // 2``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_floor_half(node.value):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _layout_of_pattern(pattern: str, sizes: Sequence[ast.keyword]) -> Iterator[str]:
    """Yield how a pattern of einops takes pairs apart: by the axis of size 2, or one that is unpacked as ``j``."""
    axes = re.match(r"\.\.\. \((\w+) (\w+)\) ->", pattern)
    twos = {each.arg for each in sizes if isinstance(each.value, ast.Constant) and each.value.value == 2} | {"j", "two"}
    if axes is not None and (axes[1] in twos) is not (axes[2] in twos):
        yield "half" if axes[1] in twos else "interleaved"


def _is_two(size: ast.expr) -> bool:
    """Whether the last size of a view is 2, which makes neighbours pairs."""
    last = size.elts[-1] if isinstance(size, ast.Tuple | ast.List) and size.elts else size
    return isinstance(last, ast.Constant) and last.value == 2


def _is_half(bound: ast.expr | None, halved: Collection[str] | None) -> bool:
    """Whether a bound of a slice is half of a width; among several axes it need not be said of what.

    Args:
        bound: The bound.
        halved: Names of halves, where the slice is one of several axes.
    """
    if isinstance(bound, ast.Name) and halved is not None:
        return bound.id in halved
    return _is_floor_half(bound) and (halved is not None or "shape" in ast.dump(bound))


def _is_floor_half(node: ast.expr | None) -> TypeGuard[ast.BinOp]:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.FloorDiv)
        and isinstance(node.right, ast.Constant)
        and node.right.value == 2
    )


def defaults_in(modules: Mapping[str, ast.Module]) -> dict[str, Any]:
    """Return the numbers that the classes of configurations have for entries which a file leaves out."""
    found: dict[str, Any] = {}
    for tree in modules.values():
        for node in tree.body:
            if not isinstance(node, ast.ClassDef) or not node.name.endswith("Config"):
                continue
            for function in node.body:
                if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                    positional = function.args.args[-len(function.args.defaults) or len(function.args.args) :]
                    pairs = [
                        *zip(positional, function.args.defaults, strict=True),
                        *zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True),
                    ]
                    for argument, default in pairs:
                        value = default.value if isinstance(default, ast.Constant) else None
                        name = NUMBERS.get(argument.arg)
                        if name is not None and isinstance(value, int | float) and not isinstance(value, bool):
                            found.setdefault(name, value)
    return found
