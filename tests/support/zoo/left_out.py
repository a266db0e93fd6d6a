"""What the configurations of transformers make of entries, by changing one at a time; no model is built for it."""

from __future__ import annotations

import copy
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from locant.extension.inspect.model_class.small_model import quiet
from zoo.architectures import Architecture

_COUNTS = (5, 6, 7, 8, 11, 13)
_PERIODS = (2, 3, 5)
_DEPTH = 11
_NUMBERS_OF_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_SIZES = ("hidden_size", "num_attention_heads", "head_dim", "qk_rope_head_dim", "qk_nope_head_dim")
_OTHER_BASE = 12345.0
_OTHER_SHARE = 0.75
_OTHER_SIZE = 48
_PLACES: Mapping[str, Mapping[str, Any]] = {
    "": {},
    **{name: {name: {"rope_type": "linear", "factor": 2.0}} for name in ("rope_parameters", "rope_scaling")},
}
"""Where a file may have its group of rotary parameters, none at all among them."""
_TAKEN = re.compile(r"""kwargs\.(?:pop|get)\(\s*["'](\w+)["']""")
_OF_PERIODS = re.compile(r"pattern|interval|period|every|group_size")


def layer_types(config: Any) -> list[str]:
    """Return the types that a configuration gives its layers."""
    types = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None)
    return [str(each) for each in types] if isinstance(types, list | tuple) else []


def made(found: Architecture, **entries: Any) -> Any:
    """Return a configuration of the class, ``None`` where it refuses the entries."""
    try:
        with quiet():
            return found.config_class(**copy.deepcopy(entries))
    except Exception:  # whatever the class raises
        return None


def depth_of(found: Architecture, count: int) -> dict[str, int]:
    config = made(found)
    return {next((name for name in _NUMBERS_OF_LAYERS if hasattr(config, name)), _NUMBERS_OF_LAYERS[0]): count}


def pattern_facts(found: Architecture) -> dict[str, Any]:
    """Return how the types of layers alternate where the file does not say it, for any number of layers.

    ``layer_types`` are those that repeat, behind a layer of ``first_type`` where there is one; ``from_back`` is there
    where the last layer ends a round, ``last_type`` is the type of the last layer where it has another, and
    ``forces_last`` is there where that is so whatever the file states. ``period`` names an entry with the length of a
    round, the type of most of its layers, that of the one other, and whether that is the first or the last.
    """
    config = made(found)
    usual = layer_types(config)
    if not usual:
        return {}
    seen = [usual]
    for count in _COUNTS:
        types = layer_types(made(found, **depth_of(found, count)))
        seen += [types] if len(types) == count else []
    facts = next(_patterns(seen), None) or {"layer_types": usual}
    if "last_type" in facts:
        others = [name for name in dict.fromkeys(usual) if name != facts["last_type"]]
        stated = layer_types(made(found, **depth_of(found, 4), layer_types=others[:1] * 4))
        if stated[-1:] == [facts["last_type"]]:
            facts["forces_last"] = True
    if period := _period(found, seen[0]):
        facts["period"] = period
    if by_list := _types_by_list(found):
        facts["by_list"] = by_list
    return facts


def _types_by_list(found: Architecture) -> list[str] | None:
    """Return the type of layers that rotate by ``no_rope_layers`` and that of others, where the class has it so."""
    seen: set[tuple[int, str]] = set()
    for rotates in ((1, 0, 0, 1, 1), (0, 1, 1, 1, 0)):
        types = layer_types(made(found, **depth_of(found, 5), no_rope_layers=[*rotates]))
        seen |= {*zip(rotates, types, strict=False)}
    kinds = dict(seen)
    return [kinds[1], kinds[0]] if len(seen) == 2 and len({*kinds.values()}) == 2 else None


def _patterns(seen: Sequence[Sequence[str]]) -> Iterator[dict[str, Any]]:
    longest = max(seen, key=len)
    for size in range(1, len(longest) // 2 + 1):
        front, back = list(longest[:size]), list(longest[-size:])
        if all(list(each) == _repeated(front, len(each)) for each in seen):
            yield {"layer_types": front}
        if all(list(each[:-1]) == _repeated(front, len(each))[:-1] for each in seen):
            last = {each[-1] for each in seen}
            if len(last) == 1:
                yield {"layer_types": front, "last_type": last.pop()}
        for first in {each[0] for each in seen}:
            inner = list(longest[1 : size + 1])
            if all([each[0], *each[1:-1]] == [first, *_repeated(inner, len(each) - 1)[:-1]] for each in seen):
                last = {each[-1] for each in seen}
                if len(last) == 1:
                    yield {"first_type": first, "layer_types": inner, "last_type": last.pop()}
        if all(list(each) == _repeated(back[::-1], len(each))[::-1] for each in seen):
            yield {"layer_types": back, "from_back": True}


def _repeated(pattern: Sequence[str], count: int) -> list[str]:
    return list(itertools.islice(itertools.cycle(pattern), count))


def _period(found: Architecture, usual: Sequence[str]) -> list[str] | None:
    """Return the entry that is the length of a round of layers, and what a round is, where the class has such."""
    for name in sorted(entries_of_class(found)):
        if not _OF_PERIODS.search(name):
            continue
        seen = {
            size: layer_types(made(found, **depth_of(found, _DEPTH), **{name: size}))[:-1]  # the last may be another
            for size in _PERIODS
        }
        for most, other in itertools.permutations(dict.fromkeys(itertools.chain(usual, *seen.values())), 2):
            for place in ("first", "last"):
                rounds = {
                    size: [other, *[most] * (size - 1)] if place == "first" else [*[most] * (size - 1), other]
                    for size in _PERIODS
                }
                if all(types == _repeated(rounds[size], _DEPTH)[:-1] for size, types in seen.items()):
                    return [name, most, other, place]
    return None


def entries_of_class(found: Architecture) -> set[str]:
    """Return the names that a configuration's class has, or takes from what else it is given."""
    names = {name for name in dir(found.config_class) if not name.startswith("_")}
    source = Path(sys.modules[found.config_class.__module__].__file__ or "").read_text(encoding="utf-8")
    return names | set(_TAKEN.findall(source)) | set(getattr(found.config_class, "attribute_map", {}))


def kept_facts(found: Architecture) -> dict[str, Any]:
    """Return which numbers of its own a class keeps where the file has another beside its groups: base and share.

    The base is taken in the place of one that the file states where it has no group; the share beside a group in the
    named places, of which "" stands for no group.
    """
    rope = getattr(made(found), "rope_parameters", None)
    if not isinstance(rope, dict) or not rope:
        return {}
    facts: dict[str, Any] = {}
    if _keeps(found, rope, "rope_theta", _OTHER_BASE):
        facts["keeps_base"] = True
    # One group beside those of the types of layers is of another kind.
    places = _PLACES if "rope_type" in rope else {"": {}}
    facts["keeps_share"] = [
        place for place, group in places.items() if _keeps(found, rope, "partial_rotary_factor", _OTHER_SHARE, **group)
    ]
    return facts


def _keeps(found: Architecture, rope: Mapping[str, Any], name: str, other: float, **entries: Any) -> bool:
    taken = getattr(made(found, **{name: other}, **entries), "rope_parameters", None)
    own = _stated(rope, name)
    return bool(own) and isinstance(taken, dict) and own.items() <= _stated(taken, name).items()


def _stated(rope: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry of the groups by the type of their layers, "" where there is one group."""
    groups = {"": rope, **rope}
    return {each: group[name] for each, group in groups.items() if isinstance(group, Mapping) and name in group}


def takes_rotary_dim(found: Architecture) -> bool:
    """Whether the class has, or takes, an entry with the number of rotated features."""
    return "rotary_dim" in entries_of_class(found)


def takes_part_for_head(found: Architecture) -> bool:
    """Whether the class takes ``qk_rope_head_dim`` for ``head_dim``, whatever the file has there."""
    config = made(found, head_dim=_OTHER_SIZE)
    part = _size(config, "qk_rope_head_dim")
    return isinstance(part, int) and _size(config, "head_dim") == part != _OTHER_SIZE


def pairs_blocks(found: Architecture) -> bool:
    """Whether the class takes an attention block and an MLP block of ``layer_types`` for one layer."""
    kinds = layer_types(made(found))[:1]
    config = made(found, **depth_of(found, 6), layer_types=[*kinds, "mlp"] * 3)
    return bool(kinds) and layer_types(config) == kinds * 3


def aliases(found: Architecture) -> dict[str, str]:
    """Return other names of sizes that the class takes as well, and the size that each of them is."""
    usual = made(found)
    if usual is None:
        return {}
    names = {}
    # A value that the class refuses, as no number of heads divides it, tells nothing.
    for name in sorted(entries_of_class(found)):
        if name in vars(usual) and name not in usual.attribute_map:
            continue
        if not re.search(r"dim|size|embd?|width|heads?$|channels", name):
            continue
        changed = made(found, **{name: _OTHER_SIZE})
        moved = [size for size in _SIZES if _size(changed, size) == _OTHER_SIZE != _size(usual, size) and size != name]
        if len(moved) == 1:
            names[name] = moved[0]
    return names


def _size(config: Any, name: str) -> Any:
    return vars(config).get(name) if config is not None else None
