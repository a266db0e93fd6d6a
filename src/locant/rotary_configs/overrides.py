"""What vLLM makes of a config.json under ``--hf-overrides``, and how long the texts are that it serves.

Source: ``_apply_dict_overrides``, ``_update_nested`` and ``_get_and_verify_max_len`` of vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from locant.errors import ConfigError
from locant.parsing import parse_json
from locant.rotary_configs.fields import Fields, in_json
from locant.rotary_configs.scaling import type_of
from locant.rotary_configs.vocabulary import text_config_path

_GROUPS = ("rope_scaling", "rope_parameters")  # two names of one group; the first counts where a file has both
_BESIDE = ("rope_theta", "partial_rotary_factor")  # which the class moves into the group
_WITHOUT = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}
"""What vLLM takes where a group does not have an entry."""


@dataclass(frozen=True)
class Overridden:
    """An entry that does not count under overrides.

    Attributes:
        entry: Its place: ``rope_parameters.rope_theta``.
        value: Its value.
        why: ``dropped`` of an entry of the file that goes with its group. Of an override ``beside``, where it stands
            beside the text config, and ``ignored``, where the group has what counts in its place.
    """

    entry: str
    value: Any
    why: Literal["dropped", "beside", "ignored"]


def merge_hf_overrides(
    content: Mapping[str, Any], overrides: str | Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Overridden, ...]]:
    """Return what vLLM makes of a config.json under ``--hf-overrides``, and the entries that do not count.

    A group replaces that of the file as a whole, and has base 10000 where it states none; in a nested configuration
    (``text_config``) it is merged. A base outside of the group comes too late.

    Args:
        content: What the class of transformers makes of the file, as vLLM has it; else the object in config.json.
        overrides: JSON, or what it says.

    Raises:
        ConfigError: The overrides are no JSON object.

    Example:
        >>> file = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
        >>> merge_hf_overrides(file, '{"rope_scaling": {"rope_type": "linear", "factor": 4.0}}')[1]
        (Overridden(entry='rope_scaling.rope_theta', value=1000000.0, why='dropped'),)
    """
    try:
        given = parse_json(overrides) if isinstance(overrides, str) else overrides
    except ValueError as error:
        raise ConfigError(f"--hf-overrides must be JSON: {error}.") from error
    if not isinstance(given, Mapping):
        raise ConfigError(f"--hf-overrides must be a JSON object; got {in_json(given)}.")
    told: list[Overridden] = []
    merged, path = dict(content), text_config_path(content)
    for name, value in sorted(given.items(), key=lambda item: isinstance(item[1], Mapping)):  # as vLLM sets them
        if path and name in (*_GROUPS, *_BESIDE, "max_position_embeddings"):
            told.append(Overridden(name, value, "beside"))
        elif name in _GROUPS:
            merged = _with_group(merged, _replaced(_gathered(merged), value or {}, name, told))
        elif name in _BESIDE and any(name in each for each in _by_type(_gathered(merged)).values()):
            told.append(Overridden(name, value, "ignored"))
        elif isinstance(value, Mapping) and isinstance(merged.get(name), Mapping):
            merged[name] = _nested(merged[name], value, name, told)
        else:
            merged[name] = value
    return merged, tuple(told)


def _replaced(old: Mapping[str, Any], new: Mapping[str, Any], name: str, told: list[Overridden]) -> dict[str, Any]:
    """Return a group as vLLM reads it in the place of another; entries of another scaling are meant to go with that."""
    before, made = _by_type(old), dict[str, Any]()
    for layer, group in _by_type(new).items():
        was = before.get(layer, before.get("", {}))
        made[layer] = {key: _WITHOUT[key] for key in was if key in _WITHOUT} | dict(group)
        same = type_of(Fields(group, name)) == was.get("rope_type")
        for key, value in was.items():
            counts = (same or key in _WITHOUT or key.startswith("mrope_")) and value != _WITHOUT.get(key)
            if counts and key not in group:
                told.append(Overridden(".".join(filter(None, (name, layer, key))), value, "dropped"))
    whole: dict[str, Any] = made.get("", made)
    return whole


def _nested(present: Mapping[str, Any], given: Mapping[str, Any], place: str, told: list[Overridden]) -> dict[str, Any]:
    """Return a nested configuration with overrides merged into it, the group under either name."""
    merged = dict(present)
    for entry, value in given.items():
        name, where = entry, f"{place}.{entry}"
        if entry in _GROUPS:
            group: dict[str, Any] = _gathered(merged)
            merged = _with_group(merged, _replaced(group, {}, where, told) if value is None else group)
            name, value = "rope_parameters", value or {}
            if "type" in value and "rope_type" not in value:
                told.append(Overridden(f"{where}.type", value["type"], "ignored"))
        is_merged = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _nested(merged[name], value, where, told) if is_merged else value
    return merged


def _with_group(text: Mapping[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    """Return a text config with another group under either of its names."""
    return {key: kept for key, kept in text.items() if key not in (*_GROUPS, *_BESIDE)} | {"rope_parameters": group}


def _gathered(text: Mapping[str, Any]) -> dict[str, Any]:
    """Return the group of a text config as its class has it, with base and partial rotary factor in it."""
    group: Mapping[str, Any] = next(
        (text[name] for name in _GROUPS if isinstance(text.get(name), Mapping) and text[name]), {}
    )
    beside = {name: text[name] for name in _BESIDE if text.get(name) is not None}
    if "" not in _by_type(group):
        return {layer: {**beside, **each} for layer, each in group.items() if each is not None}
    kept = {key: value for key, value in group.items() if key != "type"}
    return {"rope_type": type_of(Fields(group, "the group of rotary parameters")), **beside, **kept}


def _by_type(group: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return groups by layer type, one for all layers under an empty name."""
    has_types = bool(group) and all(each is None or isinstance(each, Mapping) for each in group.values())
    return {layer: each or {} for layer, each in group.items()} if has_types else {"": group}


_LENGTHS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"),
    *("max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"),
)
_COUNTED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn")  # whose declared length is the extended one


def served_length(text: Mapping[str, Any]) -> int | None:
    """Return the longest text in tokens that vLLM serves without ``--max-model-len``.

    That is the declared length, times the factor of a scaling whose declared length is not the extended one; with
    LongRoPE it is the original length, where that stands beside the group.

    Args:
        text: The entries of the text config.

    Returns:
        The length; ``None`` where the entries declare none.

    Raises:
        ConfigError: A length or a factor is no number.

    Example:
        >>> served_length({"max_position_embeddings": 4096, "rope_scaling": {"rope_type": "linear", "factor": 2.0}})
        8192
    """
    entries = Fields(text, "config.json")
    stated = [number for name in _LENGTHS if (number := entries.whole(name))]
    if not stated:
        return None
    length: float = entries.whole("model_max_length") or min(stated)
    groups = [Fields(group, "the rotary parameters") for group in _by_type(_gathered(text)).values()]
    if "gemma3" not in str(text.get("model_type")):
        factors = [group.number("factor") for group in groups if type_of(group) not in _COUNTED]
        length *= next((factor for factor in reversed(factors) if factor is not None), 1.0)
    if any(type_of(group) == "longrope" for group in groups):
        length = entries.whole("original_max_position_embeddings") or length
    return int(length)
