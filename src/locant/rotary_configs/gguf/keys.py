"""Keys about positions in GGUF files that have no effect, because llama.cpp does not read or not use them.

What graphs do with a key that is read stands in :mod:`locant.rotary_configs.gguf.architectures`.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.gguf.architectures import RAISES_BASE
from locant.rotary_configs.gguf.deviations import USUAL_BASE
from locant.rotary_configs.gguf.layers import SWITCHED
from locant.rotary_configs.gguf.loader_facts import loader_facts
from locant.rotary_configs.gguf.windows import PATTERN, WINDOW, depth_with_windows, has_windows

YARN_KEYS = ("log_multiplier", "ext_factor", "attn_factor", "beta_fast", "beta_slow")
"""Last parts of the names of the keys below ``rope.scaling.yarn_``."""

_ROPE, _BASE, _SIZE = "rope.", "rope.freq_base", "rope.dimension_count"
_SLIDING_BASE, _SECTIONS = "rope.freq_base_swa", "rope.dimension_sections"
_CAUSAL = "attention.causal"
# Names of keys that llama.cpp does not know, and whoever wrote them took for settings of positions.
_ABOUT_POSITIONS = re.compile(r"^rope\b|rotary|rope_|alibi|theta|sliding|causal|attention\.(window|chunk)")
# Keys by the last part of the name that config.json has for them.
_IN_CONFIG_JSON = {
    **dict.fromkeys(("theta", "base", "rotary_emb_base"), _BASE),
    "rotary_dim": _SIZE,
    "mrope_section": "rope.dimension_sections",
    "original_max_position_embeddings": "rope.scaling.original_context_length",
    "attention_factor": "rope.scaling.attn_factor",
    **{name: f"rope.scaling.yarn_{name}" for name in ("beta_fast", "beta_slow")},
}
_OF_WINDOWS = (WINDOW, PATTERN, "attention.key_length_swa")
_NEARLY = 0.85
# Keys of which the reader speaks by itself, where they differ from what is taken.
_TOLD_OF = re.compile(r"^rope\.(freq_base_swa|dimension_sections|scaling\.yarn_\w+)$|alibi")
# Keys that are read for all architectures, and those that use them.
_USED_BY: dict[str, Collection[str]] = {
    "rope.scaling.alpha": RAISES_BASE,
    "rope.scaling.finetuned": SWITCHED,
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
    # By 0 files say that there is no such thing, and switch windows off.
    stated = {key: value for key, value in own.items() if (value or value is False) and key not in told}
    unknown = [key for key in stated if key not in _known() and _ABOUT_POSITIONS.search(key)]
    for key in unknown:
        yield _unknown(key, stated[key], own, architecture)
    read = {*loader_facts()["every architecture"], *loader_facts()["architectures"].get(architecture, ())}
    takes_size = architecture in loader_facts()["heads by rope.dimension_count"]
    slides = has_windows(Fields(own, ""), architecture)

    def is_passed_over(key: str) -> bool:
        if not rotates and key.startswith(_ROPE):
            return not (takes_size and key == _SIZE)
        is_unused = key not in read or architecture not in _USED_BY.get(key, (architecture,))
        is_unused = is_unused or (key in _OF_WINDOWS and not slides)
        return is_unused and not _TOLD_OF.search(key)

    if rotates and not slides and PATTERN in stated and PATTERN in read and not own.get(WINDOW):
        yield Finding(
            "note",
            f"{PATTERN} {in_json(stated[PATTERN]):.40} has no effect: with no {WINDOW} above 0 llama.cpp "
            f"gives no layer of the architecture '{architecture}' a window.",
            f"State {WINDOW}, if layers have one.",
        )
        del stated[PATTERN]
    passed_over = [
        f"{key} {in_json(value):.40}" for key, value in stated.items() if key in _known() and is_passed_over(key)
    ]
    if passed_over:
        *first, last = passed_over
        subject, them = (f"{', '.join(first)} and {last} have", "them") if first else (f"{last} has", "it")
        where = f"passes over {them} in the architecture '{architecture}'" if rotates else f"does not use {them} here"
        deeper = depth_with_windows(architecture)
        if deeper is not None and all(each.split(" ")[0] in _OF_WINDOWS for each in passed_over):
            has = "" if own.get("block_count") is None else f", and this one has {in_json(own['block_count']):.40}"
            where = f"gives layers of '{architecture}' windows in files of {deeper} blocks alone{has}"
        yield Finding(
            "note",
            f"{subject} no effect: llama.cpp {where}.",
            "Nothing has to be done, unless positions were meant to change.",
        )
    if stated.get(_CAUSAL) is True and architecture in loader_facts()["bidirectional"]:
        yield Finding(
            "note",
            f"{_CAUSAL} true has no effect: in the architecture '{architecture}' llama.cpp lets every token see those "
            "after it as well.",
            f"State {_CAUSAL} false, which says so.",
        )


def _unknown(key: str, value: Any, own: Mapping[str, Any], architecture: str) -> Finding:
    """Return the finding about a key of a name that llama.cpp does not know, with the one that is meant."""
    meant = _meant(key, architecture)
    said = f"{key} {in_json(value):.40} has no effect: llama.cpp reads no key of that name"
    if meant is None:
        return Finding("warning", f"{said}.", "Remove it.")
    if own.get(meant) is not None:
        return Finding("warning", f"{said}, but {meant}, which is {in_json(own[meant]):.40}.", "Keep the latter alone.")
    instead = f": {USUAL_BASE:g} is taken" if meant == _BASE else ""
    return Finding(
        "error", f"{said}, but {meant}, which is missing{instead}.", f"State {architecture}.{meant}, if that is meant."
    )


def _meant(key: str, architecture: str) -> str | None:
    """Return the key that a name means which llama.cpp does not know: by config.json's name, or nearly its own."""
    read = {*loader_facts()["every architecture"], *loader_facts()["architectures"].get(architecture, ())}
    by_name = _IN_CONFIG_JSON.get(key.rsplit(".", 1)[-1].removeprefix("rope_"))
    if by_name is not None:
        return by_name if by_name in read else None
    return next(iter(difflib.get_close_matches(key, sorted(read), n=1, cutoff=_NEARLY)), None)


def without_unread(own: Mapping[str, Any], architecture: str) -> Mapping[str, Any]:
    """Return the metadata below an architecture without a base of sliding attention and sections that it does not read.

    Args:
        own: The metadata.
        architecture: ``general.architecture``.
    """
    unread = {_SLIDING_BASE, _SECTIONS} - {*loader_facts()["architectures"].get(architecture, ())}
    return {key: value for key, value in own.items() if key not in unread}


def base_of_earlier_graphs(keys: Fields, architecture: str, full: float, sliding: float) -> Iterator[Finding]:
    """Yield that sliding layers have another base in the builds whose sources were read than in the one that was run.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        full: The base of full attention.
        sliding: That of sliding attention.
    """
    if architecture in loader_facts()["one base"] and keys.number(_SLIDING_BASE) == sliding != full:
        yield Finding(
            "warning",
            f"rope.freq_base_swa {sliding:g} is read and not used in earlier builds of llama.cpp, such as that of "
            f"llama-cpp-python 0.3.36: their graph of '{architecture}' turns layers with a window with rope.freq_base "
            f"{full:g}, where build b11739 takes {sliding:g}, as is shown.",
            "Run the model with a build that takes it, unless all layers were trained with one base.",
        )


@functools.cache
def _known() -> frozenset[str]:
    """Return the keys about positions that llama.cpp reads for some architecture."""
    return frozenset(
        (
            *loader_facts()["every architecture"],
            *(key for keys in loader_facts()["architectures"].values() for key in keys),
        )
    )
