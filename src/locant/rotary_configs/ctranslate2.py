"""Rotary positions in the attention layers of CTranslate2 models.

Source: ``MultiHeadAttentionSpec`` and ``src/layers/attention_layer.cc`` of release 4.8. There cosine and sine are
multiplied by the scale of LongRoPE whenever a layer has both lengths, and ``Su`` (LongRoPE) chooses its list by the
number of positions tabulated so far, not by the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import LongRoPE, Unscaled
from locant.rotary_configs.reading import cannot_express, only_config, with_equivalent_base
from locant.rotary_configs.scaling import form_of

_ENGINE = "CTranslate2"


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
    config = with_equivalent_base(only_config(configs, _ENGINE))
    scaling, form = config.scaling, form_of("ctranslate2", config.scaling.name)
    written = {
        "head_dim": config.head_dim,
        "rotary_dim": config.rotary_dim,
        "rotary_interleave": config.layout == "interleaved",
        "rotary_base": config.base,
    }
    if isinstance(scaling, Unscaled):
        return written
    if form is None:
        raise cannot_express(_ENGINE, scaling, "it has Linear, Su (LongRoPE) and Llama3 only")
    if isinstance(scaling, LongRoPE):
        scaling = _with_length_for_scale(scaling)
    values = {entry: getattr(scaling, name) for name, entry in form.fields.items()}
    written["rotary_scaling_type"] = int(form.types[0])
    return written | {entry: list(each) if isinstance(each, tuple) else each for entry, each in values.items()}


def _with_length_for_scale(scaling: LongRoPE) -> LongRoPE:
    """Return LongRoPE with the target length by which the engine arrives at its attention scale."""
    wanted, original = scaling.attention_scale(), scaling.trained_length
    times = round(math.exp((wanted**2 - 1) * math.log(original)))
    target = scaling.target_length if times == scaling.factor else times * original
    if scaling.final_length is not None or scaling.short_attention_factor is not None:
        raise cannot_express(_ENGINE, scaling, "it has one attention scale, and no final_length")
    if target is None or not math.isclose(_attention_scale(target, original), wanted, rel_tol=1e-6):
        why = f"its attention scale is sqrt(1 + ln(n) / ln(original_length)) for whole numbers n, never {wanted:g}"
        raise cannot_express(_ENGINE, scaling, why)
    return replace(scaling, factor=None, target_length=target, attention_factor=wanted)


def _attention_scale(length: int, original: int) -> float:
    times = length // original
    return math.sqrt(1 + math.log(times) / math.log(original)) if times > 1 < original else 1.0
