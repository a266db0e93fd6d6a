"""The type of each of a model's layers by config.json, and what each of them does with positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.base import ALL_LAYERS, LayerType, in_words, number_of_layers
from locant.rotary_configs.classes.families import WINDOW_OF_FIRST_LAYERS, WINDOW_WITHOUT_POSITIONS
from locant.rotary_configs.classes.layer_rounds import by_number, in_blocks, in_rounds, rotating_dense_layers
from locant.rotary_configs.classes.model_types import Behaviour, ModelType
from locant.rotary_configs.classes.windows import heeds_first_layers
from locant.rotary_configs.huggingface.layer_windows import has_window_entry, stated_window
from locant.rotary_configs.layer_types import GLOBAL, LINEAR, LOCAL, PRESENT_NAMES, SCALED, UNSCALED, WITHOUT_ATTENTION
from locant.rotary_configs.spellings import LAYERS, LAYERS_OF_A_STACK, words_of

_PATTERN_SIGNS = {"*": GLOBAL, "M": LINEAR, "-": "mlp", "E": "moe"}

_BY_LAYER: dict[str, Callable[[Any], bool]] = {
    "attn_type_list": bool,  # of MiniMax: 0 for lightning attention
    "block_configs": lambda block: not _is_without_attention(block),  # of Nemotron's searched models
}
"""Lists that tell layer by layer what is attention."""

_ATTENTION = frozenset(["attention", "attn"])
_LISTED_LAYERS = frozenset(["layers", "indices", "ids", "idx", "idxs"])


def layer_names(part: Fields, kind: ModelType | None) -> tuple[str, ...]:
    """Return the type of every layer, ``all`` for those of a model that has one; empty where their number is unknown.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.

    Raises:
        ConfigError: An entry that tells the types is wrong.
    """
    count = layer_count(part, kind)
    stated = _stated(part)
    if stated is not None and _pairs_blocks(part, kind):
        stated = stated[::2]
    if stated is not None:
        if count is not None and len(stated) != count:
            if len(stated) < count:
                raise ConfigError(
                    f"layer_types in {part.where} tells the types of {len(stated)} layers, but there are {count}."
                )
            stated = stated[:count]
        if kind is not None and kind.forces_last and kind.last_type:
            return (*stated[:-1], kind.last_type)
        if kind is None or not kind.passes_over_types:
            return stated
    if count is None:
        return ()
    if kind is not None and kind.without_switch is not None and part.flag("use_sliding_window") is False:
        return (kind.without_switch,) * count
    return _derived(part, kind, count) or by_number(kind, count) or (ALL_LAYERS,) * count


def layer_count(part: Fields, kind: ModelType | None) -> int | None:
    """Return the number of layers, where the file or the class tells it."""
    for name in (LAYERS_OF_A_STACK, *LAYERS):
        found = number_of_layers(part, name)
        if found is not None:
            return found // 2 if _pairs_blocks(part, kind) else found
    defaults = {} if kind is None else kind.defaults
    return next((defaults[name] for name in ("num_hidden_layers", "n_layer", "n_layers") if name in defaults), None)


def _pairs_blocks(part: Fields, kind: ModelType | None) -> bool:
    """Whether the file counts attention and MLP blocks, of which the class takes each pair for one layer."""
    types = part.values.get("layer_types")
    return kind is not None and kind.pairs_blocks and isinstance(types, list) and "mlp" in types


def _stated(part: Fields) -> tuple[str, ...] | None:
    for name in ("layer_types", "layers_block_type"):
        value = part.get(name)
        if value is None:
            continue
        if (
            not isinstance(value, Sequence)
            or isinstance(value, str)
            or not all(isinstance(each, str) for each in value)
        ):
            raise ConfigError(
                f"'{name}' in {part.where} must be a list of the layers' types; got {in_json(value):.60}."
            )
        return tuple(PRESENT_NAMES.get(str(each), str(each)) for each in value)
    return None


def _derived(part: Fields, kind: ModelType | None, count: int) -> tuple[str, ...]:
    """Return the types by an entry that tells how they alternate."""
    if kind is not None and kind.by_list is not None and part.get("no_rope_layers"):
        rotating, still = kind.by_list
        return tuple(rotating if flag else still for flag in _listed(part, kind, count) or ())
    if kind is not None and (rounds := in_rounds(part, kind, count) or in_blocks(part, kind, count)):
        return rounds
    indices = range(count)
    scaled = part.get("rope_scaling_layers")
    if scaled is not None:
        if not isinstance(scaled, list) or not all(isinstance(each, int) for each in scaled):
            raise ConfigError(
                f"rope_scaling_layers in {part.where} must be a list of layers; got {in_json(scaled):.60}."
            )
        if not set(indices) <= set(scaled):
            return tuple(SCALED if index in scaled else UNSCALED for index in indices)
    pattern = part.get("hybrid_override_pattern")
    if isinstance(pattern, str) and set(pattern) <= set(_PATTERN_SIGNS):
        return tuple(_PATTERN_SIGNS[sign] for sign in pattern[:count])
    linear = part.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(linear.get("full_attn_layers"), list):
        return tuple(GLOBAL if index + 1 in linear["full_attn_layers"] else LINEAR for index in indices)
    for name, is_attention in _BY_LAYER.items():
        stated = part.get(name)
        if isinstance(stated, list) and len(stated) >= count:
            return tuple(GLOBAL if is_attention(each) else LINEAR for each in stated[:count])
    for name in ("attn_layer_indices", "attn_layer_idxs", "full_attn_idxs"):
        chosen = part.get(name)
        if isinstance(chosen, list):
            other = "conv" if name == "full_attn_idxs" else LINEAR
            return tuple(GLOBAL if index in chosen else other for index in indices)
    period = _first_count(part, kind, "attn_layer_period")
    if period:
        offset = part.get("attn_layer_offset")
        offset = offset if isinstance(offset, int) else (kind.defaults.get("attn_layer_offset", 0) if kind else 0)
        return tuple(GLOBAL if index % period == offset else LINEAR for index in indices)
    every = part.get("full_attention_interval")
    if isinstance(every, int) and every > 0:
        return tuple(GLOBAL if (index + 1) % every == 0 else LINEAR for index in indices)
    every = part.get("global_attn_every_n_layers")
    if isinstance(every, int) and every > 0:
        # As in ModernBERT; others end each round with full attention.
        return tuple(LOCAL if index % every else GLOBAL for index in indices)
    return _sliding(part, kind, count)


def _is_without_attention(block: Any) -> bool:
    attention = block.get("attention") if isinstance(block, Mapping) else None
    return isinstance(attention, Mapping) and any(attention.get(key) for key in ("no_op", "replace_with_linear"))


def _sliding(part: Fields, kind: ModelType | None, count: int) -> tuple[str, ...]:
    """Return the types of a model whose full and sliding layers alternate."""
    pattern = part.get("sliding_window_pattern") or part.get("_sliding_window_pattern")
    alternates = kind is None or LOCAL in kind.layer_types
    if isinstance(pattern, str) and set(pattern) <= {"L", "G"} and pattern:
        return tuple(LOCAL if pattern[index % len(pattern)] == "L" else GLOBAL for index in range(count))
    if isinstance(pattern, int) and pattern > 0 and alternates:
        names = tuple(GLOBAL if (index + 1) % pattern == 0 else LOCAL for index in range(count))
        return (*names[:-1], kind.last_type) if kind is not None and kind.last_type else names
    first, is_windowed = part.get("max_window_layers"), part.get("use_sliding_window") is True
    if kind is not None and "max_window_layers" in kind.defaults:
        first = kind.defaults["max_window_layers"] if first is None else first
        if "use_sliding_window" not in kind.defaults:  # classes without that switch ask the window alone
            is_windowed = stated_window(part, kind, LOCAL) is not None
    if is_windowed and kind is not None and kind.name in WINDOW_OF_FIRST_LAYERS and isinstance(first, int):
        return tuple(LOCAL if index % 2 == 0 and index < first else GLOBAL for index in range(count))
    if is_windowed and kind is not None and kind.name in WINDOW_WITHOUT_POSITIONS:
        listed = _listed(part, kind, count) if part.get("sliding_window") is not None else None
        return tuple(GLOBAL if rotates else LOCAL for rotates in listed or ())
    if is_windowed and kind is not None and heeds_first_layers(kind.name) is False:
        return ()
    if is_windowed and isinstance(first, int):
        return tuple(GLOBAL if index < first else LOCAL for index in range(count))
    return ()


def _first_count(part: Fields, kind: ModelType | None, name: str) -> int | None:
    value = part.get(name)
    if value is None and kind is not None:
        value = kind.defaults.get(name)
    return value if isinstance(value, int) and value > 0 else None


def layers_with_positions(part: Fields, kind: ModelType | None, names: Sequence[str]) -> tuple[Behaviour, ...]:
    """Return what every layer does with positions, before its configuration is asked.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        names: Types of the layers.
    """
    numbered = by_number(kind, len(names)) if _rotates_by_number(part, kind) else ()
    behaviour = [_behaviour(part, kind, name) for name in numbered or names]
    dense = rotating_dense_layers(part, kind, len(names))
    behaviour = ["rotates" if index in dense else does for index, does in enumerate(behaviour)]
    listed = _listed(part, kind, len(names))
    if listed is not None:
        # Such a class asks the list alone, not the types.
        behaviour = [
            does if does == "none" else "rotates" if rotates else "still"
            for does, rotates in zip(behaviour, listed, strict=True)
        ]
    crossing = _cross_attending(part, kind)
    return tuple("still" if index in crossing and does != "none" else does for index, does in enumerate(behaviour))


def _rotates_by_number(part: Fields, kind: ModelType | None) -> bool:
    """Whether the number of a layer alone tells if it rotates, as in Muse, whatever its type in the file is."""
    return kind is not None and kind.name.startswith("muse") and part.values.get("layer_rope_theta") is None


def _cross_attending(part: Fields, kind: ModelType | None) -> frozenset[int]:
    """Return the layers that attend to something else than the text, which nothing rotates: as in Llama 3.2 Vision.

    A list of their indices tells it: ``cross_attention_layers``.
    """
    stated = {name: value for name, value in part.values.items() if value is not None}
    for name, value in {**({} if kind is None else kind.defaults), **stated}.items():
        words = words_of(name)
        if not (isinstance(value, list) and "cross" in words and words & _ATTENTION and words & _LISTED_LAYERS):
            continue
        part.get(name)
        if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in value):
            raise ConfigError(f"'{name}' in {part.where} must be a list of layers, from 0; got {in_json(value):.60}.")
        if len(set(value)) == len(value):
            return frozenset(value)
    return frozenset()


def _listed(part: Fields, kind: ModelType | None, count: int) -> list[bool] | None:
    """Return which layers rotate by ``no_rope_layers`` (1 rotates) or its interval, ``None`` where neither is meant."""
    bases = part.get("layer_rope_theta")
    if isinstance(bases, list) and len(bases) >= count:
        return [bool(base) for base in bases[:count]]
    listed, interval = part.get("no_rope_layers"), part.whole("no_rope_layer_interval")
    default = None if kind is None else kind.defaults.get("no_rope_layer_interval")
    if isinstance(listed, list) and listed:
        if len(listed) < count:
            raise ConfigError(
                f"no_rope_layers in {part.where} is about {len(listed)} layers, but there are {count}: it has a 1 for "
                "each layer that rotates and a 0 for each that does not, not the numbers of layers."
            )
        return [bool(flag) for flag in listed[:count]]
    every = interval or default
    if every is None or (isinstance(listed, list) and default is None):
        return None
    return [(index + 1) % every != 0 for index in range(count)]


def _behaviour(part: Fields, kind: ModelType | None, name: str) -> Behaviour:
    if kind is not None and kind.without_window is not None and not has_window_entry(part, kind):
        return kind.without_window if kind.behaviour.get(name) != "none" else "none"
    if kind is not None and name in kind.behaviour:
        return kind.behaviour[name]
    return "none" if name in WITHOUT_ATTENTION else "rotates"


def grouped(
    names: Sequence[str],
    behaviour: Sequence[Behaviour],
    keys: Sequence[str | None],
    windows: Sequence[int | None],
) -> tuple[LayerType, ...]:
    """Return the layers by type and by what they do.

    Args:
        names: Type of every layer.
        behaviour: What every layer does.
        keys: Key of the configuration of every layer, ``None`` where it has none.
        windows: Window of every layer, in tokens.
    """
    found: dict[tuple[str, Behaviour, str | None, int | None], list[int]] = {}
    for index, (name, does, key, window) in enumerate(zip(names, behaviour, keys, windows, strict=True)):
        does = "still" if does == "rotates" and key is None else does
        seen = window if does != "none" else None
        found.setdefault((name, does, key if does == "rotates" else None, seen), []).append(index)
    mixed = {name for name in set(names) if len({does for each, does, _, _ in found if each == name}) > 1}
    return tuple(
        LayerType(
            f"{name} without positions" if does == "still" and name in mixed else name,
            tuple(indices),
            key,
            window,
            attends=does != "none",
        )
        for (name, does, key, window), indices in found.items()
    )


def layers_without_positions(
    layers: Sequence[LayerType], meaning: str = "queries and keys are not rotated there"
) -> list[Finding]:
    """Return the finding about layers that attend without positions, if there are any.

    Args:
        layers: All layers of the model.
        meaning: What is done there, without full stop.
    """
    still = [index for each in layers if each.attends and each.config is None for index in each.layers]
    if not still:
        return []
    said = f"{in_words(still)} {'has' if len(still) == 1 else 'have'} no positions"
    consequence = "An engine that rotates every layer runs another model."
    return [Finding("note", f"{said[:1].upper()}{said[1:]}: {meaning}.", consequence, "layers without positions")]
