"""Entries about windows that count for a class of transformers, and those that it passes over.

``windows.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/class_windows.py``):
small models of them read a text with one value of each entry and with another.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.positions.scaling.fields import Finding
from locant.rotary_configs.spellings import is_count

WINDOW_SIZES = (
    *("sliding_window", "sliding_window_size", "local_attention", "attention_window_size", "attention_window"),
    *("window_size", "attention_chunk_size"),
)
"""Entries with numbers of tokens that layers of some class look back over."""

SWITCH, FIRST_LAYERS = "use_sliding_window", "max_window_layers"
_OF_CACHE = "reference_sliding_attention"  # of Unlimited-OCR, whose cache keeps the whole prompt
_OF_WINDOWS = ("sliding_attention", "chunked_attention")


@dataclass(frozen=True)
class ClassWindows:
    """What a class does with entries about windows.

    Attributes:
        sizes: Those of :data:`WINDOW_SIZES` whose numbers change what it computes.
        has_switch: Whether ``use_sliding_window`` switches its windows.
        heeds_first_layers: Whether ``max_window_layers`` says which layers have them.
        needs_window: Whether it fails with null for ``sliding_window``, though no layer is a sliding one.
        is_kept_in_cache: Whether a ``sliding_window`` that none of its masks has limits what its cache keeps.
    """

    sizes: frozenset[str]
    has_switch: bool
    heeds_first_layers: bool
    needs_window: bool
    is_kept_in_cache: bool


@functools.lru_cache(maxsize=1024)
def windows_of_class(name: str) -> ClassWindows | None:
    """Return what the class of a model type does with windows, ``None`` where that is not known."""
    each = _stored().get(name)
    if each is None:
        return None
    return ClassWindows(
        frozenset(each["sizes"]),
        each.get("switch", False),
        each.get("first_layers", False),
        each.get("needed", False),
        each.get("in_cache", False),
    )


@functools.cache
def _stored() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "windows.json").read_text(encoding="utf-8"))
    return stored


def passes_over_window(name: str, entry: str) -> bool:
    """Whether the class of a model type is known to compute the same with any number in an entry about windows."""
    own = windows_of_class(name)
    return own is not None and entry in WINDOW_SIZES and entry not in own.sizes


def has_switch_of_windows(name: str) -> bool:
    """Whether ``use_sliding_window`` may switch the windows of a model type's class."""
    own = windows_of_class(name)
    return own is None or own.has_switch


def heeds_first_layers(name: str) -> bool | None:
    """Whether ``max_window_layers`` counts for a model type's class with windows, ``None`` where that is not known."""
    own = windows_of_class(name)
    return None if own is None or not own.sizes else own.heeds_first_layers


def speaks_of_first_layers(part: Mapping[str, Any], name: str, usual: Mapping[str, Any], first: Any) -> bool:
    """Whether ``max_window_layers`` is about windows that layers have: in many files it stands beside none.

    Args:
        part: The text part of config.json.
        name: The model type of a class that does not read it.
        usual: What the class has where a file leaves an entry out.
        first: The value of the entry.
    """
    if part.get(SWITCH) is True:
        return True
    is_off = part.get(SWITCH, usual.get(SWITCH)) is False and has_switch_of_windows(name)
    window = part.get("sliding_window", usual.get("sliding_window"))
    return heeds_first_layers(name) is False and is_count(window) and is_count(first) and not is_off


def windows_passed_over(
    part: Mapping[str, Any], name: str, usual: Mapping[str, Any], *, with_types: bool = False
) -> Iterator[Finding]:
    """Yield warnings about entries of a file about windows that the class of a model type passes over, if it has such.

    Args:
        part: The text part of config.json.
        name: The model type.
        usual: What its class has where a file leaves an entry out.
        with_types: Whether to tell of types of layers, too, where no layer of the class has a window.
    """
    own = windows_of_class(name)
    if own is None:
        return
    stated = {entry: part[entry] for entry in WINDOW_SIZES if is_count(part.get(entry)) and entry not in own.sizes}
    if not own.sizes:
        yield from _no_window_at_all(part, name, stated, usual, with_types=with_types)
        return
    if not stated or any(part.get(entry) in stated.values() for entry in own.sizes):
        return  # the same said twice
    others = " and ".join(sorted(own.sizes))
    yield Finding(
        "warning",
        f"{_in_words([f'{entry} is {size}' for entry, size in stated.items()])} in config.json, which the class of "
        f"'{name}' in transformers passes over: its windows are those of {others}.",
        f"State {others}, if the model was trained with that window.",
    )


def _no_window_at_all(
    part: Mapping[str, Any], name: str, stated: Mapping[str, int], usual: Mapping[str, Any], *, with_types: bool
) -> Iterator[Finding]:
    own, window, types = windows_of_class(name), part.get("sliding_window"), part.get("layer_types")
    beside_prompt = isinstance(types, list) and _OF_CACHE in types
    drops = own is not None and own.is_kept_in_cache and is_count(window) and (types is None or beside_prompt)
    of_what = "older ones that were written" if beside_prompt else "older ones"
    kept = f"in generating its cache keeps the last {window} tokens alone, and drops {of_what}"
    if part.get(SWITCH) is False:  # as if the class had that switch
        if drops:
            yield Finding(
                "warning",
                f"sliding_window is {window} in config.json beside {SWITCH} false, which the class of '{name}' in "
                f"transformers does not read: its masks have no window, but {kept}.",
                "State null for sliding_window.",
            )
        return
    said = [f"{entry} is {size}" for entry, size in stated.items()]
    said += [f"{SWITCH} is true"] if part.get(SWITCH) is True and not said else []
    named = [each for each in _OF_WINDOWS if with_types and isinstance(types, list) and each in types]
    said += [f"layer_types has '{each}'" for each in named]
    if said:
        is_of_class = bool(stated) and all(usual.get(entry) == size for entry, size in stated.items()) and not named
        yield Finding(
            "note" if is_of_class else "warning",
            f"{_in_words(said)} in config.json, but the masks of the class of '{name}' in transformers have no window: "
            f"every token sees the whole text.{f' But {kept}.' if drops else ''}",
            f"Remove {'the entry' if len(said) == 1 else 'them'}, or name a model type whose class has windows.",
        )


def _in_words(said: Sequence[str]) -> str:
    *first, last = said
    return f"{', '.join(first)} and {last}" if first else last
