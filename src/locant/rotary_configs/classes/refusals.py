"""Values with which a class of transformers refuses a file or makes no model of it: choices, scalings and nulls.

Which they are is generated from the classes (``tests/support/zoo/failures.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes.entries import entries_of_class, type_taken_for, values_of_kinds
from locant.rotary_configs.classes.families import PASSES_OVER_GROUPS, is_in_transformers
from locant.rotary_configs.classes.field_kinds import entries_of_nobody, kinds_of_fields, whole_heads
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.spellings import LAYERS, is_count
from locant.rotary_configs.usual_values import GROUPS

_LENGTH = "original_max_position_embeddings"
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", _LENGTH),
    "longrope": ("short_factor", "long_factor", _LENGTH),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", _LENGTH, "rope_theta"),
    "proportional": ("rope_theta",),
}
"""What transformers wants in a group of each type, also where the class does not read the group (``validate_rope``)."""

NEVER_NULL: Mapping[str, tuple[str, ...]] = {
    "yarn": (_LENGTH,),
    "longrope": ("short_factor", "long_factor"),
    "llama3": ("low_freq_factor", "high_freq_factor", _LENGTH),
}
"""Those of them with which its checks compute, and fail with null."""


def refused_by_configuration(part: Mapping[str, Any], kind: ModelType | None) -> Iterator[Finding]:
    """Yield warnings about what the configuration of a class refuses in a file, whether or not the class rotates.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    if kind is None or not is_in_transformers(kind.name):
        return
    yield from entries_that_nobody_sets(part, kind)
    yield from _types_without_a_window(part, kind)
    for name, choices in kind.choices.items():
        *groups, entry = name.split(".")
        found: Any = part
        for each in groups:
            found = found.get(each) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and entry in found and found[entry] not in choices:
            yield Finding(
                "warning",
                f"{entry} is {in_json(found[entry])} in {' of '.join([*groups[::-1], 'config.json'])}, where the class "
                f"of '{kind.name}' in transformers 5 takes {' or '.join(map(in_json, choices))} alone: it refuses the "
                "file.",
                "State one of them, or load the model with the code that it was published for.",
            )
    for name in ("rope_scaling", "rope_parameters"):
        group = part.get(name)
        stated = group.get("rope_type", group.get("type")) if isinstance(group, Mapping) else None
        if stated in kind.refuses_scalings:
            yield Finding(
                "warning",
                f"{name} of config.json has the type '{stated}': the class of '{kind.name}' in transformers 5 has no "
                "rotary positions, and fails in bringing such a group in order.",
                f"Leave {name} out.",
            )
            return
    if not kind.rotates or kind.name in PASSES_OVER_GROUPS:
        yield from incomplete_groups(part, kind)


def refused_by_fields(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about values of which a class makes no configuration, of a file that is not read for a rotation.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    yield from values_of_kinds(part, kind.name, kinds_of_fields(kind.name))
    types, count = part.get("layer_types"), next((part[name] for name in LAYERS if is_count(part.get(name))), None)
    if isinstance(types, list) and count is not None and len(types) != count:
        yield Finding(
            "warning",
            f"layer_types in config.json tells the types of {len(types)} layers, but there are {count}: transformers "
            "refuses the file.",
            "Give each layer one type.",
        )


def widths_of_no_whole_heads(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about heads that do not divide the width of a class without rotary positions.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    for each in whole_heads(kind.name) if is_in_transformers(kind.name) and not kind.rotates else ():
        width, size = _first_of(part, each.widths, each.width)
        heads, count = _first_of(part, each.heads, each.count)
        if is_count(size) and is_count(count) and size % count:
            yield no_multiple(width, size, heads, count, f"the class of '{kind.name}' in transformers fails with that.")


def grids_of_other_sizes(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about axial positions of Reformer that are not as many as the file says, or not as wide.

    ``AxialPositionEmbeddings`` (modeling_reformer.py) compares the length of a text with the product of the axes.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    if kind.name != "reformer" or not part.get("axial_pos_embds", True):
        return
    shape, widths = part.get("axial_pos_shape", [64, 64]), part.get("axial_pos_embds_dim", [64, 192])
    length, width = part.get("max_position_embeddings", 4096), part.get("hidden_size", 256)
    if isinstance(shape, list) and all(map(is_count, shape)) and is_count(length) and math.prod(shape) != length:
        found = math.prod(shape)
        yield Finding(
            "warning",
            f"axial_pos_shape is {in_json(shape)}, a grid of {found} positions, and max_position_embeddings {length}: "
            f"the class of 'reformer' in transformers fails with texts of more than {found} tokens, and trains with "
            f"texts of exactly {found}.",
            "State the axial_pos_shape that the weights were trained with, and its product as max_position_embeddings.",
        )
    if isinstance(widths, list) and all(map(is_count, widths)) and is_count(width) and sum(widths) != width:
        yield Finding(
            "warning",
            f"axial_pos_embds_dim is {in_json(widths)}, which is {sum(widths)} together, and hidden_size {width}: the "
            "class of 'reformer' in transformers fails with that.",
            "State the axial_pos_embds_dim that the weights have, of which the sum is hidden_size.",
        )


def no_multiple(width: str, size: int, heads: str, count: int, then: str) -> Finding:
    """Return the warning about a width that is no multiple of the number of heads.

    Args:
        width: Name of the width.
        size: The width.
        heads: Name of the number of heads.
        count: The number of heads.
        then: What becomes of such a file, with a full stop.
    """
    return Finding(
        "warning",
        f"{width} is {size}, which is no multiple of {heads}, {count}: {then}",
        f"State the {width} and the {heads} that the weights have.",
    )


def _first_of(part: Mapping[str, Any], names: Sequence[str], usual: int) -> tuple[str, Any]:
    """Return the name under which a part of a file has an entry, and what it is there or by default."""
    return next(((name, part[name]) for name in names if name in part), (names[0], usual))


def entries_that_nobody_sets(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about entries that a class of transformers has as properties without a setter.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
    """
    for name in sorted(entries_of_nobody(kind.name) & {*part}):
        yield Finding(
            "warning",
            f"{name} is {in_json(part[name])} in config.json: the class of '{kind.name}' in transformers computes that "
            "itself, and refuses a file which states it.",
            f"Leave {name} out.",
        )


def _types_without_a_window(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that there is no window for layers of which the class makes no configuration without one."""
    own, entry = entries_of_class(kind.name), "sliding_window"
    if own is None or "null" not in own.takes.get(entry, ()) or part.get(entry, kind.defaults.get(entry)) is not None:
        return
    types = part.get("layer_types") or kind.layer_types
    names = (
        [f"'{each}'" for each in dict.fromkeys(types) if each in own.window_types]
        if isinstance(types, list | tuple)
        else []
    )
    if names:
        yield Finding(
            "warning",
            f"{entry} is {'null in' if entry in part else 'left out of'} config.json: the class of '{kind.name}' in "
            f"transformers 5 refuses layers of the type {' and '.join(names)} without a window.",
            f"State {entry}, the window that the model was trained with.",
        )


def incomplete_groups(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that a group lacks what transformers wants in it, where the reading does not need it.

    Args:
        part: The text part of config.json.
        kind: The facts of its class; one that reads the group fills in a base and a length.
    """
    name = next((each for each in reversed(list(part)) if each in GROUPS), "")  # both set one, the last one counts
    group = part.get(name)
    if not isinstance(group, Mapping):
        return
    reads = kind.rotates and kind.name not in PASSES_OVER_GROUPS
    stated = str(group.get("rope_type", group.get("type")))
    taken = type_taken_for(kind.name, stated)
    filled = ("rope_theta", _LENGTH) if reads or _is_brought_in_order(part) else ()
    missing = [each for each in REQUIRED.get(taken, ()) if each not in group and each not in filled]
    if not missing:
        missing = [each for each in NEVER_NULL.get(taken, ()) if group.get(each, "") is None]
    if missing:
        of_type = f"'{stated}'" if taken == stated else f"'{stated}', which the class takes for '{taken}',"
        yield Finding(
            "warning",
            f"{name} of config.json has the type {of_type} and lacks {' and '.join(missing)}: transformers 5 refuses "
            f"such a file{'' if reads else f', also of the class of {kind.name!r}, which does not read the group'}.",
            f"State {' and '.join(missing)}." if reads else f"Leave {name} out.",
        )


def _is_brought_in_order(part: Mapping[str, Any]) -> bool:
    """Whether a group of a class that reads none gets a base and a length all the same.

    ``PreTrainedConfig`` does so with ``rope_scaling`` where a base stands beside it, and sets ``rope_parameters``, if
    the file has that, afterwards.
    """
    return bool(part.get("rope_scaling") and part.get("rope_theta")) and part.get("rope_parameters") is None


def null_of(name: str, kind: ModelType | None, shown: str, remedy: str) -> Finding:
    """Return the warning about an entry that is null, where the reading takes what the class has without it.

    Args:
        name: The entry.
        kind: The facts of the class, where they are known.
        shown: What is taken.
        remedy: What would be right.
    """
    if kind is not None and is_in_transformers(kind.name) and name in kind.fails_with_null:
        said = (
            f"{name} of the file is null, with which the class of '{kind.name}' in transformers fails; {shown} is "
            "shown, what it has where the entry is left out."
        )
    else:
        whose = "the class" if kind is None else f"the class of '{kind.name}'"
        said = f"{name} of the file is null; {shown} is shown, what {whose} has where it is left out."
    return Finding("warning", said, remedy, "null entry")
