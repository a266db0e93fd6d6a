"""Rotary positions in the config.json of Hugging Face's transformers, releases 4 and 5: reading."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import entries_of_class, reads_types_of_layers, values_of_other_kinds
from locant.rotary_configs.classes.groups import with_groups_of_file
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.own_code import needs_code
from locant.rotary_configs.classes.refusals import entries_that_nobody_sets, refused_by_configuration, refused_by_fields
from locant.rotary_configs.classes.stack_types import facts_of_stack
from locant.rotary_configs.classes.unread_entries import without_names_of_others, without_unread
from locant.rotary_configs.classes.without_rotation import has_rotary_code, speaks_of_rotation
from locant.rotary_configs.huggingface.contradictions import numbers_of_other_entries
from locant.rotary_configs.huggingface.engine_classes import vllm_latent_heads
from locant.rotary_configs.huggingface.named_classes import (
    TAKEN_FOR_MINISTRAL,
    brings_code,
    class_in_architectures,
    code_of_its_own,
    other_type_in_architectures,
    taken_by_architectures,
    taken_in_the_place_of,
)
from locant.rotary_configs.huggingface.pairing import LAYOUT_MARK
from locant.rotary_configs.huggingface.size_names import without_sizes_of_others
from locant.rotary_configs.huggingface.stacks import kind_of_stack, stacks_beside
from locant.rotary_configs.huggingface.text_parts import (
    entries_of_text,
    is_taken_for_ministral,
    refuse_text_part_of_another_kind,
    text_part,
    text_type,
)
from locant.rotary_configs.huggingface.text_reading import read_text_part
from locant.rotary_configs.spellings import Spelled, in_names_of_all, without_null_scaling
from locant.rotary_configs.unusual_bases import with_true_for_1
from locant.rotary_configs.wording import speaks_of


def read_huggingface(config: Mapping[str, Any]) -> ParsedConfig:
    """Read the rotary positions of a model from its config.json.

    What the file leaves out is taken from the model's class, as transformers does. Known traps end in an error where
    the file cannot be right, in a finding where it may be. Heads of DeepSeek's family (``qk_rope_head_dim``) are the
    separate rotated part of the head, which has a projection of its own.

    Args:
        config: The content of config.json, of any 4.x or 5.x release; of a multimodal model, its text part is read.

    Returns:
        A configuration for every layer type; ``all`` where there is one. ``layers`` tells which layers have it.

    Raises:
        ConfigError: A type or key is unknown (the nearest known one is named), a value is missing or out of range, two
            contradict each other, the model has no rotary positions, or the file means something that a rotary
            configuration cannot express.

    Example:
        >>> parsed = read_huggingface({
        ...     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 32768,
        ...     "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 8.0}})
        >>> parsed.config.head_dim, parsed.config.scaling.name, parsed.config.scaling.factor
        (128, 'linear', 8.0)
    """
    return read_config(config)


@speaks_of("huggingface", "config.json")
def read_config(
    config: Mapping[str, Any], *, in_vllm: bool = False, is_replaced: bool = False, kind: ModelType | None = None
) -> ParsedConfig:
    """Read the rotary positions of a model as :func:`read_huggingface` does, or as vLLM's own classes do.

    Args:
        config: The content of config.json.
        in_vllm: Whether the classes are those of vLLM, all of which rotate a part of the head where they are told so.
        is_replaced: Whether groups were replaced behind the class of transformers, which fills in nothing then.
        kind: Facts of the class, for a model type that is not known here.
    """
    refuse_text_part_of_another_kind(config)
    name = text_type(config)
    if families.model_type(name) is None and kind is not None and families.model_type(kind.name) is not None:
        name = kind.name  # of code of its own that is as that of a known type
    kind = families.model_type(name) or kind or kind_of_stack(name)
    findings: list[Finding] = []
    refused: list[Finding] = []
    if kind is None and (named := class_in_architectures(config)) is not None:
        findings.append(taken_by_architectures(name, named))
        name, kind = named.name, named
    elif (named := other_type_in_architectures(config)) is not None:
        findings.append(taken_in_the_place_of(name, named))
        name, kind = named.name, named
    findings += [] if in_vllm else needs_code(config)
    findings += [TAKEN_FOR_MINISTRAL] if is_taken_for_ministral(config) and not in_vllm else []
    is_known = families.is_in_transformers(name)
    if kind is not None and not kind.rotates and has_rotary_code(text_part(config), config):
        kind, is_known = None, False  # the class of transformers is another one
    if kind is not None and in_vllm:
        latent = vllm_latent_heads(config)
        shares_part = latent is not None and latent.shares
        kind = replace(kind, rotates_partly=True, turns_any_share=True, turns_share_of_part=shares_part)
        kind = replace(kind, turns_odd_share=False)
    if kind is not None and is_replaced:
        kind = replace(kind, fills=())
    if kind is not None and config.get("model_type") in families.ONE_POSITION_FOR_ALL_AXES:
        kind = replace(kind, axes=None)
    given = Spelled({key: value for key, value in entries_of_text(config).items() if key != LAYOUT_MARK})
    has_own_code = brings_code(config, given)
    if kind is not None and not in_vllm and (is_known or not has_own_code):
        without_names_of_others(given, kind, findings)
    as_written = tuple(findings)  # in the names of the file
    if not is_known:
        is_new = families.model_type(name) is None and speaks_of_rotation(given)
        given = in_names_of_all(given, sizes=is_new)
    if is_known and kind is not None and not has_own_code:
        refused = [
            *values_of_other_kinds(given, kind),
            *(refused_by_configuration(given, kind) if kind.rotates else ()),
        ]
        findings += refused
        without_sizes_of_others(given, kind, findings)
        without_unread(given, kind, findings)
        kind = with_groups_of_file(kind, given.get("layer_types"))
        kind = kind if in_vllm else replace(kind, passes_over_types=not reads_types_of_layers(kind))
    elif kind is not None and facts_of_stack(kind.name) is not None and not has_own_code:
        refused = [*refused_by_fields(given, kind), *entries_that_nobody_sets(given, kind)]
        findings += refused
    if is_known and kind is not None:
        for alias, usual in kind.aliases.items():
            if alias in given and given.has_none(usual):
                given.take(alias, usual)
    if is_known and kind is not None and kind.rotates and config.get("auto_map"):
        findings.append(code_of_its_own(config["auto_map"], kind))
    if is_known:
        with_true_for_1(given, findings)
    own = entries_of_class(name) if is_known and not in_vllm else None
    is_refused = own is not None and own.loses_groups  # of rope_parameters another finding tells
    without_null_scaling(given, findings, is_known=is_known, refused=("rope_scaling",) if is_refused else ())
    if given.has_none("partial_rotary_factor") and not given.has_none("rotary_pct"):
        given.names["partial_rotary_factor"] = "rotary_pct"
    try:
        parsed = read_text_part(config, given, name, kind, findings, in_vllm=in_vllm, is_replaced=is_replaced)
    except NoRotaryPositionsError as error:
        said = given.in_words_of_file(str(error))
        if refused:  # a switch that is no switch
            raise ConfigError(f"{said} {refused[0].message}") from error
        raise NoRotaryPositionsError(said, error.remedy) from error
    except ConfigError as error:
        raise type(error)(given.in_words_of_file(str(error))) from error
    words = [
        each if each in as_written else replace(each, message=given.in_words_of_file(each.message))
        for each in parsed.findings
    ]
    words += numbers_of_other_entries(given, name, is_known=is_known)
    words += stacks_beside(config, parsed, functools.partial(read_config, in_vllm=in_vllm, is_replaced=is_replaced))
    return replace(parsed, findings=tuple(words))
