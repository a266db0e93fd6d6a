"""Rotary positions in the attention layers of CTranslate2 models.

Names are the attributes of ``MultiHeadAttentionSpec`` (``python/ctranslate2/specs/attention_spec.py``), which the
engine reads in ``src/layers/attention_layer.cc``; both as of 4.8.1. Three peculiarities of that release:

- The attributes hold a Llama 3 scaling, but the converter writes neither its factor nor its original length, with
  which the engine scales nothing.
- The engine multiplies cosine and sine whenever both lengths are there, by LongRoPE's formula with the whole number of
  times that the original length goes into the other one.
- ``Su`` (LongRoPE) chooses its list by the number of positions tabulated so far, not by the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import SCALINGS, FrequencyScaling, Unscaled
from locant.positions.scaling.contexts import CTranslate2Context
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.longrope_scales import ctranslate2_attention_scale
from locant.rotary_configs.base import ALL_LAYERS, ParsedConfig, cannot_express, only_config, with_equivalent_base

_FORMAT = "CTranslate2 4.8"
_KEYS = (
    "rotary_dim",
    "rotary_interleave",
    "rotary_base",
    "rotary_scaling_type",
    "rotary_scaling_factor",
    "rotary_low_freq_factor",
    "rotary_high_freq_factor",
    "rotary_scaling_short_factor",
    "rotary_scaling_long_factor",
    "original_max_position_embeddings",
    "max_position_embeddings",
    "head_dim",
)


def write_ctranslate2(configs: RotaryConfig | Mapping[str, RotaryConfig]) -> dict[str, Any]:
    """Return the attributes that every attention layer of a CTranslate2 model needs for these rotary positions.

    Static NTK scalings are written as the larger base that they are.

    Args:
        configs: The configuration of the layer.

    Raises:
        ConfigError: The engine has no such scaling: YaRN, NTK-by-parts, dynamic NTK and p-RoPE.

    Example:
        >>> write_ctranslate2(RotaryConfig(head_dim=64, layout="interleaved"))
        {'head_dim': 64, 'rotary_dim': 64, 'rotary_interleave': True, 'rotary_base': 10000.0}
    """
    config = with_equivalent_base(only_config(configs, _FORMAT))
    written = {
        "head_dim": config.head_dim,
        "rotary_dim": config.rotary_dim,
        "rotary_interleave": config.layout == "interleaved",
        "rotary_base": config.base,
    }
    own = config.scaling.ctranslate2_attributes(_FORMAT)
    if own is None:
        why = "its engine has Linear, Su (LongRoPE) and Llama3 only"
        raise cannot_express(_FORMAT, config.scaling, why)
    kind = config.scaling.ctranslate2_type
    return written | ({} if kind is None else {"rotary_scaling_type": kind[0]}) | own


def read_ctranslate2(attributes: Mapping[str, Any], head_dim: int | None = None) -> ParsedConfig:
    """Read the rotary positions of an attention layer of a CTranslate2 model.

    Args:
        attributes: The layer's attributes; those about other things are passed over.
        head_dim: Features of a head, where the attributes do not state them.

    Raises:
        ConfigError: The layer has no rotary positions, a value is missing or out of range, or the engine would compute
            what no rotary configuration expresses.

    Example:
        >>> read_ctranslate2({"rotary_dim": 0, "rotary_interleave": False, "rotary_base": 1e6}, 128).config.rotary_dim
        128
    """
    layer = Fields(attributes, "the attributes of the CTranslate2 layer")
    if attributes.get("rotary_dim") is None:
        raise ConfigError(f"{layer.where} have no rotary_dim: the layer has no rotary positions.")
    head_dim = layer.whole("head_dim") or head_dim
    # 0 stands for the whole head.
    rotary_dim = layer.whole("rotary_dim") if layer.get("rotary_dim") else head_dim
    if head_dim is None or rotary_dim is None:
        raise ConfigError(f"{layer.where} have no head_dim; state it.")
    findings: list[Finding] = []
    scaling = _read_scaling(layer, findings)
    interleaved = layer.flag("rotary_interleave")
    config = RotaryConfig(
        head_dim=head_dim,
        base=layer.number("rotary_base") or 10000.0,
        rotary_dim=rotary_dim,
        layout="half" if interleaved is False else "interleaved",
        scaling=scaling,
        max_length=scaling.reach,
    )
    layer.refuse_rest(_KEYS, [key for key in attributes if key.startswith("rotary_")])
    return ParsedConfig({ALL_LAYERS: config}, tuple(findings))


def _read_scaling(layer: Fields, findings: list[Finding]) -> FrequencyScaling:
    kind = layer.get("rotary_scaling_type")
    length, original = layer.whole("max_position_embeddings"), layer.whole("original_max_position_embeddings")
    scale = ctranslate2_attention_scale(length, original) if length and original else 1.0
    context = CTranslate2Context(layer.number("rotary_scaling_factor"), original, length, scale, findings)
    types = {scaling.ctranslate2_type: scaling for scaling in SCALINGS.values() if scaling.ctranslate2_type}
    if kind in (None, -1):
        context.refuse_attention_scale()
        return Unscaled()
    for (value, _), scaling in types.items():
        if kind == value:
            return scaling.from_ctranslate2(layer, context)
    known = ", ".join(f"{value} {name}" for value, name in sorted(types))
    raise ConfigError(f"Unknown rotary_scaling_type {kind!r}. Known: {known}.")
