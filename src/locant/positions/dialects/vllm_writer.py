"""Writing rotary positions for vLLM, whose peculiarities :mod:`locant.positions.dialects.vllm` lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from locant.errors import ConfigError
from locant.positions.dialects.reading import as_yarn, only_config, paper_attention_scale, with_base_for_ntk
from locant.positions.dialects.rope_writer import write_rotated_fraction, write_scaling
from locant.positions.dialects.vllm import DIALECT, GROUPS
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, Linear, NTKByParts


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
        >>> from locant.positions.scaling import YaRN
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
