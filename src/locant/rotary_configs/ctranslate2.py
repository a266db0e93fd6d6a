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

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import SCALINGS, FrequencyScaling, LongRoPE, Unscaled
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.reading import ALL_LAYERS, ParsedConfig, cannot_express, only_config, with_equivalent_base
from locant.rotary_configs.scaling import form_of, make_scaling, options_of, scaling_types

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


def read_ctranslate2(attributes: Mapping[str, Any], head_dim: int | None = None) -> ParsedConfig:
    """Read the rotary positions of an attention layer of a CTranslate2 model.

    Args:
        attributes: The layer's attributes; those about other things are ignored.
        head_dim: Features of a head, where the attributes do not state them.

    Raises:
        ConfigError: The layer has no rotary positions, a value is missing or out of range, or the engine would compute
            what no rotary configuration expresses.

    Example:
        >>> read_ctranslate2({"rotary_dim": 0, "rotary_interleave": False, "rotary_base": 1e6}, 128).config.rotary_dim
        128
    """
    layer = Fields(attributes, "the attributes of the CTranslate2 layer")
    layer.need(layer.get("rotary_dim"), "rotary_dim", "the layer has no rotary positions")
    forms = [form_of("ctranslate2", name) for name in scaling_types("ctranslate2").values()]
    known = {"rotary_dim", "rotary_interleave", "rotary_base", "rotary_scaling_type"}
    known |= {entry for form in forms if form for entry in form.fields.values()}
    if unknown := [key for key in attributes if key.startswith("rotary_") and key not in known]:
        raise ConfigError(f"'{unknown[0]}' in {layer.where} is not known.{nearest(unknown[0], known)}")
    size = layer.need(layer.whole("head_dim") or head_dim, "head_dim", "nothing else tells the size of a head")
    scaling = _read_scaling(layer)
    config = RotaryConfig(
        head_dim=size,
        base=layer.number("rotary_base") or 10000.0,
        rotary_dim=layer.whole("rotary_dim") if layer.get("rotary_dim") else size,  # 0 represents the whole head
        layout="half" if layer.flag("rotary_interleave") is False else "interleaved",
        scaling=scaling,
        max_length=scaling.reach,
    )
    return ParsedConfig({ALL_LAYERS: config}, source="attributes of CTranslate2")


def _read_scaling(layer: Fields) -> FrequencyScaling:
    kind, types = layer.number("rotary_scaling_type"), scaling_types("ctranslate2")
    length, original = layer.whole("max_position_embeddings"), layer.whole("original_max_position_embeddings")
    scale = _attention_scale(length, original) if length and original else 1.0
    name = "none" if kind in (None, -1) else types.get(f"{kind:g}")
    if name is None:
        raise ConfigError(f"Unknown rotary_scaling_type {kind:g} in {layer.where}. Known: {', '.join(types)}.")
    if scale != 1 and name != "longrope":
        raise ConfigError(
            f"original_max_position_embeddings {original} and max_position_embeddings {length} in {layer.where} make "
            f"the engine scale cosine and sine by {scale:g}, which belongs to LongRoPE. Remove one of them."
        )
    if (form := form_of("ctranslate2", name)) is None:
        return Unscaled()
    options = options_of(layer, SCALINGS[name], form)
    if name == "linear":
        options.setdefault("factor", 1.0)
    elif name == "longrope" and original is not None:
        options |= {"target_length": max(length or original, original), "attention_factor": scale}
    return make_scaling(SCALINGS[name], options, form, layer.where)
