"""The bases that a config.json states beside its groups of rotary parameters, and which of them a class takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.contexts import OF_THE_CLASS
from locant.positions.scaling.fields import Fields, Finding, agreed
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.families import (
    MERGES_INTO_FULL_LAYERS,
    PASSES_OVER_BASE,
    TAKES_ROTARY_EMB_BASE,
    is_in_transformers,
)
from locant.rotary_configs.classes.groups import base_in
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.refusals import null_of
from locant.rotary_configs.huggingface.layers import layer_count
from locant.rotary_configs.huggingface.text_parts import lacking_text_part, text_part, text_part_names
from locant.rotary_configs.layer_types import LOCAL
from locant.rotary_configs.usual_values import GROUPS, rotary_groups

_BASES_OF_TYPES = ("rope_local_base_freq", "local_rope_theta", "global_rope_theta")
"""Entries beside the groups that are the base of one type of layers."""


def base_beside_groups(part: Fields, kind: ModelType | None, findings: list[Finding]) -> float | None:
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
        findings.append(_other_base(part, kind, "rope_theta", base, f"rotary_emb_base, {neox:.10g}"))
    return neox


def _other_base(part: Fields, kind: ModelType, name: str, value: float, taken: str) -> Finding:
    """Return the finding about a base under a name that the class does not read."""
    part.pass_over(name)
    return Finding(
        "warning",
        f"{name} is {value:.10g} in config.json, which the class of '{kind.name}' in transformers passes over: it "
        f"takes {taken}.",
        f"Remove {name}, or state it by the other name if the weights were trained with it.",
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


def base_beside_those_of_layers(
    part: Fields, base: float | None, listed: Collection[float], kind: ModelType | None
) -> Iterator[Finding]:
    """Yield that a base has no effect beside ``layer_rope_theta``, which has one for every layer.

    Args:
        part: The text part of config.json.
        base: The base, where the file states one.
        listed: Those of the list.
        kind: The facts of the class.
    """
    if base is None or {*listed} == {base}:
        return
    part.pass_over("rope_theta")
    whose = "it" if kind is None else f"the class of '{kind.name}' in transformers"
    yield Finding(
        "warning",
        f"rope_theta {base:.10g} of {part.where} has no effect: {whose} takes the base of every layer from "
        "layer_rope_theta beside it.",
        "Remove layer_rope_theta, if all layers were trained with that base.",
    )


def bases_of_a_switch(part: Fields, kind: ModelType | None, taken: Collection[float]) -> Iterator[Finding]:
    """Yield that bases stand in ``layer_rope_theta``, of which a class takes only which layers rotate.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        taken: The bases of its rotations.
    """
    listed = part.values.get("layer_rope_theta")
    if kind is None or kind.name.startswith("granite") or not is_in_transformers(kind.name):
        return
    bases = [each for each in listed if is_number(each)] if isinstance(listed, list) else []
    others = [f"{each:.10g}" for each in dict.fromkeys(bases) if each and each not in taken]
    if others and taken:
        yield Finding(
            "warning",
            f"The base {' and '.join(others)} in layer_rope_theta of {part.where} has no effect: the class of "
            f"'{kind.name}' in transformers takes from that list only which layers rotate, all of them by the base "
            f"{' or '.join(f'{each:.10g}' for each in sorted({*taken}))}.",
            "State the base that the weights were trained with in rope_parameters.",
        )


def bases_that_are_read(kind: ModelType) -> list[str]:
    """Return the entries beside the groups of a file that a class takes for bases."""
    own = entries_of_class(kind.name)
    if own is None:
        return []
    of_all = ["rope_theta"] if "rope_parameters" in own.takes and kind.name not in PASSES_OVER_BASE else []
    return [*of_all, *sorted(name for name in {*own.takes, *own.reads, *kind.bases} - {*of_all} if "theta" in name)]


def name_of_base(base: float) -> str:
    """Return the key of the configuration of layers that are told apart by their base alone."""
    return f"base {base:.10g}"


def has_null_base(part: Fields) -> bool:
    """Whether a file states that there is no base, with null: in its one group of rotary parameters, or else beside."""
    groups = (part.values.get(name) for name in ("rope_parameters", "rope_scaling"))
    found = [group for group in groups if isinstance(group, Mapping)]
    stated = [group["rope_theta"] for group in found if "rope_theta" in group]
    stated = stated or [part.values[name] for name in ("rope_theta",) if name in part.values]
    return bool(stated) and not any(stated)


def lacks_base(config: Mapping[str, Any], rope: Fields) -> str:
    """Return in words that a file has no base, or only one in a group, or beside the part, that its class reads.

    Args:
        config: The content of config.json, as it is.
        rope: The group that counts.
    """
    part = text_part(config)
    groups = rotary_groups({name: part.get(name) for name in GROUPS})
    if any(group.get("rope_theta") is not None for _, group in groups):
        is_of_file = rope.values and not rope.where.startswith(OF_THE_CLASS)
        return f"{rope.where} has no rope_theta" if is_of_file else "No rope_theta of the file counts"
    if lacking_text_part(config) is not None:  # the class reads none of those that stand elsewhere
        return "The file has no rope_theta for its class"
    names = text_part_names(config)
    return f"'{'.'.join(names)}' has no rope_theta" if names and _states_base(config) else "The file has no rope_theta"


def _states_base(group: Mapping[str, Any]) -> bool:
    """Whether a base stands anywhere in a file."""
    inner = (each for each in group.values() if isinstance(each, Mapping))
    return group.get("rope_theta") is not None or any(map(_states_base, inner))


def one_base_for_all_types(part: Fields, kind: ModelType | None, bases: Mapping[str, float]) -> Iterator[Finding]:
    """Yield the note on one base that a class takes for layers of all types, for which it has several of its own.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        bases: The bases of its rotations, by type of layer.
    """
    stated = part.values.get("rope_theta")
    if kind is None or not kind.rope_by_layer or not is_number(stated) or {*bases.values()} != {stated}:
        return
    if any(part.values.get(name) for name in ("rope_parameters", "rope_scaling")):
        return  # of which other findings tell, also where the class fails with it
    own = {name: base for name in bases if (base := base_in((kind.rope or {}).get(name))) is not None}
    if len({*own.values()}) > 1:
        said = " and ".join(f"{base:.10g} for {name}" for name, base in sorted(own.items()))
        yield Finding(
            "note",
            f"rope_theta {stated:.10g} of config.json is the base of layers of all types: the class of '{kind.name}' "
            f"in transformers takes it in the place of its own, {said}.",
            "State rope_parameters with a group for each layer type, if the weights were trained with several bases.",
        )


def null_switches_nothing_off(part: Fields, kind: ModelType | None, taken: Collection[float]) -> Iterator[Finding]:
    """Yield that null in the place of the groups does not take the rotation away, where nothing else states a base.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        taken: The bases of its rotations.
    """
    own = None if kind is None else entries_of_class(kind.name)
    if kind is None or own is None or not taken or "null" not in own.takes.get("rope_parameters", ()):
        return
    stated = {"rope_scaling", "rope_theta", "rotary_emb_base", *kind.bases}
    if part.values.get("rope_parameters", {}) is not None or any(part.values.get(name) is not None for name in stated):
        return
    own_bases = sorted({*taken})
    bases = f"base{'s' if len(own_bases) > 1 else ''} {' and '.join(f'{each:.10g}' for each in own_bases)}"
    said = (
        f"rope_parameters is null in config.json, which switches no rotation off: the class of '{kind.name}' in "
        f"transformers fills it in, and rotates with the {bases}."
    )
    if kind.stands_without_base:
        remedy = "State rope_theta null in rope_parameters, with its rope_type, if no layer is meant to rotate."
        yield Finding("warning", said, remedy)
    else:
        yield Finding("note", said, "State the base that the weights were trained with.")


def null_bases(part: Fields, kind: ModelType | None, inside: float | None) -> Iterator[Finding]:
    """Yield that bases of layer types are null, where the class has its own ones.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        inside: The base in the one group of the file, which the class takes in the place of ``rope_theta`` beside it.
    """
    if kind is None or not kind.rope_by_layer:
        return
    counts = inside is None and "rope_theta" in kind.fails_with_null
    for name in (*_BASES_OF_TYPES, *(("rope_theta",) if counts else ())):
        if name in part.values and part.values[name] is None:
            yield null_of(name, kind, "its own base", "State the base that the weights were trained with.")


def bases_of_types_beside(part: Fields, taken: Collection[float | None], where: str) -> Iterator[Finding]:
    """Yield that a base of one type of layers stands beside groups that all have other ones."""
    for name in _BASES_OF_TYPES:
        stated = part.number(name)
        if stated is not None and stated not in taken:
            part.pass_over(name)
            yield Finding(
                "warning",
                f"{name} is {stated:.10g} beside the groups of {where}, where the group of such layers has its own: it "
                "is passed over.",
                "Remove it, or state it in the group of the layers that it is meant for.",
            )


def is_passed_over(base: float, groups: Mapping[str, Any]) -> bool:
    """Whether the groups of all layer types have bases of their own, none of which is the one beside them."""
    own = [group.get("rope_theta") for group in groups.values() if isinstance(group, Mapping)]
    return bool(own) and None not in own and base not in own


def base_passed_over_for_groups(part: Fields, base: float, where: str) -> Finding:
    """Return the finding about a base beside groups that all have their own."""
    part.pass_over("rope_theta")
    return Finding(
        "warning",
        f"rope_theta {base:.10g} stands beside the groups of {where}, which all have their own: it is passed over.",
        "Remove it, or state it in the group of the layers that it is meant for.",
    )


def base_is_passed_over(part: Fields, kind: ModelType, stated: float, own: float | None) -> Finding:
    """Return the finding about a base that a class passes over: ``own`` is its own, where it has one for all layers."""
    part.pass_over("rope_theta")
    said = f"rope_theta is {stated:.10g} in config.json, which the class of '{kind.name}' in transformers passes over"
    if not kind.rope:
        return Finding(
            "warning",
            f"{said}: it has the base {own:.10g}, which no entry changes.",
            "Name a model type whose class reads the base, if the weights were trained with that one.",
        )
    groups = "its own groups" if own is None else f"its own group, with {own:.10g}"
    always = kind.name in PASSES_OVER_BASE
    where = "" if always else " where the file has no rope_parameters or rope_scaling"
    return Finding(
        "warning",
        f"{said}{where}: it takes {groups}.",
        _where_to_state_it(kind),
    )


def _where_to_state_it(kind: ModelType) -> str:
    """Return how a class takes a base: one that looks for groups of layer types fails with one group for all."""
    if not kind.one_group.get("rope_parameters"):
        return "State rope_theta in a group rope_parameters, with its rope_type."
    types = " and ".join(f"'{name}'" for name, group in (kind.rope or {}).items() if group)
    return f"State rope_theta in rope_parameters, with rope_type, in a group for each of {types}."


def base_beside_one_group(kind: ModelType, base: float, where: str) -> Finding:
    """Return the finding about a base beside one group with which a class fails."""
    return Finding(
        "warning",
        f"rope_theta is {base:.10g} in config.json, beside {where.split()[0]}: the class of '{kind.name}' in "
        "transformers reads no base there.",
        "State rope_theta in the group of each layer type.",
    )


def drops_base(kind: ModelType, base: float) -> bool:
    """Whether a class with the same base for layers of all types takes another one for full attention alone."""
    own = {base_in(group) for group in (kind.rope or {}).values()}
    return kind.name in MERGES_INTO_FULL_LAYERS and len(own) == 1 and base not in own


def base_of_full_layers(kind: ModelType, base: float) -> Finding:
    """Return the finding about a base that a class takes for layers of full attention alone."""
    return Finding(
        "warning",
        f"rope_theta is {base:.10g} in config.json, which the class of '{kind.name}' in transformers takes for layers "
        f"of full attention alone: those with a window keep {base_in((kind.rope or {}).get(LOCAL)):.10g}.",
        "State rope_parameters with a group for each layer type.",
    )
