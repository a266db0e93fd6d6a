"""Entries about positions that the classes of transformers have, written to ``entries.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/entries.py``. No model is built.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from locant.extension.inspect.model_class.small_model import quiet
from locant.rotary_configs.classes.entries import KINDS_OF_VALUES, LISTS_OF_TYPES, READ_BY_SOME, TYPES_OF_TRANSFORMERS
from locant.rotary_configs.classes.families import model_type
from locant.rotary_configs.layer_types import KNOWN_TYPES, PRESENT_NAMES, WITHOUT_ATTENTION
from locant.rotary_configs.spellings import HEADS, LAYERS, LENGTHS, WIDTHS, is_about_positions
from zoo.architectures import Architecture, architecture
from zoo.facts import NOT_ABOUT_THEM
from zoo.failures import OF_SIZES
from zoo.left_out import depth_of, layer_types, made

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "entries.json"

_ABOUT_POSITIONS = re.compile(
    r"rope|rotary|nope|theta|window|pattern|interval|period|attn_layer|max_position|attention_chunk_size$|^(global_)?head_dim$"
    r"|^n_(embd|head|layer|positions)s?$|^(hidden_size|d_model|kv_channels)$|^num_(attention_heads|key_value_heads|hidden_layers|heads)$"
    r"|^(alibi|local_attention)$|full_attn|layers?_types?$|block_types?$|interleave|position_embedding_type|^qk_\w*head_dim$"
)
_READ_BY_SOME = (*READ_BY_SOME, *LISTS_OF_TYPES)
_NAMED = re.compile(r"""(?<=["'])[a-z]\w+(?=["'])|(?<=config\.)[a-z]\w+|(?<=self\.)[a-z]\w+""")
_TYPES_OF_OTHERS = ("deepseek_yarn", "mrope", "none", "ntk", "su", "xdrope")
"""Types of scalings that transformers does not know, some of which some classes take for one that it knows."""
_OF_ROUNDS = re.compile(r"pattern|interval|period|every_n")
_WINDOW = 64
_FACTOR = 2.0
_LENGTH = {"original_max_position_embeddings": 4096}
_GROUPS = re.compile(r"rope_parameters\[\w+\](?! =)")
_EXAMPLES: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "a whole number": (8,),
    "a number": (0.5,),
    "true or false": (True, False),
    "text": ("rope",),
    "a list": ([], ["full_attention"], [1], [1.0]),
    "a group": ({},),
}


def entries_of(config_class: Any) -> dict[str, Any]:
    """Return the entries of a class about positions: kinds of values that it takes, and what else its code reads."""
    takes, known = kinds_of_fields(config_class), architecture(config_class.model_type)
    sizes: dict[str, list[str]] = {}
    items: dict[str, list[str]] = {}
    alternating: dict[str, list[str]] = {}
    for name, field in sorted(getattr(config_class, "__dataclass_fields__", {}).items()):
        if _ABOUT_POSITIONS.search(name) and not NOT_ABOUT_THEM.search(name):
            kinds = kinds_of_field(config_class, field)
            inner = _kinds_of_items(config_class, name)
            if inner and inner != {*KINDS_OF_VALUES}:
                items.setdefault(_joined(inner), []).append(name)
            if (_OF_ROUNDS.search(name) or name == "sliding_window") and (
                failing := _fails_to_alternate(config_class, name, kinds)
            ):
                alternating.setdefault(_joined(kinds - failing), []).append(name)
        elif OF_SIZES.search(name) and (kinds := kinds_of_field(config_class, field)) and kinds != {*KINDS_OF_VALUES}:
            sizes.setdefault(_joined(kinds), []).append(name)
    parts = parts_of(config_class)
    reads, layers = (
        [name for name in names if any(name in part[kind] for part in parts)]
        for kind, names in (("reads", _READ_BY_SOME), ("layers", sorted(KNOWN_TYPES)))
    )
    types = types_taken_for_others(known)
    has = {name for part in parts for name in part["has"]}
    has |= {name for name in getattr(config_class, "__dataclass_fields__", {}) if is_about_positions(name)}
    groups = any(part["groups"] for part in parts)
    found = {
        "takes": takes,
        "sizes": sizes,
        "size_names": [name for name in (*HEADS, *LAYERS, *WIDTHS, *LENGTHS) if _takes_name(config_class, name)],
        "items": items,
        "alternating": alternating,
        "refuses_empty": [name for name in _lists(takes) if _refuses_empty_list(config_class, name)],
        "reads": reads,
        "has": sorted(has),
        "groups": groups,
        "types": types,
        "layer_types": layers,
        "refuses_types": _refused_types(known),
        "window_types": _types_with_a_window(known),
        "needs_length": [name for name in types if _refuses_without_length(known, name)],
    }
    return {
        **found,
        "layers_by_type": any(part["by_type"] for part in parts),
        "loses_groups": _loses_groups(config_class),
        "fails_without_groups": groups and _takes_no_groups(config_class),
        "whole_heads": _wants_whole_heads(config_class),
    }


def kinds_of_fields(config_class: Any) -> dict[str, list[str]]:
    """Return the kinds of values that a class takes for its fields about positions, with the fields of each."""
    takes: dict[str, list[str]] = {}
    for name, field in sorted(getattr(config_class, "__dataclass_fields__", {}).items()):
        if _ABOUT_POSITIONS.search(name) and not NOT_ABOUT_THEM.search(name):
            kinds = kinds_of_field(config_class, field)
            if kinds and kinds != {*KINDS_OF_VALUES}:
                takes.setdefault(_joined(kinds), []).append(name)
    return takes


def _lists(takes: dict[str, list[str]]) -> list[str]:
    """Return the fields that take a list, but for the types of layers, of which there must be one for each anyway."""
    found = (name for kinds, names in takes.items() if "a list" in kinds.split(", ") for name in names)
    return sorted({*found} - {"layer_types"})


def _refuses_empty_list(config_class: Any, name: str) -> bool:
    """Whether a class makes no configuration of an empty list in the place of a field, and does without the field."""
    found = architecture(config_class.model_type)
    return made(found) is not None and made(found, **{name: []}) is None


def _takes_name(config_class: Any, name: str) -> bool:
    """Whether a class has an entry of that name, or takes it for one."""
    others = config_class.attribute_map
    return name in {*getattr(config_class, "__dataclass_fields__", {}), *others, *others.values()}


def _refused_types(found: Architecture) -> list[str]:
    """Return the types of layers that a class refuses in a list, with the window that some of them need as well."""
    depth = depth_of(found, 4)
    usual = layer_types(made(found, **depth))
    if len(usual) != 4 or made(found, **depth, layer_types=usual) is None:
        return []
    names = sorted({*KNOWN_TYPES, *PRESENT_NAMES, *WITHOUT_ATTENTION})
    stated = ({**depth, "layer_types": [*usual[:1], name, *usual[2:]]} for name in names)
    return [
        name
        for name, given in zip(names, stated, strict=True)
        if made(found, **given) is None and made(found, **given, sliding_window=_WINDOW) is None
    ]


def _types_with_a_window(found: Architecture) -> list[str]:
    """Return the types of layers of which a class makes no configuration where ``sliding_window`` is null."""
    depth = depth_of(found, 4)
    if len(layer_types(made(found, **depth))) != 4:
        return []
    stated = {name: {**depth, "layer_types": [name] * 4} for name in sorted(KNOWN_TYPES)}
    return [
        name
        for name, given in stated.items()
        if made(found, **given, sliding_window=_WINDOW) is not None
        and made(found, **given, sliding_window=None) is None
    ]


def types_taken_for_others(found: Architecture) -> dict[str, str]:
    """Return the types of scalings that a class writes as another one of transformers, with that.

    Classes that make a group of their own in any case take none of them.

    Args:
        found: The class.
    """
    taken = {}
    for name in sorted({*TYPES_OF_TRANSFORMERS, *_TYPES_OF_OTHERS}):
        config = made(found, rope_scaling={**_group_with_lists(found, name), "factor": _FACTOR, **_LENGTH})
        group = getattr(config, "rope_parameters", None) or {}
        written = group.get("rope_type")
        if group.get("factor") == _FACTOR and written in TYPES_OF_TRANSFORMERS - {name}:
            taken[name] = written
    return taken


def _refuses_without_length(found: Architecture, name: str) -> bool:
    """Whether a group of a type is refused that has two lists and no original length, though not one with a length."""
    group = _group_with_lists(found, name)
    return made(found, rope_scaling={**group, **_LENGTH}) is not None and made(found, rope_scaling=group) is None


def _group_with_lists(found: Architecture, name: str) -> dict[str, Any]:
    """Return a group of a type that has two lists, with a value for every pair of features that a class rotates."""
    usual = {} if (config := made(found)) is None else config.to_dict()
    width, heads = usual.get("hidden_size"), usual.get("num_attention_heads")
    size = usual.get("head_dim") or (width // heads if isinstance(width, int) and isinstance(heads, int) else 0)
    share = (usual.get("rope_parameters") or {}).get("partial_rotary_factor", 1)
    return {"type": name, **{each: [1.0] * (int(size * share) // 2) for each in ("short_factor", "long_factor")}}


def _wants_whole_heads(config_class: Any) -> bool:
    """Whether a width that its heads do not divide is refused, whatever their size is."""
    heads = getattr(config_class, "num_attention_heads", None)
    if not isinstance(heads, int) or heads < 2:
        return False
    try:
        with quiet():
            config_class(hidden_size=8 * heads + 1)
    except Exception as error:  # whatever a class raises for a width
        return "multiple of the number of attention heads" in " ".join(str(error).split())
    return False


def _loses_groups(config_class: Any) -> bool:
    """Whether null for ``rope_scaling`` is set after the groups were made, in their place."""
    try:
        with quiet():
            return not config_class(rope_scaling=None).rope_parameters and bool(config_class().rope_parameters)
    except (AttributeError, TypeError, ValueError, KeyError):
        return False


def _takes_no_groups(config_class: Any) -> bool:
    """Whether an empty object in the place of its groups is taken as it is."""
    try:
        with quiet():
            made = config_class(rope_parameters={}).rope_parameters
    except Exception:  # whatever a class raises without groups
        return False
    return not any(isinstance(group, dict) for group in (made or {}).values())


def kinds_of_field(config_class: Any, field: Any) -> set[str]:
    """Return the kinds of values that a class takes for a field.

    Args:
        config_class: The class of the configuration.
        field: Its field, as dataclasses describe it.
    """
    checks = config_class.__validators__.get(field.name, ())
    found = {kind for kind, examples in _EXAMPLES.items() if any(_passes(checks, each) for each in examples)}
    default = field.default
    return found | {
        kind for kind, examples in _EXAMPLES.items() if any(type(default) is type(each) for each in examples)
    }


def _joined(kinds: set[str]) -> str:
    return ", ".join(kind for kind in KINDS_OF_VALUES if kind in kinds)


def _kinds_of_items(config_class: Any, name: str) -> set[str]:
    """Return which kinds of values a list may have that a class takes for a field; none where it takes no list."""
    checks = config_class.__validators__.get(name, ())
    return {kind for kind, examples in _EXAMPLES.items() if any(_passes(checks, [example]) for example in examples)}


def _fails_to_alternate(config_class: Any, name: str, kinds: set[str]) -> set[str]:
    """Return the kinds of values of which a class makes no types of layers, though it takes them beside stated ones."""

    def makes(**entries: Any) -> bool:
        try:
            with quiet():
                return config_class(**entries) is not None
        except Exception:  # whatever a class raises
            return False

    examples = {"null": None, "a whole number": 2, "a number": 2.0, "text": "LG", "a list": [0, 1], "a group": {}}
    stated = {"num_hidden_layers": 2, "layer_types": ["full_attention"] * 2}
    return {
        kind
        for kind in kinds & {*examples}
        if makes(**stated, **{name: examples[kind]}) and not makes(num_hidden_layers=2, **{name: examples[kind]})
    }


def _passes(checks: Any, value: Any) -> bool:
    try:
        for check in checks:
            check(value)
    except (TypeError, ValueError):
        return False
    return True


def _reading(entry: str) -> str:
    """Return the pattern of code that has an entry or takes it from what it is given."""
    if entry == "head_dim":  # a rotation that looks for it has heads of that size only where the attention has too
        return r"""getattr\((self\.)?config, "head_dim", (?!None\))|config\.head_dim|^    head_dim:|"head_dim"[\]:]"""
    return rf"""["']{entry}["']|(self|config)\.{entry}(?!\w)|^ +{entry}:"""


def parts_of(config_class: Any) -> list[dict[str, Any]]:
    """Return what stands in the code of a configuration's class, and in that of the models in its folder."""
    classes = [each for each in config_class.__mro__ if each.__module__.startswith("transformers.models.")]
    folder = Path(inspect.getsourcefile(config_class) or "").parent
    return [*map(_in_class, classes), *map(_in_file, sorted(folder.glob("modeling_*.py")))]


@cache
def _in_class(each: type[Any]) -> dict[str, Any]:
    return _in_source(inspect.getsource(each))


@cache
def _in_file(file: Path) -> dict[str, Any]:
    return _in_source(file.read_text(encoding="utf-8"))


def _in_source(source: str) -> dict[str, Any]:
    """Return what a source has of what is looked for. Classes share files, and classes that they derive from."""
    return {
        "reads": [name for name in _READ_BY_SOME if name in source and re.search(_reading(name), source, re.MULTILINE)],
        "has": [name for name in {*_NAMED.findall(source)} if is_about_positions(name)],
        "layers": [name for name in KNOWN_TYPES if f'"{name}"' in source],
        "groups": bool(_GROUPS.search(source)),
        "by_type": "per_layer_config[layer_type]" in source,
    }


def entries_of_all() -> dict[str, Any]:
    """Return the entries of all classes of text that are known to rotate."""
    from transformers import CONFIG_MAPPING

    found = {}
    for name in sorted(CONFIG_MAPPING.keys()):
        known = model_type(name)
        if known is not None and known.rotates and not known.text_part and not known.reads_images:
            found[name] = entries_of(CONFIG_MAPPING[name])
    return found


def main() -> None:
    """Write the entries of all classes."""
    written = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in entries_of_all().items())
    PATH.write_text(f"{{\n{written}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
