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

import math
from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Linear, Llama3, LongRoPE, Unscaled
from locant.rotary_configs.base import (
    ALL_LAYERS,
    Fields,
    Finding,
    Reading,
    cannot_express,
    only_config,
    refuse_final_length,
    with_base_for_ntk,
)

LINEAR, SU, LLAMA3 = 0, 1, 2
"""Values of ``RotaryScalingType``."""

_DIALECT = "CTranslate2 4.8"
_KEYS = [
    *("rotary_dim", "rotary_interleave", "rotary_base", "rotary_scaling_type", "rotary_scaling_factor"),
    *("rotary_low_freq_factor", "rotary_high_freq_factor", "rotary_scaling_short_factor", "rotary_scaling_long_factor"),
    *("original_max_position_embeddings", "max_position_embeddings", "head_dim"),
]


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
    config = with_base_for_ntk(only_config(configs, _DIALECT))
    written = {
        "head_dim": config.head_dim,
        "rotary_dim": config.rotary_dim,
        "rotary_interleave": config.layout == "interleaved",
        "rotary_base": config.base,
    }
    match config.scaling:
        case Unscaled():
            return written
        case Linear() as scaling:
            return written | {"rotary_scaling_type": LINEAR, "rotary_scaling_factor": scaling.factor}
        case Llama3() as scaling:
            return written | {
                "rotary_scaling_type": LLAMA3,
                "rotary_scaling_factor": scaling.factor,
                "rotary_low_freq_factor": scaling.low_frequency_factor,
                "rotary_high_freq_factor": scaling.high_frequency_factor,
                "original_max_position_embeddings": scaling.original_length,
            }
        case LongRoPE() as scaling:
            refuse_final_length(scaling, _DIALECT)
            return written | {
                "rotary_scaling_type": SU,
                "rotary_scaling_short_factor": list(scaling.short_factors),
                "rotary_scaling_long_factor": list(scaling.long_factors),
                "original_max_position_embeddings": scaling.original_length,
                "max_position_embeddings": _length_for(scaling),
            }
        case scaling:
            raise cannot_express(_DIALECT, scaling, "its engine has Linear, Su (LongRoPE) and Llama3 only")


def _engine_attention_scale(length: int, original: int) -> float:
    ratio = length // original
    return 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(original))


def _length_for(scaling: LongRoPE) -> int:
    """Return the length by which the engine arrives at the attention scale."""
    assert scaling.original_length is not None
    wanted = scaling.attention_scale()
    ratio = round(math.exp((wanted**2 - 1) * math.log(scaling.original_length)))
    length = ratio * scaling.original_length
    if ratio == scaling.factor and scaling.target_length is not None:
        length = scaling.target_length
    if not math.isclose(_engine_attention_scale(length, scaling.original_length), wanted, rel_tol=1e-6):
        raise ConfigError(
            f"{_DIALECT} cannot say attention scale {wanted:g} of the scaling 'longrope': its engine has "
            "sqrt(1 + ln(n) / ln(original_length)) for whole numbers n."
        )
    return length


def read_ctranslate2(attributes: Mapping[str, Any], head_dim: int | None = None) -> Reading:
    """Read the rotary positions of an attention layer of a CTranslate2 model.

    Args:
        attributes: The layer's attributes; those about other things are passed over.
        head_dim: Features of a head, where the attributes do not state them.

    Raises:
        ConfigError: The layer has no rotary positions, a value is missing or out of range, or the engine would compute
            what a rotary configuration cannot say.

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
        max_length=getattr(scaling, "target_length", None),
    )
    layer.refuse_rest(_KEYS, [key for key in attributes if key.startswith("rotary_")])
    return Reading({ALL_LAYERS: config}, tuple(findings))


def _read_scaling(layer: Fields, findings: list[Finding]) -> FrequencyScaling:
    kind = layer.get("rotary_scaling_type")
    length, original = layer.whole("max_position_embeddings"), layer.whole("original_max_position_embeddings")
    factor = layer.number("rotary_scaling_factor")
    scale = _engine_attention_scale(length, original) if length and original else 1.0
    if kind not in (None, -1, LINEAR, SU, LLAMA3):
        raise ConfigError(f"Unknown rotary_scaling_type {kind!r}. Known: {LINEAR} Linear, {SU} Su, {LLAMA3} Llama3.")
    if kind in (None, -1, LINEAR) and scale != 1:
        raise ConfigError(
            f"original_max_position_embeddings {original} and max_position_embeddings {length} make the engine scale "
            f"cosine and sine by {scale:g}, which belongs to LongRoPE. Remove one of them."
        )
    if kind == LINEAR:
        return Linear(factor=1.0 if factor is None else factor)
    if kind == LLAMA3:
        return _read_llama3(layer, factor, original)
    if kind == SU:
        return _read_su(layer, length, original, scale, findings)
    return Unscaled()


def _read_llama3(layer: Fields, factor: float | None, original: int | None) -> FrequencyScaling:
    if factor is None or original is None:
        raise ConfigError(
            f"{layer.where} have rotary_scaling_type {LLAMA3} (Llama3) without rotary_scaling_factor ({factor}) or "
            f"original_max_position_embeddings ({original}): the engine then scales nothing, or the wrong pairs. "
            "CTranslate2's converter leaves them out; set both."
        )
    low, high = layer.number("rotary_low_freq_factor"), layer.number("rotary_high_freq_factor")
    return Llama3(
        original_length=original,
        factor=factor,
        low_frequency_factor=1.0 if low is None else low,
        high_frequency_factor=4.0 if high is None else high,
    )


def _read_su(
    layer: Fields, length: int | None, original: int | None, scale: float, findings: list[Finding]
) -> FrequencyScaling:
    if original is None:
        raise ConfigError(f"original_max_position_embeddings is missing in {layer.where}: the engine needs it for Su.")
    findings.append(
        Finding(
            "note",
            "CTranslate2 takes the long factors once it has tabulated more positions than the original length, and it "
            "tabulates at least 2048.",
            "Compare its scores with those of the trained model at lengths around the original one.",
        )
    )
    return LongRoPE(
        original_length=original,
        target_length=max(length or original, original),
        short_factors=layer.numbers("rotary_scaling_short_factor") or (),
        long_factors=layer.numbers("rotary_scaling_long_factor") or (),
        attention_factor=scale,
    )
