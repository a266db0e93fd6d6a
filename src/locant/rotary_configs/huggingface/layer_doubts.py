"""Doubts about entries on layers: types that no class knows, layers that are not there, windows that no mask has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.base import LayerType
from locant.rotary_configs.classes.entries import LISTS_OF_TYPES, READ_BY_SOME, entries_of_class
from locant.rotary_configs.classes.families import HALVES_FOR_BOTH_WAYS, LOOKS_BOTH_WAYS, ModelType, is_in_transformers
from locant.rotary_configs.classes.windows import SWITCH, has_switch_of_windows, windows_of_class
from locant.rotary_configs.classes.windows import windows_passed_over as windows_passed_over_by_class
from locant.rotary_configs.huggingface.layer_windows import (
    WINDOW_ENTRIES,
    stated_windows,
    windows_by_layer,
    windows_that_are_no_numbers,
)
from locant.rotary_configs.huggingface.layers import layer_names
from locant.rotary_configs.layer_types import GLOBAL, KNOWN_TYPES, LOCAL, RENAMED, WITHOUT_ATTENTION, type_meant
from locant.rotary_configs.spellings import LAYERS_OF_A_STACK, LENGTHS, is_count, layers_of_other_kinds, words_of

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


def windows_for_both_ways(part: Fields, kind: ModelType | None, layers: Sequence[LayerType]) -> list[Finding]:
    """Return the note on a window that its class halves, as its tokens look ahead too, if there is one.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        layers: The layers as they were read.
    """
    value, both = part.get("sliding_window"), part.get("use_bidirectional_attention")
    if kind is None or kind.name not in HALVES_FOR_BOTH_WAYS or both not in (True, "all") or not is_count(value):
        return []
    halved = value // 2 + 1
    if all(each.window != halved for each in layers):
        return []
    return [
        Finding(
            "note",
            f"sliding_window is {value} in config.json, of which the class of '{kind.name}' in transformers makes "
            f"{halved}, as use_bidirectional_attention is {in_json(both)}: so many tokens to each side, with the "
            "token itself.",
            "Nothing is to be done, if the model was trained with tokens that look ahead.",
        )
    ]


def windows_of_other_sizes(part: Fields, kind: ModelType | None, layers: Sequence[LayerType]) -> list[Finding]:
    """Return the note on an entry of which a class makes windows of another size, if there is one.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        layers: The layers as they were read.
    """
    own = None if kind is None else windows_of_class(kind.name)
    names = frozenset[str]() if own is None else own.sizes
    stated = {name: part.values[name] for name in names if is_count(part.get(name))}
    shown = sorted({each.window for each in layers if each.window is not None})
    if kind is None or not shown or windows_that_are_no_numbers(part, kind):
        return []
    windows, whose = ("a window" if len(shown) == 1 else "windows"), f"the class of '{kind.name}' in transformers"
    sizes = " and ".join(map(str, shown))
    sides = " to each side" if kind.name in LOOKS_BOTH_WAYS else ""
    made = f"{windows} of {sizes} tokens{sides}, each token itself among them"
    if len(stated) == 1 and not {*shown} & {*stated.values()}:
        name, value = next(iter(stated.items()))
        of_it = _windows_of_entry(part, kind, layers, name) or shown  # others are of entries that the file leaves out
        made = made.replace(sizes, " and ".join(map(str, of_it)), 1)
        return [Finding("note", f"Of {name} {value} in config.json, {whose} makes {made}.", "Nothing has to be done.")]
    filled = {kind.defaults[name] for name in names if is_count(kind.defaults.get(name))}
    if stated or len(shown) > 1 or len(filled) != 1 or {*shown} & filled:
        return []
    return [
        Finding(
            "note",
            f"{whose[0].upper()}{whose[1:]} makes {made}, of the {filled.pop()} tokens that it has of its own.",
            "Nothing has to be done.",
        )
    ]


def _windows_of_entry(part: Fields, kind: ModelType, layers: Sequence[LayerType], name: str) -> list[int]:
    """Return the windows that change with an entry of the file.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        layers: The layers as they were read.
        name: The entry, which is a number of tokens.
    """
    types = [
        each.type_name
        for _, each in sorted(((index, each) for each in layers for index in each.layers), key=itemgetter(0))
    ]
    usual, moved = (
        windows_by_layer(Fields({**part.values, name: factor * part.values[name]}, part.where), kind, types)
        for factor in (1, 2)
    )
    return sorted({size for size, other in zip(usual, moved, strict=True) if size is not None and size != other})


def types_beside_rounds(part: Fields, kind: ModelType | None, names: Sequence[str]) -> list[Finding]:
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


def windows_of_whole_texts(part: Fields, layers: Sequence[LayerType]) -> list[Finding]:
    """Return the note on a window that is as long as the longest text of the model, if there is one.

    Args:
        part: The text part of config.json.
        layers: The layers as they were read.
    """
    length = next((name for name in LENGTHS if is_count(part.values.get(name))), None)
    windows = {each.window for each in layers if each.attends}
    stated = [name for name in WINDOW_ENTRIES if is_count(value := part.values.get(name)) and value in windows]
    return [
        Finding(
            "note",
            f"{name} is {part.values[name]} in config.json, no less than the {part.values[length]} tokens of {length}: "
            "the window hides nothing in texts of that length.",
            "Nothing is to be done, unless longer texts are read.",
        )
        for name in stated
        if length is not None and part.values[name] >= part.values[length]
    ]


def _without_windows(part: Fields, kind: ModelType) -> str:
    """Return how to load a model that was trained without windows: null fails where sliding layers look for a number.

    Layers of full attention are no way out of a class that does not rotate them.
    """
    own = windows_of_class(kind.name)
    nulls = dict.fromkeys(name for name in WINDOW_ENTRIES if name in part.values or name in kind.defaults)
    types = layer_names(Fields({**part.values, **nulls}, part.where), kind)
    entries = entries_of_class(kind.name)
    kinds = None if entries is None else entries.takes.get("sliding_window")
    takes_null = (kinds is None or "null" in kinds) and not (own is not None and own.needs_window)
    if LOCAL not in types and takes_null:
        return "State null for the window, if the model was trained without one."
    if kind.behaviour.get(GLOBAL) == "rotates" and not kind.passes_over_types:
        return "State full_attention for all layers in layer_types, if the model was trained without windows."
    return "Load the model with the code that reads it, if the model was trained without windows."


def windows_passed_over(part: Fields, kind: ModelType | None, layers: Sequence[LayerType]) -> list[Finding]:
    """Return the finding about a ``sliding_window`` that no layer of the class has, or its switch, if there is one.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        layers: The layers as they were read.
    """
    value, switch = part.get("sliding_window"), part.get(SWITCH)
    if kind is None:
        return []
    if passed := list(windows_passed_over_by_class(part.values, kind.name, kind.defaults)):
        return passed
    shown = sorted({each.window for each in layers if each.window is not None})
    if switch is False and shown and not has_switch_of_windows(kind.name):
        return [
            Finding(
                "warning",
                f"{SWITCH} is false in config.json, which the class of '{kind.name}' in transformers passes over: "
                f"layers keep their window of {' or '.join(map(str, shown))} tokens.",
                _without_windows(part, kind),
            )
        ]
    if switch is False or not (is_count(value) or switch is True):
        return []
    entry, stated = ("sliding_window", value) if is_count(value) else (SWITCH, "true")
    if switch is None and kind.defaults.get(SWITCH) is False:
        return [
            Finding(
                "note",
                f"sliding_window is {value} in config.json, without effect: use_sliding_window is left out, which the "
                f"class of '{kind.name}' in transformers has false, so that no layer has a window.",
                "State use_sliding_window true, if the model was trained with the window.",
            )
        ]
    if kind.is_windowless and windows_of_class(kind.name) is None:
        return [
            Finding(
                "warning",
                f"{entry} is {stated} in config.json, but the masks of the class of '{kind.name}' in transformers "
                "have no window: every token sees the whole text.",
                "Remove the entry, or name a model type whose class has windows.",
            )
        ]
    if kind.is_windowless or not is_in_transformers(kind.name) or not layers or shown:
        return []
    return [
        Finding(
            "note",
            f"{entry} is {stated} in config.json, without effect: the class of '{kind.name}' in transformers gives a "
            "window to none of these layers.",
            "State in layer_types which layers slide, if the class reads it and the model was trained so.",
        )
    ]


def layers_of_stacks(part: Fields, kind: ModelType | None) -> list[Finding]:
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


def windows_of_two_sizes(part: Fields, kind: ModelType | None, names: Sequence[str]) -> list[Finding]:
    """Return warnings about two entries with the window of the same layers that differ, of which a class takes one.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: Types of the layers.
    """
    if kind is None:
        return []
    stated = [stated_windows(part, kind, name) for name in dict.fromkeys(names)]
    pairs = [(sizes[0], other) for sizes in stated for other in sizes[1:] if other[2] != sizes[0][2]]
    return [
        Finding(
            "warning",
            f"{entry} is {size} and {taken} is {own} in config.json, both for the same windows: the class of "
            f"'{kind.name}' in transformers takes {taken}, as is shown.",
            "Keep the one that the weights were trained with.",
        )
        for (taken, own, _), (entry, size, _) in dict.fromkeys(pairs)
    ]


def original_length_without_scaling(part: Fields, is_scaled: bool) -> list[Finding]:
    """Return the finding about an original length beside no scaling that could be computed from it, if there is one.

    Args:
        part: The text part of config.json.
        is_scaled: Whether any layer has a scaling.
    """
    entry = "original_max_position_embeddings"
    value = part.get(entry)
    if is_scaled or not is_count(value) or value == part.get("max_position_embeddings"):
        return []
    return [
        Finding(
            "note",
            f"{entry} is {value} in config.json, without effect: there is no scaling that it could belong to.",
            "State the scaling as well, if the weights were trained with one.",
        )
    ]
