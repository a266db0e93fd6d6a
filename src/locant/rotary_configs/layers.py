"""Types of a model's layers, layers without RoPE, and windows, by the entries of config.json."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from locant.errors import ConfigError
from locant.rotary_configs.fields import Fields, in_json
from locant.rotary_configs.reading import ALL_LAYERS, MOST_LAYERS, LayerType, layers_alike
from locant.rotary_configs.vocabulary import LAYERS, WINDOWS

FULL, SLIDING, LINEAR, CHUNKED = "full_attention", "sliding_attention", "linear_attention", "chunked_attention"

_WITHOUT_ATTENTION = frozenset([LINEAR, "conv", "moe", "mlp", "dense", "mamba", "mamba2", "recurrent"])
_RENAMED = {"attention": FULL, "full": FULL, "global": FULL, "sliding": SLIDING, "local": SLIDING}
_SIGNS = {"*": FULL, "M": LINEAR, "-": "mlp", "E": "moe", "L": SLIDING, "G": FULL}
_LISTED_ATTENTION = ("full_attn_idxs", "attn_layer_idxs")


def layer_types(part: Fields, defaults: Mapping[str, Any], assumed: list[str]) -> tuple[str, ...]:
    """Return the type of every layer, ``all`` for those of a model that has one; empty where their number is unknown.

    Args:
        part: The text config.
        defaults: What its model type assumes.
        assumed: Where is said what was taken from there.

    Raises:
        ConfigError: An entry that tells the types is wrong.
    """
    stated = part.get("layer_types", "layers_block_type")
    if stated is not None and not (
        isinstance(stated, Sequence) and not isinstance(stated, str) and all(isinstance(each, str) for each in stated)
    ):
        raise ConfigError(f"'layer_types' in {part.where} must be a list of names; got {in_json(stated)}.")
    count = part.whole(*LAYERS)
    if count is None and stated is None and "sizes" in defaults:
        count = defaults["sizes"][2]
        assumed.append(f"{count} layers")
    if (count or 0) > MOST_LAYERS:
        raise ConfigError(f"'{LAYERS[0]}' in {part.where} is {count}; models have at most {MOST_LAYERS} layers.")
    if stated is not None:
        if count is not None and len(stated) < count:
            raise ConfigError(f"'layer_types' in {part.where} names {len(stated)} layers, but there are {count}.")
        return tuple(_RENAMED.get(each, each) for each in stated[: count or len(stated)])
    if count is None:
        return ()
    pattern = defaults.get("pattern", ())
    types = _by_pattern(part, count, len(pattern))
    if not types and pattern and part.flag("use_sliding_window") is not False:
        types = tuple(pattern[index % len(pattern)] for index in range(count))
        assumed.append("the order of layer types")
    return types or (ALL_LAYERS,) * count


def _by_pattern(part: Fields, count: int, usual: int) -> tuple[str, ...]:
    """Return the types of layers by the entry that tells how they alternate; empty where none does.

    Args:
        part: The text config.
        count: Number of layers.
        usual: Length of the round that the model type assumes; an entry that says as much says no more.
    """
    indices = range(count)
    for name in ("sliding_window_pattern", "hybrid_override_pattern"):
        pattern = part.get(name)
        if isinstance(pattern, str) and pattern and set(pattern) <= _SIGNS.keys():
            return tuple(_SIGNS[pattern[index % len(pattern)]] for index in indices)
    if isinstance(flags := part.get("attn_type_list"), list) and len(flags) >= count:
        return tuple(FULL if flag else LINEAR for flag in flags[:count])
    if isinstance(chosen := part.get(*_LISTED_ATTENTION), list):
        return tuple(FULL if index in chosen else LINEAR for index in indices)
    # Every so-manieth layer, from its first or last on, has attention, or sees the whole text.
    for name, special, other, offset in (
        ("sliding_window_pattern", FULL, SLIDING, -1),
        ("full_attention_interval", FULL, LINEAR, -1),
        ("attn_layer_period", FULL, LINEAR, part.get("attn_layer_offset") or 0),
        ("global_attn_every_n_layers", FULL, SLIDING, 0),
    ):
        if isinstance(every := part.get(name), int) and every > 0 and isinstance(offset, int):
            if every == usual:
                return ()
            return tuple(special if index % every == offset % every else other for index in indices)
    first = part.get("max_window_layers")
    if part.get("use_sliding_window") is True and isinstance(first, int):
        return tuple(FULL if index < first else SLIDING for index in indices)
    return ()


def layers_of(
    part: Fields,
    defaults: Mapping[str, Any],
    types: Sequence[str],
    configs: Container[str],
    without: Container[str] = (),
) -> tuple[LayerType, ...]:
    """Return the layers by their type and by what they do with positions.

    Args:
        part: The text config.
        defaults: What its model type assumes.
        types: Type of every layer.
        configs: Layer types that have a configuration of their own, or ``all``.
        without: Layer types whose group is ``null``: layers without RoPE.
    """
    windows = _windows(part, defaults)
    quiet = {each for each in defaults.get("without_rope", ()) if part.whole(*WINDOWS) is not None}
    still = _without_rope(part, defaults, len(types))
    kinds = []
    for index, name in enumerate(types):
        attends = name not in _WITHOUT_ATTENTION
        key = name if name in configs else next((each for each in (ALL_LAYERS, FULL) if each in configs), None)
        rotates = attends and name not in quiet and name not in without and index not in still
        window = windows.get(name) if attends else None
        kinds.append((name, key if rotates else None, window, attends))
    return layers_alike(kinds)


def _without_rope(part: Fields, defaults: Mapping[str, Any], count: int) -> frozenset[int]:
    """Return the layers without RoPE by ``no_rope_layers``, which has a 1 for each that has it, or its interval."""
    if crossing := part.numbers("cross_attention_layers"):  # Llama 3.2 Vision: these do not attend to the text
        return frozenset(int(index) for index in crossing)
    if listed := part.numbers("no_rope_layers"):
        if len(listed) < count:
            raise ConfigError(
                f"'no_rope_layers' in {part.where} is about {len(listed)} layers, but there are {count}: it has a 1 "
                "for each layer with RoPE and a 0 for each without, not the numbers of layers."
            )
        return frozenset(index for index, flag in enumerate(listed[:count]) if not flag)
    every = part.whole("no_rope_layer_interval") or defaults.get("no_rope_layer_interval")
    return frozenset(range(every - 1, count, every)) if every else frozenset()


def _windows(part: Fields, defaults: Mapping[str, Any]) -> dict[str, int]:
    """Return the windows of layer types in tokens."""
    found = {CHUNKED: chunk} if (chunk := part.whole("attention_chunk_size")) is not None else {}
    switch = part.flag("use_sliding_window")
    window = next((value for name in WINDOWS if isinstance(value := part.get(name), int) and value > 0), None)
    if window is not None and switch is not False:
        found[SLIDING] = window
        if defaults.get("use_sliding_window", True) or switch:
            found[ALL_LAYERS] = window
    return found
