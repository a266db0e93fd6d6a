"""The code that stands beside a config.json: read for how it pairs features, and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from locant.extension.inspect.code_facts import (
    NUMBERS,
    OF_IMAGES_AND_SOUND,
    OF_ROTATION,
    defaults_in,
    layouts_in,
    parsed,
)
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.own_code import OWN_CODE
from locant.rotary_configs.huggingface.named_classes import class_in_architectures
from locant.rotary_configs.huggingface.text_parts import text_part
from locant.rotary_configs.spellings import in_names_of_all
from locant.rotary_configs.usual_values import GROUPS

_MOST_FILES = 24
_USUAL_FILES = re.compile(
    r"(modell?(ing)?|configuration|config|transformer|attention|rope|rotary)(_\w+)?$", re.IGNORECASE
)
_OF_A_SCALING = re.compile(r"scal|ntk|yarn|dynamic|long", re.IGNORECASE)
_USUAL = frozenset(
    [
        *NUMBERS,
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
        is_elsewhere: Whether the file is not beside the configuration, but elsewhere in the project.
        otherwise: Another file beside the configuration that pairs features otherwise, where nothing names either.
    """

    kind: ModelType
    file: str
    says: str
    others: tuple[str, ...] = ()
    scalings: tuple[str, ...] = ()
    is_elsewhere: bool = False
    otherwise: str | None = None

    def findings(self) -> list[Finding]:
        """Return what is to be said of a reading by these facts."""
        if self.is_elsewhere:
            return [
                Finding(
                    "warning",
                    "The model type is not known here, and no code of it stands beside the file. It is read by "
                    f"{self.file} of the project around it, which was read and not run, and {self.says}; no other code "
                    "there does otherwise.",
                    "Compare with the code that trained the model, if it was another.",
                )
            ]
        said = Finding(
            "note",
            f"The model type '{self.kind.name}' is not known here; {self.file} beside the file, which was read and not "
            f"run, {self.says}.",
            "Compare with that code where it does more than others.",
        )
        found = [said]
        if self.otherwise:
            found.append(
                Finding(
                    "warning",
                    f"{self.otherwise} beside the file pairs features otherwise than {self.file}, and nothing says "
                    "which of them is the code of this model.",
                    "Compare with the code that trained the model.",
                )
            )
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
    found = layouts_in(modules)
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
            # Its code may read entries that the class passes over, and what it calls its base is here a rope_theta.
            own = copied if copied.name in OWN_CODE else replace(copied, name=name or copied.name, keeps_its_base=False)
            return ReadCode(own, file, says, _others(modules), scalings, otherwise=_otherwise(folder, content, layout))
        facts = ModelType(
            name or "",
            layout="half" if layout == "half" else "interleaved",
            defaults=defaults_in(modules),
            rotates_partly=True,
        )
        says = f"pairs features in the layout '{layout}'"
        return ReadCode(facts, file, says, _others(modules), scalings, otherwise=_otherwise(folder, content, layout))
    if base is None and is_whole and not any(_speaks_of_rotation(tree) for tree in modules.values()):
        return ReadCode(ModelType(name or "", rotates=False), next(iter(modules)), "rotates nothing")
    return None


def _otherwise(folder: Path, content: Mapping[str, Any], layout: str) -> str | None:
    """Return a file beside the configuration that pairs features in another layout, where nothing names the code."""
    groups = [content, *(group for group in content.values() if isinstance(group, Mapping))]
    if any(isinstance(group.get("auto_map"), Mapping) for group in groups):
        return None
    trees = {path.name: parsed(path) for path in sorted(folder.glob("*.py"))[:_MOST_FILES]}
    found = layouts_in({name: tree for name, tree in trees.items() if tree is not None})
    return next((file for other, file in sorted(found) if other != layout), None)


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
        tree = parsed(folder / file) if module.isidentifier() else None
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


def _others(modules: Mapping[str, ast.Module]) -> tuple[str, ...]:
    """Return the entries that classes and functions of rotation read, but for those that many models have."""
    found: dict[str, None] = {}
    for tree in modules.values():
        for scope in tree.body:
            if not isinstance(scope, ast.ClassDef | ast.FunctionDef) or not OF_ROTATION.search(scope.name):
                continue
            if OF_IMAGES_AND_SOUND.search(scope.name):
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
    return tuple(dict.fromkeys(name for name in scopes if OF_ROTATION.search(name) and _OF_A_SCALING.search(name)))


def _speaks_of_rotation(tree: ast.Module) -> bool:
    """Whether any name of the code is about rotary positions, or it takes its layers from elsewhere."""
    for node in ast.walk(tree):
        named = getattr(node, "name", None) or getattr(node, "attr", None) or getattr(node, "id", None)
        if isinstance(named, str) and OF_ROTATION.search(named):
            return True
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and re.search(r"(ForCausalLM|ForConditionalGeneration)$", base.id)
            for base in node.bases
        ):
            return True
    return False
