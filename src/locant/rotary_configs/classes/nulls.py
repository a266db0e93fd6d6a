"""Entries that are null, or missing, and of which a class of transformers makes no model.

Which they are is generated from the classes (``tests/support/zoo/failures.py``). What a group leaves out, the
conversion of rotary parameters (``modeling_rope_utils.py`` of transformers 5) fills in; null it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from locant.positions.scaling import SCALINGS
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.refusals import null_of
from locant.rotary_configs.rope_parameters import scalings_by_type
from locant.rotary_configs.spellings import HEAD_SIZES, HEADS, LAYERS, WIDTHS, is_count
from locant.rotary_configs.usual_values import rotary_groups

_LEFT_OUT = frozenset(["attention_factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow", "mrope_interleaved"])
"""Entries of a group for which its code takes null as if they were left out."""

_OF_GROUPS = ("rope_type", "rope_theta", "partial_rotary_factor", "mrope_section", "llama_4_scaling_beta")
NEEDED: Final = "needed by the class"
"""Code of findings about entries that a class needs, which are void where it was seen to compute the file."""

_BASES = ("global_rope_theta", "local_rope_theta", "rope_local_base_freq", "rope_theta", "rotary_emb_base")
_SHARES = ("partial_rotary_factor", "rotary_dim", "rotary_pct")
_TOLD_BY_THE_READING = frozenset([*_BASES, *_SHARES]) - {"rotary_emb_base"}
_NEEDED = (*HEADS, *WIDTHS, *LAYERS)
_SIZES = (*_NEEDED, *HEAD_SIZES, "num_key_value_heads")


def nulls_of_a_class(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about entries with null, or left out, with which a class fails, and about sizes below 1.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    yield from _groups_of_nothing(part, kind)
    yield from _entries_of_nothing(part, kind)
    yield from _nulls_in_groups(part, kind)
    yield from _sizes_of_nothing(part, kind)
    yield from _head_of_nothing(part, kind)
    yield from _missing_entries(part, kind)


def _groups_of_nothing(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that null, or an empty object, stands in the place of the groups."""
    own = entries_of_class(kind.name)
    if own is not None and own.loses_groups and "rope_scaling" in part and part["rope_scaling"] in (None, {}):
        stated = "null" if part["rope_scaling"] is None else "an empty object"
        yield Finding(
            "warning",
            f"rope_scaling is {stated} in config.json: the class of '{kind.name}' in transformers 5 sets its groups to "
            "that, and fails.",
            "Leave rope_scaling out.",
        )
    if own is not None and own.fails_without_groups and kind.rope and part.get("rope_parameters") == {}:
        yield Finding(
            "warning",
            f"rope_parameters is an empty object in config.json: the class of '{kind.name}' in transformers takes it "
            "for its groups, and fails.",
            "Leave rope_parameters out, or state a group for each type of layers.",
        )


def _entries_of_nothing(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that an entry beside the groups is null with which the class fails, though not where it is left out."""
    own = entries_of_class(kind.name)
    for name in kind.fails_with_null:
        is_told = name in _TOLD_BY_THE_READING or name in _SIZES or name in kind.needs
        is_refused = own is not None and "null" not in own.takes.get(name, ("null",))
        if is_told or is_refused or name not in part or part[name] is not None:
            continue
        if name in _BASES:
            yield null_of(name, kind, "another base", "State the base that the weights were trained with.")
        else:
            yield Finding(
                "warning",
                f"{name} is null in config.json, with which the class of '{kind.name}' in transformers fails, though "
                "not where it is left out.",
                f"State the {name} that the weights have.",
                NEEDED,
            )


def _missing_entries(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that the file leaves out what the class has no value for, and fails without."""
    missing: dict[tuple[str, str], list[str]] = {}
    for path, others in kind.needs.items():
        group, _, name = path.rpartition(".")
        inner = part.get(group) if group else part
        value = inner.get(name) if isinstance(inner, Mapping) else None
        is_null = isinstance(inner, Mapping) and name in inner
        is_told = is_null and name in _SIZES
        if value is None and not is_told and all(part.get(other) is None for other in others):
            how = "null" if is_null else "left out"
            missing.setdefault((how, group), []).append(name)
    for (how, group), names in missing.items():
        *first, last = names
        said, them, value = f"{last} is", "it", "no value of its own"
        if first:
            said, them, value = f"{', '.join(first)} and {last} are", "them", "no values of its own"
        where = f"in {group} of" if group else "in" if how == "null" else "of"
        yield Finding(
            "warning",
            f"{said} {how} {where} config.json: the class of '{kind.name}' in transformers has {value} for {them}, and "
            f"fails where it needs {them}.",
            f"State {' and '.join(names)} as the weights have them.",
            NEEDED,
        )


def _nulls_in_groups(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that entries of groups are null, of which the class takes that for their value."""
    known = {*_OF_GROUPS, *(entry for scaling in SCALINGS.values() for entry in scaling.rope_entries)} - _LEFT_OUT
    for where, group in rotary_groups(part):
        if where == "config.json":
            continue
        names = known if "rope_type" in group else {*known, "type"}
        lengths = (group.get("original_max_position_embeddings"), part.get("max_position_embeddings"))
        for name, value in group.items():
            if name == "factor" and all(map(is_count, lengths)) and _by_lengths(group):
                continue  # transformers takes the ratio of the lengths
            if value is None and name in names and not (name == "rope_theta" and kind.stands_without_base):
                yield Finding(
                    "warning",
                    f"{name} is null in {where}: the class of '{kind.name}' in transformers takes that for its value, "
                    f"not what it has where {name} is left out, and fails where it needs it.",
                    f"State {name}, or leave it out.",
                )


def _by_lengths(group: Mapping[str, Any]) -> bool:
    """Whether the scaling of a group takes the ratio of the lengths where its factor is null."""
    stated = group.get("rope_type") or group.get("type") or "default"
    kind = scalings_by_type().get(stated) if isinstance(stated, str) else None
    return kind is not None and kind.ratio_is_factor != "never"


def _sizes_of_nothing(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    own = entries_of_class(kind.name)
    for name in _SIZES:
        value = part.get(name)
        if value != 0 and _is_counted_by_layer(part, name):
            continue
        is_refused = own is not None and "null" not in own.takes.get(name, ("null",))  # of which another finding tells
        is_needed = (name in _NEEDED and name in kind.defaults) or (name in kind.fails_with_null and not is_refused)
        is_null = name in part and value is None and is_needed
        if value == 0 and not isinstance(value, bool) and name in HEADS:
            yield Finding(
                "warning",
                f"{name} is 0 in config.json: the class of '{kind.name}' in transformers fails with that, or attends "
                "to nothing.",
                f"State the {name} that the weights have.",
            )
        elif is_null or (isinstance(value, int) and not isinstance(value, bool) and value < 1):
            of_nothing = value == 0 and name in WIDTHS
            yield Finding(
                "warning",
                f"{name} is {in_json(value)} in config.json: the class of '{kind.name}' in transformers makes no model "
                f"of that{', or one whose layers have no features' if of_nothing else ''}.",
                f"State the {name} that the weights have.",
            )


def _is_counted_by_layer(part: Mapping[str, Any], name: str) -> bool:
    """Whether a list of the file has a number for each layer, which counts in the place of one for all (Laguna)."""
    counts = part.get(f"{name}_per_layer")
    return isinstance(counts, list) and bool(counts) and all(map(is_count, counts))


def _head_of_nothing(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that the size of heads is null, by the file or by the class, which computes by it without looking."""
    if not kind.needs_head or part.get("head_dim") is not None:
        return
    own, entries = kind.defaults.get("head_dim"), entries_of_class(kind.name)
    takes_null = entries is None or "null" in entries.takes.get("head_dim", ("null",))
    is_null = own is None and entries is not None and "null" in entries.takes.get("head_dim", ())
    if ("head_dim" in part and takes_null) or is_null:  # of a null that is refused another finding tells
        said = "null in config.json" if "head_dim" in part else "left out of config.json, and null then"
        yield Finding(
            "warning",
            f"head_dim is {said}: the class of '{kind.name}' in transformers computes by it, and fails.",
            "State head_dim, the features of a head."
            if is_null
            else "State head_dim, or leave it out where the class's own is meant.",
        )
