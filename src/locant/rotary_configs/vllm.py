"""Rotary positions in the options of vLLM and SGLang: ``--hf-overrides`` and ``--json-model-override-args``.

Source: ``vllm/config/model.py`` (``_apply_dict_overrides``, ``_update_nested``, ``_get_and_verify_max_len``),
``vllm/transformers_utils/config.py`` and ``get_rope`` of vLLM 0.33; ``get_config``, ``get_context_length`` and
``get_rope`` of SGLang in September 2026.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.parsing import parse_json
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, Linear, LongRoPE, Proportional
from locant.rotary_configs.config_json import partial_rotary_factor
from locant.rotary_configs.fields import Fields, in_json
from locant.rotary_configs.reading import by_layer, cannot_express, with_equivalent_base
from locant.rotary_configs.scaling import type_of, write_scaling
from locant.rotary_configs.vocabulary import is_by_layer, text_config_path

Configs = RotaryConfig | Mapping[str, RotaryConfig]
Axes = Mapping[str, Mapping[str, Any]]
Group = Literal["rope_parameters", "rope_scaling"]
_GROUPS = ("rope_scaling", "rope_parameters")  # two names of one group; the first counts where a file has both
_BESIDE = ("rope_theta", "partial_rotary_factor")  # which classes move into the group


def write_vllm(configs: Configs, group: Group = "rope_parameters", multimodal: Axes | None = None) -> str:
    """Return the JSON for ``--hf-overrides``, by which vLLM runs a model with these rotary positions.

    How long the texts are that vLLM then serves, :func:`served_length` tells. For M-RoPE, but that of Qwen 3-VL and
    3.5, it places the ramp of YaRN as for four times the original length.

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


def merge_hf_overrides(
    content: Mapping[str, Any], overrides: str | Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config.json with the JSON of vLLM's ``--hf-overrides`` merged into it, as vLLM merges it.

    A group of rotary parameters replaces that of the file as a whole, and has base 10000 where it states none; in a
    nested configuration (``text_config``) it is merged.

    Args:
        content: The object in config.json.
        overrides: JSON, or what it says.

    Returns:
        The merged object, and the entries of the file that go with its group, with their values.

    Raises:
        ConfigError: The overrides are no JSON object, or vLLM passes over one of them.

    Example:
        >>> file = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
        >>> merge_hf_overrides(file, '{"rope_scaling": {"rope_type": "linear", "factor": 4.0}}')[1]
        {'rope_theta': 1000000.0}
    """
    try:
        given = parse_json(overrides) if isinstance(overrides, str) else overrides
    except ValueError as error:
        raise ConfigError(f"--hf-overrides must be JSON: {error}.") from error
    if not isinstance(given, Mapping):
        raise ConfigError(f"--hf-overrides must be a JSON object; got {in_json(given)}.")
    path, dropped, merged = text_config_path(content), dict[str, Any](), dict(content)
    for name, value in given.items():
        if name in _BESIDE and any(each in given for each in _GROUPS):
            continue  # for releases with transformers 4
        if name in _BESIDE or (path and name in (*_GROUPS, "max_position_embeddings")):
            raise ConfigError(f"vLLM passes over '{name}' there: state it in {'.'.join(path) or 'rope_parameters'}.")
        if name not in _GROUPS:
            merged[name] = _nested(merged.get(name), value)
            continue
        was = {**merged, **dict(_groups(merged)[0])}
        merged = {key: each for key, each in merged.items() if key not in (*_GROUPS, *_BESIDE)}
        groups = value if is_by_layer(value or {}) else {"": value or {}}
        dropped |= {
            key: was[key]
            for key in _BESIDE
            if was.get(key) and not all(key in (each or {}) for each in groups.values())
        }
        usual = {"rope_theta": 10000.0} | {key: 1.0 for key in dropped if key != "rope_theta"}
        made = {layer: each if each is None else {**usual, **each} for layer, each in groups.items()}
        merged["rope_parameters"] = made.get("", made)
    return merged, dropped


def _nested(present: Any, given: Any) -> Any:
    """Return a nested configuration with overrides merged into it, the group of rotary parameters under either name."""
    if not (isinstance(present, Mapping) and isinstance(given, Mapping)):
        return given
    merged = dict(present)
    for name, value in given.items():
        place = next((each for each in _GROUPS if name in _GROUPS and present.get(each)), name)
        merged[place] = _nested(merged.get(place), value)
    return merged


def _groups(text: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the groups of rotary parameters of a text config: one, or those of its layer types."""
    group: Mapping[str, Any] = next((text[name] for name in _GROUPS if isinstance(text.get(name), Mapping)), {})
    return [each or {} for each in group.values()] if is_by_layer(group) else [group]


_LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"),
    *("max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"),
)
_COUNTED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn")  # whose declared length is the extended one


def served_length(text: Mapping[str, Any]) -> int | None:
    """Return the longest text in tokens that vLLM serves without ``--max-model-len``.

    That is the declared length, times the factor of a scaling whose declared length is not the extended one; with
    LongRoPE it is the original length, where that is beside the group.

    Args:
        text: The entries of the text config.

    Returns:
        The length; ``None`` where the entries declare none.

    Raises:
        ConfigError: A length or a factor is no number.

    Example:
        >>> served_length({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 2.0}})
        8192
    """
    entries = Fields(text, "config.json")
    stated = [number for name in _LENGTHS if (number := entries.whole(name))]
    if not stated:
        return None
    length: float = entries.whole("model_max_length") or min(stated)
    groups = [Fields(group, "the rotary parameters") for group in _groups(text)]
    if "gemma3" not in str(text.get("model_type")):
        factors = [group.number("factor") for group in groups if type_of(group) not in _COUNTED]
        length *= next((factor for factor in reversed(factors) if factor is not None), 1.0)
    if any(type_of(group) == "longrope" for group in groups):
        length = entries.whole("original_max_position_embeddings") or length
    return int(length)
