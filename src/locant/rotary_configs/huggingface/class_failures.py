"""Doubts about what a class of transformers fails with: sizes of heads, types of layers, windows, scalings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.families import is_in_transformers
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.nulls import nulls_of_a_class
from locant.rotary_configs.classes.refusals import no_multiple
from locant.rotary_configs.classes.windows import windows_of_class
from locant.rotary_configs.huggingface.layer_windows import has_no_window
from locant.rotary_configs.huggingface.scaling_failures import scalings_that_fail
from locant.rotary_configs.huggingface.single_layers import doubts_about_single_layers
from locant.rotary_configs.layer_types import LOCAL, WITHOUT_ATTENTION
from locant.rotary_configs.spellings import HEADS, LAYERS, is_count


def doubts_about_class(
    part: Fields, kind: ModelType | None, names: Sequence[str], rotations: Collection[str]
) -> Iterator[Finding]:
    """Yield warnings about what the class fails with.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known; those of code of people's own are not looked at.
        names: Types of the layers.
        rotations: Types of layers for which a rotation was read.
    """
    if kind is None or not is_in_transformers(kind.name):
        return
    yield from nulls_of_a_class(part.values, kind)
    yield from _heads_in_no_groups(part.values, kind)
    yield from _width_of_no_whole_heads(part.values, kind)
    yield from _types_beyond_the_last_layer(part.values, kind, len(names))
    yield from _pairs_of_blocks(part.values, kind, len(names))
    yield from _type_of_the_last_layer(part.values, kind, names)
    yield from _kinds_of_mlp_for_other_layers(part.values, kind, len(names))
    yield from scalings_that_fail(part.values, kind)
    yield from _fails_with_types(kind, names, rotations)
    yield from _sliding_layers_without_window(part, kind, names)
    yield from _types_that_are_needed(kind, names)
    yield from doubts_about_single_layers(part.values, kind, names)
    yield from _refused_entries(part.values, kind)
    yield from _empty_lists(part.values, kind)


def _types_that_are_needed(kind: ModelType, names: Sequence[str]) -> Iterator[Finding]:
    """Yield that no layer is of a type without which the class refuses a file."""
    for name in kind.needed_types if names else ():
        if name not in names:
            yield Finding(
                "warning",
                f"No layer is of the type '{name}': the class of '{kind.name}' in transformers refuses such a file.",
                f"State '{name}' for a layer at least in layer_types.",
            )


def _refused_entries(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that an entry is one with which the class refuses a file."""
    for name in kind.refuses:
        if part.get(name):
            yield Finding(
                "warning",
                f"{name} is {in_json(part[name])} in config.json, with which the class of '{kind.name}' in "
                "transformers refuses the file.",
                f"Leave {name} out.",
            )


def _sliding_layers_without_window(part: Fields, kind: ModelType, names: Sequence[str]) -> Iterator[Finding]:
    """Yield that layers are sliding ones by their type, where the file leaves or takes them no window."""
    if LOCAL not in names or kind.is_windowless:
        own = windows_of_class(kind.name)
        is_null = part.values.get("sliding_window", 0) is None and "sliding_window" not in kind.needs
        if names and own is not None and own.needs_window and is_null:
            yield Finding(
                "warning",
                f"sliding_window is null in config.json: the class of '{kind.name}' in transformers makes a mask with "
                "that window though no layer is a sliding one, and fails.",
                "State the sliding_window that the weights were trained with.",
            )
        return
    switch = "use_sliding_window"
    stated = part.values.get(switch)
    is_off = (kind.defaults.get(switch) if stated is None else stated) is False and switch in kind.defaults
    if is_off or has_no_window(part, kind):
        why = f"{switch} is false" if is_off else "there is no number for their window"
        own = windows_of_class(kind.name)
        makes_both = own is not None and own.needs_window  # a mask with the window, whatever types layers have
        others = "" if makes_both else ", or other types in layer_types"
        yield Finding(
            "warning",
            f"Layers are of the type '{LOCAL}', and {why}: the class of '{kind.name}' in transformers makes no mask "
            "for them, and fails.",
            f"State a sliding_window{others}{', or switch it on' if is_off else ''}.",
        )


def types_of_no_rotation(kind: ModelType | None, names: Sequence[str], rotations: Collection[str]) -> list[str]:
    """Return the types of layers for which the class has no rotation, and no way without.

    Args:
        kind: The facts of the class, where they are known.
        names: Types of the layers.
        rotations: Types of layers for which a rotation was read.
    """
    if kind is None or not is_in_transformers(kind.name) or not kind.rope_by_layer or kind.rope is None:
        return []
    if not {*rotations} <= {*kind.rope} or "main" in rotations:
        return []
    known = {*rotations, *kind.rope, *kind.behaviour, *WITHOUT_ATTENTION}
    return [name for name in dict.fromkeys(names) if name not in known]


def _fails_with_types(kind: ModelType, names: Sequence[str], rotations: Collection[str]) -> Iterator[Finding]:
    for name in types_of_no_rotation(kind, names, rotations):
        yield Finding(
            "warning",
            f"Layers are of the type '{name}', for which the class of '{kind.name}' in transformers has no "
            "rotation: it fails there.",
            f"State one of its types in layer_types: {', '.join(kind.rope or ())}.",
        )


def _heads_in_no_groups(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that the heads of keys and values do not divide those of queries, each group of which shares one."""
    heads = next((value for name in HEADS if is_count(value := part.get(name, kind.defaults.get(name)))), None)
    own = kind.defaults.get("num_key_value_heads")
    keys = part.get("num_key_value_heads", own)
    said = f"num_key_value_heads is {keys} in config.json,"
    if "num_key_value_heads" not in part:
        said = f"num_key_value_heads is left out of config.json, and is {keys} then,"
    if kind.fails_with_groups and is_count(heads) and is_count(keys) and keys != heads:
        yield Finding(
            "warning",
            f"{said} beside {heads} heads of queries: the latent attention of the class of '{kind.name}' in "
            "transformers makes as many keys as queries, and fails in grouping them.",
            f"State {heads} for num_key_value_heads, or leave it out where that is what the class has.",
        )
    if heads is not None and is_count(keys) and heads % keys and "qk_rope_head_dim" not in kind.defaults:
        yield Finding(
            "warning",
            f"{said} which does not divide the {heads} heads of queries: the "
            f"class of '{kind.name}' in transformers fails with that, or passes over it.",
            "State the num_key_value_heads that the weights have.",
        )


def _width_of_no_whole_heads(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that the heads do not divide the width, which some classes check also where heads have their own size."""
    own, width = entries_of_class(kind.name), part.get("hidden_size", kind.defaults.get("hidden_size"))
    heads = part.get("num_attention_heads", kind.defaults.get("num_attention_heads"))
    if own is not None and own.whole_heads and is_count(width) and is_count(heads) and width % heads:
        then = f"the class of '{kind.name}' in transformers refuses the file."
        yield no_multiple("hidden_size", width, "num_attention_heads", heads, then)


def _types_beyond_the_last_layer(part: Mapping[str, Any], kind: ModelType, count: int) -> Iterator[Finding]:
    types = part.get("layer_types")
    if not count or not isinstance(types, list) or len(types) <= count or (kind.pairs_blocks and "mlp" in types):
        return
    yield Finding(
        "warning",
        f"layer_types in config.json tells the types of {len(types)} layers, but there are {count}: transformers "
        f"refuses such a list, but for classes that take the first {count}, which are shown.",
        "Give each layer one type.",
    )


def _pairs_of_blocks(part: Mapping[str, Any], kind: ModelType, count: int) -> Iterator[Finding]:
    """Yield that the file counts attention and MLP blocks, of which the class makes half as many layers."""
    stated, types = (
        next(((name, part[name]) for name in LAYERS if is_count(part.get(name))), None),
        part.get("layer_types"),
    )
    is_paired = kind.pairs_blocks and isinstance(types, list) and "mlp" in types
    if is_paired and stated is not None and count and stated[1] // 2 == count:
        yield Finding(
            "note",
            f"{stated[0]} {stated[1]} counts the blocks of layer_types, attention and MLP by turns: the class of "
            f"'{kind.name}' in transformers makes {count} layers of them, which are counted here.",
            "Nothing has to be done.",
        )


def _type_of_the_last_layer(part: Mapping[str, Any], kind: ModelType, names: Sequence[str]) -> Iterator[Finding]:
    """Yield that the file states another type for the last layer than the class gives it in any case."""
    stated, index = part.get("layer_types"), len(names) - 1
    if kind.forces_last and isinstance(stated, list) and 0 <= index < len(stated) and stated[index] != names[index]:
        yield Finding(
            "warning",
            f"layer_types of config.json has {in_json(stated[index])} for the last layer, {index}: the class of "
            f"'{kind.name}' in transformers makes it '{names[index]}' all the same, as is shown.",
            f"State '{names[index]}' for the last layer, or name a model type whose class keeps what is stated.",
        )


def _kinds_of_mlp_for_other_layers(part: Mapping[str, Any], kind: ModelType, count: int) -> Iterator[Finding]:
    """Yield that ``mlp_layer_types`` is about another number of layers (``validate_layer_type`` of transformers)."""
    kinds = part.get("mlp_layer_types")
    if not count or not isinstance(kinds, list) or len(kinds) == count:
        return
    if len(kinds) < count or kind.layer_types or isinstance(part.get("layer_types"), list):
        yield Finding(
            "warning",
            f"mlp_layer_types in config.json tells the kinds of {len(kinds)} layers, but there are {count}: the class "
            f"of '{kind.name}' in transformers refuses that, or fails.",
            "Give each layer one kind.",
        )


def _empty_lists(part: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that a list is empty of which the class takes a value for each layer without looking whether it has one."""
    own = entries_of_class(kind.name)
    for name in () if own is None else own.refuses_empty:
        if part.get(name) == []:
            yield Finding(
                "warning",
                f"{name} is [] in config.json: the class of '{kind.name}' in transformers looks for a value for each "
                "layer in it, and refuses the file.",
                f"State a value for each layer, or leave {name} out.",
            )
