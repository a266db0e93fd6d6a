"""Keys about positions in GGUF files that have no effect, because llama.cpp does not read or not use them.

``gguf_keys.json`` is generated from the sources of llama.cpp (``tests/support/zoo/gguf_keys.py``): the keys that its
loader reads for every architecture, and for one alone; and the architectures whose loader overrides
``attention.causal``. What graphs do with a key that is read stands in :mod:`locant.rotary_configs.gguf_architectures`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from locant.errors import nearest
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.gguf_architectures import RAISES_BASE
from locant.rotary_configs.gguf_layers import SWITCHED
from locant.rotary_configs.gguf_windows import WINDOW_EVERYWHERE, WINDOWS

_ROPE = "rope."
_SIZE = "rope.dimension_count"
_CAUSAL = "attention.causal"
# Names of keys that llama.cpp does not know, and whoever wrote them took for settings of positions.
_ABOUT_POSITIONS = re.compile(r"^rope\b|rotary|rope_|alibi|theta|sliding|causal|attention\.(window|chunk)")
# Keys of which the reader speaks by itself, where they differ from what is taken.
_TOLD_OF = re.compile(r"^rope\.(freq_base_swa|dimension_sections|scaling\.yarn_\w+)$|alibi")
# Keys that are read for all architectures, and those that use them.
_USED_BY: dict[str, Collection[str]] = {
    "rope.scaling.alpha": RAISES_BASE,
    "rope.scaling.finetuned": SWITCHED,
    "attention.key_length_swa": {*WINDOWS, *WINDOW_EVERYWHERE},
}


def keys_without_effect(
    own: Mapping[str, Any], architecture: str, told: Collection[str], *, rotates: bool = True
) -> Iterator[Finding]:
    """Yield what llama.cpp passes over of the keys about positions, and what it has instead.

    Args:
        own: The metadata below the architecture.
        architecture: ``general.architecture``.
        told: Keys of which something was said.
        rotates: Whether the graph rotates anything.
    """
    stated = {key: value for key, value in own.items() if value is not None and key not in told}
    unknown = [key for key in stated if key not in _known() and _ABOUT_POSITIONS.search(key)]
    for key in unknown:
        yield _unknown(key, stated[key], own, architecture)
    read = {*_facts()["every architecture"], *_facts()["architectures"].get(architecture, ())}
    takes_size = architecture in _facts()["heads by rope.dimension_count"]

    def is_passed_over(key: str) -> bool:
        if not rotates and key.startswith(_ROPE):
            return not (takes_size and key == _SIZE)
        is_unused = key not in read or architecture not in _USED_BY.get(key, (architecture,))
        return is_unused and not _TOLD_OF.search(key)

    passed_over = [
        f"{key} {in_json(value):.40}" for key, value in stated.items() if key in _known() and is_passed_over(key)
    ]
    if passed_over:
        *first, last = passed_over
        subject, them = (f"{', '.join(first)} and {last} have", "them") if first else (f"{last} has", "it")
        where = f"passes over {them} in the architecture '{architecture}'" if rotates else f"does not use {them} here"
        yield Finding(
            "note",
            f"{subject} no effect: llama.cpp {where}.",
            "Nothing has to be done, unless positions were meant to change.",
        )
    if stated.get(_CAUSAL) is True and architecture in _facts()["bidirectional"]:
        yield Finding(
            "note",
            f"{_CAUSAL} true has no effect: in the architecture '{architecture}' llama.cpp lets every token see those "
            "after it as well.",
            f"State {_CAUSAL} false, which says so.",
        )


def _unknown(key: str, value: Any, own: Mapping[str, Any], architecture: str) -> Finding:
    """Return the finding about a key of a name that llama.cpp does not know."""
    read = {*_facts()["every architecture"], *_facts()["architectures"].get(architecture, ())}
    meant = nearest(key, sorted(read)) if key.startswith(_ROPE) else ""
    name = meant.split("'")[1] if meant else None
    is_missing = name is not None and own.get(name) is None
    instead = "; it takes 10000 for rope.freq_base, which is missing" if is_missing and name == "rope.freq_base" else ""
    return Finding(
        "error" if is_missing else "warning",
        f"{key} {in_json(value):.40} has no effect: llama.cpp reads no key of that name{instead}.",
        f"State {architecture}.{name}, if that is meant." if is_missing else "Remove it.",
    )


def architectures_that_read(key: str) -> frozenset[str]:
    """Return the architectures of which llama.cpp reads a key, where it does not read it of all."""
    return frozenset(name for name, keys in _facts()["architectures"].items() if key in keys)


@functools.cache
def _facts() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "gguf_keys.json").read_text(encoding="utf-8"))
    return stored


@functools.cache
def _known() -> frozenset[str]:
    """Return the keys about positions that llama.cpp reads for some architecture."""
    return frozenset(
        (*_facts()["every architecture"], *(key for keys in _facts()["architectures"].values() for key in keys))
    )
