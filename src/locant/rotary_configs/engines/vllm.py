"""Rotary positions in the ``--hf-overrides`` of vLLM: reading and writing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from locant.errors import ConfigError
from locant.parsing import parse_json
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled, YaRN
from locant.positions.scaling.contexts import VllmContext, VllmLengths
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.base import UNREADABLE, ParsedConfig, by_layer, with_equivalent_base
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import TYPES_OF_TRANSFORMERS, type_taken_for
from locant.rotary_configs.classes.own_code import in_usual_names
from locant.rotary_configs.classes.telechat import TELECHAT3_YARN, yarn_of_telechat3
from locant.rotary_configs.engines.override_words import names_in, placed
from locant.rotary_configs.engines.replaced_entries import replaced_entries
from locant.rotary_configs.engines.vllm_groups import with_own_groups
from locant.rotary_configs.engines.vllm_overrides import with_overrides, with_share_of_file
from locant.rotary_configs.huggingface.around_scalings import length_of_class
from locant.rotary_configs.huggingface.engine_classes import (
    runs_class_of_transformers,
    vllm_has_no_class,
    vllm_last_release,
    vllm_never_scales,
    vllm_release,
)
from locant.rotary_configs.huggingface.reading import read_config
from locant.rotary_configs.huggingface.text_parts import text_part
from locant.rotary_configs.rope_parameters import scalings_by_type, write_rotated_fraction, write_scaling
from locant.rotary_configs.usual_values import GROUPS
from locant.rotary_configs.wording import speaks_of

FORMAT = "--hf-overrides of vLLM"
_FORMER_OPTIONS = ("--rope-scaling", "--rope-theta")
_EXAMPLE = """'{"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000000.0}}'"""
_LATENT = ("axk1", "deepseek_v", "glm4_moe_lite", "glm_moe_dsa", "kimi", "longcat_flash")
"""Beginnings of the model types to which vLLM gives the latent attention of DeepSeek."""

_EXTENDED_LENGTH = "gemma3"  # its class counts max_position_embeddings as the length after a linear scaling


def read_vllm(overrides: str | Mapping[str, Any], config: Mapping[str, Any]) -> ParsedConfig:
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
        >>> overrides = '{"rope_scaling": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6}}'
        >>> read_vllm(overrides, model).config.max_length
        131072
    """
    given = _parsed(overrides)
    names = frozenset(names_in(given))
    try:
        where = "config.json with these overrides" if given else "config.json"
        parsed = speaks_of("huggingface", where)(_read)(given, config)
    except ConfigError as error:
        raise ConfigError(placed(str(error), names)) from error
    findings = [replace(each, message=placed(each.message, names)) for each in parsed.findings]
    return replace(parsed, findings=(*findings, *replaced_entries(given, config, findings)))


def _read(given: Mapping[str, Any], config: Mapping[str, Any]) -> ParsedConfig:
    findings: list[Finding] = []
    merged = _without_scaling_of_nomics_code(with_overrides(config, given, findings))
    findings += _of_former_releases(merged)
    findings += _of_two_stacks(merged)
    nested = text_part(merged)
    model_type = str(nested.get("model_type") or merged.get("model_type"))
    is_replaced = any(name in GROUPS for name in names_in(given))
    _refuse_a_type_taken_for_another(nested, model_type)
    if runs_class_of_transformers(merged, model_type):
        parsed = read_config(merged, is_replaced=is_replaced)
        configs = {}
        for layer, read in parsed.configs.items():
            lengths = _lengths(read.max_length, nested, model_type)
            configs[layer] = replace(read, max_length=read.scaling.as_served_by_vllm(lengths)[1])
        return _with_findings(parsed, configs, findings, given, config, model_type)
    where = FORMAT if given else "config.json"
    own_groups = partial(
        with_own_groups,
        model_type=model_type,
        where=where,
        findings=findings,
        never_scales=vllm_never_scales(merged),
    )
    if nested is merged:
        merged = own_groups(with_share_of_file(config, merged))
    for name, part in merged.items():
        if part is nested:
            nested = own_groups(with_share_of_file(config, nested))
            merged[name] = _in_huggingface_terms(_with_ntk_of_its_own(nested, model_type), model_type, where, findings)
    merged = _in_huggingface_terms(_with_ntk_of_its_own(merged, model_type), model_type, where, findings)
    parsed = read_config(merged, in_vllm=True, is_replaced=is_replaced)
    configs = {}
    for layer, read in parsed.configs.items():
        lengths = _lengths(read.max_length, text_part(merged), model_type)
        findings += read.scaling.vllm_findings(lengths)
        _refuse(read, bool(parsed.multimodal))
        scaling, served = read.scaling.as_served_by_vllm(lengths)
        configs[layer] = replace(read, scaling=scaling, max_length=served)
    if not model_type.startswith(_TABLE_OF_THE_LENGTH):
        configs |= {layer: _with_wide_ramp(configs[layer], findings) for layer in parsed.multimodal}
    return _with_findings(parsed, configs, findings, given, config, model_type)


def _without_scaling_of_nomics_code(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without the scaling that Nomic's own code reads: vLLM's class takes its other entries."""
    passed_over = ("rotary_scaling_factor", "max_trained_positions") if config.get("model_type") == "nomic_bert" else ()
    return {name: value for name, value in config.items() if name not in passed_over}


def _of_former_releases(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield that vLLM has no class for a model any more, which it may run by code beside the file alone."""
    found = vllm_last_release(config)
    if found is None:
        return
    name, release = found
    has_code = "auto_map" in config
    unless = ", unless the code of auto_map is made for its backend of transformers" if has_code else ""
    yield Finding(
        "warning" if has_code else "error",
        f"architectures has {name}, which vLLM ran until {release}: release {vllm_release()} refuses the model"
        f"{unless}.",
        f"Serve it with vLLM {release} or another engine.",
    )


def _of_two_stacks(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield that vLLM runs no encoder-decoder model by the class of transformers, where it has none of its own."""
    if vllm_has_no_class(config):
        yield Finding(
            "error",
            f"vLLM {vllm_release()} has no class of its own for the encoder-decoder model "
            f"'{config.get('model_type')}', and runs none of these by the class of transformers: it does not serve it.",
            "Run the model with transformers.",
        )


def _with_findings(
    parsed: ParsedConfig,
    configs: dict[str, RotaryConfig],
    findings: list[Finding],
    given: Mapping[str, Any],
    config: Mapping[str, Any],
    model_type: str,
) -> ParsedConfig:
    if "max_position_embeddings" in names_in(given):
        findings += _length_alone(config, configs, model_type)
    return ParsedConfig(configs, parsed.findings + tuple(findings), parsed.multimodal, parsed.layers)


def _length_alone(config: Mapping[str, Any], served: Mapping[str, RotaryConfig], model_type: str) -> Iterator[Finding]:
    """Yield that a longer length without a scaling changes no rotation.

    Args:
        config: The content of config.json, without overrides.
        served: What vLLM computes under them.
        model_type: That of the text part, whose class has a length where the file declares none.
    """
    try:
        before = read_config(config, in_vllm=True).configs.values()
    except UNREADABLE:
        return
    of_class = length_of_class(families.model_type(model_type)) or 0
    trained = max((each.max_length or of_class for each in before), default=0)
    longest = max((each.max_length or 0 for each in served.values()), default=0)
    if 0 < trained < longest and all(isinstance(each.scaling, Unscaled) for each in (*before, *served.values())):
        yield Finding(
            "warning",
            f"max_position_embeddings is {longest} in --hf-overrides, {trained} in the model: the length alone scales "
            f"nothing, and positions beyond {trained} are such as training never showed.",
            "State a scaling in rope_parameters as well, or leave the length as it is.",
        )


def _parsed(overrides: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(overrides, str):
        option = re.match(r"\s*(--[\w-]+)", overrides)
        try:
            overrides = parse_json(overrides)
        except ValueError as error:
            if option and option[1] in _FORMER_OPTIONS:
                raise ConfigError(f"vLLM 0.33 has no option {option[1]} any more. State {_EXAMPLE}.") from error
            what = f"the option {option[1]}" if option else f"no JSON: {error}"
            raise ConfigError(f"{FORMAT} is {what}. Quote the JSON alone: {_EXAMPLE}.") from error
    if not isinstance(overrides, Mapping):
        raise ConfigError(f"{FORMAT} must be a JSON object; got {json.dumps(overrides, default=repr)}.")
    return overrides


def _in_huggingface_terms(
    part: Mapping[str, Any], model_type: str, where: str, findings: list[Finding]
) -> dict[str, Any]:
    """Return a configuration with its groups as transformers would have them for what vLLM computes."""
    length = Fields(part, "config.json").whole("max_position_embeddings")
    is_latent = model_type.startswith(_LATENT)
    heeds_mscale = model_type in families.HEEDS_MSCALE or not families.is_in_transformers(model_type)
    context = VllmContext(where, length, is_latent, heeds_mscale, findings)
    changed = dict(part)
    for group in GROUPS:
        rope = part.get(group)
        if not isinstance(rope, Mapping):
            continue
        if rope and all(each is None or isinstance(each, Mapping) for each in rope.values()):
            changed[group] = {name: each and _as_huggingface(each, context) for name, each in rope.items()}
            continue
        beside = part.get("original_max_position_embeddings")
        stated = dict(rope) if beside is None else {"original_max_position_embeddings": beside, **rope}
        made = _as_huggingface(stated, context)
        changed[group] = made if "original_max_position_embeddings" in rope else _without_original(made)
    return changed


def _refuse_a_type_taken_for_another(part: Mapping[str, Any], model_type: str) -> None:
    """Refuse a group for which the class of transformers writes another ``rope_type`` beside the ``type`` of the file.

    Raises:
        ConfigError: It does; ``patch_legacy_rope_type`` of vLLM calls the two a conflict.
    """
    for name in GROUPS:
        group = part.get(name)
        stated = group.get("type") if isinstance(group, Mapping) and group.get("rope_type") is None else None
        taken = type_taken_for(model_type, stated)
        if taken != stated and stated in TYPES_OF_TRANSFORMERS:
            raise ConfigError(
                f"vLLM refuses {name} of config.json: the class of '{model_type}' in transformers takes its type "
                f"'{stated}' for rope_type '{taken}', and vLLM takes no file with two types. State rope_type '{taken}' "
                "alone."
            )


def _with_ntk_of_its_own(part: Mapping[str, Any], model_type: str) -> Mapping[str, Any]:
    """Return a configuration with a fixed NTK as the model's own code means it, of which vLLM computes the same.

    Its ``DynamicNTKAlphaRotaryEmbedding`` is that of Hunyuan, its ``NTKScalingRotaryEmbedding`` that of gte.
    """
    groups = [part[name] for name in GROUPS if isinstance(part.get(name), Mapping)]
    kinds = [group.get("rope_type", group.get("type")) for group in groups]
    if "ntk" in kinds or ("dynamic" in kinds and any(group.get("alpha") is not None for group in groups)):
        return in_usual_names({**part, "model_type": model_type}, [])
    return part


def _without_original(rope: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in rope.items() if key != "original_max_position_embeddings"}


def _as_huggingface(rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
    """Return the group with the entries that transformers would have for the same scaling."""
    kind = rope.get("rope_type", rope.get("type"))
    if kind == "ntk":
        raise ConfigError(
            "vLLM's rope_type 'ntk' is no scaling known here: besides the larger base it divides all frequencies by "
            "factor^(2/d). Raise rope_theta to factor^(d/(d-2)) times its value for NTK-aware interpolation."
        )
    if kind == TELECHAT3_YARN:
        factor = Fields(rope, context.engine).needed_factor("yarn")
        if factor <= 0:
            raise ConfigError(f"vLLM takes the logarithm of factor {factor:g}, which is no number.")
        rope, kind = yarn_of_telechat3(rope), "yarn"
    if kind == "deepseek_yarn":  # what those classes make of every scaling; any class may be given it
        context = replace(context, is_latent=True)
    if context.is_latent and kind not in (None, "default", "yarn", "deepseek_yarn", "mrope"):
        raise ConfigError(
            f"vLLM's classes with latent attention take every scaling for YaRN, also rope_type '{kind}'. Use 'yarn', "
            "or a larger rope_theta."
        )
    scaling = scalings_by_type().get(str(kind))
    return dict(rope) if scaling is None else scaling.from_vllm_entries(rope, context)


def _refuse(config: RotaryConfig, has_axes: bool) -> None:
    """Raise ConfigError for what vLLM's classes fail with."""
    if config.scaling.name == "longrope" and config.layout == "interleaved":
        raise ConfigError("vLLM has 'longrope' for the layout 'half' alone; this model pairs neighbours.")
    if has_axes and not isinstance(config.scaling, Unscaled | YaRN):
        raise ConfigError(
            f"vLLM has positions of several axes (mrope_section) without scaling and with 'yarn', not with "
            f"'{config.scaling.name}'."
        )


_TABLE_OF_AXES = 4  # times the length that MRotaryEmbedding is given: as long it makes its table
_TABLE_OF_THE_LENGTH = ("qwen3_vl", "qwen3_5")  # whose classes hand it 1 instead, unless videos are pruned


def _with_wide_ramp(config: RotaryConfig, findings: list[Finding]) -> RotaryConfig:
    """Return YaRN as vLLM computes it for several axes: with the corners of its ramp for a longer text."""
    scaling = config.scaling
    if not isinstance(scaling, YaRN) or scaling.original_length is None:
        return config
    wide = scaling.original_length * _TABLE_OF_AXES
    findings.append(
        Finding(
            "warning",
            f"transformers: the ramp of YaRN for {scaling.original_length} tokens. vLLM, in models with several axes: "
            f"for {wide}, four times as many.",
            f"State original_max_position_embeddings {scaling.original_length / _TABLE_OF_AXES:g} in --hf-overrides, "
            "and --max-model-len.",
        )
    )
    widened = replace(scaling, original_length=wide, target_length=None, factor=scaling.stretch)
    return replace(config, scaling=widened)


def _lengths(declared: int | None, part: Mapping[str, Any], model_type: str) -> VllmLengths:
    """Return the lengths by which vLLM serves a model."""
    name = "original_max_position_embeddings"
    kind = families.model_type(model_type)
    original = Fields(part, "config.json").whole(name) or (kind.defaults.get(name) if kind else None)
    keeps = kind is not None and kind.keeps_short_list
    return VllmLengths(declared, model_type.startswith(_EXTENDED_LENGTH), original, keeps)


def write_vllm(
    configs: RotaryConfig | Mapping[str, RotaryConfig],
    group: Literal["rope_parameters", "rope_scaling"] = "rope_parameters",
) -> str:
    """Return the JSON for ``--hf-overrides``, by which vLLM runs a model with these rotary positions.

    Head size and layout are those of the model; the overrides cannot change them. Without ``--max-model-len`` vLLM
    serves texts up to :func:`derived_max_model_len`.

    Args:
        configs: The configuration, or one for every layer type where the model's class has a group for each; the length
            then is that of the model.
        group: ``rope_parameters`` for vLLM with transformers 5, ``rope_scaling`` (and ``rope_theta`` beside it) for
            releases with 4; those with 5 take it as well.

    Raises:
        ConfigError: vLLM cannot express it.

    Example:
        >>> from locant.positions import YaRN
        >>> yarn = YaRN(factor=4, original_length=32768)
        >>> print(write_vllm(RotaryConfig(head_dim=128, base=1e6, scaling=yarn)))  # doctest: +NORMALIZE_WHITESPACE
        {"rope_parameters": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 32768,
        "beta_fast": 32.0, "beta_slow": 1.0, "rope_theta": 1000000.0}, "max_position_embeddings": 131072}
    """
    if group not in GROUPS:
        raise ConfigError(f"Unknown group '{group}' of {FORMAT}. Known: {', '.join(GROUPS)}.")
    if len(given := by_layer(configs)) > 1:
        if group == "rope_scaling":
            raise ConfigError(f"{FORMAT} have groups by layer type under the name 'rope_parameters' alone.")
        return json.dumps({group: {layer: _rope_and_beside(config)[0] for layer, config in given.items()}})
    config = next(iter(given.values()))
    length = config.scaling.vllm_entry_length(config.max_length, FORMAT)
    rope, beside = _rope_and_beside(config)
    written: dict[str, Any] = {group: rope} | ({} if group == "rope_parameters" else beside)
    if length is not None:
        written["max_position_embeddings"] = length
    return json.dumps(written)


def _rope_and_beside(config: RotaryConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the group of a configuration, and what of it releases with transformers 4 take beside it."""
    rope = config.scaling.vllm_parameters(FORMAT)
    if rope is None:
        config = with_equivalent_base(config)
        rope = write_scaling(config, FORMAT)
    beside = {"rope_theta": config.base}
    if (fraction := write_rotated_fraction(config, FORMAT)) != 1:
        beside["partial_rotary_factor"] = fraction
    return rope | beside, beside


def derived_max_model_len(config: RotaryConfig) -> int | None:
    """Return the longest text that vLLM serves by default with the overrides of :func:`write_vllm`, if it is known."""
    return config.scaling.vllm_served_length(config.max_length)
