"""Groups of rotary parameters that a class of transformers has of its own, or fills in for what a file leaves out.

Which entries beside the groups it takes for that is generated (``tests/support/zoo/groups.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from locant.positions.scaling.contexts import OF_THE_CLASS
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.families import PASSES_OVER_BASE, is_in_transformers
from locant.rotary_configs.classes.model_types import ModelType


def groups_of_class(
    kind: ModelType, part: Fields, rope: Fields, base: float | None
) -> dict[str, tuple[Fields, float | None]]:
    """Return the groups of a class whose types of layers take the bases of the file in a way of their own.

    Args:
        kind: The facts of the class.
        part: The text part of config.json.
        rope: The one group of the file, empty where it has none.
        base: The base beside it.
    """
    groups = {}
    for name, default in (kind.rope or {}).items():
        if default is not None:
            fields = Fields({**scaling_of(default), **rope.values}, rope.where)
            own = first_stated(base_beside_group(part, kind, name), base_in(default))
            # One group for all is copied for each type, and what it lacks is filled in alike.
            usual = first_stated(base, kind.defaults.get("default_theta"), own) if rope.values else own
            groups[name] = (fields, first_stated(fields.number("rope_theta"), usual, base))
    return groups


def with_groups_of_file(kind: ModelType, types: Any) -> ModelType:
    """Return the facts of a class with groups for the types of a file's layers, where it makes one for every type.

    Args:
        kind: The facts of the class.
        types: The types that the file states, if it does.
    """
    own = entries_of_class(kind.name)
    if not kind.makes_groups or own is None or not isinstance(types, list):
        return kind
    others = [name for name in dict.fromkeys(map(str, types)) if name in own.layer_types - {*(kind.rope or {})}]
    group = {"rope_type": "default", "rope_theta": kind.defaults.get("default_theta")}
    return replace(
        kind,
        rope={**(kind.rope or {}), **dict.fromkeys(others, group)},
        bases={entry: [*names, *others] for entry, names in kind.bases.items()},
        behaviour={**kind.behaviour, **dict.fromkeys(others, "rotates")},
    )


def filled_in(part: Fields, kind: ModelType, filled: Sequence[str]) -> dict[str, tuple[Fields, float | None]]:
    """Return the groups that a class fills in for types of layers of which the file has none.

    Args:
        part: The text part of config.json.
        kind: The facts of the class.
        filled: The types.
    """
    groups = {}
    for name in filled:
        own = (kind.rope or {})[name]
        base = first_stated(base_beside_group(part, kind, name), base_in(own))
        groups[name] = (Fields(scaling_of(own), f"{OF_THE_CLASS}'{kind.name}'"), base)
    return groups


def base_beside_group(part: Fields, kind: ModelType, layer: str) -> float | None:
    """Return the base beside the groups that a class takes for a type of layers whose group it fills in.

    Args:
        part: The text part of config.json.
        kind: The facts of the class.
        layer: The type.
    """
    entries = (entry for entry, types in kind.bases.items() if layer in types)
    return first_stated(*(part.number(entry) for entry in entries))


def scaling_of(group: Any) -> dict[str, Any]:
    """Return the scaling of a class's own group; base and rotated fraction are looked up where they are needed."""
    return {key: value for key, value in (group or {}).items() if key not in ("rope_theta", "partial_rotary_factor")}


def base_in(group: Any) -> float | None:
    """Return the base that a group has, ``None`` for what is no group."""
    return group.get("rope_theta") if isinstance(group, Mapping) else None


def base_of_class(kind: ModelType | None, layer: str, *, is_scaled: bool = False) -> float:
    """Return the base of a class where the file has none, that of the paper where the class is not known.

    Args:
        kind: The facts of the class.
        layer: The layer type.
        is_scaled: Whether the file has a group, which stands in the place of the class's own.
    """
    if kind is None:
        return 10_000.0
    if is_scaled and "rope_theta" in kind.beside_scaling:
        return kind.beside_scaling["rope_theta"]
    rope = kind.rope or {}
    found = first_stated(base_in(rope), base_in(rope.get(layer)), kind.defaults.get("rope_theta"))
    default = kind.defaults.get("default_theta")
    return first_stated(found, default if isinstance(default, int | float) else None, 10_000.0) or 10_000.0


def first_stated(*values: float | None) -> float | None:
    """Return the first of some values that is there."""
    return next((value for value in values if value is not None), None)


def base_of_a_group_without(part: Fields, kind: ModelType, base: float | None) -> float | None:
    """Return the base that transformers fills into a group without one, ``None`` where the class has its own way.

    ``standardize_rope_params`` takes ``rope_theta`` beside the groups, or ``default_theta`` of the class.
    """
    if not is_in_transformers(kind.name) or kind.name in PASSES_OVER_BASE:
        return None
    if "rope_theta" in kind.defaults:
        return first_stated(part.number("rope_theta"), kind.defaults["rope_theta"])
    return None if kind.fills else first_stated(base, kind.defaults.get("default_theta"))


def base_is_filled_in(kind: ModelType, where: str, taken: float | None, usual: float | None) -> Finding:
    """Return the warning about a group whose base the class fills in otherwise than it has it itself."""
    own = "" if usual is None else f", not the {usual:.10g} of its own group"
    return Finding(
        "warning",
        f"{where} has no rope_theta: the class of '{kind.name}' in transformers fills in {taken:.10g} there{own}.",
        "State rope_theta in every group.",
    )


def group_without_base(kind: ModelType, where: str) -> Finding:
    """Return the warning about a group without a base, of a class that fills none in."""
    return Finding(
        "warning",
        f"{where} has no rope_theta, and the class of '{kind.name}' in transformers fills none in: it fails there.",
        "State rope_theta in every group.",
    )


def truncate_is_passed_over(group: str, where: str) -> Finding:
    """Return the warning about ``truncate`` within the groups of layer types."""
    return Finding(
        "warning",
        f"truncate false stands in {group} of {where}, where transformers passes over it: it looks for truncate next "
        "to the layer types, and rounds the corners of YaRN. vLLM heeds it.",
        "Expect rounded corners from transformers, or train with them.",
    )


def states_a_base(group: Mapping[str, Any]) -> bool:
    """Whether a group of rotary parameters, or those of layer types in it, states a base."""
    return any(each.get("rope_theta") is not None for each in (group, *group.values()) if isinstance(each, Mapping))
