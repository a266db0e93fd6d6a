"""Groups of rotary parameters for types of layers: what a class takes of them, and of one group in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from locant.errors import ConfigError
from locant.positions.scaling.contexts import OF_THE_CLASS
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.classes.families import (
    MERGES_INTO_ALL_LAYERS,
    MERGES_INTO_FULL_LAYERS,
    PASSES_OVER_BASE,
    is_in_transformers,
)
from locant.rotary_configs.classes.groups import (
    base_beside_group,
    base_in,
    base_is_filled_in,
    base_of_a_group_without,
    filled_in,
    first_stated,
    group_without_base,
    scaling_of,
    truncate_is_passed_over,
)
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.refusals import REQUIRED
from locant.rotary_configs.huggingface.bases_beside_groups import (
    base_is_passed_over,
    base_passed_over_for_groups,
    bases_of_types_beside,
    is_passed_over,
)
from locant.rotary_configs.layer_types import KNOWN_TYPES, LOCAL, type_meant
from locant.rotary_configs.rope_parameters import read_type

FAILS_WITH_GROUPS: Final = "fails with its groups"
"""Code of findings about one group with which a class fails that looks for groups of layer types."""

PASSES_OVER_GROUPS: Final = "groups passed over"
"""Code of findings about groups that a class passes over: of layer types beside one rotation, or the reverse."""

_SHOWN = " What is shown are those that it has for files without any."
_OF_ONE_GROUP = {"fails": "looks for these, and fails", "passed over": "passes over it, and takes its own groups"}


def groups_by_layer_type(
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
    """Return the group and the base of every layer type, of a file that has a group for each.

    Args:
        part: The text part of config.json.
        given: The groups.
        where: What to call the entry that holds them.
        base: The base that stands beside them.
        kind: The facts of the class, where they are known.
        names: Types of the layers.
        findings: Where findings go.
        in_vllm: Whether the classes are those of vLLM, which heed ``truncate``.

    Raises:
        ConfigError: A group is about no type of layers.
    """
    known = {*KNOWN_TYPES, *names, *((kind.rope or {}) if kind else {})}
    for name in given:
        if name not in known and given[name] is not None:
            raise ConfigError(
                f"'{name}' in {where} is no layer type, and transformers passes over it.{type_meant(name, known)}"
            )
    groups = {}
    late_base: float | None = None
    if base is not None and is_passed_over(base, given):
        findings.append(base_passed_over_for_groups(part, base, where))
    elif base is not None and kind is not None and kind.name in PASSES_OVER_BASE:
        own = {base_in(group) for group in given.values()}
        late_base = base if kind.name not in MERGES_INTO_ALL_LAYERS and _has_scaling(given) else None
        is_taken = base in own or (late_base is not None and None in own)
        findings += [] if is_taken else [base_is_passed_over(part, kind, base, None)]
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
        usual = base_in(default)
        if kind is not None and kind.name in PASSES_OVER_BASE and value is not None and "rope_theta" not in value:
            needs_own = "rope_theta" in REQUIRED.get(read_type(rope), ())
            taken = usual if kind.name in MERGES_INTO_ALL_LAYERS else None if needs_own else late_base
            findings.append(
                group_without_base(kind, whose) if taken is None else base_is_filled_in(kind, whose, taken, None)
            )
            usual = first_stated(taken, usual)
        is_local = name == LOCAL and kind is not None and kind.name in MERGES_INTO_FULL_LAYERS
        beside = part.number("rope_local_base_freq") if is_local else base
        if kind is not None and kind.fills:
            beside = base_beside_group(part, kind, name)
        if kind is not None and kind.rope_by_layer and value is not None and value.get("rope_theta") is None:
            taken = base_of_a_group_without(part, kind, base)
            if beside is None and taken not in (None, usual):
                findings.append(base_is_filled_in(kind, whose, taken, usual))
                usual = taken
        groups[name] = (rope, first_stated(rope.number("rope_theta"), beside, usual))
    filled = [] if kind is None else [name for name in kind.fills if name in names and given.get(name) is None]
    groups |= {} if kind is None else filled_in(part, kind, filled)
    findings += bases_of_types_beside(part, [base for _, base in groups.values()], where)
    return groups


def merged_by_type(
    kind: ModelType, given: Mapping[str, Any], where: str, *, is_new: bool, findings: list[Finding]
) -> Mapping[str, Any]:
    """Return what a class with groups by layer type merges into them of one group for all: rope_scaling alone."""
    old = given.get("type") if given.get("rope_type") is None else None
    if not given or not (is_new or old not in (None, "default")):
        return given
    said = "has no groups for layer types" if is_new else f"has type {in_json(old)} and no rope_type"
    then = _OF_ONE_GROUP[kind.one_group.get("rope_parameters", "passed over")]
    then = then if is_new else "passes over it, and scales nothing"
    fails = is_new and kind.one_group.get("rope_parameters") == "fails"
    findings.append(
        Finding(
            "warning",
            f"{where} {said}: the class of '{kind.name}' in transformers {then}.{_SHOWN if fails else ''}",
            "Write rope_parameters with a group for each layer type, and rope_type in each.",
            FAILS_WITH_GROUPS if fails else PASSES_OVER_GROUPS if is_new else None,
        )
    )
    return {} if is_new else {key: value for key, value in given.items() if key == "rope_theta"}


def has_one_rotation(kind: ModelType) -> bool:
    """Whether a class of transformers has no types of layers, so that it takes no groups for them."""
    return is_in_transformers(kind.name) and not kind.layer_types and not kind.rope_by_layer


def groups_are_passed_over(kind: ModelType, given: Mapping[str, Any], where: str, base: float) -> Finding:
    """Return the finding about groups of layer types (``nested_rope_parameter_keys`` of transformers)."""
    names = " and ".join(f"'{name}'" for name in list(given)[:3])
    return Finding(
        "warning",
        f"{where} has groups for {names}, which the class of '{kind.name}' in transformers passes over: its "
        f"layers have no types, and all have the base {base:.10g}, without scaling.",
        "Write the entries of one group into rope_parameters itself.",
        PASSES_OVER_GROUPS,
    )


def groups_are_merged(kind: ModelType, where: str) -> Finding:
    """Return the finding about groups in ``rope_scaling``, of a class that merges one group into its own."""
    return Finding(
        "warning",
        f"{where} has groups for layer types: the class of '{kind.name}' in transformers takes one group by that name, "
        "which it merges into its own, and passes over groups within.",
        "Write the groups into rope_parameters.",
    )


def one_group_for_all(kind: ModelType, where: str, *, has_base: bool) -> list[Finding]:
    """Return the finding about one group of a class that looks for one of each layer type, unless it takes it.

    Args:
        kind: The facts of the class.
        where: Where the group stands.
        has_base: Whether the file states a base in the group or beside it, which is shown then.
    """
    found = kind.one_group.get(where.split()[0])
    if found is None:
        return []
    shown = _SHOWN if found == "fails" and not has_base else ""
    return [
        Finding(
            "warning",
            f"{where} has no groups for layer types: the class of '{kind.name}' in transformers "
            f"{_OF_ONE_GROUP[found]}.{shown}",
            "Write a group for each layer type.",
            FAILS_WITH_GROUPS if found == "fails" else PASSES_OVER_GROUPS,
        )
    ]


def fails_with_one_group(kind: ModelType, where: str) -> bool:
    """Whether a class fails with one group in the place of those that it looks for."""
    return kind.one_group.get(where.split()[0]) == "fails"


def stands_beside_groups(name: str, where: str) -> Finding:
    """Return the finding about an entry that stands beside the groups of layer types."""
    return Finding(
        "warning",
        f"'{name}' stands in {where} beside the groups of layer types, where transformers passes over it.",
        "Remove it, or write it into the groups that it is meant for.",
    )


def _has_scaling(groups: Mapping[str, Any]) -> bool:
    """Whether a group has a scaling, in computing which transformers brings all groups in order once more."""
    found = (group for group in groups.values() if isinstance(group, Mapping))
    return any((group.get("rope_type") or group.get("type") or "default") != "default" for group in found)
