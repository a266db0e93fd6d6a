"""Rotary positions in the ``--hf-overrides`` of vLLM: reading and writing."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, FrequencyScaling, Linear, LongRoPE, NTKByParts, YaRN
from locant.positions.scaling.frequency import check_number
from locant.rotary_configs.base import (
    Fields,
    Finding,
    Reading,
    as_yarn,
    only_config,
    paper_attention_scale,
    with_base_for_ntk,
)
from locant.rotary_configs.huggingface import read_huggingface, text_part
from locant.rotary_configs.rope_parameters import write_rotated_fraction, write_scaling

DIALECT = "--hf-overrides of vLLM"
GROUPS = ("rope_parameters", "rope_scaling")
_DEEPSEEK_YARN = ("deepseek", "kimi")


def read_vllm(overrides: str | Mapping[str, Any], config: Mapping[str, Any]) -> Reading:
    """Read the rotary positions with which vLLM runs a model.

    Args:
        overrides: The value of ``--hf-overrides``: JSON, or what it parses to.
        config: The content of the model's config.json.

    Returns:
        The configurations; their ``max_length`` is the longest text that vLLM serves by default.

    Raises:
        ConfigError: The overrides are no JSON object, or what :func:`read_huggingface` raises.

    Example:
        >>> model = {"model_type": "qwen2", "head_dim": 128, "rope_theta": 1e6, "max_position_embeddings": 32768}
        >>> overrides = '{"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}'
        >>> read_vllm(overrides, model).config.scaling.target_length
        131072
    """
    given = _parsed(overrides)
    merged = {**config, **given}
    for group in GROUPS:
        other = GROUPS[1 - GROUPS.index(group)]
        if given.get(group) and config.get(other) and other not in given:
            raise ConfigError(
                f"{DIALECT} has {group}, but config.json has {other}, which the override leaves in place. "
                f"Override {other}."
            )
    _check_base_is_kept(given, config)
    findings: list[Finding] = []
    states_relative_scale = False
    for group in GROUPS:
        if isinstance(merged.get(group), Mapping):
            states_relative_scale |= merged[group].get("attn_factor") is not None
            merged[group] = _in_hugging_faces_words(merged[group])
    reading = read_huggingface(merged)
    model_type = str(text_part(merged).get("model_type") or merged.get("model_type"))
    for read in reading.configs.values():
        _check_longrope(read, findings)
        if not states_relative_scale and not model_type.startswith(_DEEPSEEK_YARN):
            _check_attention_scale(read.scaling, findings)
    configs = {layer: _as_vllm_runs(read, model_type) for layer, read in reading.configs.items()}
    return Reading(configs, reading.findings + tuple(findings), reading.multimodal)


def _parsed(overrides: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(overrides, str):
        try:
            overrides = json.loads(overrides)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{DIALECT} is no JSON: {error}. Quote it: '{{\"rope_theta\": 1000000}}'.") from error
    if not isinstance(overrides, Mapping):
        raise ConfigError(f"{DIALECT} must be a JSON object; got {overrides!r}.")
    return overrides


def _check_base_is_kept(given: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    replaced, present = given.get("rope_parameters"), config.get("rope_parameters")
    if not isinstance(replaced, Mapping) or not isinstance(present, Mapping):
        return
    base = present.get("rope_theta")
    if "rope_theta" not in replaced and "rope_theta" not in {**config, **given} and base is not None:
        raise ConfigError(
            f"{DIALECT} replaces rope_parameters as a whole but does not repeat rope_theta {base:g}: vLLM would take "
            f'10000. Add "rope_theta": {base:g} to the override.'
        )


def _in_hugging_faces_words(rope: Mapping[str, Any]) -> dict[str, Any]:
    fields, kind = Fields(rope, DIALECT), rope.get("rope_type", rope.get("type"))
    if kind == "ntk":
        raise ConfigError(
            "vLLM's rope_type 'ntk' is no scaling known here: besides the larger base it divides all frequencies by "
            "factor^(2/d). Raise rope_theta to factor^(d/(d-2)) times its value for NTK-aware interpolation."
        )
    if kind != "yarn":
        return dict(rope)
    words = {key: value for key, value in rope.items() if key not in ("attn_factor", "extrapolation_factor")}
    if fields.number("extrapolation_factor") not in (None, 1):
        raise ConfigError(f"extrapolation_factor {rope['extrapolation_factor']:g} of YaRN in vLLM is not known here.")
    attention, relative = fields.number("attention_factor"), fields.number("attn_factor")
    factor = fields.need(fields.number("factor"), "factor", "the scaling 'yarn' divides by it")
    check_number("yarn", "factor", factor, minimum=1)
    if relative is None:
        return words
    words["attention_factor"] = relative * (0.1 * math.log(factor) + 1)
    if attention is not None and not math.isclose(attention, words["attention_factor"], rel_tol=1e-6):
        raise ConfigError(
            f"attention_factor {attention:g} in {DIALECT} contradicts attn_factor {relative:g}, by which the "
            f"attention scale is {words['attention_factor']:g}; releases of vLLM differ in which they take."
        )
    return words


def _check_longrope(config: RotaryConfig, findings: list[Finding]) -> None:
    scaling = config.scaling
    if isinstance(scaling, LongRoPE) and scaling.original_length != config.max_length:
        findings.append(
            Finding(
                "warning",
                f"transformers: short factors up to {scaling.original_length} tokens, long ones beyond. vLLM, and "
                "llama.cpp by its context: long factors for all texts once --max-model-len exceeds that, which it does "
                "by default.",
                f"Start vLLM with --max-model-len {scaling.original_length} where texts are short; elsewhere, state "
                "final_length to compute what it computes.",
            )
        )


def _check_attention_scale(scaling: FrequencyScaling, findings: list[Finding]) -> None:
    if not isinstance(scaling, YaRN):
        return
    scale, usual = scaling.attention_scale(), paper_attention_scale(scaling)
    if not math.isclose(scale, usual, rel_tol=1e-6):
        findings.append(
            Finding(
                "warning",
                f"transformers: attention scale {scale:.6g}. vLLM up to 0.25, which ignores attention_factor and "
                f"mscale: {usual:.6g}.",
                f"State attn_factor {scale / usual:.6g} as well in --hf-overrides.",
            )
        )


def _as_vllm_runs(config: RotaryConfig, model_type: str) -> RotaryConfig:
    scaling = config.scaling
    if isinstance(scaling, DynamicNTK):
        assert scaling.original_length is not None
        target = round(scaling.factor * scaling.original_length)
        return replace(config, scaling=replace(scaling, target_length=target), max_length=target)
    if isinstance(scaling, Linear) and config.max_length is not None and not model_type.startswith("gemma3"):
        assert scaling.factor is not None
        return replace(config, max_length=int(config.max_length * scaling.factor))
    return replace(config, max_length=scaling.target_length) if isinstance(scaling, NTKByParts) else config


def write_vllm(
    configs: RotaryConfig | Mapping[str, RotaryConfig],
    group: Literal["rope_parameters", "rope_scaling"] = "rope_parameters",
) -> str:
    """Return the JSON for ``--hf-overrides``, by which vLLM runs a model with these rotary positions.

    Head size and layout are those of the model; the overrides cannot change them. Without ``--max-model-len`` vLLM
    serves texts up to :func:`derived_max_model_len`.

    Args:
        configs: The configuration; vLLM derives one length for the whole model, so there can be only one.
        group: ``rope_parameters`` for vLLM with transformers 5, ``rope_scaling`` (and ``rope_theta``) with 4.

    Raises:
        ConfigError: vLLM cannot say it.

    Example:
        >>> from locant.positions import YaRN
        >>> yarn = YaRN(factor=4, original_length=32768)
        >>> print(write_vllm(RotaryConfig(head_dim=128, base=1e6, scaling=yarn)))  # doctest: +NORMALIZE_WHITESPACE
        {"rope_parameters": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32768,
        "beta_fast": 32.0, "beta_slow": 1.0, "rope_theta": 1000000.0}, "max_position_embeddings": 131072}
    """
    if group not in GROUPS:
        raise ConfigError(f"Unknown group '{group}' of {DIALECT}. Known: {', '.join(GROUPS)}.")
    config = only_config(configs, DIALECT)
    length = _stated_length(config)
    if isinstance(config.scaling, DynamicNTK):
        _check_dynamic(config.scaling)
    else:
        config = with_base_for_ntk(config)
    rope = write_scaling(config, DIALECT)
    if isinstance(config.scaling, NTKByParts):
        rope = _say_attention_twice(rope, config.scaling)
    beside = {"rope_theta": config.base}
    if (fraction := write_rotated_fraction(config, DIALECT)) != 1:
        beside["partial_rotary_factor"] = fraction
    written: dict[str, Any] = {group: rope | beside} if group == "rope_parameters" else {group: rope} | beside
    if length is not None:
        written["max_position_embeddings"] = length
    return json.dumps(written)


def derived_max_model_len(config: RotaryConfig) -> int | None:
    """Return the longest text that vLLM serves by default with the overrides of :func:`write_vllm`, if it is known."""
    scaling = config.scaling
    if isinstance(scaling, Linear | NTKByParts | DynamicNTK):
        return scaling.target_length
    return with_base_for_ntk(config).max_length or getattr(scaling, "target_length", None)


def _stated_length(config: RotaryConfig) -> int | None:
    """Return max_position_embeddings: for some scalings the length that vLLM multiplies by the factor."""
    scaling = config.scaling
    if isinstance(scaling, Linear):
        assert scaling.factor is not None
        if scaling.original_length is None and config.max_length is not None:
            raise ConfigError(
                f"{DIALECT} needs original_length of the scaling 'linear': vLLM multiplies max_position_embeddings by "
                f"factor {scaling.factor:g}, and would serve {scaling.factor * config.max_length:g} tokens instead of "
                f"{config.max_length}."
            )
        return scaling.original_length
    if isinstance(scaling, DynamicNTK):
        return scaling.original_length
    return derived_max_model_len(config) if config.max_length is None else config.max_length


def _check_dynamic(scaling: DynamicNTK) -> None:
    """Raise ConfigError for dynamic NTK that does not have the one length that vLLM scales for."""
    assert scaling.original_length is not None
    reached = scaling.factor * scaling.original_length
    if scaling.target_length is None or abs(reached - scaling.target_length) > 0.5:
        raise ConfigError(
            f"{DIALECT} cannot say the scaling 'dynamic' with target_length {scaling.target_length}: vLLM's is "
            f"static, for {reached:g} tokens, factor {scaling.factor:g} times the original length. Use that "
            "target_length, or the scaling 'ntk', which is written as a larger base."
        )


def _say_attention_twice(rope: dict[str, Any], scaling: NTKByParts) -> dict[str, Any]:
    """Return YaRN's parameters with the attention scale in the words of all releases."""
    yarn = as_yarn(scaling)
    scale, usual = yarn.attention_scale(), paper_attention_scale(yarn)
    rope = {key: value for key, value in rope.items() if key not in ("mscale", "mscale_all_dim", "attention_factor")}
    return rope if scale == usual else rope | {"attention_factor": scale, "attn_factor": scale / usual}
