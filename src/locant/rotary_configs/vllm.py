"""Rotary positions in the options of vLLM and SGLang: ``--hf-overrides`` and ``--json-model-override-args``.

Source: ``vllm/config/model.py``, ``vllm/transformers_utils/config.py`` and ``get_rope`` of vLLM 0.33; ``get_config``,
``get_context_length`` and ``get_rope`` of SGLang in September 2026.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, Linear, LongRoPE, Proportional
from locant.rotary_configs.config_json import partial_rotary_factor
from locant.rotary_configs.reading import by_layer, cannot_express, with_equivalent_base
from locant.rotary_configs.scaling import write_scaling

Configs = RotaryConfig | Mapping[str, RotaryConfig]
Axes = Mapping[str, Mapping[str, Any]]
Group = Literal["rope_parameters", "rope_scaling"]
_GROUPS = ("rope_scaling", "rope_parameters")  # two names of one group; the first counts where a file has both


def write_vllm(configs: Configs, group: Group = "rope_parameters", multimodal: Axes | None = None) -> str:
    """Return the JSON for ``--hf-overrides``, by which vLLM runs a model with these rotary positions.

    Without ``--max-model-len`` vLLM serves texts up to :func:`derived_max_model_len`. For M-RoPE, but that of Qwen 3-VL
    and 3.5, it places the ramp of YaRN as for four times the original length.

    Args:
        configs: The configuration, or one for every layer type where the model's class has a group for each; the length
            then is that of the model.
        group: ``rope_scaling``, with ``rope_theta`` beside it, for releases with transformers 4; others take either.
        multimodal: Sections of the axes by layer type, as :class:`.ParsedConfig` has them.

    Raises:
        ConfigError: vLLM has no such scaling.

    Example:
        >>> from locant.positions import YaRN
        >>> yarn = YaRN(factor=4, original_length=32768)
        >>> print(write_vllm(RotaryConfig(head_dim=128, base=1e6, scaling=yarn)))  # doctest: +NORMALIZE_WHITESPACE
        {"rope_parameters": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32768,
        "beta_fast": 32.0, "beta_slow": 1.0, "rope_theta": 1000000.0}, "max_position_embeddings": 131072}
    """
    return _written(configs, group, multimodal or {}, "vLLM")


def write_sglang(configs: Configs, group: Group = "rope_parameters", multimodal: Axes | None = None) -> str:
    """Return the JSON for ``--json-model-override-args``, by which SGLang runs a model with these rotary positions.

    SGLang replaces the group as a whole, also in ``text_config``, and takes the context length from
    ``max_position_embeddings``: no ``--context-length`` is needed. It has the scalings of vLLM but p-RoPE, and reads
    ``attn_factor`` in place of ``attention_factor``. Its classes read groups by layer type each in a way of their own,
    so that these are refused. Arguments and errors are those of :func:`write_vllm`.
    """
    if len(given := by_layer(configs)) > 1:
        raise ConfigError(
            f"Classes of SGLang read groups of layer types ({', '.join(given)}) each in a way of their own, so that no "
            "override is sure to reach them. Change config.json instead."
        )
    return _written(given, group, multimodal or {}, "SGLang")


def _written(configs: Configs, group: str, multimodal: Axes, engine: str) -> str:
    if group not in _GROUPS:
        raise ConfigError(f"Unknown group '{group}'.{nearest(group, _GROUPS)} Known: {', '.join(_GROUPS)}.")
    given = {layer: with_equivalent_base(config) for layer, config in by_layer(configs).items()}
    groups = {layer: _group(config, multimodal.get(layer), engine) for layer, config in given.items()}
    if len(given) > 1:
        if group == "rope_scaling":
            raise ConfigError(f"{engine} has groups by layer type under the name 'rope_parameters' alone.")
        return json.dumps({group: groups})
    ((layer, config),) = given.items()
    beside = {name: groups[layer][name] for name in _BESIDE if group == "rope_scaling" and name in groups[layer]}
    length = _length_to_state(config, engine)
    stated = {} if length is None else {"max_position_embeddings": length}
    return json.dumps({group: groups[layer], **beside, **stated})


_BESIDE = ("rope_theta", "partial_rotary_factor")


def _group(config: RotaryConfig, axes: Mapping[str, Any] | None, engine: str) -> dict[str, Any]:
    scaling, scale = config.scaling, config.attention_scale()
    if isinstance(scaling, DynamicNTK):  # one for a single length is a larger base by now
        why = "it has one base for texts of all lengths. State target_length, or use the scaling 'ntk'"
        raise cannot_express(engine, scaling, why)
    if isinstance(scaling, Proportional) and (engine == "SGLang" or scaling.factor != 1):
        raise cannot_express(engine, scaling, "it does not have it" if engine == "SGLang" else "it ignores its factor")
    rope = write_scaling(scaling)
    if axes and rope["rope_type"] not in ("default", "yarn"):
        raise cannot_express(engine, scaling, "it scales M-RoPE by 'yarn' alone")
    if isinstance(scaling, Linear):
        rope["factor"] = float(rope["factor"])  # a whole number is taken for a list
    elif isinstance(scaling, LongRoPE):
        rope |= {"short_mscale": scaling.short_attention_factor or scale, "long_mscale": scale}
    elif rope["rope_type"] == "yarn" and "mscale" not in rope:
        usual = 0.1 * math.log(scaling.stretch or 1) + 1
        if scale != usual:  # vLLM before 0.33 and SGLang read the second
            rope |= {"attention_factor": scale, "attn_factor": scale / usual}
    rope["rope_theta"] = config.base
    if (factor := partial_rotary_factor(config, engine)) != 1:
        rope["partial_rotary_factor"] = factor
    if axes:
        rope |= {"mrope_section": list(axes["sections"])} | ({"mrope_interleaved": True} if axes["interleaved"] else {})
    return rope


def _length_to_state(config: RotaryConfig, engine: str) -> int | None:
    """Return ``max_position_embeddings``: of interpolation the length before it, which engines multiply."""
    scaling, length = config.scaling, config.max_length
    if not isinstance(scaling, Linear):
        return length or scaling.reach
    if scaling.original_length is not None or length is None:
        return scaling.original_length
    factor = scaling.stretch or 1
    if int(round(length / factor) * factor) != length:
        raise ConfigError(
            f"{engine} multiplies max_position_embeddings by factor {factor:g} of the scaling 'linear', of which "
            f"{length} tokens are no multiple. State original_length."
        )
    return round(length / factor)


def derived_max_model_len(config: RotaryConfig) -> int | None:
    """Return the longest text that vLLM serves by default with the overrides of :func:`write_vllm`, if it is known."""
    return (
        (config.scaling.reach if isinstance(config.scaling, Linear) else None)
        or config.max_length
        or config.scaling.reach
    )
