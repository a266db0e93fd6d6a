"""Layers of a GGUF file that do not rotate, rotate otherwise or see a window, as llama.cpp's graphs have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling.fields import Fields
from locant.rotary_configs.base import ALL_LAYERS, LayerType, NoRotaryPositionsError, number_of_layers
from locant.rotary_configs.gguf.loader_facts import loader_facts
from locant.rotary_configs.gguf.sliding import CHUNKED, COMPRESS_RATIOS, COMPRESSED, FULL, MAIN, SLIDING
from locant.rotary_configs.gguf.windows import WINDOW_EVERYWHERE, sliding_layers, window_of

_DENSE = "full_attention before the experts"  # of Cohere 2 MoE, which rotates there
_STILL = " without positions"  # after the name of a type of which other layers rotate
_WITHOUT_ATTENTION = "without attention"

SWITCHED = frozenset(("granite", "granitehybrid", "granitemoe", "graniteswitch"))
"""Architectures that ``rope.scaling.finetuned`` false switches rotation off in (llama_model_granite)."""

ROTATES_SLIDING_ALONE = frozenset(("cohere2", "cohere2moe", "exaone4", "exaone-moe", "maple", "muse-glimmer"))
"""Architectures whose layers of full attention do not rotate, where there are sliding ones."""

LINEAR_BETWEEN = {**dict.fromkeys(("qwen3next", "qwen35", "qwen35moe", "qwen4exp"), 4), "minimax-01": 8}
"""Architectures with attention in every so many layers, or by ``full_attention_interval``, or where
``attention.recurrent_layers`` has 0, and state spaces or linear attention between."""

ROPE_PATTERN = "attention.rope_pattern"
TAKES_ROPE_PATTERN = frozenset(("granite_swa",))
"""Architectures that rotate in the layers that ``attention.rope_pattern`` lists."""

_PERIOD = 4  # n_no_rope_layer_step
_BAICHUAN, _WIDE_BAICHUAN = 32, 40  # layers of the one that rotates, and of the one with ALiBi
_COMPRESSIONS = {0: SLIDING, 4: "compressed_sparse_attention"}
_HEAVILY = "heavily_compressed_attention"


def layers_of(
    keys: Fields, architecture: str, configs: Mapping[str, RotaryConfig]
) -> tuple[dict[str, RotaryConfig], tuple[LayerType, ...]]:
    """Return the configurations and which layers have them.

    Layers that predict tokens beyond the next are not among them.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        configs: What the keys about rotation say, ``all`` where it is for all layers.

    Raises:
        ConfigError: No layer rotates, or there are more layers than any model has.
    """
    if architecture in SWITCHED and keys.flag("rope.scaling.finetuned") is False:
        raise NoRotaryPositionsError(
            f"rope.scaling.finetuned is false in {keys.where}, by which llama.cpp does not rotate: no rotary positions "
            "and no others."
        )
    found = dict(configs)
    window = window_of(keys, architecture)
    count = computed_layers(keys)
    if architecture == "deepseek4":
        return found, _compressed_layers(keys, count, window)
    slides = None if count is None else sliding_layers(keys, architecture, count)
    if count is None or slides is None:
        return found, ()
    if architecture == "baichuan" and count != _BAICHUAN:
        known = (
            f"Baichuan of {count} layers for the one of 13 billion parameters, which has ALiBi and no rotary positions"
        )
        other = f"no Baichuan of {count} layers, and does not rotate: those of 32 have rotary positions, of 40 ALiBi"
        raise NoRotaryPositionsError(f"llama.cpp takes {known if count == _WIDE_BAICHUAN else other}.")
    attends = attending_layers(keys, architecture, count)
    rotates = tuple(turns and at for turns, at in zip(_rotates(keys, architecture, slides), attends, strict=True))
    if not any(attends):
        by = attending_by(keys, architecture)
        raise ConfigError(
            f"By {by} in {keys.where} no layer has attention: llama.cpp ends before it computes a token, as its cache "
            "of keys and values has no layer then."
        )
    if architecture in TAKES_ROPE_PATTERN and not any(rotates):
        raise NoRotaryPositionsError(
            f"{ROPE_PATTERN} in {keys.where} lists no layer: llama.cpp rotates none, so that there are no rotary "
            "positions and no others.",
            f"List in {ROPE_PATTERN} with 1 the layers that the model was trained to rotate.",
        )
    names = _names(keys, architecture, slides, attends, rotates, FULL if ALL_LAYERS not in found else ALL_LAYERS)
    layers = []
    for name in dict.fromkeys(names):
        indices = tuple(index for index, each in enumerate(names) if each == name)
        kind = name.removesuffix(_STILL)
        config = (
            (kind if kind in found else ALL_LAYERS if ALL_LAYERS in found else FULL) if rotates[indices[0]] else None
        )
        size = window if slides[indices[0]] or (architecture in WINDOW_EVERYWHERE and attends[indices[0]]) else None
        layers.append(LayerType(name, indices, config, size, attends=attends[indices[0]]))
    used = {layer.config for layer in layers}
    return {name: config for name, config in found.items() if name in used} or found, tuple(layers)


def computed_layers(keys: Fields) -> int | None:
    """Return the number of layers that compute the next token (``llama_hparams::n_layer``)."""
    count, beyond = number_of_layers(keys, "block_count"), keys.get("nextn_predict_layers")
    if count is None or not isinstance(beyond, int) or not 0 < beyond < count:
        return count
    return count - beyond


def attending_layers(keys: Fields, architecture: str, count: int) -> tuple[bool, ...]:
    """Return for every layer whether it has attention, not a state space or a convolution.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        count: Number of layers that compute the next token.
    """
    if architecture in loader_facts()["without heads in some layers"]:
        of_keys = _listed(keys, _heads_by_layer(keys), count) or (1,) * count
        of_queries = _listed(keys, "attention.head_count", count) if architecture == "deci" else None
        return tuple(bool(of_keys[index] and (of_queries is None or of_queries[index])) for index in range(count))
    if architecture not in LINEAR_BETWEEN:
        return (True,) * count
    recurrent = _listed(keys, "attention.recurrent_layers", count)
    if recurrent is not None:
        return tuple(not recurrent[index] for index in range(count))
    if isinstance(for_all := keys.get("attention.recurrent_layers"), int):
        return (not for_all,) * count
    every = keys.whole("full_attention_interval") or LINEAR_BETWEEN[architecture]
    return tuple((index + 1) % every == 0 for index in range(count))


def attending_by(keys: Fields, architecture: str) -> str:
    """Return the key that tells which layers have attention: ``block_count`` where none of its own is there.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
    """
    if architecture not in LINEAR_BETWEEN:
        return _heads_by_layer(keys)
    stated = ("attention.recurrent_layers", "full_attention_interval")
    return next((name for name in stated if keys.get(name) is not None), "block_count")


def _heads_by_layer(keys: Fields) -> str:
    """Return the key that tells which layers have heads: queries have as many as keys where a file does not say."""
    name = "attention.head_count_kv"
    return "attention.head_count" if keys.get(name) is None else name


def _listed(keys: Fields, name: str, count: int) -> list[Any] | None:
    """Return the values by layer of a key, ``None`` where it has one for all, or too few."""
    values = keys.get(name)
    is_list = isinstance(values, Sequence) and not isinstance(values, str) and len(values) >= count
    return list(values) if is_list else None


def _rotates(keys: Fields, architecture: str, slides: Sequence[bool]) -> tuple[bool, ...]:
    """Return for every layer whether its graph rotates (``use_rope``), were it one of attention."""
    count = len(slides)
    if architecture in TAKES_ROPE_PATTERN and (pattern := _listed(keys, ROPE_PATTERN, 1)):
        return tuple(bool(pattern[index]) if index < len(pattern) else True for index in range(count))
    if architecture in ROTATES_SLIDING_ALONE and (any(slides) or architecture != "exaone4"):
        return tuple(each or index < _dense(keys, architecture) for index, each in enumerate(slides))
    if architecture in ("smollm3", "afmoe"):
        return tuple((index + 1) % _PERIOD != 0 for index in range(count))
    has_windows = window_of(keys, architecture) is not None
    step = _PERIOD if has_windows else count  # n_no_rope_layer_step
    if architecture == "llama4":
        return tuple((index + 1) % step != 0 for index in range(count))
    if architecture == "smallthinker":
        return tuple(step == count or index % step != 0 for index in range(count))
    return (True,) * count


def _dense(keys: Fields, architecture: str) -> int:
    """Return the number of Cohere 2 MoE's layers before the experts."""
    stated = keys.get("leading_dense_block_count")
    return stated if architecture == "cohere2moe" and isinstance(stated, int) else 0


def _names(
    keys: Fields,
    architecture: str,
    slides: Sequence[bool],
    attends: Sequence[bool],
    rotates: Sequence[bool],
    alike: str,
) -> tuple[str, ...]:
    """Return the type of every layer, ``alike`` where none has a window."""
    sliding = CHUNKED if architecture == "llama4" else SLIDING
    kinds = [(sliding if each else FULL) if any(slides) else alike for each in slides]
    for index in range(min(len(kinds), _dense(keys, architecture))):
        kinds[index] = _DENSE if kinds[index] == FULL else kinds[index]
    rotating = {kind for kind, turns in zip(kinds, rotates, strict=True) if turns}
    return tuple(
        _WITHOUT_ATTENTION if not at else f"{kind}{_STILL}" if kind in rotating and not turns else kind
        for kind, turns, at in zip(kinds, rotates, attends, strict=True)
    )


def _compressed_layers(keys: Fields, count: int | None, window: int | None) -> tuple[LayerType, ...]:
    """Return the layers of DeepSeek-V4, which see tokens beyond the window compressed, or not at all."""
    ratios = None if count is None else _listed(keys, COMPRESS_RATIOS, count)
    if count is None or ratios is None:
        return ()
    names = [_COMPRESSIONS.get(each, _HEAVILY) for each in ratios[:count]]
    return tuple(
        LayerType(
            name,
            tuple(index for index, each in enumerate(names) if each == name),
            MAIN if name == SLIDING else COMPRESSED,
            window,
        )
        for name in dict.fromkeys(names)
    )
