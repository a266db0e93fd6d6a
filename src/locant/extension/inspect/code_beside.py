"""The code that stands beside a config.json: read for how it pairs features, and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from locant.positions.scaling.fields import Finding
from locant.rotary_configs import families
from locant.rotary_configs.families import ModelType
from locant.rotary_configs.own_code import OWN_CODE
from locant.rotary_configs.spellings import in_names_of_all
from locant.rotary_configs.text_parts import class_in_architectures, text_part
from locant.rotary_configs.usual_values import GROUPS

_LARGEST = 2_000_000
_MOST_FILES = 24
_USUAL_FILES = re.compile(
    r"(modell?(ing)?|configuration|config|transformer|attention|rope|rotary)(_\w+)?$", re.IGNORECASE
)
_TAKEN_APART = "taken apart"  # neighbours that become halves, as in DeepSeek's code
_OF_ROTATION = re.compile(r"rotary|rotat|rope|inv_freq|freqs_cis", re.IGNORECASE)
_OF_A_SCALING = re.compile(r"scal|ntk|yarn|dynamic|long", re.IGNORECASE)
_OF_IMAGES_AND_SOUND = re.compile(r"vis|vit|siglip|clip|image|audio|whisper|speech|projector", re.IGNORECASE)
_NUMBERS = {
    **{name: name for name in ("rope_theta", "partial_rotary_factor", "head_dim", "max_position_embeddings")},
    **{name: name for name in ("hidden_size", "num_attention_heads", "num_hidden_layers")},
    **{"rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"},
}
"""Entries whose default in the code counts, by the names that transformers has for them."""

_USUAL = frozenset(
    [
        *_NUMBERS,
        *("rope_scaling", "rope_parameters", "rope_type", "original_max_position_embeddings", "layer_types"),
        *("n_embd", "n_head", "n_positions", "seq_length", "kv_channels", "num_key_value_heads", "sliding_window"),
        *("standardize_rope_params", "get", "dtype", "torch_dtype", "use_cache", "to_dict", "is_decoder"),
    ]
)


@dataclass(frozen=True)
class ReadCode:
    """What the code of a model says.

    Attributes:
        kind: The facts of its class.
        file: The file that says so.
        says: What it says, to follow the file's name: "pairs features in the layout 'half'".
        others: Entries that its rotation reads and that no other model has.
        scalings: Names of its own code for the scaling that the file states.
    """

    kind: ModelType
    file: str
    says: str
    others: tuple[str, ...] = ()
    scalings: tuple[str, ...] = ()

    def findings(self) -> list[Finding]:
        """Return what is to be said of a reading by these facts."""
        said = Finding(
            "note",
            f"The model type '{self.kind.name}' is not known here; {self.file} beside the file, which was read and not "
            f"run, {self.says}.",
            "Compare with that code where it does more than others.",
        )
        found = [said]
        if self.others:
            found.append(
                Finding(
                    "warning",
                    f"The rotation of {self.file} reads entries that nothing here knows: {', '.join(self.others[:8])}.",
                    "Look there for what they do to the base or to the angles.",
                )
            )
        if self.scalings:
            found.append(
                Finding(
                    "warning",
                    f"The file states a scaling, which {self.file} computes by code of its own "
                    f"({', '.join(self.scalings[:4])}); it is read as the one that transformers has under that name.",
                    "Compare the frequencies of that code with those shown here.",
                )
            )
        return found


def read_code(folder: Path, content: Mapping[str, Any], name: str | None) -> ReadCode | None:
    """Read what the code that ``auto_map`` of a config.json names, or that lies beside it, does with positions.

    Looked for are the class of transformers that it extends, and the function that turns pairs: neighbours are taken
    by steps of two, halves by half of the width.

    Args:
        folder: Where the file stands.
        content: The object in config.json.
        name: The model type.

    Returns:
        What the code says; ``None`` where it is elsewhere, or says it in ways that are not known.
    """
    modules, is_whole = _modules(folder, content)
    if not modules:
        return None
    found = {(layout, file) for file, tree in modules.items() for layout in _layouts(file, tree)}
    if any(layout == _TAKEN_APART for layout, _ in found):  # then halves are turned, which were neighbours
        found = {("interleaved", file) for layout, file in found if layout == _TAKEN_APART}
    layouts = {layout for layout, _ in found}
    base = _extended(modules)
    if base is not None and base[0].rotates and layouts <= {base[0].layout}:
        kind, file = base
        return ReadCode(replace(kind, name=name or kind.name), file, f"extends the class of '{kind.name}'")
    scalings = () if not _is_scaled(in_names_of_all(text_part(content), sizes=False)) else _scalings(modules)
    if base is None and len(layouts) == 1:
        ((layout, file), *_) = sorted(found)
        copied = class_in_architectures(content)
        if copied is not None and copied.layout == layout:
            says = f"has a class of the name that '{copied.name}' has in transformers, and pairs features as that does"
            own = copied if copied.name in OWN_CODE else replace(copied, name=name or copied.name)
            return ReadCode(own, file, says, _others(modules), scalings)
        facts = ModelType(
            name or "",
            layout="half" if layout == "half" else "interleaved",
            defaults=_defaults(modules),
            rotates_partly=True,
        )
        return ReadCode(facts, file, f"pairs features in the layout '{layout}'", _others(modules), scalings)
    if base is None and is_whole and not any(_speaks_of_rotation(tree) for tree in modules.values()):
        return ReadCode(ModelType(name or "", rotates=False), next(iter(modules)), "rotates nothing")
    return None


def _modules(folder: Path, content: Mapping[str, Any]) -> tuple[dict[str, ast.Module], bool]:
    """Return the files of the code and whether they are all there; those that belong to another repository are not."""
    groups = [content, *(group for group in content.values() if isinstance(group, Mapping))]
    maps = [group["auto_map"] for group in groups if isinstance(group.get("auto_map"), Mapping)]
    named = [value for each in maps for key, value in each.items() if str(key).startswith(("AutoConfig", "AutoModel"))]
    left = [str(value).partition(".")[0] for value in named if isinstance(value, str)]
    modules: dict[str, ast.Module] = {}
    is_whole = bool(left)
    if not maps:  # code of people's own lies there under usual names
        left = sorted(path.stem for path in folder.glob("*.py") if _USUAL_FILES.match(path.stem))[:_MOST_FILES]
    while left and len(modules) < _MOST_FILES:
        module = left.pop(0)
        file = f"{module}.py"
        if file in modules:
            continue
        tree = _parsed(folder / file) if module.isidentifier() else None
        if tree is None:
            is_whole = False
            continue
        modules[file] = tree
        left += [
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
        ]
    return modules, is_whole and not left


def _parsed(path: Path) -> ast.Module | None:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _layouts(file: str, tree: ast.Module) -> Iterator[str]:
    """Yield how functions that turn pairs take them, but for those of images and sound."""
    if _OF_IMAGES_AND_SOUND.search(file.removesuffix(".py").partition("_")[2]):
        return
    for node in _nodes_of_text(tree):
        if not isinstance(node, ast.FunctionDef) or not _OF_ROTATION.search(node.name):
            continue
        if not _OF_IMAGES_AND_SOUND.search(node.name):
            yield from _layouts_in(node)


def _nodes_of_text(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of code, but for the classes of images and sound."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.ClassDef) and _OF_IMAGES_AND_SOUND.search(node.name)):
            yield node
            yield from _nodes_of_text(node)


def _layouts_in(function: ast.FunctionDef) -> Iterator[str]:
    apart = {
        id(node.func.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("transpose", "mT")
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Slice):
            if isinstance(node.step, ast.Constant) and node.step.value == 2:
                yield "interleaved"
            elif any(_is_half(bound) for bound in (node.lower, node.upper)):
                yield "half"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("view", "reshape", "unflatten") and node.args and _is_two(node.args[-1]):
                yield _TAKEN_APART if id(node) in apart else "interleaved"
            if called == "rearrange" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                yield from _layout_of_pattern(str(node.args[1].value), node.keywords)


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


def _is_half(bound: ast.expr | None) -> bool:
    return (
        isinstance(bound, ast.BinOp)
        and isinstance(bound.op, ast.FloorDiv)
        and isinstance(bound.right, ast.Constant)
        and bound.right.value == 2
        and "shape" in ast.dump(bound.left)
    )


def _extended(modules: Mapping[str, ast.Module]) -> tuple[ModelType, str] | None:
    """Return the only class that rotates, of those known here, which the code's own classes extend."""
    found: dict[str, str] = {}
    for file, tree in modules.items():
        for node in ast.walk(tree):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                kind = families.type_of_class(base.id) if isinstance(base, ast.Name) else None
                if kind is not None and kind.rotates and not kind.text_part and not _is_own(base, modules):
                    found.setdefault(kind.name, file)
    if len(found) != 1:
        return None
    ((name, file),) = found.items()
    kind = families.model_type(name)
    assert kind is not None
    return kind, file


def _is_own(base: ast.expr, modules: Mapping[str, ast.Module]) -> bool:
    assert isinstance(base, ast.Name)
    own = (node for tree in modules.values() for node in tree.body if isinstance(node, ast.ClassDef))
    return any(node.name == base.id for node in own)


def _defaults(modules: Mapping[str, ast.Module]) -> dict[str, Any]:
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
                        name = _NUMBERS.get(argument.arg)
                        if name is not None and isinstance(value, int | float) and not isinstance(value, bool):
                            found.setdefault(name, value)
    return found


def _others(modules: Mapping[str, ast.Module]) -> tuple[str, ...]:
    """Return the entries that classes and functions of rotation read, but for those that many models have."""
    found: dict[str, None] = {}
    for tree in modules.values():
        for scope in tree.body:
            if not isinstance(scope, ast.ClassDef | ast.FunctionDef) or not _OF_ROTATION.search(scope.name):
                continue
            if _OF_IMAGES_AND_SOUND.search(scope.name):
                continue
            for node in ast.walk(scope):
                owner = node.value if isinstance(node, ast.Attribute) else None
                named = (
                    owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
                )
                if isinstance(node, ast.Attribute) and named in ("config", "args") and node.attr not in _USUAL:
                    found[node.attr] = None
    return tuple(found)


def _is_scaled(part: Mapping[str, Any]) -> bool:
    return any(isinstance(part.get(name), Mapping) and part[name].get("factor") for name in GROUPS)


def _scalings(modules: Mapping[str, ast.Module]) -> tuple[str, ...]:
    """Return the classes and functions of rotation whose names speak of a scaling."""
    nodes = (node for tree in modules.values() for node in tree.body)
    scopes = (node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return tuple(dict.fromkeys(name for name in scopes if _OF_ROTATION.search(name) and _OF_A_SCALING.search(name)))


def _speaks_of_rotation(tree: ast.Module) -> bool:
    """Whether any name of the code is about rotary positions, or it takes its layers from elsewhere."""
    for node in ast.walk(tree):
        named = getattr(node, "name", None) or getattr(node, "attr", None) or getattr(node, "id", None)
        if isinstance(named, str) and _OF_ROTATION.search(named):
            return True
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and re.search(r"(ForCausalLM|ForConditionalGeneration)$", base.id)
            for base in node.bases
        ):
            return True
    return False
