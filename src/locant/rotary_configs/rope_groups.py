"""The groups of rotary parameters in a config.json of transformers, with the base of every layer type."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.contexts import OF_THE_CLASS
from locant.positions.scaling.fields import Fields, Finding, agreed, in_json
from locant.rotary_configs.base import ALL_LAYERS
from locant.rotary_configs.class_groups import (
    base_beside_group,
    base_in,
    base_is_filled_in,
    base_of_a_group_without,
    base_of_class,
    filled_in,
    first_stated,
    group_without_base,
    groups_of_class,
    scaling_of,
    truncate_is_passed_over,
)
from locant.rotary_configs.class_refusals import null_of
from locant.rotary_configs.contradictions import (
    merged_groups,
    merges_groups,
    takes_scaling_first,
    two_bases,
    two_groups,
    two_merged_groups,
    without_groups_of_nothing,
)
from locant.rotary_configs.families import (
    MERGES_INTO_ALL_LAYERS,
    MERGES_INTO_FULL_LAYERS,
    PASSES_OVER_BASE,
    TAKES_ROTARY_EMB_BASE,
    ModelType,
    is_in_transformers,
)
from locant.rotary_configs.layer_types import GLOBAL, KNOWN_TYPES, LOCAL, SCALED, UNSCALED, type_meant
from locant.rotary_configs.layers import layer_count
from locant.rotary_configs.rope_parameters import read_type

_BASES_OF_TYPES = ("rope_local_base_freq", "local_rope_theta", "global_rope_theta")
"""Entries beside the groups that are the base of one type of layers."""


def rope_groups(
    part: Fields, kind: ModelType | None, names: tuple[str, ...], findings: list[Finding], *, in_vllm: bool
) -> dict[str, tuple[Fields, float | None]]:
    """Return the rotary parameters and the base of every layer type; the base is None where it is left out.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        names: Types of the layers.
        findings: Where findings go.
        in_vllm: Whether the classes are those of vLLM, which heed ``truncate`` beside layer types.

    Raises:
        ConfigError: Groups or bases contradict each other, or a layer type is not known.
    """
    new, old = part.mapping("rope_parameters"), part.mapping("rope_scaling")
    base = _base_beside(part, kind, findings)
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
            "rope_scaling, other engines rope_parameters. Keep one of them."
        )
    where = "rope_parameters of config.json" if new else "rope_scaling of config.json"
    given = new or old or {}
    if kind is not None and is_in_transformers(kind.name) and not kind.rope_by_layer:
        given = without_groups_of_nothing(kind, given, where, {*KNOWN_TYPES, *names, *(kind.rope or {})}, findings)
    by_layer = {name: value for name, value in given.items() if value is None or isinstance(value, Mapping)}
    are_groups = len(by_layer) == len(given) and any(isinstance(value, Mapping) for value in given.values())
    if are_groups and kind is not None and _has_one_rotation(kind) and {*given} <= KNOWN_TYPES:
        is_read = base is not None and (kind.name not in PASSES_OVER_BASE or part.number("rotary_emb_base") is not None)
        base = base if is_read and base is not None else kind.defaults.get("default_theta", 10_000.0)
        findings.append(_groups_are_passed_over(kind, given, where, base))
        return {ALL_LAYERS: (Fields({}, where), base)}
    merges = kind is not None and kind.name in MERGES_INTO_FULL_LAYERS | MERGES_INTO_ALL_LAYERS
    if are_groups and kind is not None and merges and not new and not in_vllm:  # whose overrides are not merged
        findings.append(_groups_are_merged(kind, where))
        given, by_layer, are_groups = {}, {}, False
    if are_groups:
        return _by_layer_type(part, by_layer, where, base, kind, names, findings, in_vllm=in_vllm)
    labels = {*names, *((kind.rope or {}) if kind is not None and kind.rope_by_layer else {})} - {ALL_LAYERS}
    if any(isinstance(given.get(label), Mapping) for label in labels):
        wrong = next(
            (name for name in given if name in labels and given[name] is not None and name not in by_layer), None
        )
        if wrong is not None:
            raise ConfigError(f"'{wrong}' in {where} must be a group of named values; got {in_json(given[wrong])}.")
        # transformers takes the groups of the layer types, whatever stands beside them (nested_rope_parameter_keys).
        findings += [_stands_beside_groups(name, where) for name in given if name not in labels]
        by_layer = {name: value for name, value in by_layer.items() if name in labels}
        return _by_layer_type(part, by_layer, where, base, kind, names, findings, in_vllm=in_vllm)
    for name, value in given.items():
        if isinstance(value, Mapping):
            raise ConfigError(
                f"'{name}' in {where} is a group of its own, which transformers passes over. Move its entries up, "
                f"into {where.split()[0]}."
            )
    rope = Fields(given, where)
    inside = rope.number("rope_theta")
    if given and kind is not None and kind.rope_by_layer and is_in_transformers(kind.name) and not merges:
        findings.append(_one_group_for_all(kind, where))
    if kind is not None and merges:
        if inside is not None and base not in (None, inside):
            findings.append(two_bases(kind, inside, base, where))
            base = inside
        given = _merged_by_type(kind, given, where, is_new=bool(new), findings=findings)
        if not in_vllm and given.get("truncate") is False:
            given = {key: each for key, each in given.items() if key != "truncate"}
            findings.append(truncate_is_passed_over(f"the groups that the class of '{kind.name}' makes", where))
        rope = Fields(given, where)
        inside = rope.number("rope_theta")
    listed = dict.fromkeys(base for base in bases_by_layer(part, kind) or () if base)
    if given and kind is not None and kind.fills and not merges:  # it fills in its own groups beside these entries
        given, inside, rope = {}, None, Fields({}, where)
    if listed:
        if len(listed) == 1:
            return {ALL_LAYERS: (rope, next(iter(listed)))}
        return {name_of_base(base): (Fields(given, where), base) for base in listed}
    if inside is not None and kind is not None and base == kind.defaults.get("rope_theta"):
        base = None  # transformers writes the class's own beside the one that counts
    if inside is not None and base not in (None, inside) and kind is not None and is_in_transformers(kind.name):
        findings.append(two_bases(kind, inside, base, where))
        base = inside
    base = agreed(inside, base, _two_bases(inside, base, where))
    passes_over = kind is not None and kind.name in PASSES_OVER_BASE and inside is None
    if given and passes_over and kind is not None and not kind.rope_by_layer and part.number("rotary_emb_base") is None:
        own = kind.defaults.get("default_theta", 10_000.0)
        findings += [] if base in (None, own) else [_base_is_passed_over(part, kind, base or own, own)]
        base = own
    if not given and kind is not None and not kind.rope_by_layer:
        own = base_in(kind.rope)
        by_its_name = part.number("rotary_emb_base") is None  # GPT-NeoX takes that
        if kind.keeps_its_base and by_its_name and own is not None and base is not None and base != own:
            findings.append(_base_is_passed_over(part, kind, base, own))
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
        if base not in ([base_in(group) for group in (kind.rope or {}).values()] if kind.rope_by_layer else [own]):
            findings.append(_base_is_passed_over(part, kind, base, own))
        base = own
    local = first_stated(part.number("rope_local_base_freq"), part.number("local_rope_theta"))
    findings += _null_bases(part, kind)
    if kind is not None and kind.rope_by_layer and kind.rope is not None:
        takes_one_for_all = any({LOCAL, GLOBAL} <= {*types} for types in kind.bases.values())
        if GLOBAL not in kind.rope or LOCAL not in kind.rope or takes_one_for_all:
            return groups_of_class(kind, part, rope, base)
        if base is not None and local is None and _drops_base(kind, base):
            findings.append(_base_of_full_layers(kind, base))
        local = first_stated(local, base_in(kind.rope.get(LOCAL)))
        base = first_stated(base, part.number("global_rope_theta"), base_in(kind.rope.get(GLOBAL)))
        if not given:
            rope = Fields(scaling_of(kind.rope.get(GLOBAL)), where)
    if local is None:
        return {ALL_LAYERS: (rope, base)}
    # The one rope_scaling of such a model is that of its full attention, but for a few classes.
    if kind is not None and kind.name in MERGES_INTO_ALL_LAYERS:
        copied = Fields(given, where)
        copied.get("rope_theta")
        return {GLOBAL: (rope, base), LOCAL: (copied, local if inside is None else inside)}
    return {GLOBAL: (rope, base), LOCAL: (Fields({}, where), local)}


def _drops_base(kind: ModelType, base: float) -> bool:
    """Whether a class with the same base for layers of all types takes another one for full attention alone."""
    own = {base_in(group) for group in (kind.rope or {}).values()}
    return kind.name in MERGES_INTO_FULL_LAYERS and len(own) == 1 and base not in own


def _base_of_full_layers(kind: ModelType, base: float) -> Finding:
    return Finding(
        "warning",
        f"rope_theta is {base:g} in config.json, which the class of '{kind.name}' in transformers takes for layers of "
        f"full attention alone: those with a window keep {base_in((kind.rope or {}).get(LOCAL)):g}.",
        "State rope_parameters with a group for each layer type.",
    )


def _groups_are_merged(kind: ModelType, where: str) -> Finding:
    return Finding(
        "warning",
        f"{where} has groups for layer types: the class of '{kind.name}' in transformers takes one group by that name, "
        "which it merges into its own, and passes over groups within.",
        "Write the groups into rope_parameters.",
    )


def _one_group_for_all(kind: ModelType, where: str) -> Finding:
    return Finding(
        "warning",
        f"{where} has no groups for layer types: the class of '{kind.name}' in transformers looks for these, and "
        "fails or passes over what stands in their place.",
        "Write a group for each layer type.",
    )


def _two_bases(inside: float | None, beside: float | None, where: str) -> str:
    return f"rope_theta is {inside} in {where} but {beside} next to it; keep one of them."


def _merged_by_type(
    kind: ModelType, given: Mapping[str, Any], where: str, *, is_new: bool, findings: list[Finding]
) -> Mapping[str, Any]:
    """Return what a class with groups by layer type merges into them of one group for all: rope_scaling alone."""
    old = given.get("type") if given.get("rope_type") is None else None
    if not given or not (is_new or old not in (None, "default")):
        return given
    said = "has no groups for layer types" if is_new else f"has type '{old}' and no rope_type"
    taken = "and takes its own groups" if is_new else "and scales nothing"
    findings.append(
        Finding(
            "warning",
            f"{where} {said}: the class of '{kind.name}' in transformers passes over it, {taken}.",
            "Write rope_parameters with a group for each layer type, and rope_type in each.",
        )
    )
    return {} if is_new else {key: value for key, value in given.items() if key == "rope_theta"}


def _has_one_rotation(kind: ModelType) -> bool:
    """Whether a class of transformers has no types of layers, so that it takes no groups for them."""
    return is_in_transformers(kind.name) and not kind.layer_types and not kind.rope_by_layer


def _groups_are_passed_over(kind: ModelType, given: Mapping[str, Any], where: str, base: float) -> Finding:
    """Return the finding about groups of layer types (``nested_rope_parameter_keys`` of transformers)."""
    names = " and ".join(f"'{name}'" for name in list(given)[:3])
    return Finding(
        "warning",
        f"{where} has groups for {names}, which the class of '{kind.name}' in transformers passes over: its "
        f"layers have no types, and all have the base {base:g}, without scaling.",
        "Write the entries of one group into rope_parameters itself.",
    )


def _base_beside(part: Fields, kind: ModelType | None, findings: list[Finding]) -> float | None:
    """Return the base that stands beside the groups, under the name that the class takes."""
    base, neox = part.number("rope_theta"), part.number("rotary_emb_base")
    if neox is None or neox == base:
        return base
    if kind is None or not is_in_transformers(kind.name):
        return agreed(base, neox, "rope_theta and rotary_emb_base differ.")
    if kind.name not in TAKES_ROTARY_EMB_BASE:
        findings.append(_other_base(part, kind, "rotary_emb_base", neox, "rope_theta"))
        return base
    if base is not None:
        findings.append(_other_base(part, kind, "rope_theta", base, f"rotary_emb_base, {neox:g}"))
    return neox


def _other_base(part: Fields, kind: ModelType, name: str, value: float, taken: str) -> Finding:
    """Return the finding about a base under a name that the class does not read."""
    part.pass_over(name)
    return Finding(
        "warning",
        f"{name} is {value:g} in config.json, which the class of '{kind.name}' in transformers passes over: it takes "
        f"{taken}.",
        f"Remove {name}, or state it by the other name if the weights were trained with it.",
    )


def _is_passed_over(base: float, groups: Mapping[str, Any]) -> bool:
    """Whether the groups of all layer types have bases of their own, none of which is the one beside them."""
    own = [group.get("rope_theta") for group in groups.values() if isinstance(group, Mapping)]
    return bool(own) and None not in own and base not in own


def _base_beside_groups(part: Fields, base: float, where: str) -> Finding:
    part.pass_over("rope_theta")
    return Finding(
        "warning",
        f"rope_theta {base:g} stands beside the groups of {where}, which all have their own: it is passed over.",
        "Remove it, or state it in the group of the layers that it is meant for.",
    )


def _base_is_passed_over(part: Fields, kind: ModelType, stated: float, own: float | None) -> Finding:
    """Return the finding about a base that a class passes over: ``own`` is its own, where it has one for all layers."""
    part.pass_over("rope_theta")
    said = f"rope_theta is {stated:g} in config.json, which the class of '{kind.name}' in transformers passes over"
    if not kind.rope:
        return Finding(
            "warning",
            f"{said}: it has the base {own:g}, which no entry changes.",
            "Name a model type whose class reads the base, if the weights were trained with that one.",
        )
    groups = "its own groups" if own is None else f"its own group, with {own:g}"
    always = kind.name in PASSES_OVER_BASE
    where = "" if always else " where the file has no rope_parameters or rope_scaling"
    return Finding(
        "warning",
        f"{said}{where}: it takes {groups}.",
        "State rope_theta in a group rope_parameters, with its rope_type.",
    )


def bases_by_layer(part: Fields, kind: ModelType | None) -> tuple[float, ...] | None:
    """Return the base of every layer by ``layer_rope_theta``, 0 for one that does not rotate, where the file has it.

    Args:
        part: The text part of config.json.
        kind: The facts of its class; only those of Granite take the list for bases, others for a switch.

    Raises:
        ConfigError: It is no list of numbers, or has not one for every layer.
    """
    if kind is not None and not kind.name.startswith("granite"):
        return None
    bases, count = part.numbers("layer_rope_theta"), layer_count(part, kind)
    if bases is not None and count is not None and len(bases) < count:
        raise ConfigError(f"layer_rope_theta in {part.where} is about {len(bases)} layers, but there are {count}.")
    return bases


def name_of_base(base: float) -> str:
    """Return the key of the configuration of layers that are told apart by their base alone."""
    return f"base {base:.10g}"


def _by_layer_type(
    part: Fields,
    given: Mapping[str, Any],
    where: str,
    base: float | None,
    kind: ModelType | None,
    names: tuple[str, ...],
    findings: list[Finding],
    *,
    in_vllm: bool,
) -> dict[str, tuple[Fields, float | None]]:
    """Return the groups of a file that has one for every layer type; those of vLLM heed ``truncate``."""
    known = {*KNOWN_TYPES, *names, *((kind.rope or {}) if kind else {})}
    for name in given:
        if name not in known and given[name] is not None:
            raise ConfigError(
                f"'{name}' in {where} is no layer type, and transformers passes over it.{type_meant(name, known)}"
            )
    groups = {}
    if base is not None and _is_passed_over(base, given):
        findings.append(_base_beside_groups(part, base, where))
    elif base is not None and kind is not None and kind.name in PASSES_OVER_BASE:
        own = {base_in(group) for group in given.values()}
        findings += [] if base in own else [_base_is_passed_over(part, kind, base, None)]
        base = None
    for name, value in given.items():
        default = None if kind is None or not kind.rope_by_layer else (kind.rope or {}).get(name)
        if name not in known or (value is None and default is None):
            continue
        if not in_vllm and value is not None and not value.get("truncate", True):
            value = {key: each for key, each in value.items() if key != "truncate"}
            findings.append(truncate_is_passed_over(f"'{name}'", where))
        whose = f"'{name}' of {where}" if value is not None else f"{OF_THE_CLASS}'{kind.name if kind else ''}'"
        rope = Fields(value if value is not None else scaling_of(default), whose)
        if kind is not None and kind.name in PASSES_OVER_BASE and value is not None and "rope_theta" not in value:
            findings.append(group_without_base(kind, whose))
        is_local = name == LOCAL and kind is not None and kind.name in MERGES_INTO_FULL_LAYERS
        beside = part.number("rope_local_base_freq") if is_local else base
        if kind is not None and kind.fills:
            beside = base_beside_group(part, kind, name)
        usual = base_in(default)
        if kind is not None and kind.rope_by_layer and value is not None and value.get("rope_theta") is None:
            taken = base_of_a_group_without(part, kind, base)
            if beside is None and taken not in (None, usual):
                findings.append(base_is_filled_in(kind, whose, taken, usual))
                usual = taken
        groups[name] = (rope, first_stated(rope.number("rope_theta"), beside, usual))
    filled = [] if kind is None else [name for name in kind.fills if name in names and given.get(name) is None]
    groups |= {} if kind is None else filled_in(part, kind, filled)
    findings += _bases_of_types_beside(part, [base for _, base in groups.values()], where)
    return groups


def _bases_of_types_beside(part: Fields, taken: Collection[float | None], where: str) -> Iterator[Finding]:
    """Yield that a base of one type of layers stands beside groups that all have other ones."""
    for name in _BASES_OF_TYPES:
        stated = part.number(name)
        if stated is not None and stated not in taken:
            part.pass_over(name)
            yield Finding(
                "warning",
                f"{name} is {stated:g} beside the groups of {where}, where the group of such layers has its own: it is "
                "passed over.",
                "Remove it, or state it in the group of the layers that it is meant for.",
            )


def _stands_beside_groups(name: str, where: str) -> Finding:
    return Finding(
        "warning",
        f"'{name}' stands in {where} beside the groups of layer types, where transformers passes over it.",
        "Remove it, or write it into the groups that it is meant for.",
    )


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
    replaced = Fields({**rope.values, entry: own}, rope.where)
    replaced.get("rope_theta")
    return replaced


def has_null_base(part: Fields) -> bool:
    """Whether a file states that its one group of rotary parameters has no base, with null."""
    groups = (part.values.get(name) for name in ("rope_parameters", "rope_scaling"))
    found = [group for group in groups if isinstance(group, Mapping)]
    return any("rope_theta" in group for group in found) and not any(group.get("rope_theta") for group in found)


def _comparable(rope: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in rope.items() if key not in ("rope_type", "type", "rope_theta")}
    return kept | {"rope_type": read_type(Fields(rope, "config.json"))}


def _null_bases(part: Fields, kind: ModelType | None) -> Iterator[Finding]:
    """Yield that bases of layer types are null, where the class has its own ones."""
    if kind is None or not kind.rope_by_layer:
        return
    for name in _BASES_OF_TYPES:
        if name in part.values and part.values[name] is None:
            yield null_of(name, kind, "its own base", "State the base that the weights were trained with.")
