"""Findings about windows of layers: of other sizes than a file states, without effect, or that hide nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.base import LayerType
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.families import (
    HALVES_FOR_BOTH_WAYS,
    HALVES_ITS_WINDOW,
    LOOKS_BOTH_WAYS,
    is_in_transformers,
)
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.windows import SWITCH, has_switch_of_windows, windows_of_class, windows_passed_over
from locant.rotary_configs.huggingface.layer_windows import (
    WINDOW_ENTRIES,
    stated_window,
    stated_windows,
    tokens_of,
    windows_by_layer,
)
from locant.rotary_configs.huggingface.layers import layer_names
from locant.rotary_configs.layer_types import GLOBAL, LOCAL
from locant.rotary_configs.spellings import LENGTHS, is_count


def doubts_about_windows(
    part: Fields, kind: ModelType | None, names: Sequence[str], layers: Sequence[LayerType]
) -> Iterator[Finding]:
    """Yield findings about the windows of layers.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: Types of the layers.
        layers: The layers as they were read.
    """
    yield from _windows_for_both_ways(part, kind, layers) or _windows_of_other_sizes(part, kind, layers)
    yield from _windows_passed_over(part, kind, layers)
    yield from _windows_of_two_sizes(part, kind, names)
    yield from _windows_of_whole_texts(part, layers)
    yield from _windows_without_tokens(part, kind, names)
    yield from _windows_that_are_no_numbers(part, kind)


def _windows_for_both_ways(part: Fields, kind: ModelType | None, layers: Sequence[LayerType]) -> list[Finding]:
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


def _windows_of_other_sizes(part: Fields, kind: ModelType | None, layers: Sequence[LayerType]) -> list[Finding]:
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
    if kind is None or not shown or _windows_that_are_no_numbers(part, kind):
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


def _windows_of_whole_texts(part: Fields, layers: Sequence[LayerType]) -> list[Finding]:
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


def _windows_passed_over(part: Fields, kind: ModelType | None, layers: Sequence[LayerType]) -> list[Finding]:
    """Return the finding about a ``sliding_window`` that no layer of the class has, or its switch, if there is one.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        layers: The layers as they were read.
    """
    value, switch = part.get("sliding_window"), part.get(SWITCH)
    if kind is None:
        return []
    if passed := list(windows_passed_over(part.values, kind.name, kind.defaults)):
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


def _windows_of_two_sizes(part: Fields, kind: ModelType | None, names: Sequence[str]) -> list[Finding]:
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


def _windows_that_are_no_numbers(part: Fields, kind: ModelType | None) -> list[Finding]:
    """Return warnings about windows that are lists or texts, of which a class computes no masks without refusing them.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
    """
    own, entries = (None, None) if kind is None else (windows_of_class(kind.name), entries_of_class(kind.name))
    if own is None or entries is None or kind is None:
        return []
    values = {name: part.values.get(name) for name in sorted(own.sizes) if name not in entries.takes}
    return [
        Finding(
            "warning",
            f"{name} is {in_json(value):.40} in config.json, and no number: the class of '{kind.name}' in "
            "transformers computes masks by it, and fails.",
            f"State {name} as one whole number, or leave it out.",
        )
        for name, value in values.items()
        if isinstance(value, str | list | Mapping)
    ]


_OF_CACHES = ("sliding_window", "local_attention")
"""Entries with the window of layers whose cache transformers makes by it."""


def _windows_without_tokens(part: Fields, kind: ModelType | None, names: Sequence[str]) -> list[Finding]:
    """Return findings about windows of no tokens, with which the masks of a class hide every token.

    Args:
        part: The text part of config.json.
        kind: The facts of its class; without them nobody knows what such a window does.
        names: Types of the layers.
    """
    if kind is None or not is_in_transformers(kind.name):
        return []
    stated = dict.fromkeys(stated_window(part, kind, name) for name in names)
    backwards = [each for each in stated if each is not None and each[0] == "attention_chunk_size" and each[1] < 0]
    # ``DynamicSlidingWindowLayer``, of classes that generate: its mask is narrower than the text.
    keeps_cache = kind.name not in LOOKS_BOTH_WAYS and kind.name not in HALVES_ITS_WINDOW
    fails = {each: "; with a cache, which it keeps by default, it fails" for each in _OF_CACHES if keeps_cache}
    return [
        Finding(
            "warning",
            f"{name} is {size} in config.json, below 0: the class of '{kind.name}' in transformers divides positions "
            f"by it all the same, and attends within chunks of {-size} tokens.",
            f"State {-size} for {name}, if the model was trained so.",
        )
        for name, size in backwards
    ] + [
        Finding(
            "warning",
            f"{each[0]} is {each[1]} in config.json: with it the masks of the class of '{kind.name}' in transformers "
            f"hide every token, also the token itself{fails.get(each[0], '')}. It is read as no window here.",
            f"State null for {each[0]}, and full_attention for the layers, where no window is meant.",
        )
        for each in stated
        if each is not None and tokens_of(*each, part, kind) <= 0
    ]
