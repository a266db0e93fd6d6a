"""Doubts about scalings that a class of transformers fails with, or takes otherwise than they are written.

The conversion of rotary parameters (``modeling_rope_utils.py`` of transformers 5) fills in what a group leaves out, and
keeps what it states, null too; a class then looks for its groups where its code expects them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes.entries import TYPES_OF_TRANSFORMERS, entries_of_class, type_taken_for
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.huggingface.groups_by_layer_type import FAILS_WITH_GROUPS
from locant.rotary_configs.layer_types import KNOWN_TYPES, RENAMED
from locant.rotary_configs.spellings import is_count
from locant.rotary_configs.usual_values import GROUPS, rotary_groups

_LISTS = ("short_factor", "long_factor")
_OF_QUERIES = ("llama_4_scaling_beta", "original_max_position_embeddings")


def scalings_that_fail(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about groups of rotary parameters that the class fails with, or takes otherwise.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    yield from _groups_for_one_rotation(part, kind)
    yield from _missing_scale_of_queries(part, kind)
    yield from _unknown_types(part, kind)
    yield from _types_without_length(part, kind)
    yield from _types_of_other_classes(part, kind)
    yield from _failing_types(part, kind)
    yield from _scalings_without_head(part, kind)
    yield from _whole_attention_factors(part, kind)


def _whole_attention_factors(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that transformers warns of an attention factor of YaRN without a fraction (``_validate_yarn``)."""
    for where, group in rotary_groups(part):
        factor, stated = group.get("attention_factor"), group.get("rope_type", group.get("type"))
        if stated == "yarn" and isinstance(factor, int) and not isinstance(factor, bool) and factor > 0:
            yield Finding(
                "note",
                f"attention_factor is {factor} in {where}, a whole number: the configuration of '{kind.name}' in "
                f"transformers warns that it must be a float, and the class takes {factor} all the same.",
                f"Write {factor}.0.",
            )


def _failing_types(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that the class fails with the scaling of a group."""
    for where, group in rotary_groups(part):
        stated = group.get("rope_type") or group.get("type") or ("default" if group else None)
        is_whole = stated == "proportional" and group.get("partial_rotary_factor", 1) == 1
        if where == "config.json" or stated not in kind.fails_with or is_whole:
            continue
        is_longrope = stated == "yarn" and type_taken_for(kind.name, stated) == "longrope"
        if is_longrope and all(group.get(name) for name in _LISTS):
            yield Finding(
                "warning",
                f"rope_type is 'yarn' in {where}: the class of '{kind.name}' in transformers takes it for 'longrope', "
                "and computes no YaRN, but divides frequencies by short_factor and long_factor.",
                "State 'longrope', which other engines take for the same.",
            )
            continue
        whose = f"the class of '{kind.name}' in transformers"
        if stated == "default":
            yield Finding(
                "warning",
                f"rope_type is 'default' in {where}: without a scaling {whose}{_angles_of_a_head(part, kind)} fails.",
                f"State a scaling, as '{(kind.rope or {}).get('rope_type', 'yarn')}', which that class has of its own.",
            )
            continue
        yield Finding(
            "warning",
            f"rope_type is '{stated}' in {where}: {whose} fails with that scaling.",
            "State another rope_type, or name the code that has it.",
        )


def _angles_of_a_head(part: Mapping[str, Any], kind: ModelType) -> str:
    """Return in words that a class of latent attention has angles for all features of a head, if it has such heads."""
    rest, turned = (part.get(name, kind.defaults.get(name)) for name in ("qk_nope_head_dim", "qk_rope_head_dim"))
    if not is_count(rest) or not is_count(turned):
        return ""
    return f" has angles for all {rest + turned} features of a head, of which {turned} are to be turned, and"


def _scalings_without_head(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that the class fails with the scaling of a group where the size of its heads is not stated."""
    if part.get("head_dim") is not None or ("head_dim" not in part and kind.defaults.get("head_dim") is not None):
        return
    for where, group in rotary_groups(part):
        stated = group.get("rope_type") or group.get("type")
        if where != "config.json" and stated in kind.fails_headless:
            yield Finding(
                "warning",
                f"rope_type is '{stated}' in {where}, and the file has no head_dim: the class of '{kind.name}' in "
                "transformers computes that scaling by head_dim alone, and fails.",
                "State head_dim, the features of a head.",
            )


def _types_of_other_classes(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that layers are of a type that transformers knows, and the code of the class does not speak of."""
    own, stated = entries_of_class(kind.name), part.get("layer_types")
    known = {*(own.layer_types if own else ()), *kind.behaviour, *kind.layer_types, *(kind.rope or {})}
    for name in dict.fromkeys(map(str, stated)) if isinstance(stated, list) and known & KNOWN_TYPES else ():
        if RENAMED.get(name, name) in KNOWN_TYPES - known:
            yield Finding(
                "warning",
                f"'{name}' in layer_types of config.json is a type of other classes: that of '{kind.name}' in "
                "transformers does not speak of it, and fails or takes such layers for others.",
                f"State one of {', '.join(sorted(known & KNOWN_TYPES))}.",
            )


def _unknown_types(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that a group names a scaling of other code, which the class does not translate either."""
    own = entries_of_class(kind.name)
    for where, group in rotary_groups(part):
        stated = group.get("rope_type", group.get("type"))
        if where == "config.json" or own is None or not isinstance(stated, str):
            continue
        if stated not in TYPES_OF_TRANSFORMERS and stated not in own.types:
            yield Finding(
                "warning",
                f"rope_type is '{stated}' in {where}, which neither transformers nor the class of '{kind.name}' knows: "
                "it fails.",
                f"State one of {', '.join(sorted(TYPES_OF_TRANSFORMERS))}.",
            )


def _types_without_length(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that a group lacks the original length, which the class fills in for types of transformers alone."""
    own, entry = entries_of_class(kind.name), "original_max_position_embeddings"
    for where, group in rotary_groups(part):
        stated = group.get("rope_type", group.get("type"))
        is_known = own is not None and isinstance(stated, str) and stated in own.needs_length
        if where != "config.json" and is_known and group.get(entry) is None:
            yield Finding(
                "warning",
                f"{where} has the type '{stated}' and no {entry}: the class of '{kind.name}' in transformers takes the "
                "type for 'longrope', but fills the length in for that name alone, and refuses the file.",
                f"State {entry} in {where.split()[0]}, or 'longrope' for its type.",
            )


def _missing_scale_of_queries(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that a group lacks what the attention of Mistral's later classes scales queries by."""
    for name in GROUPS:
        group = part.get(name)
        if not isinstance(group, Mapping) or not group or _OF_QUERIES[0] not in (kind.rope or {}):
            continue
        # transformers itself fills in the original length of a scaling that needs one.
        fills = (group.get("rope_type") or group.get("type")) in ("llama3", "yarn", "longrope")
        filled = _OF_QUERIES[1:] if fills else ()
        missing = [name for name in _OF_QUERIES if group.get(name) is None and (name in group or name not in filled)]
        if missing:
            yield Finding(
                "warning",
                f"{name} of config.json lacks {' and '.join(missing)}: the attention of the class of '{kind.name}' in "
                "transformers scales queries by it, and fails without.",
                f"State {' and '.join(missing)}.",
            )


def _groups_for_one_rotation(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that groups stand where a class whose layers have types looks for one rotation of all."""
    own, stated = entries_of_class(kind.name), part.get("layer_types")
    if own is not None and own.has_groups and not kind.rope and not _has_groups(part):
        yield Finding(
            "warning",
            f"config.json has no groups of rotary parameters for types of layers: the class of '{kind.name}' in "
            "transformers looks for one of every type, has none of its own, and fails.",
            "State rope_parameters with a group for each type of layers.",
            FAILS_WITH_GROUPS,
        )
    types = {*kind.layer_types, *(map(str, stated) if isinstance(stated, list) else ())}
    for name in GROUPS:
        group = part.get(name)
        if name == "rope_parameters" and part.get("rope_scaling"):
            continue  # in whose place the class takes that
        if own is None or own.has_groups or not isinstance(group, Mapping):
            continue
        if "rope_type" not in group and any(isinstance(group.get(each), Mapping) for each in types):
            yield Finding(
                "warning",
                f"{name} of config.json has groups for types of layers: the class of '{kind.name}' in transformers has "
                "one rotation for all layers, looks for rope_type beside the groups, and fails.",
                f"Write the entries of one group into {name} itself.",
            )


def _has_groups(part: Mapping[str, Any]) -> bool:
    groups = (part.get(name) for name in GROUPS)
    return any(isinstance(each, Mapping) for group in groups if isinstance(group, Mapping) for each in group.values())
