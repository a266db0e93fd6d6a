"""Doubts about entries on layers: types that no class knows, rounds of none, layers that are not there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.classes.entries import LISTS_OF_TYPES, READ_BY_SOME, entries_of_class
from locant.rotary_configs.classes.families import is_in_transformers
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.huggingface.layers import layer_names
from locant.rotary_configs.layer_types import GLOBAL, KNOWN_TYPES, RENAMED, WITHOUT_ATTENTION, type_meant
from locant.rotary_configs.spellings import LAYERS_OF_A_STACK, is_count, layers_of_other_kinds, words_of

_INDICES = ("full_attn_idxs", "attn_layer_indices", "attn_layer_idxs")
_BLOCKS = ("recurrent", "attention")
_ROUNDS = frozenset(["interval", "period", "pattern", "every", "idxs", "indices"])
_WHICH_ROTATE = ("no_rope_layers", "no_rope_layer_interval", "layer_rope_theta")

_OF_CACHES = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""What the caches of transformers read of any configuration with layers of a type (``cache_utils.py``)."""


def _rounds_of_no_layers(part: Fields, kind: ModelType) -> Iterator[Finding]:
    """Yield that a round of layers has none of them, by which classes divide the number of each layer."""
    states_types = any(part.values.get(name) is not None for name in LISTS_OF_TYPES)
    of_types = kind.period[0] if kind.period is not None and not states_types else ""
    for entry in dict.fromkeys([of_types, *kind.fails_with_zero]):
        if not (part.values.get(entry) == 0 and part.values[entry] is not False):
            continue
        if entry == of_types:
            yield Finding(
                "error",
                f"{entry} is 0 in {part.where}, from which the class of '{kind.name}' in transformers makes no types "
                "of layers: it fails. What is shown has the types of its own round.",
                f"State {entry} as the weights were trained, or the types of all layers in layer_types.",
            )
        else:
            yield Finding(
                "warning",
                f"{entry} is 0 in {part.where}: the class of '{kind.name}' in transformers divides by it, and fails.",
                f"State {entry} as the weights were trained.",
            )


def doubts_about_layers(part: Fields, kind: ModelType | None, names: Sequence[str]) -> Iterator[Finding]:
    """Yield findings about the number of layers and their types.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: Types of the layers.
    """
    yield from _layers_of_stacks(part, kind)
    yield from _types_beside_rounds(part, kind, names)
    yield from doubts_about_layer_types(part, kind, len(names))


def doubts_about_layer_types(part: Fields, kind: ModelType | None, count: int) -> Iterator[Finding]:
    """Yield warnings about types of layers that transformers does not know, and about layers beyond the last.

    Args:
        part: The text part of config.json.
        kind: The facts of its class; code of people's own may have other types.
        count: The number of layers; 0 where it is not known.
    """
    if kind is None or not is_in_transformers(kind.name):
        return
    own = entries_of_class(kind.name)
    known = {*KNOWN_TYPES, *RENAMED, *WITHOUT_ATTENTION, *kind.layer_types, *kind.behaviour, *(kind.rope or {})}
    known -= own.refuses_types if own is not None else set()
    yield from _rounds_of_no_layers(part, kind)
    for entry in LISTS_OF_TYPES:
        stated = part.values.get(entry)
        others = sorted({*map(str, stated)} - {GLOBAL, "attention"}) if isinstance(stated, list) else []
        if kind.passes_over_types and others and known.issuperset(others):
            has = {*part.values, *kind.defaults, *(own.takes if own is not None else ())}
            missing = [each for name, each in _OF_CACHES.items() if name in others and each not in has]
            fails = f" Its cache looks for {' and '.join(missing)}, which nothing states, and fails." if missing else ""
            yield Finding(
                "warning",
                f"{entry} of {part.where} has layers of the type {' and '.join(others)}, which the class of "
                f"'{kind.name}' in transformers passes over: all its layers are alike.{fails}",
                f"Remove {entry}, or name a model type whose class reads it.",
            )
        for name in dict.fromkeys(stated) if isinstance(stated, list) else ():
            if isinstance(name, str) and name not in known:
                yield Finding(
                    "warning",
                    f"'{name}' in {entry} of {part.where} is no layer type that transformers knows: it refuses the "
                    f"file, or takes such layers for others.{type_meant(name, known)}",
                    f"Correct it in {entry}.",
                )
    blocks = part.values.get("block_types") if "block_types" in kind.defaults else None
    for name in dict.fromkeys(blocks) if isinstance(blocks, list) else ():
        if name not in _BLOCKS:
            yield Finding(
                "warning",
                f"'{name}' in block_types of {part.where} is not 'recurrent': the class of '{kind.name}' in "
                "transformers takes such layers for attention.",
                "State 'recurrent' or 'attention'.",
            )
    for entry in _INDICES:
        chosen = stated if isinstance(stated := part.values.get(entry), list) else ()
        beyond = [each for each in chosen if isinstance(each, int) and each >= count]
        if count and beyond:
            yield Finding(
                "warning",
                f"{entry} of {part.where} has {', '.join(map(str, beyond))}, but there are {count} layers, from 0: the "
                "class passes over it.",
                f"Correct {entry}, or the number of layers.",
            )


def types_that_may_stand_still(part: Fields, name: str | None, names: Sequence[str]) -> list[Finding]:
    """Return the warning about a file with types of layers, of which nothing tells which of them rotate.

    Args:
        part: The text part of config.json, whose class is not known and whose rotation is one for all layers.
        name: Its model type.
        names: Types of the layers.
    """
    attending = sorted({*names} - WITHOUT_ATTENTION)
    if len(attending) < 2 or any(part.values.get(entry) is not None for entry in _WHICH_ROTATE):
        return []
    who = "without model_type the class" if name is None else f"the model type '{name}'"
    return [
        Finding(
            "warning",
            f"Layers are of the types {' and '.join(attending)} by {part.where}, and {who} is not known here: that all "
            "of them rotate is assumed.",
            "Compare with the attention of the model's class: in some only layers with a window rotate.",
        )
    ]


def other_kinds_of_layers(part: Fields, known: Collection[str]) -> list[Finding]:
    """Return findings about entries of code of people's own by which some layers have no attention.

    Args:
        part: The text part of config.json.
        known: Entries of the class, where it was asked: what they do was seen.
    """
    untaken = {*part.untaken()} - {*known}
    return [
        Finding(
            "warning",
            f"'{name}' in config.json says which layers are of another kind, and nothing known here reads it: they may "
            "have no attention. What is shown is the rotation of those that have.",
            "Compare with the code that runs the model.",
        )
        for name in layers_of_other_kinds({name: value for name, value in part.values.items() if name in untaken})
    ]


def _types_beside_rounds(part: Fields, kind: ModelType | None, names: Sequence[str]) -> list[Finding]:
    """Return the warning about types of layers beside an entry by which layers have other types, if there is one.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: The types as they were read.
    """
    stated = [entry for entry in LISTS_OF_TYPES if isinstance(part.values.get(entry), list)]
    rounds = [name for name, value in part.values.items() if _ROUNDS & words_of(name) and value]
    if not stated or not rounds or kind is None or kind.passes_over_types:
        return []
    rest = Fields({name: value for name, value in part.values.items() if name not in stated}, part.where)
    try:
        others = layer_names(rest, kind)
    except ConfigError:  # of rounds that nothing reads beside the types
        return []
    entry = next((name for name in rounds if name in READ_BY_SOME and name not in rest.untaken()), None)
    if entry is None or len(others) != len(names) or others == tuple(names):
        return []
    return [
        Finding(
            "warning",
            f"{entry} is {in_json(part.values[entry])} in config.json, by which other layers would be of other types "
            f"than by {stated[0]}: {stated[0]} is taken, as the class of '{kind.name}' takes it.",
            "Remove the one that the weights were not trained with.",
        )
    ]


def _layers_of_stacks(part: Fields, kind: ModelType | None) -> list[Finding]:
    """Return the note on a number of layers that counts passes through them, if there is one.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
    """
    own, passes = part.values.get(LAYERS_OF_A_STACK), part.values.get("num_hidden_layers")
    if kind is None or not is_count(own) or not is_count(passes) or own == passes:
        return []
    return [
        Finding(
            "note",
            f"num_hidden_layers is {passes} in config.json, which counts every pass of a text through a layer: each "
            f"stack of the class of '{kind.name}' in transformers has {own} layers, by {LAYERS_OF_A_STACK}, as is "
            "shown.",
            "Nothing has to be done.",
        )
    ]
