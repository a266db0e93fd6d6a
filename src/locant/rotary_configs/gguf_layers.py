"""Layers of a GGUF file that do not rotate, rotate otherwise or see a window, as llama.cpp's graphs have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.fields import Fields
from locant.rotary_configs.base import ALL_LAYERS, LayerType

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"

SWITCHED = frozenset(("granite", "granitemoe", "granitehybrid"))
"""Architectures that ``rope.scaling.finetuned`` false switches rotation off in (llama_model_granite)."""

SCALES_FULL_ATTENTION = frozenset(("olmo2",))
"""Architectures whose sliding layers have the base of the file without its scaling (llama_model_olmo2)."""

_PERIOD = 4  # swa_period and n_no_rope_layer_step, where a file says nothing else
_CHUNK = 8192  # of Llama 4, whatever the file says
_DEEPER = 64  # layers of EXAONE 4 32B, the one with windows
_WINDOW = 4096  # of it
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
        raise ConfigError(
            f"rope.scaling.finetuned is false in {keys.where}, by which llama.cpp does not rotate: no rotary positions."
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
    if architecture == "exaone4" and SLIDING in names:
        window = window or _WINDOW
    layers = []
    for name in dict.fromkeys(names):
        config = name if name in found else ALL_LAYERS if ALL_LAYERS in found else None
        if name.endswith("without positions") or not _rotates(architecture, name):
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
    stepped = tuple((index + 1) % _PERIOD == 0 for index in range(count))
    if architecture == "smollm3":
        return tuple(f"{ALL_LAYERS} without positions" if each else ALL_LAYERS for each in stepped)
    if architecture == "llama4" and window != 0:
        return tuple(FULL if each else CHUNKED for each in stepped)
    slides = (
        architecture == "cohere2"
        or (architecture == "exaone4" and count == _DEEPER)
        or (architecture in SCALES_FULL_ATTENTION and window)
    )
    if not slides:
        return (ALL_LAYERS,) * count
    pattern = keys.get("attention.sliding_window_pattern")
    if isinstance(pattern, Sequence) and not isinstance(pattern, str) and len(pattern) >= count:
        return tuple(SLIDING if each else FULL for each in pattern[:count])
    period = pattern if isinstance(pattern, int) and not isinstance(pattern, bool) else _PERIOD
    return tuple(SLIDING if period == 0 or index % period < period - 1 else FULL for index in range(count))


def _rotates(architecture: str, name: str) -> bool:
    if name == "without attention":
        return False
    return name != FULL or architecture not in ("llama4", "cohere2", "exaone4")
