"""Entries of a config.json that contradict each other, of which a class of transformers takes one.

Which one it takes is that of ``convert_rope_params_to_dict`` and ``standardize_rope_params`` in its
``modeling_rope_utils.py``; the tests ask all its classes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.classes.families import MERGES_INTO_ALL_LAYERS, MERGES_INTO_FULL_LAYERS, is_in_transformers
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.layer_types import GLOBAL, LOCAL
from locant.rotary_configs.rope_parameters import entries_of_groups, read_type
from locant.rotary_configs.spellings import Spelled


def takes_scaling_first(kind: ModelType | None) -> bool:
    """Whether a class takes ``rope_scaling`` in the place of ``rope_parameters`` where a file has both."""
    if kind is None or not is_in_transformers(kind.name):
        return False
    return kind.name not in MERGES_INTO_ALL_LAYERS | MERGES_INTO_FULL_LAYERS


def merges_groups(kind: ModelType, groups: Mapping[str, Any]) -> bool:
    """Whether a class merges ``rope_scaling`` into groups of layer types; it fails where the file has none of these."""
    return is_in_transformers(kind.name) and any(isinstance(groups.get(name), Mapping) for name in _merged(kind))


def merged_groups(kind: ModelType, groups: Mapping[str, Any], scaling: Mapping[str, Any]) -> dict[str, Any]:
    """Return the groups of layer types into which a class merges ``rope_scaling``.

    Args:
        kind: The facts of the class.
        groups: rope_parameters, with a group for each layer type.
        scaling: rope_scaling.
    """
    taken = {name: {**groups[name], **scaling} for name in _merged(kind) if isinstance(groups.get(name), Mapping)}
    return {**groups, **taken}


def _merged(kind: ModelType) -> tuple[str, ...]:
    """Return the layer types whose groups ``rope_scaling`` is merged into."""
    if kind.name in MERGES_INTO_ALL_LAYERS:
        return GLOBAL, LOCAL
    return (GLOBAL,) if kind.name in MERGES_INTO_FULL_LAYERS else ()


def two_merged_groups(kind: ModelType, groups: Mapping[str, Any], scaling: Mapping[str, Any]) -> Finding:
    """Return the finding about ``rope_scaling`` that a class writes over what groups of layer types say.

    Args:
        kind: The facts of the class.
        groups: rope_parameters, with a group for each layer type.
        scaling: rope_scaling.
    """
    layers = " and ".join(f"'{name}'" for name in _merged(kind) if isinstance(groups.get(name), Mapping))
    return Finding(
        "error",
        f"config.json has rope_scaling ({_in_words(scaling)}) as well as rope_parameters for each layer type: the "
        f"class of '{kind.name}' in transformers writes the entries of rope_scaling over those for {layers}, as is "
        "shown; llama.cpp's converter takes rope_parameters alone.",
        "Keep one of them, the one that the weights were trained with.",
    )


def two_groups(kind: ModelType, taken: Mapping[str, Any], left: Mapping[str, Any]) -> Finding:
    """Return the finding about ``rope_scaling``, which a class takes, beside another ``rope_parameters``.

    Args:
        kind: The facts of the class.
        taken: The group rope_scaling.
        left: The group rope_parameters.
    """
    return Finding(
        "error",
        f"config.json has rope_parameters ({_in_words(left)}) as well as rope_scaling ({_in_words(taken)}), and they "
        f"differ: the class of '{kind.name}' in transformers takes rope_scaling, as is shown, and passes over "
        "rope_parameters; llama.cpp's converter takes rope_parameters.",
        "Keep one of them, the one that the weights were trained with.",
    )


def two_bases(kind: ModelType, inside: float, beside: float, where: str) -> Finding:
    """Return the finding about a base in a group, which a class takes, beside another one next to it.

    Args:
        kind: The facts of the class.
        inside: The base in the group.
        beside: The base next to it.
        where: The group.
    """
    return Finding(
        "error",
        f"rope_theta is {inside:.10g} in {where} but {beside:.10g} next to it: the class of '{kind.name}' in "
        "transformers 5 takes the first, as is shown, and passes over the second, which its releases 4 took.",
        "Keep one of them, the one that the weights were trained with.",
    )


def without_unknown_groups(
    kind: ModelType, group: Mapping[str, Any], where: str, types: Collection[str], findings: list[Finding]
) -> Mapping[str, Any]:
    """Return a group without the groups in it that no layer type has, which transformers passes over.

    Args:
        kind: The facts of the class.
        group: The group.
        where: Where it stands.
        types: The layer types that are known.
        findings: Where errors about these groups go.
    """
    known = {*types, *entries_of_groups()}  # an entry of another kind than it must be is no group that is passed over
    lost = [name for name, value in group.items() if isinstance(value, Mapping) and name not in known]
    for name in lost:
        findings.append(
            Finding(
                "error",
                f"'{name}' in {where} is a group of its own and no layer type: the class of '{kind.name}' in "
                "transformers passes over it, as is shown.",
                f"Move its entries up, into {where.split()[0]}, if the weights were trained with them.",
            )
        )
    return {name: value for name, value in group.items() if name not in lost} if lost else group


def numbers_of_other_entries(given: Spelled, name: str | None, *, is_known: bool) -> Iterator[Finding]:
    """Yield the warnings about numbers in whose place the code of a model takes those of other entries.

    Args:
        given: The entries of the file.
        name: The model type.
        is_known: Whether the code is that of transformers.
    """
    whose = f"the class of '{name}' in transformers" if is_known else f"the code of '{name}'"
    for entry, (taken, value) in given.overwritten.items():
        yield Finding(
            "warning",
            f"{entry} is {given[entry]:.10g} in config.json, but {whose} takes {value:.10g} of {taken} in its place.",
            "Keep the one that the weights were trained with.",
        )


def _in_words(group: Mapping[str, Any]) -> str:
    """Return type, factor and base of a group in a few words."""
    if any(isinstance(value, Mapping) for value in group.values()):
        return f"with groups for {' and '.join(map(repr, list(group)[:3]))}"
    said = [f"{name} {in_json(group[name]):.20}" for name in ("factor", "rope_theta") if group.get(name) is not None]
    return ", ".join([f"'{read_type(Fields(group, 'config.json'))}'", *said])
