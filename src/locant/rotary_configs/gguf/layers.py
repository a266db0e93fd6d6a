"""Layers of a GGUF file: which rotate, which see a window, and which have attention at all."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from locant.errors import ConfigError
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.gguf.architectures import Architecture
from locant.rotary_configs.layers import CHUNKED, FULL, LINEAR, SLIDING
from locant.rotary_configs.reading import ALL_LAYERS, MOST_LAYERS, LayerType, layers_alike

MAIN, COMPRESSED = "main", "compress"
"""Keys of the two configurations of models with compressed attention, whose base is another one."""

_PATTERN = "attention.sliding_window_pattern"
_RATIOS = "attention.compress_ratios"
_COMPRESSIONS = {0: SLIDING, 4: "compressed_sparse_attention"}
_HEAVILY = "heavily_compressed_attention"


def layers_of(keys: Fields, facts: Architecture, configs: Container[str]) -> tuple[LayerType, ...]:
    """Return the layers that compute the next token, by their type and by what they do with positions.

    Args:
        keys: The metadata of the architecture.
        facts: What llama.cpp does with it.
        configs: Keys of the configurations.

    Returns:
        The layers; none where the file does not say how many there are, or which have a window.

    Raises:
        ConfigError: There are more than any model has, or a key is wrong.
    """
    count = keys.whole("block_count")
    if count is None:
        return ()
    count -= min(int(keys.number("nextn_predict_layers") or 0), count - 1)
    if count > MOST_LAYERS:
        raise ConfigError(f"block_count in {keys.where} is {count}; models have at most {MOST_LAYERS} layers.")
    slides = _sliding(keys, facts, count)
    if slides is None:
        return ()
    window, ratios = window_of(keys, facts), _listed(keys, _RATIOS)
    rotates, attends = _rotating(keys, facts, slides), _attending(keys, facts, count)
    sliding, full = sliding_type(facts), FULL if any(slides) else ALL_LAYERS
    kinds = []
    for index in range(count):
        name = sliding if slides[index] else full
        key: str | None = name if name in configs else ALL_LAYERS if ALL_LAYERS in configs else FULL
        if COMPRESSED in configs:
            name = _COMPRESSIONS.get(ratios[index], _HEAVILY) if ratios and index < len(ratios) else SLIDING
            key = MAIN if name == SLIDING else COMPRESSED
        if not attends[index]:
            name = LINEAR
        has_rope, has_window = (attends[index] and each[index] for each in (rotates, slides))
        kinds.append((name, key if has_rope else None, window if has_window else None, attends[index]))
    return layers_alike(kinds)


def sliding_type(facts: Architecture) -> str:
    """Return the name of the layers with a window, by the class of transformers."""
    return CHUNKED if facts.windows is not None and facts.windows.chunked else SLIDING


def window_of(keys: Fields, facts: Architecture) -> int | None:
    """Return how many tokens layers with a window look back over, ``None`` where no layer has one."""
    windows = facts.windows
    if windows is None or windows.depth not in (None, keys.whole("block_count")):
        return None
    stated = keys.number("attention.sliding_window")
    size = windows.usual if stated is None else int(stated)
    if not size:
        return None
    size = windows.fixed or size
    return size // 2 + 1 if windows.both_ways else size


def _sliding(keys: Fields, facts: Architecture, count: int) -> tuple[bool, ...] | None:
    """Return for every layer whether it has a window; ``None`` where the file must say, and does not."""
    windows = facts.windows
    if windows is None or window_of(keys, facts) is None:
        return (False,) * count
    if windows.everywhere:
        return (True,) * count
    if (listed := _listed(keys, _PATTERN)) is not None:
        return tuple(index < len(listed) and bool(listed[index]) for index in range(count))
    period = keys.whole(_PATTERN) or windows.period
    if period is None:
        return None
    full = 0 if windows.full_first else period - 1
    return tuple(index % period != full for index in range(count))


def _attending(keys: Fields, facts: Architecture, count: int) -> tuple[bool, ...]:
    """Return for every layer whether it has attention, not a recurrence or a convolution."""
    if facts.attention_every is not None:
        recurrent = _listed(keys, "attention.recurrent_layers")
        if recurrent is not None and len(recurrent) >= count:
            return tuple(not each for each in recurrent[:count])
        every = keys.whole("full_attention_interval") or facts.attention_every
        return tuple((index + 1) % every == 0 for index in range(count))
    heads = [_listed(keys, name) for name in ("attention.head_count", "attention.head_count_kv")]
    return tuple(
        all(bool(each[index]) for each in heads if each is not None and index < len(each)) for index in range(count)
    )


def _rotating(keys: Fields, facts: Architecture, slides: Sequence[bool]) -> tuple[bool, ...]:
    """Return for every layer whether it rotates, were it one of attention."""
    count, rule = len(slides), facts.no_rope
    if facts.depth not in (None, count):
        return (False,) * count
    if (pattern := _listed(keys, "attention.rope_pattern")) is not None:
        return tuple(index >= len(pattern) or bool(pattern[index]) for index in range(count))
    if rule.full and any(slides):
        dense = (keys.number("leading_dense_block_count") or 0) if rule.dense else 0
        return tuple(each or index < dense for index, each in enumerate(slides))
    if rule.every is None or (rule.with_windows and not any(slides)):
        return (True,) * count
    without = 0 if rule.first else rule.every - 1
    return tuple(index % rule.every != without for index in range(count))


def _listed(keys: Fields, name: str) -> Sequence[Any] | None:
    """Return the values by layer of a key, ``None`` where it has one for all or is missing."""
    value = keys.get(name)
    return value if isinstance(value, list | tuple) else None
