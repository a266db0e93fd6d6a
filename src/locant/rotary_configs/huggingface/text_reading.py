"""Rotary positions of the text part of a config.json: of every group of rotary parameters, for layers of every type."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.contexts import OF_THE_CLASS
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.base import ALL_LAYERS, LayerType, NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.own_code import in_usual_names, read_by_other_code
from locant.rotary_configs.classes.without_rotation import ROPE_KEYS, refuse_other_positions
from locant.rotary_configs.huggingface.around_scalings import goes_by_length
from locant.rotary_configs.huggingface.bases_beside_groups import (
    bases_by_layer,
    bases_of_a_switch,
    bases_that_are_read,
    has_null_base,
    name_of_base,
    null_switches_nothing_off,
    one_base_for_all_types,
)
from locant.rotary_configs.huggingface.class_failures import doubts_about_class, types_of_no_rotation
from locant.rotary_configs.huggingface.doubts import (
    doubts_about,
    is_of_indexer,
    is_scaled_by_class,
    learns_frequencies,
    longest_text_of_table,
    notes_on_indexers,
    refuse_impossible_values,
    turns_backwards,
    turns_values,
    types_without_group,
    with_checked_axes,
)
from locant.rotary_configs.huggingface.engine_classes import vllm_latent_heads
from locant.rotary_configs.huggingface.group_reading import TextEntries, rotation_of_group
from locant.rotary_configs.huggingface.groups_by_layer_type import FAILS_WITH_GROUPS
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
from locant.rotary_configs.huggingface.named_classes import brings_code, doubts_about_architectures
from locant.rotary_configs.huggingface.pairing import doubts_about_layout, layout_of_conversion, stated_interleaving
from locant.rotary_configs.huggingface.rope_groups import (
    doubts_about_no_scaling,
    original_length_without_scaling,
    rope_groups,
    with_length_of_class,
    without_unused_groups,
)
from locant.rotary_configs.huggingface.size_names import longest_text
from locant.rotary_configs.huggingface.text_part_doubts import doubts_about_others
from locant.rotary_configs.huggingface.window_doubts import doubts_about_windows
from locant.rotary_configs.layer_types import GLOBAL, LOCAL
from locant.rotary_configs.reach import reach_of_scaling, scaling_for_all_layers
from locant.rotary_configs.rotary_names import passed_over, says_a_scaling
from locant.rotary_configs.spellings import LENGTHS, Spelled, stated_layout, with_usual_width


def read_text_part(
    config: Mapping[str, Any],
    given: Spelled,
    name: str | None,
    kind: ModelType | None,
    findings: list[Finding],
    *,
    in_vllm: bool,
    is_replaced: bool,
) -> ParsedConfig:
    """Read the rotary positions of a text part, as its class takes its entries.

    Args:
        config: The content of config.json.
        given: The entries, in the names of transformers.
        name: The model type.
        kind: The facts of its class, where they are known.
        findings: What was found so far.
        in_vllm: Whether the classes are those of vLLM.
        is_replaced: Whether groups were replaced behind the class of transformers.
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
    groups = rope_groups(part, kind, names, findings, in_vllm=in_vllm, is_replaced=is_replaced)
    groups = without_unused_groups(groups, part, _layer_types(part, kind, names, groups))
    if is_known and kind is not None and not brings_code(config, given):
        is_computed_with = any(goes_by_length(rope) for rope, _ in groups.values())
        max_length = longest_text(given, max_length, kind, findings, is_computed_with=is_computed_with)
    text = TextEntries(config, part, name, kind, in_vllm, layout, names, max_length, original_length)
    configs: dict[str, RotaryConfig] = {}
    multimodal: dict[str, dict[str, Any]] = {}
    for layer, (rope, base) in groups.items():
        findings += doubts_about_no_scaling(rope, kind, layer)
        rope = with_length_of_class(rope, part, kind, findings)
        configs[layer], found = rotation_of_group(text, layer, rope, base, multimodal)
        findings += [finding for finding in found if finding not in findings]
    if kind is not None and kind.stands_without_base and has_null_base(part):
        raise NoRotaryPositionsError(
            f"rope_theta is null in config.json: the class of '{kind.name}' in transformers has no rotary positions "
            "then, and no others: causal masks or a recurrence alone tell the order of a text."
        )
    layers = _layer_types(part, kind, names, configs)
    findings += _entries_left_over(text, configs)
    if layers and not any(each.config for each in layers):
        reasons = [] if kind is None else types_without_group(part.values, kind, names)
        reasons += [*doubts_about_layer_types(part, kind, len(names)), *doubts_about_class(part, kind, names, configs)]
        if reasons:
            raise ConfigError(reasons[0].message)
        raise NoRotaryPositionsError(
            "By config.json, none of the layers of this model rotates: it has no rotary positions."
        )
    findings += _doubts(text, configs, layers)
    fails = any(each.code == FAILS_WITH_GROUPS for each in findings)
    if not fails and (scaling_of_all := scaling_for_all_layers(given)) is not None:
        remedy = "Nothing has to be done, if the weights were trained so."
        findings += reach_of_scaling(configs, layers, f"in {scaling_of_all} of config.json", remedy)
    parsed = ParsedConfig(configs, tuple(dict.fromkeys(findings)), multimodal, layers)
    by_class = {
        layer
        for layer, (rope, _) in groups.items()
        if rope.where.startswith(OF_THE_CLASS) or not any(each.endswith("rope_section") for each in rope.values)
    }
    return with_checked_axes(parsed, "mrope_section", splits=True, in_vllm=in_vllm, by_class=by_class)


def _entries_left_over(text: TextEntries, configs: Mapping[str, RotaryConfig]) -> Iterator[Finding]:
    """Yield findings about entries on rotation that nothing has read, and refuse those of which nobody knows the code.

    Args:
        text: The text part.
        configs: Its rotations, by types of layers.
    """
    part, kind, is_known = text.part, text.kind, text.is_known
    rotated = {each.rotary_dim for each in configs.values()}
    said = {key: value for key, value in part.values.items() if not (key == "rope_dim" and [value] == [*rotated])}
    if any("use_xpos" in key and value is False for key, value in said.items()):
        said = {key: value for key, value in said.items() if "xpos" not in key}
    if is_known and (written := stated_layout(said)) is not None and written[1] == text.layout:
        del said[written[0]]
    unknown = [key for key, value in said.items() if _is_about_rotation(key, value, kind)]
    if not is_known:  # classes of transformers pass over what they do not know
        part.refuse_rest(ROPE_KEYS, [key for key in unknown if says_a_scaling(key, part.values[key])])
    if is_known and kind is not None and not text.in_vllm:
        yield from read_by_other_code(part, unknown, kind)
    bases = bases_that_are_read(kind) if is_known and kind is not None else ()
    yield from passed_over(part, unknown, ROPE_KEYS, bases=bases)


def _is_about_rotation(key: str, value: Any, kind: ModelType | None) -> bool:
    """Whether an entry tells how to rotate: not an indexer's, a factor of 1, or that the model rotates."""
    if not ("rope" in key or "rotary" in key) or key in (kind.defaults if kind else {}):
        return False
    is_neutral = is_number(value) and value == 1 and any(word in key for word in ("scal", "factor", "ratio"))
    return not is_of_indexer(key) and not is_neutral and not (value is True and key.startswith("use_"))


def _doubts(text: TextEntries, configs: Mapping[str, RotaryConfig], layers: tuple[LayerType, ...]) -> Iterator[Finding]:
    """Yield findings about all rotations of a text part and its layers.

    Args:
        text: The text part.
        configs: Its rotations, by types of layers.
        layers: Its layers.
    """
    part, name, kind, names = text.part, text.name, text.kind, text.names
    if kind is None and len(configs) == 1:
        yield from types_that_may_stand_still(part, name, names)
    if not text.is_known:
        yield from other_kinds_of_layers(part, () if kind is None else kind.entries)
    failing = types_of_no_rotation(kind, names, configs)
    yield from layers_without_positions([each for each in layers if each.name not in failing])
    if name is not None and name in families.TURNS_BACKWARDS:
        yield turns_backwards(name)
    if name is not None and name in families.LEARNS_FREQUENCIES:
        yield learns_frequencies(name)
    yield from turns_values(part)
    bases = {layer: each.base for layer, each in configs.items()}
    if not text.in_vllm:
        yield from bases_of_a_switch(part, kind, [*bases.values()])
        yield from null_switches_nothing_off(part, kind, [*bases.values()])
        yield from one_base_for_all_types(part, kind, bases)
        yield from is_scaled_by_class(part.values, kind, configs)
    yield from doubts_about_class(part, kind, names, configs)
    yield from doubts_about_windows(part, kind, names, layers)
    yield from doubts_about_layers(part, kind, names)
    if not text.in_vllm:
        is_scaled = any(not isinstance(each.scaling, Unscaled) for each in configs.values())
        yield from original_length_without_scaling(part, is_scaled)
        yield from longest_text_of_table(part, kind)
        yield from notes_on_indexers(part, kind, names, configs, layers)
    # Scaling scores by the logarithm of the position is no rotation: code of people's own may do it besides.
    by_logarithm = () if text.is_known or kind is None else [key for key in part.values if "logn" in key]
    of_class = () if kind is None else (*kind.defaults, *kind.entries)
    read = {key: value for key, value in part.values.items() if key not in part.passed_over}
    yield from doubts_about(read, {*of_class, *by_logarithm}, kind, names)


def _layer_types(
    part: Fields, kind: ModelType | None, names: tuple[str, ...], configs: Container[str]
) -> tuple[LayerType, ...]:
    """Return the layers with the keys of their rotations in ``configs``, as far as they have one."""
    behaviour = layers_with_positions(part, kind, names)
    config_of: dict[str, str | None] = {}
    for name in names:
        if name in configs or ALL_LAYERS in configs:
            config_of[name] = name if name in configs else ALL_LAYERS
        elif "main" in configs or "compress" in configs:
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
