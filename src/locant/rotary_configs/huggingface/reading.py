"""Rotary positions in the config.json of Hugging Face's transformers, releases 4 and 5: reading."""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.contexts import OF_THE_CLASS, RopeContext
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.base import ALL_LAYERS, LayerType, NoRotaryPositionsError, ParsedConfig, declared_length
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import (
    reads_types_of_layers,
    type_taken_for,
    values_of_other_kinds,
    without_names_of_others,
    without_unread,
)
from locant.rotary_configs.classes.families import ModelType
from locant.rotary_configs.classes.groups import base_of_class, with_groups_of_file
from locant.rotary_configs.classes.own_code import in_usual_names, needs_code, read_by_other_code
from locant.rotary_configs.classes.refusals import (
    entries_that_nobody_sets,
    null_of,
    refused_by_configuration,
    refused_by_fields,
)
from locant.rotary_configs.classes.stack_types import facts_of_stack
from locant.rotary_configs.classes.without_rotation import (
    ROPE_KEYS,
    has_rotary_code,
    refuse_other_positions,
    speaks_of_rotation,
)
from locant.rotary_configs.huggingface.around_scalings import (
    base_of_one_more,
    length_for,
    original_length_for,
    with_list_of_class,
    with_ramp_of_transformers,
)
from locant.rotary_configs.huggingface.axis_entries import has_one_axis, read_axes
from locant.rotary_configs.huggingface.bases_beside_groups import (
    bases_by_layer,
    bases_of_a_switch,
    has_null_base,
    lacks_base,
    name_of_base,
    null_switches_nothing_off,
    one_base_for_all_types,
)
from locant.rotary_configs.huggingface.class_failures import doubts_about_class, types_of_no_rotation
from locant.rotary_configs.huggingface.contradictions import numbers_of_other_entries
from locant.rotary_configs.huggingface.doubts import (
    doubts_about,
    is_of_indexer,
    is_scaled_by_class,
    learns_frequencies,
    notes_on_indexers,
    refuse_impossible_values,
    turns_backwards,
    turns_values,
    types_without_group,
    with_checked_axes,
)
from locant.rotary_configs.huggingface.engine_classes import vllm_latent_heads
from locant.rotary_configs.huggingface.head_sizes import head_sizes
from locant.rotary_configs.huggingface.layer_doubts import (
    doubts_about_layer_types,
    doubts_about_layers,
    other_kinds_of_layers,
    types_that_may_stand_still,
)
from locant.rotary_configs.huggingface.layer_windows import windows_by_layer
from locant.rotary_configs.huggingface.layers import (
    grouped,
    layer_names,
    layers_with_positions,
    layers_without_positions,
)
from locant.rotary_configs.huggingface.named_classes import (
    TAKEN_FOR_MINISTRAL,
    class_in_architectures,
    code_of_its_own,
    doubts_about_architectures,
    other_type_in_architectures,
    taken_by_architectures,
    taken_in_the_place_of,
)
from locant.rotary_configs.huggingface.pairing import (
    LAYOUT_MARK,
    doubts_about_layout,
    layout_of_conversion,
    stated_interleaving,
)
from locant.rotary_configs.huggingface.rope_groups import (
    doubts_about_no_scaling,
    original_length_without_scaling,
    rope_groups,
    with_length_of_class,
    without_unused_groups,
)
from locant.rotary_configs.huggingface.size_names import length_of_others, without_sizes_of_others
from locant.rotary_configs.huggingface.stacks import kind_of_stack, stacks_beside
from locant.rotary_configs.huggingface.text_part_doubts import doubts_about_others
from locant.rotary_configs.huggingface.text_parts import (
    entries_of_text,
    is_taken_for_ministral,
    lacking_text_part,
    refuse_text_part_of_another_kind,
    text_part,
    text_type,
)
from locant.rotary_configs.huggingface.window_doubts import doubts_about_windows
from locant.rotary_configs.layer_types import GLOBAL, LOCAL
from locant.rotary_configs.reach import reach_of_scaling, scaling_for_all_layers
from locant.rotary_configs.rope_parameters import read_scaling, read_type
from locant.rotary_configs.rotary_names import passed_over, says_a_scaling
from locant.rotary_configs.spellings import (
    LENGTHS,
    Spelled,
    in_names_of_all,
    stated_layout,
    with_usual_width,
    without_null_scaling,
)
from locant.rotary_configs.unusual_bases import as_computed, config_class, with_true_for_1
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
    has_own_code = bool(config.get("auto_map") or given.get("auto_map"))
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
        findings += length_of_others(given, kind)
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
    without_null_scaling(given, findings, is_known=is_known)
    if given.has_none("partial_rotary_factor") and not given.has_none("rotary_pct"):
        given.names["partial_rotary_factor"] = "rotary_pct"
    try:
        parsed = _read_entries(config, given, name, kind, findings, in_vllm=in_vllm, is_replaced=is_replaced)
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


def _read_entries(
    config: Mapping[str, Any],
    given: Spelled,
    name: str | None,
    kind: ModelType | None,
    findings: list[Finding],
    *,
    in_vllm: bool,
    is_replaced: bool,
) -> ParsedConfig:
    """Read the entries of a text part, of the class whose facts are known.

    Args:
        config: The content of config.json.
        given: The entries, in the names of transformers.
        name: The model type.
        kind: The facts of its class.
        findings: What was found so far.
        in_vllm: As in :func:`read_config`.
        is_replaced: As there.
    """
    is_known = families.is_in_transformers(name) and kind is not None
    usual = Spelled(in_usual_names({**given, "model_type": name}, findings))
    given.learn_names(usual)
    if kind is not None and not is_known:
        with_usual_width(usual)
    part = Fields(usual, "config.json")
    part.get("model_type")
    refuse_other_positions(part, kind, name)
    refuse_impossible_values(part.values, takes_small_bases=is_known)
    stated = stated_layout(part.values) if kind is None else None
    by_name = families.layout_of(name, stated_interleaving(part, in_vllm, kind), kind) if stated is None else stated[1]
    latent = vllm_latent_heads(config) if in_vllm else None
    if latent is not None and "qk_rope_head_dim" in {*part.values, *(kind.defaults if kind else ())}:
        by_name = latent.layout
    layout = layout_of_conversion(config, findings) or ("half" if part.flag("use_hf_rope") else by_name)
    if part.flag("rotary_emb_interleaved"):  # of Nomic's own code
        layout = "interleaved"
    findings += doubts_about_layout(part, kind, name, stated)
    findings += doubts_about_others(config, kind)
    findings += [] if in_vllm else doubts_about_architectures(config)
    max_length = next((length for each in LENGTHS if (length := part.whole(each))), None)
    original_length = part.whole("original_max_position_embeddings")
    names = layer_names(part, kind)
    configs: dict[str, RotaryConfig] = {}
    multimodal: dict[str, dict[str, Any]] = {}
    groups = rope_groups(part, kind, names, findings, in_vllm=in_vllm, is_replaced=is_replaced)
    groups = without_unused_groups(groups, part, _layer_types(part, kind, names, groups))
    for layer, (rope, base) in groups.items():
        findings += doubts_about_no_scaling(rope, kind, layer)
        rope = with_length_of_class(rope, part, kind, findings)
        for entry in () if kind is None else kind.ignored:
            rope.get(entry)
        sizes = head_sizes(part, rope, kind, layer, names)
        original = original_length_for(rope, original_length, kind)
        context = RopeContext(
            length_for(rope, max_length, kind),
            original,
            sizes.fraction,
            heeds_mscale=in_vllm or not is_known or name in families.HEEDS_MSCALE,
            scales_scores=not is_known or name in families.SCALES_SCORES,
            is_of_transformers=is_known,
            is_in_vllm=in_vllm,
            # ``standardize_rope_params`` puts it into the one group for all layers, not into groups of layer types.
            takes_length_beside=not rope.where.startswith("'") and not (kind is not None and kind.rope_by_layer),
        )
        if original != original_length:
            context.warn(
                f"original_max_position_embeddings is missing in {rope.where}; the class of '{name}' takes its own, "
                f"{original}, and so is it here.",
                "State it beside the group of the scaling: engines that do not ask the class take another one.",
            )
        if base is None:
            base = base_of_class(kind, layer, is_scaled=bool(rope.values) and not rope.where.startswith(OF_THE_CLASS))
            bases = [each["rope_theta"] for each in (part.values, rope.values) if "rope_theta" in each]
            if None in bases:
                remedy = "State the base that the weights were trained with."
                context.findings.append(null_of("rope_theta", None if in_vllm else kind, f"{base:g}", remedy))
            elif not bases:  # one that the class passes over is told as such
                # Without its text part, the class reads none of those that stand elsewhere.
                lacks = lacks_base(text_part(config), rope, is_elsewhere=lacking_text_part(config) is not None)
                context.note(
                    f"{lacks}; {base:g} is taken, as {'its class' if kind else 'most code'} has.",
                    "Compare with the model's publication.",
                    "base of the class",
                )
        if name in families.HEEDS_MSCALE and read_type(rope) != "default" and not in_vllm:
            missing = [key for key in ("short_mscale", "long_mscale") if rope.values.get(key) is None]
            if missing:
                context.warn(
                    f"{rope.where} lacks {' and '.join(missing)}: the class "
                    f"of '{name}' in transformers refuses a scaling without.",
                    "State both, the attention scales of short texts and of long ones.",
                )
        if not (is_known and not in_vllm and has_one_axis(rope, kind, context)):
            read_axes(rope, layer, context, multimodal, None if in_vllm else kind, sizes.rotary_dim // 2)
        scaling = read_scaling(
            rope,
            context,
            taken_for=type_taken_for(name, read_type(rope)),
            passes_over_unknown=is_known,
            refuses_two_types=in_vllm or not is_known,
        )
        scaling = with_list_of_class(scaling, rope.where, None if in_vllm else kind, context)
        rotary_dim = sizes.rotated_by(scaling)
        if rotary_dim == sizes.rotary_dim + 1:
            base = base_of_one_more(sizes.rotary_dim, base, context)
        scaling = with_ramp_of_transformers(scaling, rotary_dim, base, context)
        scaling = as_computed(base, scaling, rotary_dim, layer, context)
        configs[layer] = config_class(base)(
            head_dim=sizes.head_dim,
            base=base,
            rotary_dim=rotary_dim,
            layout=layout,
            scaling=scaling,
            max_length=declared_length(scaling, max_length, context.findings),
        )
        findings += [finding for finding in (*sizes.findings, *context.findings) if finding not in findings]
    if kind is not None and kind.stands_without_base and has_null_base(part):
        raise NoRotaryPositionsError(
            f"rope_theta is null in config.json: the class of '{kind.name}' in transformers has no rotary positions "
            "then, and no others: causal masks or a recurrence alone tell the order of a text."
        )
    layers = _layer_types(part, kind, names, configs)
    rotated = {each.rotary_dim for each in configs.values()}
    said = {key: value for key, value in part.values.items() if not (key == "rope_dim" and [value] == [*rotated])}
    if any("use_xpos" in key and value is False for key, value in said.items()):
        said = {key: value for key, value in said.items() if "xpos" not in key}
    if is_known and (written := stated_layout(said)) is not None and written[1] == layout:
        del said[written[0]]
    unknown = [key for key, value in said.items() if _is_about_rotation(key, value, kind)]
    if not is_known:  # classes of transformers pass over what they do not know
        part.refuse_rest(ROPE_KEYS, [key for key in unknown if says_a_scaling(key, part.values[key])])
    findings += read_by_other_code(part, unknown, kind) if is_known and kind is not None and not in_vllm else ()
    findings += passed_over(part, unknown, ROPE_KEYS)
    if layers and not any(each.config for each in layers):
        fails = [] if kind is None else types_without_group(part.values, kind, names)
        fails += [*doubts_about_layer_types(part, kind, len(names)), *doubts_about_class(part, kind, names, configs)]
        if fails:
            raise ConfigError(fails[0].message)
        raise NoRotaryPositionsError(
            "By config.json, none of the layers of this model rotates: it has no rotary positions."
        )
    findings += [] if kind is not None or len(configs) > 1 else types_that_may_stand_still(part, name, names)
    if not is_known:
        findings += other_kinds_of_layers(part, () if kind is None else kind.entries)
    failing = types_of_no_rotation(kind, names, configs)
    findings += layers_without_positions([each for each in layers if each.name not in failing])
    findings += [turns_backwards(name)] if name is not None and name in families.TURNS_BACKWARDS else []
    findings += [learns_frequencies(name)] if name is not None and name in families.LEARNS_FREQUENCIES else []
    findings += turns_values(part)
    bases = [each.base for each in configs.values()]
    if not in_vllm:
        findings += [*bases_of_a_switch(part, kind, bases), *null_switches_nothing_off(part, kind, bases)]
        findings += one_base_for_all_types(part, kind, {layer: each.base for layer, each in configs.items()})
    findings += [] if in_vllm else is_scaled_by_class(part.values, kind, configs)
    findings += doubts_about_class(part, kind, names, configs)
    if (scaling_of_all := scaling_for_all_layers(given)) is not None:
        remedy = "Nothing has to be done, if the weights were trained so."
        findings += reach_of_scaling(configs, layers, f"in {scaling_of_all} of config.json", remedy)
    findings += [*doubts_about_windows(part, kind, names, layers), *doubts_about_layers(part, kind, names)]
    is_scaled = any(not isinstance(each.scaling, Unscaled) for each in configs.values())
    findings += [] if in_vllm else original_length_without_scaling(part, is_scaled)
    findings += [] if in_vllm else notes_on_indexers(part, kind, names, configs, layers)
    # Scaling scores by the logarithm of the position is no rotation: code of people's own may do it besides.
    by_logarithm = () if is_known or kind is None else [key for key in part.values if "logn" in key]
    of_class = () if kind is None else (*kind.defaults, *kind.entries)
    read = {key: value for key, value in part.values.items() if key not in part.passed_over}
    findings += doubts_about(read, {*of_class, *by_logarithm}, kind, names)
    parsed = ParsedConfig(configs, tuple(dict.fromkeys(findings)), multimodal, layers)
    by_class = {
        layer
        for layer, (rope, _) in groups.items()
        if rope.where.startswith(OF_THE_CLASS) or not any(each.endswith("rope_section") for each in rope.values)
    }
    return with_checked_axes(parsed, "mrope_section", splits=True, in_vllm=in_vllm, by_class=by_class)


def _is_about_rotation(key: str, value: Any, kind: ModelType | None) -> bool:
    """Whether an entry tells how to rotate: not an indexer's, a factor of 1, or that the model rotates."""
    if not ("rope" in key or "rotary" in key) or key in (kind.defaults if kind else {}):
        return False
    is_neutral = is_number(value) and value == 1 and any(word in key for word in ("scal", "factor", "ratio"))
    return not is_of_indexer(key) and not is_neutral and not (value is True and key.startswith("use_"))


def _layer_types(
    part: Fields, kind: ModelType | None, names: tuple[str, ...], configs: Container[str]
) -> tuple[LayerType, ...]:
    behaviour = layers_with_positions(part, kind, names)
    config_of: dict[str, str | None] = {}
    for name in names:
        if name in configs or ALL_LAYERS in configs:
            config_of[name] = name if name in configs else ALL_LAYERS
        elif "main" in configs:
            config_of[name] = "main" if name == LOCAL else "compress"
        elif name == ALL_LAYERS and GLOBAL in configs:
            config_of[name] = GLOBAL
        else:
            config_of[name] = None
    keys = [config_of[name] for name in names]
    for index, base in enumerate((bases_by_layer(part, kind) or ())[: len(names)]):
        if name_of_base(base) in configs:
            keys[index] = name_of_base(base)
    return grouped(names, behaviour, keys, windows_by_layer(part, kind, names))
