"""Reading rotary positions from the metadata of GGUF files, as llama.cpp takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Unscaled
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.config_json import length_within
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.gguf.architectures import Architecture, keys_of
from locant.rotary_configs.gguf.layers import COMPRESSED, MAIN, layers_of, sliding_type, window_of
from locant.rotary_configs.gguf.scaling import SCALING, Tensors, scaling_of
from locant.rotary_configs.layers import FULL
from locant.rotary_configs.reading import ALL_LAYERS, NoRotaryPositionsError, ParsedConfig

USUAL_BASE = 10000.0
"""Base where a file states none."""

_SIZE, _HEAD, _SECTIONS = "rope.dimension_count", "attention.key_length", "rope.dimension_sections"
_COMPRESS_BASE = "attention.compress_rope_freq_base"


def read_gguf(metadata: Mapping[str, Any], tensors: Mapping[str, Sequence[float]] | None = None) -> ParsedConfig:
    """Read the rotary positions of a GGUF file.

    Args:
        metadata: The file's keys and values.
        tensors: Its tensors of factors: ``rope_freqs.weight`` (Llama 3's scaling and 'proportional'), or
            ``rope_factors_short.weight`` and ``rope_factors_long.weight`` (LongRoPE), where it has them.

    Returns:
        The configurations, with the layout that the file's projections have. Factors that no scaling with a name makes
        are :class:`~locant.positions.scaling.measured.Measured`.

    Raises:
        NoRotaryPositionsError: The model has other positions.
        ConfigError: The architecture, a type or a key is unknown, or a value is missing or out of range.

    Example:
        >>> parsed = read_gguf({
        ...     "general.architecture": "llama", "llama.context_length": 16384, "llama.attention.key_length": 128,
        ...     "llama.rope.freq_base": 1e6, "llama.rope.scaling.type": "none"})
        >>> parsed.config.layout, parsed.config.base
        ('interleaved', 1000000.0)
    """
    facts, keys = keys_of(metadata)
    if facts.switched and keys.flag(f"{SCALING}finetuned") is False:
        raise NoRotaryPositionsError(f"{SCALING}finetuned is false in {keys.where}: models of it have no RoPE then.")
    stated = keys.number("rope.freq_base") if facts.base is None else facts.base
    base = USUAL_BASE if stated is None else stated
    head_dim, rotary_dim = _sizes(keys, facts)
    if facts.alpha and (alpha := keys.number(f"{SCALING}alpha") or 0) > 0 and head_dim > 2:
        base = float(base * alpha ** (head_dim / (head_dim - 2)))
    given = {f"{name.removesuffix('.weight')}.weight": tuple(values) for name, values in (tensors or {}).items()}
    if facts.part == "half":  # the tensors are as long as those of layers with a window need
        rotary_dim //= 2
        given = {name: values[: rotary_dim // 2] for name, values in given.items()}
    sections = [int(size) for size in keys.numbers(_SECTIONS) or ()] if facts.axes else []
    if facts.axes == "if stated" and not (len(sections) > 1 and all(sections[:2])):
        sections = []
    scaling, length = scaling_of(keys, facts, given, rotary_dim, base), keys.whole("context_length")
    config = RotaryConfig(
        head_dim=head_dim,
        base=base,
        rotary_dim=rotary_dim,
        layout="half" if sections else facts.layout,
        scaling=scaling,
        max_length=length_within(scaling, length),
    )
    configs = {ALL_LAYERS: config}
    if (compressed := keys.number(_COMPRESS_BASE)) is not None:
        other = scaling_of(keys, facts, given, rotary_dim, compressed)
        plain = replace(config, scaling=Unscaled(), max_length=length)
        configs = {MAIN: plain, COMPRESSED: replace(config, base=compressed, scaling=other)}
    elif (sliding := _sliding(keys, facts, config, given)) != config:
        configs = {FULL: config, sliding_type(facts): sliding}
    layers = layers_of(keys, facts, configs)
    if layers and not any(each.config for each in layers):
        raise NoRotaryPositionsError(f"By {keys.where}, no layer of this model has RoPE.")
    used = {each.config for each in layers}
    configs = {name: each for name, each in configs.items() if not layers or name in used}
    axes = {"sections": tuple(size for size in sections if size), "interleaved": facts.axes == "alternating"}
    multimodal = {name: dict(axes) for name in configs if axes["sections"]}
    assumed = () if stated is not None else (f"base {USUAL_BASE:g}",)
    return ParsedConfig(configs, multimodal, layers, "GGUF metadata", assumed)


def _sizes(keys: Fields, facts: Architecture, suffix: str = "") -> tuple[int, int]:
    """Return the features of a head, and how many of them are rotated; ``suffix`` for layers with a window."""
    rotary_dim = keys.whole(f"{_SIZE}{suffix}", _SIZE)
    if facts.part == "latent":
        rotary_dim = int(keys.need(rotary_dim, _SIZE, "the rotated part of the head has no other size"))
        return rotary_dim, rotary_dim
    has_heads = facts.sliding is not None and facts.sliding.own == "heads"
    head_dim = keys.whole(f"{_HEAD}{suffix if has_heads else ''}", _HEAD)
    if head_dim is None:
        heads, width = keys.get("attention.head_count"), keys.whole("embedding_length")
        if isinstance(heads, list | tuple):  # by layer, 0 for those without attention
            heads = next((each for each in heads if each), None)
        heads = Fields({"attention.head_count": heads}, keys.where).whole("attention.head_count")
        if heads is None or width is None or width < heads:
            raise ConfigError(f"{keys.where} has no {_HEAD}, and no embedding_length and attention.head_count for it.")
        head_dim = width // heads
    rotary_dim = rotary_dim or head_dim
    if facts.part == "separate":
        return rotary_dim, rotary_dim
    if facts.part == "whole" and rotary_dim != head_dim:
        raise ConfigError(
            f"{_SIZE} in {keys.where} is {rotary_dim}, but llama.cpp rotates whole heads, of {head_dim} features."
        )
    return head_dim, rotary_dim


def _sliding(keys: Fields, facts: Architecture, full: RotaryConfig, tensors: Tensors) -> RotaryConfig:
    """Return the configuration of layers with a window."""
    own, stated = facts.sliding, keys.number("rope.freq_base_swa") if facts.sliding else None
    if own is None or (window_of(keys, facts) is None and stated is None):
        return full
    stated = stated if own.reads_base else None
    base = (own.base or full.base) if stated is None else stated
    head_dim, rotary_dim = (full.head_dim, full.rotary_dim)
    if own.own is not None:
        head_dim, rotary_dim = _sizes(keys, facts, "_swa")
    assert rotary_dim is not None
    scaling: FrequencyScaling = Unscaled()
    if own.scaled:
        scaling = scaling_of(keys, facts, tensors, rotary_dim, base)
    elif own.magnified and (scale := keys.number(f"{SCALING}attn_factor") or 1.0) != 1:
        plain = Unscaled().frequencies(rotary_dim, base)
        scaling = Measured(given=tuple(map(float, plain)), attention_factor=scale)
    length = length_within(scaling, keys.whole("context_length"))
    return replace(full, head_dim=head_dim, base=base, rotary_dim=rotary_dim, scaling=scaling, max_length=length)
