"""Heads of GGUF files with which llama.cpp ends: sizes and numbers that the graph of the architecture does not have.

Source: ``load_arch_tensors`` and the graphs in ``src/models``, whose assertions are in ``keys.json``, and what build
b11739 did with such files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.base import MOST_LAYERS
from locant.rotary_configs.gguf.architectures import (
    KNOWN,
    SEPARATE_PART,
    SIZES_BY_LATENT,
    WITHOUT_ATTENTION,
    WITHOUT_ROTATION,
)
from locant.rotary_configs.gguf.indexers import refused_indexers
from locant.rotary_configs.gguf.layers import LINEAR_BETWEEN, attending_by, attending_layers, computed_layers
from locant.rotary_configs.gguf.loader_facts import loader_facts

_HEADS, _KEYS = "attention.head_count", "attention.head_count_kv"
_LENGTH, _SIZE, _WIDTH = "attention.key_length", "rope.dimension_count", "embedding_length"
_RANK = "attention.kv_lora_rank"
_RATIOS = "attention.compress_ratios"
_KNOWN_RATIOS = (0, 4, 128)
_ENCODERS = frozenset(("llama-embed", "t5encoder"))  # no cache either, as their attention is never causal


def refused_heads(metadata: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield an error for heads with which llama.cpp ends.

    Args:
        metadata: The file's keys and values.
        architecture: ``general.architecture``.
    """
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    yield from [*_of_two_lengths(own, architecture)] or _of_another_width(own, architecture)
    yield from [*_with_shared_keys(own, architecture)] or _of_uneven_shares(own, architecture)
    for suffix in ("", "_swa"):
        yield from _of_another_latent(own, architecture, suffix)
    yield from _without_heads(own, architecture)
    yield from _of_one_memory(own, architecture)
    whole_name = f"{_LENGTH}_mla" if architecture in SIZES_BY_LATENT else _LENGTH
    whole, rotated = own.get(whole_name, 0), own.get(_SIZE, 0)
    if architecture in SEPARATE_PART and _is_count(whole) and _is_count(rotated) and rotated >= whole:
        yield _ends(
            f"{prefix}{_SIZE} is {rotated}, but a head has {whole} features by {whole_name}, and the "
            "rotated ones are a part of them",
            "Compare both with the configuration that the file was made from.",
        )
    yield from _of_rotated_size(own, architecture)
    ratios, count = own.get(_RATIOS), own.get("block_count")
    if architecture == "deepseek4" and isinstance(ratios, Sequence) and isinstance(count, int):
        wrong = next((each for each in ratios if each not in _KNOWN_RATIOS), None)
        if wrong is not None:
            yield _ends(
                f"{prefix}{_RATIOS} has {wrong}, where llama.cpp knows 0, 4 and 128", "Convert the model again."
            )
        elif len(ratios) < count:
            yield _ends(f"{prefix}{_RATIOS} lists {len(ratios)} of {count} layers", "List all layers.")


def _of_rotated_size(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that a graph asserts another number of rotated features, or rotates more than its indexer's heads have."""
    rotated, stated = own.get(_SIZE, own.get(_LENGTH, _usual_length(own))), own.get(_SIZE)
    if not _is_count(rotated) or not _first(own.get(_HEADS)):
        yield from refused_indexers(own, architecture, None, "")
        return
    by = f"is {rotated}" if stated is not None else f"is missing, for which llama.cpp takes the {rotated} of a head"
    if architecture in loader_facts()["rotates nothing"]:
        yield _ends(f"{architecture}.{_SIZE} {by}, but the graph of '{architecture}' rotates nothing", "State 0.")
    yield from refused_indexers(own, architecture, rotated, by)


def _of_two_lengths(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that keys and values of a head are of two lengths, where the graph has one for both."""
    # Latent attention has one size for both in DeepSeek-OCR alone, whose graph is that of DeepSeek V2.
    if architecture not in loader_facts()["keys as long as values"] or architecture in SIZES_BY_LATENT:
        return
    names = (_LENGTH, "attention.value_length")
    stated = [own.get(name) for name in names]
    lengths = [_usual_length(own) if each is None else each for each in stated]
    if not all(map(_is_count, lengths)) or lengths[0] == lengths[1]:
        return
    missing = next((name for name, each in zip(names, stated, strict=True) if each is None), None)
    by = "" if missing is None else f" ({missing} is missing: {_WIDTH} / {_HEADS} counts)"
    yield _ends(
        f"A key has {lengths[0]} features and a value {lengths[1]}{by}, where the graph of '{architecture}' has one "
        "size for both",
        f"State {' and '.join(f'{architecture}.{name}' for name in names)}.",
    )


def _of_another_width(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that all heads together have not as many features as the model, where the weights have the same number."""
    heads, width, by = _first(own.get(_HEADS)), own.get(_WIDTH), _LENGTH if _LENGTH in own else f"{_WIDTH} / {_HEADS}"
    length = own.get(_LENGTH, _usual_length(own))
    if architecture not in loader_facts()["heads as wide as the model"]:
        return
    if all(map(_is_count, (heads, width))) and _is_whole(length) and heads * length != width:
        yield _ends(
            f"{heads} heads of {length} features ({architecture}.{by}) have {heads * length} together, where the "
            f"weights of '{architecture}' have as many as {_WIDTH}, {width}",
            f"Compare {_LENGTH} with the configuration that the file was made from.",
        )


def _with_shared_keys(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that heads of queries share keys, where the graph has keys for every one."""
    heads, keys = _first(own.get(_HEADS)), _first(own.get(_KEYS))
    if architecture not in loader_facts()["keys of every head"] or _keeps_latent(own, architecture):
        return
    if _is_count(heads) and _is_count(keys) and heads != keys:
        yield _ends(
            f"{architecture}.{_KEYS} is {keys}, where '{architecture}' has keys for each of the {heads} heads",
            f"State {heads}.",
        )


def _of_uneven_shares(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that the heads of queries cannot share the keys of a layer evenly (``ggml_can_mul_mat``)."""
    if not _attends(architecture) or _keeps_latent(own, architecture):
        return
    of_queries, of_keys = (_by_layer(own.get(name), architecture) for name in (_HEADS, _KEYS))
    count = max(len(of_queries), len(of_keys))
    if not {len(of_queries), len(of_keys)} <= {1, count}:
        return  # of another number of layers, with which no file loads
    pairs = zip(of_queries * (count // len(of_queries)), of_keys * (count // len(of_keys)), strict=True)
    uneven = next(
        ((layer, *each) for layer, each in enumerate(pairs) if all(map(_is_count, each)) and each[0] % each[1]), None
    )
    if uneven is not None:
        layer, heads, keys = uneven
        where = f" in layer {layer}" if count > 1 else ""
        yield Finding(
            "error",
            f"{architecture}.{_HEADS} {heads} is no multiple of {_KEYS} {keys}{where}, so that heads of queries cannot "
            "share those of keys: llama.cpp ends before it computes a token.",
            "Compare both with the configuration that the file was made from.",
        )


def _of_another_latent(own: Mapping[str, Any], architecture: str, suffix: str) -> Iterator[Finding]:
    """Yield that the cache has room for keys of another size than that of the latent with the rotated part."""
    rank = own.get(f"{_RANK}{suffix}")
    if not _keeps_latent(own, architecture) or not _is_count(rank):
        return
    length = own.get(f"{_LENGTH}{suffix}", own.get(_LENGTH, _usual_length(own)))
    rotated = own.get(f"{_SIZE}{suffix}", own.get(_SIZE))
    listed = own.get(_KEYS, own.get(_HEADS))
    heads = max(listed, default=0) if _is_list(listed) and all(map(_is_whole, listed)) else listed
    if (rotated is None and architecture in SIZES_BY_LATENT) or not _is_count(length) or not _is_count(heads):
        return
    if rotated is None:
        yield _ends(
            f"{architecture}.{_SIZE} is missing, and counts as {_LENGTH}, {length}",
            f"State the features of a head beside the latent; {_LENGTH} is {_RANK} with them.",
        )
    elif _is_whole(rotated) and heads * length != rank + rotated:
        yield _ends(
            f"{heads} key {'head' if heads == 1 else 'heads'} of {length} features ({architecture}.{_LENGTH}{suffix}) "
            f"have {heads * length}, where the cache holds the latent of {rank} ({_RANK}{suffix}) and {rotated} more "
            f"({_SIZE})",
            _of_one_latent(listed, heads, length, f"{_LENGTH}{suffix}", rank + rotated),
        )


def _of_one_latent(listed: Any, heads: int, length: int, name: str, size: int) -> str:
    """Return what makes the keys of a layer one head with the latent; a list says which layers have attention, too.

    Args:
        listed: The numbers of heads in the file, of all layers or of each.
        heads: The largest of them.
        length: The features of a head.
        name: The key that states them.
        size: Those of the latent with the rotated part.
    """
    one = f"1 in place of {heads} in the list {_KEYS}" if _is_list(listed) else f"{_KEYS} 1"
    wrong = [*([one] if heads != 1 else []), *([f"{name} {size}"] if length != size else [])]
    return f"State {' and '.join(wrong)}."


def _keeps_latent(own: Mapping[str, Any], architecture: str) -> bool:
    """Return whether the cache of a file holds the latent in place of keys (``llama_hparams::is_mla``)."""
    sizes = (own.get(f"attention.{name}_length_mla") for name in ("key", "value"))
    return architecture in loader_facts()["latent"] and all(map(_is_count, sizes))


def _usual_length(own: Mapping[str, Any]) -> int | None:
    """Return the features of a head where a file states none."""
    heads, width = _first(own.get(_HEADS)), own.get(_WIDTH)
    return width // heads if _is_count(heads) and _is_count(width) else None


def _without_heads(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that layers have no heads, where the architecture has attention in all of them."""
    if not _attends(architecture) or architecture in loader_facts()["without heads in some layers"]:
        return
    name = next((name for name in (_KEYS, _HEADS) if _has_zero(own.get(name), architecture)), None)
    if name is not None:
        where = "some layers" if isinstance(own[name], Sequence) else "all layers"
        yield _ends(
            f"{architecture}.{name} is 0 in {where}, where the architecture '{architecture}' has attention in every "
            "one",
            "State the number of heads of every layer.",
        )
    elif own.get(_HEADS) is None and own.get(_WIDTH) is not None:
        yield _ends(f"{architecture}.{_HEADS} is missing, and counts as 0", "Convert the model again.")


def _of_one_memory(own: Mapping[str, Any], architecture: str) -> Iterator[Finding]:
    """Yield that all layers, or none, have attention, where llama.cpp has memories for both kinds.

    It fills in the places of both (``llm_graph_input_mem_hybrid::set_input``), of which the graph then asks for one.
    """
    count, facts = own.get("block_count"), loader_facts()
    by_layer = LINEAR_BETWEEN.keys() | facts["recurrent without heads"]
    if architecture not in facts["hybrid"] or architecture not in by_layer:
        return
    if not isinstance(count, int) or not 0 < count <= MOST_LAYERS or own.get("full_attention_interval") == 0:
        return
    keys = Fields(own, "")
    attends = attending_layers(keys, architecture, computed_layers(keys) or count)
    if len({*attends}) == 1:
        by = attending_by(keys, architecture)
        how = "every layer has" if attends[0] else "no layer has"
        other = "layers with a state" if attends[0] else "attention"
        yield Finding(
            "error",
            f"By {architecture}.{by} {how} attention, where the architecture '{architecture}' has {other} as well: "
            "llama.cpp ends before it computes a token.",
            f"Compare {by} with the configuration that the file was made from.",
        )


def _attends(architecture: str) -> bool:
    """Return whether an architecture has attention in all of its layers, or in those that have heads."""
    return architecture in KNOWN or (architecture in WITHOUT_ROTATION and architecture not in WITHOUT_ATTENTION)


def _by_layer(heads: Any, architecture: str) -> list[Any]:
    """Return the numbers of heads that count: one for all layers, or that of each."""
    if not _is_list(heads):
        return [heads]
    # The number of each layer counts in the cache alone; graphs take that of the first.
    has_cache = architecture not in _ENCODERS and architecture not in loader_facts()["without cache"]
    return list(heads if has_cache else heads[:1])


def _has_zero(heads: Any, architecture: str) -> bool:
    return any(each == 0 and not isinstance(each, bool) for each in _by_layer(heads, architecture))


def _first(heads: Any) -> Any:
    return heads[0] if isinstance(heads, Sequence) and heads else heads


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> TypeGuard[int]:
    return _is_whole(value) and value > 0


def _ends(what: str, remedy: str) -> Finding:
    return Finding("error", f"{what}: llama.cpp ends when it loads the file.", remedy)
