"""Windows of a model's layers by config.json: how many tokens each of them looks back over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from locant.positions.scaling.fields import Fields
from locant.rotary_configs.base import ALL_LAYERS
from locant.rotary_configs.classes.families import (
    HALVES_FOR_BOTH_WAYS,
    HALVES_ITS_WINDOW,
    LOOKS_BOTH_WAYS,
    WINDOW_OF_FULL_ATTENTION,
)
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.windows import SWITCH, has_switch_of_windows, passes_over_window, windows_of_class
from locant.rotary_configs.layer_types import GLOBAL, LOCAL, entries_by_layer
from locant.rotary_configs.spellings import is_count

_WINDOWS = {
    LOCAL: ("sliding_window", "sliding_window_size", "local_attention", "attention_window_size", "window_size"),
    "hybrid_sliding": ("sliding_window", "sliding_window_size"),
    "chunked_attention": ("attention_chunk_size",),
    "compressed_sparse_attention": ("sliding_window",),  # of DeepSeek-V4, which sees older tokens compressed
    "heavily_compressed_attention": ("sliding_window",),
}
WINDOW_ENTRIES = tuple(dict.fromkeys(name for names in _WINDOWS.values() for name in names))
"""Entries that say how many tokens layers look back over."""

_LONG_WINDOW = "default_long_sliding_window"
_BOTH_WAYS = frozenset(["local_attention"])  # of ModernBERT: half of it back, half of it ahead


def has_window_entry(part: Fields, kind: ModelType) -> bool:
    """Whether a class takes its sliding window for switched on: by any number, also one that is no window."""
    stated = (part.get(key) if key in part.values else kind.defaults.get(key) for key in _WINDOWS[LOCAL])
    return any(value is not None for value in stated)


def has_no_window(part: Fields, kind: ModelType) -> bool:
    """Whether a file and its class leave sliding layers without a number for their window."""
    return stated_window(part, kind, LOCAL) is None


def window_of(part: Fields, kind: ModelType | None, name: str) -> int | None:
    """Return how many tokens layers of a type look back over, ``None`` for the whole text."""
    stated = stated_window(part, kind, name)
    tokens = None if stated is None else tokens_of(*stated, part, kind)
    return tokens if tokens is not None and tokens > 0 else None


def windows_by_layer(part: Fields, kind: ModelType | None, names: Sequence[str]) -> list[int | None]:
    """Return the window of every layer, in tokens: that of its type, but for classes with long and short ones.

    An entry of the layer's own counts before others (``per_layer_config``). NeoMME gives every second sliding layer its
    ``default_long_sliding_window`` (``configuration_neomme.py``).

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        names: Types of the layers.
    """
    of_type = {name: window_of(part, kind, name) for name in dict.fromkeys(names)}
    windows = [of_type[name] for name in names]
    long = None if kind is None else kind.defaults.get(_LONG_WINDOW)
    if isinstance(long, int) and kind is not None and "per_layer_config" not in part.values:
        for index in [index for index, name in enumerate(names) if name == LOCAL][1::2]:
            windows[index] = tokens_of(_LONG_WINDOW, long, part, kind)
    for index, own in entries_by_layer(part.values.get("per_layer_config")).items():
        entry = (
            next((key for key in _WINDOWS.get(names[index], ()) if key in own), None) if index < len(names) else None
        )
        if entry is not None and (own[entry] is None or is_count(own[entry])):
            windows[index] = None if own[entry] is None else tokens_of(entry, own[entry], part, kind)
    return windows


def stated_window(part: Fields, kind: ModelType | None, name: str) -> tuple[str, int] | None:
    """Return the entry about the window of layers of a type, and its value."""
    if kind is not None and kind.is_windowless:
        return None
    keys = _WINDOWS.get(name, ())
    defaults = {} if kind is None else kind.defaults
    if name == ALL_LAYERS or (name == GLOBAL and kind is not None and kind.name in WINDOW_OF_FULL_ATTENTION):
        stated = part.get(SWITCH) if kind is None or has_switch_of_windows(kind.name) else None
        if (defaults.get(SWITCH) if stated is None else stated) is False:
            return None
        keys = ("sliding_window",)
    for key in keys:
        if kind is not None and passes_over_window(kind.name, key):
            continue
        value = part.get(key) if key in part.values else defaults.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return key, value
    return None


def stated_windows(part: Fields, kind: ModelType | None, name: str) -> list[tuple[str, int, int]]:
    """Return the entries of a file that count for the window of layers of a type, with their sizes and the tokens.

    The first of them is the one that a class takes.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        name: The type.
    """
    own = None if kind is None else windows_of_class(kind.name)
    if own is None or kind is None or stated_window(part, kind, name) is None:
        return []
    found = []
    for key in _WINDOWS.get(name, ()):
        value: Any = part.values.get(key)
        if key in own.sizes and is_count(value):
            found.append((key, value, tokens_of(key, value, part, kind)))
    return found


def tokens_of(key: str, value: int, part: Fields, kind: ModelType | None) -> int:
    """Return how many tokens a mask with a window shows, looking back, the token itself among them; 0 or less: none."""
    if kind is not None and kind.name in HALVES_ITS_WINDOW:
        return (value + 1) // 2
    if key == "attention_chunk_size":
        return abs(value)  # by rounding down; 0 cannot be computed
    if key in _BOTH_WAYS and kind is not None and kind.name not in LOOKS_BOTH_WAYS:
        return value // 2  # of a decoder, which has the half that looks back, with the token itself
    # Gemma's encoders halve it, as ModernBERT's entry is about both sides.
    heeds_both = kind is None or kind.name in HALVES_FOR_BOTH_WAYS
    if key in _BOTH_WAYS or (heeds_both and part.get("use_bidirectional_attention") in (True, "all")):
        return value // 2 + 1
    return value + (kind is not None and kind.name in LOOKS_BOTH_WAYS)
