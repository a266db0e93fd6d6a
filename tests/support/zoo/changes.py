"""Plausible changes of a config.json by people who edit it by hand: one at a time, or two."""

from __future__ import annotations

import copy
import functools
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from locant.positions.scaling.checks import is_number
from zoo.cases import LENGTH
from zoo.changed_scalings import GROUPS, Edit, scalings

_ABOUT_POSITIONS = re.compile(
    r"rope|rotary|nope|head_dim|kv_channels|theta|window|pattern|interval|period|attn_layer|position|layer_types"
    r"|^hidden_size$|^n_embd$|^d_model$|num_(attention|key_value)_heads$|^n_heads?$|^num_heads$|num_hidden_layers$"
    r"|^n_layers?$|^num_layers$|^alibi$|^rotary$|full_attn|block_types?$|local_attention$|chunk_size$|interleave"
    r"|^attn_config$|^clip_qkv$|per_layer_config|_attention_interval$|no_rope"
)
_OTHER_PARTS = re.compile(r"^(mlp|mtp|moe|v_|vision|audio|image|conv|mamba|norm)|_noise|_loss|^gating")
_LONGER = {"dim": "dimension", "num": "number", "max": "maximum", "attn": "attention", "freq": "frequency", "n": "num"}
_SHORTER = {"attention": "attn", "position": "pos", "parameters": "params", "hidden": "hid", "factor": "fac"}


@dataclass(frozen=True)
class Change:
    """A changed file.

    Attributes:
        name: What was changed, in words.
        content: The changed file.
        kind: ``kept`` where its entries keep their names; ``renamed`` where one has another name or place, by which
            a class passes over it; ``added`` where one is new that says something else than the file does.
    """

    name: str
    content: dict[str, Any]
    kind: str = "kept"


def changes(content: Mapping[str, Any], head: int) -> Iterator[Change]:
    """Yield the file with each single change.

    Args:
        content: The file.
        head: Features of a head of it.
    """
    for name, kind, edit in _edits(content, head):
        changed = copy.deepcopy(dict(content))
        edit(changed)
        if changed != content:
            yield Change(name, changed, kind)


def drawn_changes(content: Mapping[str, Any], head: int, rng: random.Random, limit: int) -> list[Change]:
    """Return so many changes of a file: two thirds of them single ones, the others of two.

    Args:
        content: The file.
        head: Features of a head of it.
        rng: What draws them.
        limit: How many.
    """
    single = list(changes(content, head))
    drawn = rng.sample(single, min(len(single), limit * 2 // 3 or 1))
    edits = list(_edits(content, head))
    for _ in range(limit - len(drawn)):
        (first, kind, one), (second, other, two) = rng.sample(edits, 2)
        changed = copy.deepcopy(dict(content))
        try:
            one(changed)
            two(changed)
        except (KeyError, TypeError, AttributeError, IndexError):  # the first took away what the second changes
            continue
        kinds = {kind, other}
        drawn.append(Change(f"{first}; {second}", changed, kinds.pop() if len(kinds) == 1 else "kept"))
    return drawn


def _edits(content: Mapping[str, Any], head: int) -> Iterator[tuple[str, str, Edit]]:
    names = [each for each in content if _ABOUT_POSITIONS.search(each) and not _OTHER_PARTS.search(each)]
    for name in names:
        yield from _of_entry((), name, content[name])
    for group in GROUPS:
        inner = content.get(group)
        if isinstance(inner, Mapping):
            yield from _of_group(group, inner)
            for name, value in inner.items():
                yield from _of_entry((group,), name, value)
                for own in value if isinstance(value, Mapping) else ():
                    yield from _of_entry((group, name), own, value[own])
    yield from scalings(head)
    yield from _added(content, head)
    yield from _layers(content)
    yield from _of_other_classes(content)


def _at(content: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    for name in place:
        content = content[name]
    return content


def _of_entry(place: tuple[str, ...], name: str, value: Any) -> Iterator[tuple[str, str, Edit]]:
    """Yield an entry removed, with values of other kinds, and under other names."""
    where = ".".join((*place, name))

    def put(value: Any) -> Edit:
        return lambda content: _at(content, place).__setitem__(name, value)

    def renamed(other: str) -> Edit:
        return lambda content: _at(content, place).__setitem__(other, _at(content, place).pop(name))

    yield f"{where} removed", "kept", lambda content: _at(content, place).pop(name)
    for other in _other_values(value):
        yield f"{where} is {other!r:.30}", "kept", put(other)
    for other in _other_names(name) if value not in (None, False) else ():
        yield f"{where} as {other}", "renamed", renamed(other)
    if place and not isinstance(value, Mapping):
        yield (
            f"{where} beside its group",
            "kept",
            lambda content: content.__setitem__(name, _at(content, place).pop(name)),
        )


def _other_values(value: Any) -> Iterator[Any]:
    if value is not None:
        yield None
    if isinstance(value, bool):
        yield not value
        yield str(value).lower()
        yield int(value)
    elif isinstance(value, int | float):
        yield from (True, str(value), [value], 0, -1, value * 2, float(value), value + 0.5)
    elif isinstance(value, str):
        yield from (value.upper(), value.capitalize(), [value], True, f"{value}s", "")
    elif isinstance(value, list):
        yield from ([], ",".join(map(str, value)), dict(enumerate(map(str, value))), value[:-1], [*value, *value[-1:]])
        if value:
            yield value[0]
            yield [value[-1], *value[:-1]]
            yield [None, *value[1:]]
    elif isinstance(value, Mapping):
        yield from ({}, [dict(value)], "default", False, True)
    else:
        yield from (True, False, 4, "default", [])


def _other_names(name: str) -> Iterator[str]:
    words = name.split("_")
    yield from (name.upper(), name.replace("_", "-"), "".join([words[0], *map(str.capitalize, words[1:])]))
    yield name[:-1] if name.endswith("s") else f"{name}s"
    for table in (_LONGER, _SHORTER):
        other = "_".join(table.get(word, word) for word in words)
        if other != name:
            yield other
    longest = max(words, key=len)
    if len(longest) > 3:
        middle = len(longest) // 2
        yield name.replace(longest, longest[:middle] + longest[middle + 1 :], 1)
    if len(words) > 2:
        yield "_".join([*words[:-2], words[-1], words[-2]])


def _of_group(name: str, group: Mapping[str, Any]) -> Iterator[tuple[str, str, Edit]]:
    """Yield a group of rotary parameters under its other name, too deep, and beside itself."""
    other = GROUPS[1 - GROUPS.index(name)]

    def as_other(content: dict[str, Any]) -> None:
        content[other] = content.pop(name)

    def too_deep(content: dict[str, Any]) -> None:
        content[name] = {name: content[name]}

    def at_the_top(content: dict[str, Any]) -> None:
        content.update(content.pop(name))

    def as_the_old_name(content: dict[str, Any]) -> None:
        inner = content[name]
        content[name] = {("type" if key == "rope_type" else key): value for key, value in inner.items()}

    def base_apart(content: dict[str, Any]) -> None:
        content["rope_theta"] = content[name].pop("rope_theta")

    def two_bases(content: dict[str, Any]) -> None:
        content["rope_theta"] = 77777.0

    yield f"{name} as {other}", "kept", as_other
    yield f"{name} within itself", "renamed", too_deep
    yield f"{name} at the top", "kept", at_the_top
    if "rope_type" in group:
        yield f"{name} with type", "kept", as_the_old_name
    if "rope_theta" in group:
        yield f"rope_theta beside {name}", "kept", base_apart
    yield f"another rope_theta beside {name}", "added", two_bases


def _added(content: Mapping[str, Any], head: int) -> Iterator[tuple[str, str, Edit]]:
    """Yield entries of other families, with values that say something else than the file does."""
    count = next((content[name] for name in ("num_hidden_layers", "n_layer", "n_layers") if name in content), 6)
    count = count if isinstance(count, int) else 6
    alternating = ["sliding_attention", "full_attention"] * ((count + 1) // 2)
    added: tuple[dict[str, Any], ...] = (
        *({name: 12345.0} for name in ("rope_theta", "rotary_emb_base", "rope_local_base_freq", "local_rope_theta")),
        *({name: 54321.0} for name in ("global_rope_theta", "rope_base", "rope_freq_base", "swa_rope_theta", "theta")),
        *({name: 0.5} for name in ("partial_rotary_factor", "rotary_pct", "rotary_percent", "rope_pct")),
        *({name: head // 2} for name in ("rotary_dim", "rope_dim", "qk_rope_head_dim", "n_rot")),
        *({name: 2 * head} for name in ("head_dim", "kv_channels", "attention_head_dim", "global_head_dim", "d_head")),
        {"hidden_size_per_head": 2 * head},
        *({name: 4} for name in ("sliding_window", "sliding_window_size", "attention_window_size", "window_size")),
        *({name: 4} for name in ("local_attention", "attention_chunk_size", "attention_window")),
        {"use_sliding_window": True, "sliding_window": 4},
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
        {"layer_types": alternating[:count], "sliding_window": 4},
        {"layer_types": alternating[:count]},
        *({name: 2} for name in ("sliding_window_pattern", "no_rope_layer_interval", "full_attention_interval")),
        *({name: 2} for name in ("attn_layer_period", "global_attn_every_n_layers", "nope_interval")),
        {"sliding_window_pattern": "LG", "sliding_window": 4},
        {"no_rope_layers": [1, 0] * ((count + 1) // 2)},
        {"no_rope_layers": [0]},
        {"nope_layers": [0]},
        {"layer_rope_theta": [12345.0, 0.0] * ((count + 1) // 2)},
        {"attn_layer_indices": [0]},
        {"cross_attention_layers": [1]},
        {"mrope_section": [head // 2 - 2, 1, 1]},
        {"position_embedding_type": "alibi"},
        {"position_embedding_type": "absolute"},
        {"alibi": True},
        {"use_rope": False},
        {"use_rotary": False},
        {"no_rope": True},
        {"rotary": False},
        {"rope_scaling_factor": 4.0},
        {"rope_scaling_type": "linear", "rope_scaling_factor": 4.0},
        {"rope_ratio": 4.0},
        {"use_dynamic_ntk": True},
        {"logn_attn": True},
    )
    for entries in added:
        shown = ", ".join(f"{name} {value!r:.20}" for name, value in entries.items())
        if not any(name in content and content[name] == value for name, value in entries.items()):
            kind = "kept" if any(name in content for name in entries) else "added"
            yield f"{shown} added", kind, lambda content, entries=entries: content.update(copy.deepcopy(entries))
    neutral: tuple[dict[str, Any], ...] = (
        {"use_sliding_window": False, "sliding_window": 4},
        {"position_embedding_type": "rope"},
        {"rope_interleave": True},
        {"rope_interleave": False},
        {"rope_interleaved": True},
        {"clip_qkv": 8.0},
        {"clip_qkv": None},
        {"original_max_position_embeddings": LENGTH // 4},
        {"max_window_layers": 2},
        {"use_sliding_window": False},
        {"sliding_window": None},
        {"rope_scaling": None},
        {"rope_parameters": None},
        {"rope_scaling": {}},
        {"head_dim": None},
        {"attention_chunk_size": None},
        {"layer_types": None},
        {"layer_types": ["full_attention"] * count},
        {"rope_scaling": {"type": "default"}},
        {"rope_scaling": {"rope_type": "default"}},
    )
    for entries in neutral:
        shown = ", ".join(f"{name} {value!r:.30}" for name, value in entries.items())
        if not any(name in content for name in entries):
            yield f"{shown} added", "kept", lambda content, entries=entries: content.update(copy.deepcopy(entries))
    for group in GROUPS:
        inner = content.get(group)
        if isinstance(inner, Mapping) and inner and not any(isinstance(each, Mapping) for each in inner.values()):
            for name, value in (
                ("original_max_position_embeddings", LENGTH // 4),
                ("partial_rotary_factor", 0.5),
                ("factor", 4.0),
                ("mrope_section", [head // 2 - 2, 1, 1]),
                ("truncate", False),
                ("attention_factor", 1.5),
            ):
                if name not in inner:
                    yield (
                        f"{name} {value!r:.20} added to {group}",
                        "kept",
                        lambda content, group=group, name=name, value=value: content[group].__setitem__(name, value),
                    )
            both = {"full_attention": dict(inner), "sliding_attention": {**inner, "rope_theta": 777.0}}
            yield (
                f"{group} by types of layers",
                "kept",
                lambda content, group=group, both=both: content.__setitem__(group, copy.deepcopy(both)),
            )
        elif isinstance(inner, Mapping) and inner:
            first = next((each for each in inner.values() if isinstance(each, Mapping)), {})
            yield (
                f"{group} of the first type for all",
                "kept",
                lambda content, group=group, first=first: content.__setitem__(group, copy.deepcopy(dict(first))),
            )


def _layers(content: Mapping[str, Any]) -> Iterator[tuple[str, str, Edit]]:
    """Yield other numbers of layers, also such that their types do not fit, and types under other names."""
    for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
        count = content.get(name)
        if isinstance(count, int):
            for other in (count + 2, count - 1, 1):
                yield (
                    f"{name} is {other}",
                    "kept",
                    lambda content, name=name, other=other: content.__setitem__(name, other),
                )
            if isinstance(content.get("layer_types"), list):

                def with_less(content: dict[str, Any], name: str = name, count: int = count) -> None:
                    content[name] = count - 1
                    content["layer_types"] = content["layer_types"][: count - 1]

                yield f"{name} and layer_types for one less", "kept", with_less
    types = content.get("layer_types")
    if isinstance(types, list) and types:
        names = ("attention", "full", "sliding", "linear_attention", "chunked_attention", "conv", "full_attn", "mamba")
        for name in (*names, "sliding_attention", "full_attention"):
            yield (
                f"all layer_types {name}",
                "kept",
                lambda content, name=name: content.__setitem__("layer_types", [name] * len(types)),
            )
            yield (
                f"first of layer_types {name}",
                "kept",
                lambda content, name=name: content.__setitem__("layer_types", [name, *types[1:]]),
            )


def _of_other_classes(content: Mapping[str, Any]) -> Iterator[tuple[str, str, Edit]]:
    """Yield entries about positions that classes of other families have, with the values that they have there."""
    for name, value in _values_of_all_classes().items():
        if name not in content:
            for other in (value, value * 2) if is_number(value) and value else (value,):
                yield (
                    f"{name} {other!r:.30} of another class added",
                    "kept",
                    lambda content, name=name, value=other: content.__setitem__(name, copy.deepcopy(value)),
                )


@functools.cache
def _values_of_all_classes() -> Mapping[str, Any]:
    """Return the entries about positions of all classes, each with the value that most of them have, if it has one."""
    from transformers import CONFIG_MAPPING

    values: dict[str, list[Any]] = {}
    for name in CONFIG_MAPPING:
        own = CONFIG_MAPPING[name]
        for entry in getattr(own, "__dataclass_fields__", {}):
            value = getattr(own, entry, None)
            if _ABOUT_POSITIONS.search(entry) and not _OTHER_PARTS.search(entry):
                values.setdefault(entry, []).append(value)
    values = {
        name: [each for each in found if isinstance(each, bool | int | float | str)] for name, found in values.items()
    }
    return {name: max(found, key=found.count) for name, found in sorted(values.items()) if found}
