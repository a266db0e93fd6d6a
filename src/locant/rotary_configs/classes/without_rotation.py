"""Models that have other positions than rotary ones, by their class or by an entry of config.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, in_json
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.other_positions import (
    is_orderless,
    longest_in_words,
    positions_in_words,
    switches_in_words,
    windows_in_words,
    without_effect,
)
from locant.rotary_configs.spellings import ROTARY, says_rotary, words_of
from locant.rotary_configs.vision import vision_types

ROPE_KEYS = (
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_emb_base",
    "rope_local_base_freq",
    "global_rope_theta",
    "local_rope_theta",
    "partial_rotary_factor",
    "rotary_pct",
    "rotary_dim",
    "attn_rotary_emb",
    "rope_interleave",
    "qk_rope_head_dim",
    "no_rope_layers",
    "no_rope_layer_interval",
    "layer_rope_theta",
    "rotary",
    "rotary_value",
    "rope_interleaved",
    "rope_scaling_layers",
    "use_mem_rope",
    "use_mrope",
    "compress_rope_theta",
    "use_rotary_embedding",
)
"""Entries about rotary positions."""

_ROTATES = re.compile(
    r"(rope|rotary)_enabled|(use|apply|enable|with|add)_(rope|rotary)(_?(pos(ition(al)?)?|emb(eddings?)?|encodings?|attn|attention))*(_enabled)?"
)
"""Names of switches by which a model rotates at all."""

_STANDS = re.compile(r"((no|disable|remove|without)_(rope|rotary)|(use_)?nope)(_?(emb|embeddings?))?")
"""Names of switches by which it does not."""


def has_rotary_code(part: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    """Whether a file names code of its own that rotates: jina-embeddings-v3, with the type xlm-roberta; MPT's own."""
    if not (part.get("auto_map") or whole.get("auto_map")):
        return False
    attention = part.get("attn_config")
    is_switched = isinstance(attention, Mapping) and attention.get("rope") is True
    return is_switched or part.get("position_embedding_type") in ("rotary", "rope")


def refuse_other_positions(part: Fields, kind: ModelType | None, name: str | None) -> None:
    """Refuse a model that has no rotary positions, by its class or by an entry.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        name: Its model type.

    Raises:
        ConfigError: It has none.
    """
    if name in vision_types():
        raise NoRotaryPositionsError(
            f"The model type '{name}' is a vision tower: it has no rotary positions of a text, but rows and columns of "
            "an image, which locant.rotary_configs.read_vision reads."
        )
    if families.model_type(name) is None and part.values.get("_diffusers_version") is not None:
        raise ConfigError(
            f"config.json is of diffusers' class '{part.values.get('_class_name')}', which is not known here: such "
            "models rotate by axes of images and sound, where they do."
        )
    switches = [key for key in part.values if _ROTATES.fullmatch(key) and not _switches(kind, key)]
    for switch in ("rotary", "rope", *switches):
        if part.values.get(switch) in (True, False) and part.flag(switch) is False:
            raise NoRotaryPositionsError(
                f"config.json has {switch} false: the model is said to have no rotary positions."
            )
    still = next((key for key, value in part.values.items() if value is True and _STANDS.fullmatch(key)), None)
    if still is not None and not _switches(kind, still):
        raise NoRotaryPositionsError(f"config.json has {still} true: the model is said to have no rotary positions.")
    if part.flag("alibi"):
        raise NoRotaryPositionsError("config.json has alibi true: the model has ALiBi in place of rotary positions.")
    stated = part.get("position_embedding_type")
    if name is not None and name in families.TURNS_BEFORE_PROJECTIONS:
        _refuse_other_words(part.values, name)
    if kind is not None and kind.reads_images:
        raise NoRotaryPositionsError(
            f"The class of the model type '{name}' in transformers reads images: what it rotates by are rows and "
            "columns, and not positions of a text."
        )
    if kind is not None and not kind.rotates:
        other = positions_in_words(part.values, kind.name, kind.defaults)
        if other is None and part.values.get("relative_attention_num_buckets"):
            other = "but biases by buckets of relative positions"
        instead = f", {other}" if other else ""
        whose = " in transformers" if families.is_in_transformers(kind.name) else ""
        said = [f"The class of the model type '{name}'{whose} has no rotary positions{instead}."]
        windows = windows_in_words(part.values, kind.name)
        said += [] if windows is None else [windows]
        said += longest_in_words(part.values, kind.name, kind.defaults)
        said += without_effect(part.values, kind.name, kind.defaults)
        orderless = is_orderless(part.values, kind.name, kind.defaults)
        remedy = f"State {switches_in_words(kind.name)}, as the weights were trained." if orderless else ""
        raise NoRotaryPositionsError(" ".join(said), remedy)
    if kind is not None and kind.switch is not None:
        key, on = kind.switch
        value = part.get(key) if key in part.values else kind.defaults.get(key)
        if value != on:
            raise _switched_off(part, kind, key, on, value)
    elif isinstance(stated, str) and _names_other_positions(stated, part, kind):
        raise NoRotaryPositionsError(
            f"config.json has position_embedding_type '{stated}': the model has no rotary positions."
        )


def _refuse_other_words(part: Mapping[str, Any], name: str) -> None:
    """Refuse a model whose class turns hidden states by one word of ``position_embeddings_type``, where it has another.

    Args:
        part: The text part of config.json.
        name: The model type.

    Raises:
        NoRotaryPositionsError: It has another one.
        ConfigError: It has one that the class refuses.
    """
    words, key = families.TURNS_BEFORE_PROJECTIONS[name], "position_embeddings_type"
    stated = part.get(key, words[-1])
    if stated == "rotary":
        return
    said = f"The class of the model type '{name}' has rotary positions where {key} is 'rotary' alone: this model has"
    if stated in words:
        raise NoRotaryPositionsError(f"{said} relative ones.")
    none = f"{said} none at all, and the convolutions of its blocks alone tell the order."
    if stated is None:
        raise NoRotaryPositionsError(none)
    known = " and ".join(f"'{word}'" for word in (*words, "rotary"))
    unknown = f"{key} is {in_json(stated)} in config.json, and the class of '{name}' in transformers knows {known}"
    if name in families.REFUSES_OTHER_WORDS or not isinstance(stated, str):
        raise ConfigError(f"{unknown} alone: it refuses the file.")
    raise NoRotaryPositionsError(
        f"{none} {unknown}.",
        f"State the {key} that the weights were trained with, or null for none.",
    )


def _switched_off(part: Fields, kind: ModelType, key: str, on: Any, value: Any) -> NoRotaryPositionsError:
    """Return the error for a model whose class rotates with another value of an entry.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        key: The entry.
        on: The value with which the class rotates.
        value: The one that it has here.
    """
    other = positions_in_words(part.values, kind.name, kind.defaults)
    here = f"here it is {in_json(value)}" if key in part.values else f"the file leaves it out ({in_json(value)})"
    said = [
        f"The class of the model type '{kind.name}' rotates where {key} is {in_json(on)}; {here}, so the model has no "
        f"rotary positions{f', {other}' if other else ''}.",
        *longest_in_words(part.values, kind.name, kind.defaults),
        *without_effect(part.values, kind.name, kind.defaults),
    ]
    bases = [name for name in ("rope_theta", "rope_parameters", "rope_scaling") if part.values.get(name)]
    if is_orderless(part.values, kind.name, kind.defaults):
        others = switches_in_words(kind.name)
        return NoRotaryPositionsError(
            " ".join(said),
            f"State {key} {in_json(on)}{f', or {others}' if others else ''}, as the weights were trained.",
        )
    if key not in part.values and bases:
        said.append(f"{' and '.join(bases)} of the file {'has' if len(bases) == 1 else 'have'} no effect then.")
        remedy = f"State {key} {in_json(on)}, if the weights were trained with rotary positions."
        return NoRotaryPositionsError(" ".join(said), remedy)
    return NoRotaryPositionsError(" ".join(said))


def switches_rotation_off(name: str, value: Any) -> bool:
    """Whether an entry of code of people's own says that a model has no rotary positions."""
    if value is False:
        return name in ("rotary", "rope") or _ROTATES.fullmatch(name) is not None
    return value is True and (name == "alibi" or _STANDS.fullmatch(name) is not None)


def _switches(kind: ModelType | None, key: str) -> bool:
    """Whether an entry is the one by which a class rotates or does not, or one of several that it has."""
    return kind is not None and ((kind.switch is not None and kind.switch[0] == key) or key in kind.defaults)


def _names_other_positions(stated: str, part: Fields, kind: ModelType | None) -> bool:
    """Whether ``position_embedding_type`` speaks of others: what BERT left there counts where nothing is rotary."""
    name = stated.lower()
    if "nope" in name or "alibi" in name:
        return True
    is_other = any(word in name for word in ("absolute", "learned", "sinusoidal", "relative"))
    return is_other and kind is None and not speaks_of_rotation(part.values)


def speaks_of_rotation(part: Mapping[str, Any]) -> bool:
    """Whether a file has any entry about rotary positions, by their usual names or such as people give them."""
    stated = any(part.get(key) is not None for key in ROPE_KEYS)
    named = any(value not in (None, False) and words_of(name) & ROTARY for name, value in part.items())
    return stated or named or says_rotary(part)
