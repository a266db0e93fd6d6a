"""Layers of a GGUF file that do not rotate, rotate otherwise or see a window, as llama.cpp's graphs have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.fields import Fields
from locant.rotary_configs.base import ALL_LAYERS, LayerType, NoRotaryPositionsError

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
_DENSE = "full_attention before the experts"  # of Cohere 2 MoE, which rotates there

SWITCHED = frozenset(("granite", "granitemoe", "granitehybrid"))
"""Architectures that ``rope.scaling.finetuned`` false switches rotation off in (llama_model_granite)."""

SCALES_FULL_ATTENTION = frozenset(("olmo2",))
"""Architectures whose sliding layers have the base of the file without its scaling (llama_model_olmo2)."""

ROTATES_SLIDING_ALONE = frozenset(("cohere2", "cohere2moe", "exaone4", "exaone-moe"))
"""Architectures whose layers of full attention do not rotate, where there are sliding ones."""

LINEAR_BETWEEN = frozenset(("qwen3next", "qwen35", "qwen35moe"))
"""Architectures with attention in every fourth layer, or by ``full_attention_interval``, and state spaces between."""

_PERIOD = 4  # swa_period and n_no_rope_layer_step, where a file says nothing else
_CHUNK = 8192  # of Llama 4, whatever the file says
_PERIODS = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gemma-embedding": 6, "gpt-oss": 2, "modern-bert": 3, "plamo3": 8}
_FULL_FIRST = frozenset(("modern-bert", "cohere2moe"))  # full attention in the first layer of each period, not the last
_DEEPER = 64  # layers of EXAONE 4 32B, the one with windows
_WIDE_BAICHUAN = 40  # layers of the one with ALiBi
_WINDOW = 4096  # of EXAONE 4 32B, where the file states none, and of SmallThinker, whatever it states
_MOST_LAYERS = 10_000


def layers_of(
    keys: Fields, architecture: str, configs: Mapping[str, RotaryConfig]
) -> tuple[dict[str, RotaryConfig], tuple[LayerType, ...]]:
    """Return the configurations and which layers have them.

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
    window = keys.get("attention.sliding_window")
    window = window if isinstance(window, int) else None
    count = keys.whole("block_count")
    if count is not None and count > _MOST_LAYERS:
        raise ConfigError(f"block_count in {keys.where} is {count}; {_MOST_LAYERS} is the most here.")
    if architecture in SCALES_FULL_ATTENTION and window and set(found) == {ALL_LAYERS}:
        full = found[ALL_LAYERS]
        found = {FULL: full, SLIDING: replace(full, scaling=Unscaled())}
    if count is None:
        return found, ()
    names = _names(keys, architecture, count, window)
    if ALL_LAYERS not in found and not {*names} <= {*found, _DENSE, "without attention"}:
        return found, ()  # the file does not say which layers slide
    if architecture == "baichuan" and count == _WIDE_BAICHUAN:
        raise NoRotaryPositionsError(
            f"llama.cpp takes Baichuan of {count} layers for the one of 13 billion parameters, which has ALiBi and no "
            "rotary positions."
        )
    if architecture == "exaone4" and SLIDING in names:
        window = window or _WINDOW
    if architecture == "smallthinker":
        window = window and _WINDOW  # any window switches on the one of the models
    layers = []
    for name in dict.fromkeys(names):
        config = name if name in found else ALL_LAYERS if ALL_LAYERS in found else None
        if name.endswith("without positions") or not _rotates(architecture, name, count):
            config = None
        size = {SLIDING: window, CHUNKED: _CHUNK}.get(name)
        indices = tuple(index for index, each in enumerate(names) if each == name)
        layers.append(LayerType(name, indices, config, size, attends=name != "without attention"))
    return found, tuple(layers)


def _names(keys: Fields, architecture: str, count: int, window: int | None) -> tuple[str, ...]:
    """Return the type of every layer."""
    without_heads = keys.get("attention.head_count_kv")
    if isinstance(without_heads, Sequence) and len(without_heads) == count and 0 in without_heads:
        # A layer without heads is a state space or a convolution.
        return tuple("without attention" if heads == 0 else ALL_LAYERS for heads in without_heads)
    if architecture in LINEAR_BETWEEN:
        every = keys.whole("full_attention_interval") or _PERIOD
        return tuple("without attention" if (index + 1) % every else ALL_LAYERS for index in range(count))
    stepped = tuple((index + 1) % _PERIOD == 0 for index in range(count))
    if architecture in ("smollm3", "afmoe"):
        return tuple(f"{ALL_LAYERS} without positions" if each else ALL_LAYERS for each in stepped)
    if architecture == "smallthinker":
        return tuple(
            SLIDING if window and index % _PERIOD else FULL if window else ALL_LAYERS for index in range(count)
        )
    if architecture == "llama4" and window != 0:
        return tuple(FULL if each else CHUNKED for each in stepped)
    pattern = keys.get("attention.sliding_window_pattern")
    listed = isinstance(pattern, Sequence) and not isinstance(pattern, str) and len(pattern) >= count
    slides = (
        architecture in ROTATES_SLIDING_ALONE - {"exaone4"}
        or (architecture == "exaone4" and count == _DEEPER)
        or (architecture in {*SCALES_FULL_ATTENTION, *_PERIODS} and window)
        or (listed and window)
    )
    if not slides:
        return (FULL if architecture in _PERIODS and not window else ALL_LAYERS,) * count
    if listed and isinstance(pattern, Sequence):
        names = tuple(SLIDING if each else FULL for each in pattern[:count])
    else:
        stated = isinstance(pattern, int) and not isinstance(pattern, bool)
        period = pattern if stated else _PERIODS.get(architecture, _PERIOD)
        names = tuple(SLIDING if _slides(architecture, index, period) else FULL for index in range(count))
    dense = (keys.whole("leading_dense_block_count") or 0) if architecture == "cohere2moe" else 0
    return tuple(_DENSE if name == FULL and index < dense else name for index, name in enumerate(names))


def _slides(architecture: str, index: int, period: int) -> bool:
    if period == 0:
        return True
    return index % period != 0 if architecture in _FULL_FIRST else index % period < period - 1


def _rotates(architecture: str, name: str, count: int) -> bool:
    if name == "without attention":
        return False
    if architecture == "smallthinker":
        return name != FULL or count == _PERIOD  # n_no_rope_layer_step is the number of layers then: all rotate
    return name != FULL or architecture not in {"llama4", *ROTATES_SLIDING_ALONE}
