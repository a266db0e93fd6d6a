"""Indexers of sparse attention in GGUF files: what llama.cpp rotates of their heads, and with which it ends.

An indexer scores all tokens before one by heads of its own, and the attention sees those alone that it ranks first.
Source: ``load_arch_hparams`` and the graphs in ``src/models`` of llama.cpp, by ``keys.json``, and what build b11739 did
with such files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.classes.families import INDEXERS
from locant.rotary_configs.gguf.architectures import model_type_of
from locant.rotary_configs.gguf.layers import attending_layers, computed_layers
from locant.rotary_configs.gguf.loader_facts import architectures_that_read, loader_facts, needed_by
from locant.rotary_configs.gguf.windows import sliding_layers

_LENGTH: Final = "attention.indexer.key_length"
_HEADS, _BEST, _TYPES = (f"attention.indexer.{name}" for name in ("head_count", "top_k", "types"))
_SIZE, _RATIOS = "rope.dimension_count", "attention.compress_ratios"
_INDEXED_RATIO = 4  # of DeepSeek-V4, whose other layers have none
_SHARED = 0  # in _TYPES, of a layer that takes the choice of the one before


def refused_indexers(own: Mapping[str, Any], architecture: str, rotated: int | None, by: str) -> Iterator[Finding]:
    """Yield an error for an indexer with which llama.cpp refuses the file, or ends.

    Args:
        own: The metadata below the architecture.
        architecture: ``general.architecture``.
        rotated: Features that are rotated, where the file tells.
        by: How it tells, for messages: ``is 64``.
    """
    facts, length = loader_facts()["indexers"].get(architecture, {}), own.get(_LENGTH)
    if facts and not _has_indexer(own, architecture):
        return
    yield from _of_first_layer(own, architecture)
    if not facts:
        return
    if facts.get("is longer"):
        missing = next((name for name in (_HEADS, _LENGTH) if not own.get(name)), None)
        if missing is not None:
            yield _refused(
                f"{architecture}.{missing} is {'0' if missing in own else 'missing'} beside {_BEST} {own[_BEST]}",
                f"State it, or {_BEST} 0 where the attention is full.",
            )
        elif _is_count(length) and rotated is not None and rotated >= length:
            yield _refused(
                f"{architecture}.{_SIZE} {by}, but heads of the indexer, of which a part is rotated, have {length} "
                f"features ({_LENGTH})",
                "Compare both with the configuration that the file was made from.",
            )
    elif _is_count(length) and rotated is not None and rotated > length:
        yield Finding(
            "error",
            f"{architecture}.{_SIZE} {by}, but heads of the indexer, which are rotated alike, have {length} features "
            f"({_LENGTH}): llama.cpp ends before it computes a token.",
            "Compare both with the configuration that the file was made from.",
        )


def _of_first_layer(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that the first layer with sparse attention has no indexer, although none before it chose any tokens."""
    types, keys = own.get(_TYPES), Fields(own, "")
    if architecture not in architectures_that_read(_TYPES):
        return
    if types is None:
        if loader_facts()["indexers"].get(architecture, {}).get("is longer"):
            yield _refused(
                f"{architecture}.{_TYPES} is missing, and no layer has an indexer of its own",
                "State 1 for every layer that has one.",
            )
        return
    count = computed_layers(keys)
    if count is None or not isinstance(types, Sequence) or isinstance(types, str):
        return
    if len(types) != count and _TYPES not in needed_by(architecture):
        yield _refused(f"{architecture}.{_TYPES} has {len(types)} values for {count} layers", f"State {count} values.")
    slides = sliding_layers(keys, architecture, count) or (False,) * count
    attends = attending_layers(keys, architecture, count)
    first = next((index for index in range(count) if attends[index] and not slides[index]), None)
    if first is not None and first < len(types) and types[first] == _SHARED:
        yield Finding(
            "error",
            f"{architecture}.{_TYPES} has 0 for layer {first}, the first one with sparse attention, which then takes "
            "the tokens that a layer before it chose, and there is none: llama.cpp does not run the file.",
            f"State 1 for layer {first}, if it has an indexer.",
        )


def rotation_of_indexer(
    keys: Fields, architecture: str, configs: Mapping[str, RotaryConfig], layout: RotaryLayout
) -> Iterator[Finding]:
    """Yield what llama.cpp rotates of the queries and keys of an indexer: a warning where the class does otherwise.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        configs: What the attention does; all of it rotates as many features.
        layout: How the attention pairs them.
    """
    length = keys.get(_LENGTH)
    if not _has_indexer(keys.values, architecture) or not _is_count(length):
        return
    facts = loader_facts()["indexers"][architecture]
    rotated = next(iter(configs.values())).rotary_dim
    assert rotated is not None
    if rotated > length - bool(facts.get("is longer")):  # with which llama.cpp ends
        return
    own: RotaryLayout = facts.get("layout", layout)
    which = "all" if rotated == length else f"the {facts['rotates']} {rotated}"
    said = (
        f"The indexer of the sparse attention rotates {which} of its {length} features by the same frequencies, in the "
        f"layout '{own}'"
    )
    kind = model_type_of(architecture)
    of_class = INDEXERS.get(kind or "", (own, ""))[0]
    if of_class != own:
        yield Finding(
            "warning",
            f"{said}, where the class of '{kind}' in transformers has '{of_class}', and the converter permutes no "
            "weights.",
            "Compare the scores of the two: one of them reads the weights otherwise than they were trained.",
        )
    else:
        other = "as the attention does" if own == layout else f"unlike the attention, which has '{layout}'"
        yield Finding("note", f"{said}, {other}.", "Rotate the queries and keys of the indexer so, too.")


def _has_indexer(own: Mapping[str, Any], architecture: str) -> bool:
    """Return whether layers of a file have an indexer that the graph rotates."""
    if architecture not in loader_facts()["indexers"]:
        return False
    if _LENGTH not in needed_by(architecture):
        return _is_count(own.get(_BEST))
    if architecture not in architectures_that_read(_RATIOS):
        return True
    ratios = own.get(_RATIOS)
    listed = ratios if isinstance(ratios, Sequence) and not isinstance(ratios, str) else [ratios]
    return _INDEXED_RATIO in listed if architecture == "deepseek4" else any(map(_is_count, listed))


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _refused(what: str, remedy: str) -> Finding:
    return Finding("error", f"{what}: llama.cpp refuses to load the file.", remedy, "refused by the engine")
