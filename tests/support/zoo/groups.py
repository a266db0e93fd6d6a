"""What the configurations of transformers make of bases, groups and types of layers that a file states in part.

No model is built: the class of the configuration is given one entry, and asked what became of it.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from typing import Any

from locant.rotary_configs.layer_types import KNOWN_TYPES
from locant.rotary_configs.spellings import is_count
from zoo.architectures import Architecture
from zoo.left_out import depth_of, entries_of_class, layer_types, made
from zoo.vision import rotary_class

_BASE = 12345.0
_SHARE = 0.75
_NAMES_OF_BASES = re.compile(r"(^|_)theta$|rotary_emb_base|base_freq")
_COUNT = 4
_OTHER_HEAD = 48
_ENTRIES = ("rope_parameters", "rope_scaling")
_SCALING = {"rope_type": "linear", "factor": 2.0}
_HEADS = "num_attention_heads"
_WIDE_HEAD = 1_000_000  # whose rotated features tell a share to six digits


def group_facts(found: Architecture) -> dict[str, Any]:
    """Return what a class makes of a file that says a part of how it rotates.

    Of a class with a group for each type of layers: ``bases`` names the entries beside the groups that are bases where
    the file has no group, with the types whose base each of them is; ``fills`` are the types whose group the class
    fills in where the file has those of other types alone, ``fills_share`` is there where it fills in the share of a
    head in a group without, ``share_beside`` where it fills in that which stands beside them, ``unscaled_share`` is the
    share that its model takes for a group with neither a share nor a scaling, if not 1, ``groups_for_all`` where it
    makes a group for every type that layers of a file have, and ``one_group`` is what becomes of one scaling for all
    layers in either entry for such groups, and ``null_groups`` are the types for which it takes its own group in the
    place of null. Of one with a single group: ``null_share`` is the share of a head where the file has null for it;
    ``beside_scaling`` are base and share where the group of the file states neither, unless they are those of the
    class's own group. Of all: ``without_switch`` is the type of all layers where the file switches sliding windows off;
    ``needed_types`` are types without a layer of which the class refuses a file; ``heads_of`` are the entries whose
    product is the number of heads; ``computes_head`` is there where it takes no ``head_dim`` but the width for each
    head; ``refuses`` are entries about windows and attention with which it refuses a file.
    """
    config = made(found)
    rope = getattr(config, "rope_parameters", None)
    facts: dict[str, Any] = {}
    if isinstance(rope, Mapping) and rope and "rope_type" not in rope:
        facts["bases"] = _bases(found)
        facts["fills"] = _filled(found, rope)
        facts["fills_share"] = _fills_share(found, rope)
        facts["share_beside"] = _fills_share_beside(found, rope)
        facts["unscaled_share"] = _unscaled_share(found, rope)
        facts["groups_for_all"] = _groups_every_type(found, rope)
        facts["null_groups"] = [name for name in sorted(rope) if rope[name] and _replaces_null(found, rope, name)]
        facts["one_group"] = {name: what for name in _ENTRIES if (what := _one_group(found, name)) != "taken"}
    elif isinstance(rope, Mapping):
        facts["null_share"] = null_share(found, rope)
        facts["beside_scaling"] = _beside_scaling(found, rope)
    facts["heads_of"] = _heads_of(found)
    facts["computes_head"] = _computes_head(found)
    facts["refuses"] = _refused(found)
    types = layer_types(config)
    off = {*layer_types(made(found, use_sliding_window=False))}
    if "sliding_attention" in types and len(off) == 1 and "sliding_attention" not in off:
        facts["without_switch"] = off.pop()
    facts["needed_types"] = _needed_types(found, sorted({*types}))
    return {name: value for name, value in facts.items() if value not in ({}, [], None, False)}


def _groups(config: Any) -> dict[str, Mapping[str, Any]]:
    rope = getattr(config, "rope_parameters", None)
    return {name: each for name, each in rope.items() if isinstance(each, Mapping)} if isinstance(rope, dict) else {}


def _bases(found: Architecture) -> dict[str, list[str]]:
    names = sorted(name for name in {*entries_of_class(found), "rope_theta"} if _NAMES_OF_BASES.search(name))
    taken = {name: _groups(made(found, **{name: _BASE})) for name in names if not name.startswith("default")}
    types = {
        name: sorted(each for each, group in groups.items() if group.get("rope_theta") == _BASE)
        for name, groups in taken.items()
    }
    return {name: each for name, each in types.items() if each}


def _filled(found: Architecture, rope: Mapping[str, Any]) -> list[str]:
    filled = []
    for name in sorted(name for name, group in rope.items() if group):
        others = {each: group for each, group in rope.items() if each != name and group}
        group = _groups(made(found, rope_parameters=copy.deepcopy(others))).get(name, {}) if others else {}
        filled += [name] if group.get("rope_theta") is not None else []
    return filled


def _bare(rope: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return groups with neither a share of a head nor a scaling, for the types that rotate."""
    return {name: {"rope_type": "default", "rope_theta": _BASE} for name, group in rope.items() if group}


def _fills_share_beside(found: Architecture, rope: Mapping[str, Any]) -> bool:
    """Whether a class fills in a share of a head that stands beside groups in those that have none."""
    filled = _groups(made(found, rope_parameters=_bare(rope), partial_rotary_factor=_SHARE))
    return bool(filled) and all(group.get("partial_rotary_factor") == _SHARE for group in filled.values())


def _fills_share(found: Architecture, rope: Mapping[str, Any]) -> bool:
    """Whether a class fills in its own share of a head in groups that have none."""
    bare = _bare(rope)
    filled = _groups(made(found, rope_parameters=bare)) if bare else {}
    shares = {name: group.get("partial_rotary_factor", 1) for name, group in _groups(made(found)).items()}
    own = {name: group.get("partial_rotary_factor", 1) for name, group in filled.items()}
    return any(share != 1 for share in shares.values()) and own == shares


def _unscaled_share(found: Architecture, rope: Mapping[str, Any]) -> float | None:
    """Return the share of a head that a model rotates by a group that states neither a share nor a scaling, if not 1.

    Functions of scalings take 1 there, whatever the class is; the one without a scaling is the model's own.
    """
    kind = rotary_class(found.config_class)
    function = getattr(kind, "compute_default_rope_parameters", None)
    if function is None:
        return None
    bare = _bare(rope)
    names = sorted(bare)
    whole = {name: {**group, "partial_rotary_factor": 1.0} for name, group in bare.items()}
    counts = []
    for groups in (bare, whole):
        config = made(found, head_dim=_WIDE_HEAD, rope_parameters=groups)
        try:
            counts.append([len(function(config, layer_type=name)[0]) for name in names])
        except Exception:  # of a class whose rotation has no such groups, or with heads of several sizes
            return None
    shares = {few / every for few, every in zip(*counts, strict=True)}
    return shares.pop() if len(shares) == 1 and shares != {1} else None


def _groups_every_type(found: Architecture, rope: Mapping[str, Any]) -> bool:
    """Whether a class makes groups for types of layers that it has none of by default."""
    usual = layer_types(made(found))
    others = sorted(KNOWN_TYPES - {*rope})
    configs = [(name, made(found, layer_types=[name, *usual[1:]])) for name in others] if usual else []
    return any(name in _groups(config) for name, config in configs)


def _one_group(found: Architecture, entry: str) -> str:
    """Return what a class with groups by layer type does with one scaling for all: take it, pass over it, or fail.

    A class whose configuration keeps it as it is fails where its model looks for the group of a layer.
    """
    groups = _groups(made(found, **{entry: {**_SCALING, "rope_theta": _BASE}}))
    if not groups:
        return "fails"
    is_taken = any(group.get("factor") == _SCALING["factor"] for group in groups.values())
    return "taken" if is_taken else "passed over"


def _replaces_null(found: Architecture, rope: Mapping[str, Any], name: str) -> bool:
    """Whether a class takes its own group for a type of layers for which a file has null."""
    return bool(_groups(made(found, rope_parameters={**copy.deepcopy(dict(rope)), name: None})).get(name))


def null_share(found: Architecture, rope: Mapping[str, Any]) -> float | None:
    """Return the share of a head that a class takes by null, where it is another than where the entry is left out.

    Args:
        found: The class.
        rope: The group that it has where the file has none.
    """
    taken = getattr(made(found, partial_rotary_factor=None), "rope_parameters", None)
    usual = rope.get("partial_rotary_factor")
    if usual is None or not isinstance(taken, Mapping):
        return None
    share = taken.get("partial_rotary_factor")
    share = 1.0 if share is None and "partial_rotary_factor" not in taken else share
    return None if share == usual or share is None else float(share)


def _beside_scaling(found: Architecture, rope: Mapping[str, Any]) -> dict[str, float]:
    """Return the base and the share of a head that a class takes beside a scaling that states neither."""
    taken = getattr(made(found, rope_scaling=dict(_SCALING)), "rope_parameters", None)
    if not isinstance(taken, Mapping) or taken.get("factor") != _SCALING["factor"]:
        return {}
    usual = {"rope_theta": None, "partial_rotary_factor": 1.0}
    pairs = {name: (taken.get(name, other), rope.get(name, other)) for name, other in usual.items()}
    return {name: value for name, (value, own) in pairs.items() if value is not None and value != own}


def _computes_head(found: Architecture) -> bool:
    changed = made(found, head_dim=_OTHER_HEAD)
    taken = {} if changed is None else vars(changed)
    return (
        "qk_rope_head_dim" not in taken and isinstance(taken.get("head_dim"), int) and taken["head_dim"] != _OTHER_HEAD
    )


def _heads_of(found: Architecture) -> dict[str, int]:
    """Return the entries, with their own values, whose product a class takes for the number of its heads."""
    usual, fields = made(found), getattr(found.config_class, "__dataclass_fields__", {})
    heads = None if usual is None or _HEADS in fields else vars(usual).get(_HEADS)
    if not is_count(heads):
        return {}
    sizes = {name: vars(usual).get(name) for name in sorted(fields)}
    doubled = {name: made(found, **{name: 2 * size}) for name, size in sizes.items() if is_count(size)}
    taken = {
        name: sizes[name] for name, each in doubled.items() if each is not None and vars(each).get(_HEADS) == 2 * heads
    }
    return taken if math.prod(taken.values()) == heads else {}


def _refused(found: Architecture) -> list[str]:
    """Return the entries with which a class refuses a file: its masks have no window, its queries are not clipped."""
    given = ({"use_sliding_window": True, "sliding_window": 64}, {"attention_chunk_size": 32}, {"clip_qkv": 8.0})
    return [next(iter(each)) for each in given if made(found) is not None and made(found, **each) is None]


def _needed_types(found: Architecture, types: list[str]) -> list[str]:
    depth, needed = depth_of(found, _COUNT), []
    if len(types) < 2 or layer_types(made(found, **depth, layer_types=(types * _COUNT)[:_COUNT])) == []:
        return []
    for name in types:
        others = [each for each in types if each != name]
        if made(found, **depth, layer_types=(others * _COUNT)[:_COUNT]) is None:
            needed.append(name)
    return needed
