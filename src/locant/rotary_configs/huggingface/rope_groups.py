"""The groups of rotary parameters in a config.json of transformers, with the base of every layer type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.contexts import OF_THE_CLASS
from locant.positions.scaling.fields import Fields, Finding, agreed, in_json
from locant.rotary_configs.base import ALL_LAYERS, LayerType
from locant.rotary_configs.classes.families import (
    MERGES_INTO_ALL_LAYERS,
    MERGES_INTO_FULL_LAYERS,
    PASSES_OVER_BASE,
    is_in_transformers,
)
from locant.rotary_configs.classes.groups import (
    base_in,
    base_of_class,
    first_stated,
    groups_of_class,
    scaling_of,
    truncate_is_passed_over,
)
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.huggingface.bases_beside_groups import (
    base_beside_groups,
    base_beside_one_group,
    base_beside_those_of_layers,
    base_is_passed_over,
    base_of_full_layers,
    bases_by_layer,
    drops_base,
    name_of_base,
    null_bases,
)
from locant.rotary_configs.huggingface.contradictions import (
    merged_groups,
    merges_groups,
    takes_scaling_first,
    two_bases,
    two_groups,
    two_merged_groups,
    without_unknown_groups,
)
from locant.rotary_configs.huggingface.groups_by_layer_type import (
    fails_with_one_group,
    groups_are_merged,
    groups_are_passed_over,
    groups_by_layer_type,
    has_one_rotation,
    merged_by_type,
    one_group_for_all,
    stands_beside_groups,
)
from locant.rotary_configs.layer_types import GLOBAL, KNOWN_TYPES, LOCAL, SCALED, UNSCALED
from locant.rotary_configs.rope_parameters import entries_of_groups, read_type
from locant.rotary_configs.spellings import is_count
from locant.rotary_configs.usual_values import GROUPS


def rope_groups(
    part: Fields,
    kind: ModelType | None,
    names: tuple[str, ...],
    findings: list[Finding],
    *,
    in_vllm: bool,
    is_replaced: bool,
) -> dict[str, tuple[Fields, float | None]]:
    """Return the rotary parameters and the base of every layer type; the base is None where it is left out.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: Types of the layers.
        findings: Where findings go.
        in_vllm: Whether the classes are those of vLLM, which heed ``truncate`` beside layer types.
        is_replaced: Whether groups were replaced behind the class of transformers, which merges nothing into its own.

    Raises:
        ConfigError: Groups or bases contradict each other, or a layer type is not known.
    """
    new, old = part.mapping("rope_parameters"), part.mapping("rope_scaling")
    base = base_beside_groups(part, kind, findings)
    if new and old and kind is not None and takes_scaling_first(kind):
        if _comparable(new) != _comparable(old) or new.get("rope_theta") not in (None, old.get("rope_theta"), base):
            findings.append(two_groups(kind, old, new))
        new = None
    elif new and old and kind is not None and merges_groups(kind, new):
        merged = merged_groups(kind, new, old)
        findings += [two_merged_groups(kind, new, old)] if merged != new else []
        new = merged
    elif new and old and _comparable(new) != _comparable(old):
        raise ConfigError(
            "config.json has rope_parameters as well as rope_scaling, and they differ: transformers 5 takes "
            "rope_scaling, llama.cpp's converter rope_parameters. Keep one of them."
        )
    where = "rope_parameters of config.json" if new else "rope_scaling of config.json"
    given = new or old or {}
    if kind is not None and is_in_transformers(kind.name) and not kind.rope_by_layer:
        given = without_unknown_groups(kind, given, where, {*KNOWN_TYPES, *names, *(kind.rope or {})}, findings)
    by_layer = {name: value for name, value in given.items() if value is None or isinstance(value, Mapping)}
    are_groups = len(by_layer) == len(given) and any(isinstance(value, Mapping) for value in given.values())
    if are_groups and kind is not None and has_one_rotation(kind) and {*given} <= KNOWN_TYPES:
        is_read = base is not None and (kind.name not in PASSES_OVER_BASE or part.number("rotary_emb_base") is not None)
        base = base if is_read and base is not None else kind.defaults.get("default_theta", 10_000.0)
        findings.append(groups_are_passed_over(kind, given, where, base))
        return {ALL_LAYERS: (Fields({}, where), base)}
    merges = kind is not None and kind.name in MERGES_INTO_FULL_LAYERS | MERGES_INTO_ALL_LAYERS
    if are_groups and kind is not None and merges and not new and not is_replaced:
        findings.append(groups_are_merged(kind, where))
        given, by_layer, are_groups = {}, {}, False
    if are_groups:
        return groups_by_layer_type(part, by_layer, where, base, kind, names, findings, in_vllm=in_vllm)
    labels = {*names, *((kind.rope or {}) if kind is not None and kind.rope_by_layer else {})} - {ALL_LAYERS}
    if any(isinstance(given.get(label), Mapping) for label in labels):
        wrong = next(
            (name for name in given if name in labels and given[name] is not None and name not in by_layer), None
        )
        if wrong is not None:
            raise ConfigError(f"'{wrong}' in {where} must be a group of named values; got {in_json(given[wrong])}.")
        # transformers takes the groups of the layer types, whatever stands beside them (nested_rope_parameter_keys).
        findings += [stands_beside_groups(name, where) for name in given if name not in labels]
        by_layer = {name: value for name, value in by_layer.items() if name in labels}
        return groups_by_layer_type(part, by_layer, where, base, kind, names, findings, in_vllm=in_vllm)
    for name, value in given.items():
        if isinstance(value, Mapping) and name not in entries_of_groups():
            raise ConfigError(
                f"'{name}' in {where} is a group of its own, which transformers passes over. Move its entries up, "
                f"into {where.split()[0]}."
            )
    rope = Fields(given, where)
    inside = rope.number("rope_theta")
    if given and kind is not None and kind.rope_by_layer and is_in_transformers(kind.name) and not merges:
        stated = first_stated(inside, base)
        findings += one_group_for_all(kind, where, has_base=stated is not None)
        # Of a class that fails with the group, what the file says is shown for all layers.
        if stated is not None and not in_vllm and fails_with_one_group(kind, where):
            if base is not None and kind.name in PASSES_OVER_BASE:
                findings.append(base_beside_one_group(kind, base, where))
            names_of_class = kind.rope or {}
            return {name: (_of_known_base(given, where), stated) for name in names_of_class} or {
                ALL_LAYERS: (rope, stated)
            }
    if kind is not None and merges:
        if inside is not None and base not in (None, inside):
            findings.append(two_bases(kind, inside, base, where))
            base = inside
        given = merged_by_type(kind, given, where, is_new=bool(new), findings=findings)
        if not in_vllm and given.get("truncate") is False:
            given = {key: each for key, each in given.items() if key != "truncate"}
            findings.append(truncate_is_passed_over(f"the groups that the class of '{kind.name}' makes", where))
        rope = Fields(given, where)
        inside = rope.number("rope_theta")
    listed = dict.fromkeys(base for base in bases_by_layer(part, kind) or () if base)
    if given and kind is not None and kind.fills and not merges:  # it fills in its own groups beside these entries
        given, inside, rope = {}, None, Fields({}, where)
    if listed:
        findings += base_beside_those_of_layers(part, first_stated(inside, base), listed, kind)
        if len(listed) == 1:
            return {ALL_LAYERS: (rope, next(iter(listed)))}
        return {name_of_base(base): (_of_known_base(given, where), base) for base in listed}
    if inside is not None and kind is not None and base == kind.defaults.get("rope_theta"):
        base = None  # transformers writes the class's own beside the one that counts
    if inside is not None and base not in (None, inside) and kind is not None and is_in_transformers(kind.name):
        findings.append(two_bases(kind, inside, base, where))
        base = inside
    base = agreed(inside, base, _two_bases(inside, base, where))
    passes_over = kind is not None and kind.name in PASSES_OVER_BASE and inside is None
    if given and passes_over and kind is not None and not kind.rope_by_layer and part.number("rotary_emb_base") is None:
        own = kind.defaults.get("default_theta", 10_000.0)
        findings += [] if base in (None, own) else [base_is_passed_over(part, kind, base or own, own)]
        base = own
    if not given and kind is not None and not kind.rope_by_layer:
        own = base_in(kind.rope)
        by_its_name = part.number("rotary_emb_base") is None  # GPT-NeoX takes that
        if kind.keeps_its_base and by_its_name and own is not None and base is not None and base != own:
            findings.append(base_is_passed_over(part, kind, base, own))
            base = own
        rope = Fields(scaling_of(kind.rope), f"{OF_THE_CLASS}'{kind.name}'")
    if UNSCALED in names and read_type(rope) != "default":
        both = {SCALED: (rope, base), UNSCALED: (Fields({}, where), base)}
        return {name: group for name, group in both.items() if name in names}
    if (
        base is not None
        and (not given or passes_over)
        and kind is not None
        and kind.keeps_its_base
        and (kind.rope_by_layer or not kind.rope)
    ):
        own = None if kind.rope_by_layer else base_of_class(kind, ALL_LAYERS)
        if base not in (_bases_of_layers(kind, names) if kind.rope_by_layer else [own]):
            findings.append(base_is_passed_over(part, kind, base, own))
        base = own
    local = first_stated(part.number("rope_local_base_freq"), part.number("local_rope_theta"))
    findings += null_bases(part, kind, inside)
    if kind is not None and kind.rope_by_layer and kind.rope is not None:
        takes_one_for_all = any({LOCAL, GLOBAL} <= {*types} for types in kind.bases.values())
        if GLOBAL not in kind.rope or LOCAL not in kind.rope or takes_one_for_all:
            return groups_of_class(kind, part, rope, base)
        if base is not None and local is None and drops_base(kind, base):
            findings.append(base_of_full_layers(kind, base))
        local = first_stated(local, base_in(kind.rope.get(LOCAL)))
        base = first_stated(base, part.number("global_rope_theta"), base_in(kind.rope.get(GLOBAL)))
        if not given:
            rope = Fields(scaling_of(kind.rope.get(GLOBAL)), where)
    if local is None:
        return {ALL_LAYERS: (rope, base)}
    # The one rope_scaling of such a model is that of its full attention, but for a few classes.
    if kind is not None and kind.name in MERGES_INTO_ALL_LAYERS:
        return {GLOBAL: (rope, base), LOCAL: (_of_known_base(given, where), local if inside is None else inside)}
    return {GLOBAL: (rope, base), LOCAL: (Fields({}, where), local)}


def _of_known_base(given: Mapping[str, Any], where: str) -> Fields:
    """Return a group for further layers, whose base is taken already."""
    rope = Fields(given, where)
    rope.get("rope_theta")
    return rope


def _bases_of_layers(kind: ModelType, names: Collection[str]) -> list[float | None]:
    """Return the bases that a class has of its own for the types that layers are of; all where none of them has one."""
    groups = kind.rope or {}
    return [base_in(groups[name]) for name in groups if name in names] or [*map(base_in, groups.values())]


def _two_bases(inside: float | None, beside: float | None, where: str) -> str:
    return f"rope_theta is {inside} in {where} but {beside} next to it; keep one of them."


def with_length_of_class(rope: Fields, part: Fields, kind: ModelType | None, findings: list[Finding]) -> Fields:
    """Return a group with the original length of the class, where that has an entry for it beside the group.

    Args:
        rope: The group.
        part: The text part of config.json.
        kind: The facts of the class.
        findings: Where a warning goes if the group has another.
    """
    entry = "original_max_position_embeddings"
    own, stated = None if kind is None else kind.defaults.get(entry), rope.values.get(entry)
    if kind is None or own is None or stated in (None, own) or part.values.get(entry) is not None:
        return rope
    if not is_in_transformers(kind.name) or read_type(rope) == "default":
        return rope
    findings.append(
        Finding(
            "warning",
            f"{entry} is {stated} in {rope.where}, which the class of '{kind.name}' in transformers passes over: it "
            f"takes the entry beside the group, which the file leaves out, and that is {own} then.",
            f"State {entry} {stated} beside the group as well.",
        )
    )
    return _of_known_base({**rope.values, entry: own}, rope.where)


def doubts_about_no_scaling(rope: Fields, kind: ModelType | None, layer: str) -> list[Finding]:
    """Return what is to be said of a group without the scaling that the class has where a file states no group.

    A class takes such a group as it is: it merges nothing of its own into it.

    Args:
        rope: The group.
        kind: The facts of the class.
        layer: The type of the layers.
    """
    if kind is None or not is_in_transformers(kind.name) or not rope.values or rope.where.startswith(OF_THE_CLASS):
        return []
    if kind.rope_by_layer != rope.where.startswith("'"):  # groups of which the class makes others, as is said elsewhere
        return []
    group = (kind.rope or {}).get(layer) if kind.rope_by_layer else kind.rope
    own = Fields(group if isinstance(group, Mapping) else {}, rope.where)
    usual = read_type(own)
    if usual == "default" or read_type(rope) != "default":
        return []
    numbers = (("factor", "by factor"), ("original_max_position_embeddings", "from an original length of"))
    how = "".join(f" {words} {own.values[name]:g}" for name, words in numbers if name in own.values)
    is_said = any(rope.values.get(name) is not None for name in ("rope_type", "type"))
    return [
        Finding(
            "note" if is_said else "warning",
            f"{rope.where} {'scales nothing' if is_said else 'has no rope_type, and scales nothing then'}; where a "
            f"file states no group, the class of '{kind.name}' in transformers has '{usual}'{how}.",
            "State that scaling there if the weights were trained with it.",
        )
    ]


def original_length_without_scaling(part: Fields, is_scaled: bool) -> list[Finding]:
    """Return the finding about an original length beside no scaling that could be computed from it, if there is one.

    Args:
        part: The text part of config.json.
        is_scaled: Whether any layer has a scaling.
    """
    entry = "original_max_position_embeddings"
    value = part.get(entry)
    if is_scaled or not is_count(value) or value == part.get("max_position_embeddings"):
        return []
    return [
        Finding(
            "note",
            f"{entry} is {value} in config.json, without effect: there is no scaling that it could belong to.",
            "State the scaling as well, if the weights were trained with one.",
        )
    ]


def without_unused_groups(
    groups: Mapping[str, tuple[Fields, float | None]], part: Fields, layers: Collection[LayerType]
) -> dict[str, tuple[Fields, float | None]]:
    """Return the groups of a class without those for types of which there are no layers, where the file states none.

    Args:
        groups: The rotary parameters and the base of every layer type.
        part: The text part of config.json.
        layers: The layers, with the keys of these groups; empty where their number is not known.
    """
    used = {each.config for each in layers if each.config is not None}
    if not used or any(part.values.get(name) for name in GROUPS):
        return {**groups}
    return {name: group for name, group in groups.items() if name in used}


def _comparable(rope: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in rope.items() if key not in ("rope_type", "type", "rope_theta")}
    return kept | {"rope_type": read_type(Fields(rope, "config.json"))}
