"""Rotary positions in the config.json of Hugging Face's transformers, releases 4 and 5: writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.rotary_configs.base import ALL_LAYERS, by_layer, cannot_express, with_equivalent_base
from locant.rotary_configs.classes import families
from locant.rotary_configs.layer_types import GLOBAL, LOCAL
from locant.rotary_configs.rope_parameters import write_rotated_fraction, write_scaling

_ROTARY_DIM_ONLY = ("gptj", "codegen")
_NAMES_IN_4 = {"gpt_neox": {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}}


def write_huggingface(
    configs: RotaryConfig | Mapping[str, RotaryConfig],
    version: Literal["4", "5"] = "5",
    *,
    model_type: str | None = None,
) -> dict[str, Any]:
    """Return the keys to merge into a config.json, so that transformers builds these rotary positions.

    Static NTK scalings are written as the larger base that they are. Keys that the file must not have any more are
    ``None``.

    Args:
        configs: The configuration, or one for every layer type.
        version: ``4`` writes ``rope_theta`` and ``rope_scaling``, ``5`` writes ``rope_parameters``.
        model_type: ``model_type`` of the file, which decides about the layout; only half layouts can do without.

    Raises:
        ConfigError: transformers cannot express a configuration.

    Example:
        >>> from locant.positions import Linear
        >>> written = write_huggingface(RotaryConfig(head_dim=128, scaling=Linear(factor=8, original_length=4096)))
        >>> written["rope_parameters"]
        {'rope_type': 'linear', 'factor': 8, 'rope_theta': 10000.0}
        >>> written["head_dim"], written["max_position_embeddings"]
        (128, 32768)
    """
    if version not in ("4", "5"):
        raise ConfigError(f"Unknown version '{version}' of transformers.{nearest(str(version), '45')} Known: 4, 5.")
    given = {layer: with_equivalent_base(config) for layer, config in by_layer(configs).items()}
    if model_type in _ROTARY_DIM_ONLY:
        return _as_gptj(given, model_type)
    for config in given.values():
        if version not in config.scaling.transformers_versions:
            newer = ", ".join(config.scaling.transformers_versions)
            raise cannot_express(f"config.json of transformers {version}", config.scaling, f"write version {newer}")
    shared = _shared(given, model_type)
    groups = {layer: _group(config, model_type) for layer, config in given.items()}
    if version == "5":
        return shared | {"rope_parameters": groups.get(ALL_LAYERS, groups), "rope_scaling": None, "rope_theta": None}
    if ALL_LAYERS in groups:
        return shared | _as_version_4(groups[ALL_LAYERS], model_type)
    if set(groups) != {GLOBAL, LOCAL} or groups[LOCAL].keys() != {"rope_type", "rope_theta"}:
        raise ConfigError(
            f"config.json of transformers 4 cannot express rotary positions of the layer types {', '.join(groups)} "
            "apart: it has rope_local_base_freq for unscaled sliding_attention beside full_attention. Write version 5."
        )
    return shared | _as_version_4(groups[GLOBAL], model_type) | {"rope_local_base_freq": groups[LOCAL]["rope_theta"]}


def _shared(given: dict[str, RotaryConfig], model_type: str | None) -> dict[str, Any]:
    entries = [_beside(config, model_type) for config in given.values()]
    lengths = {entry["max_position_embeddings"] for entry in entries} - {None}
    if len(lengths) > 1 or len({config.head_dim for config in given.values()}) > 1:
        raise ConfigError(
            f"config.json has one head_dim and one max_position_embeddings, but the configurations of "
            f"{', '.join(given)} differ in them."
        )
    written = entries[0] | {"max_position_embeddings": next(iter(lengths), None)}
    return {key: value for key, value in written.items() if value is not None}


def _beside(config: RotaryConfig, model_type: str | None) -> dict[str, Any]:
    """Return the entries next to the parameters of one configuration."""
    known = families.layout_of(model_type, None)
    if config.layout != known and not _is_switched(model_type):
        raise ConfigError(
            f"config.json cannot express layout '{config.layout}': the class of the model type '{model_type}' decides, "
            f"and has '{known}'. Permute the projections of queries and keys, or name a model_type of that layout."
        )
    kind = families.model_type(model_type)
    width = "qk_rope_head_dim" if kind is not None and "qk_rope_head_dim" in kind.defaults else "head_dim"
    switch = config.layout == "interleaved" if _is_switched(model_type) else None
    written = {width: config.head_dim, "rope_interleave": switch}
    return written | config.scaling.huggingface_entries(config.max_length)


def _is_switched(model_type: str | None) -> bool:
    known = families.model_type(model_type)
    return known is not None and known.can_turn_to_halves


def _group(config: RotaryConfig, model_type: str | None) -> dict[str, Any]:
    written = write_scaling(config, "config.json") | {"rope_theta": config.base}
    fraction = write_rotated_fraction(config, "config.json")
    known = families.model_type(model_type)
    if fraction != 1 and known is not None and not known.rotates_partly and config.scaling.turning_fraction is None:
        raise ConfigError(
            f"config.json cannot express {config.rotary_dim} rotated of {config.head_dim} features for the model type "
            f"'{model_type}', whose class passes over partial_rotary_factor."
        )
    if fraction != 1 or (known is not None and known.rotates_partly):
        written["partial_rotary_factor"] = fraction
    return written


def _as_version_4(group: dict[str, Any], model_type: str | None) -> dict[str, Any]:
    names = _NAMES_IN_4.get(model_type or "", {})
    beside = {names.get(key, key): group[key] for key in ("rope_theta", "partial_rotary_factor") if key in group}
    scaling = {key: value for key, value in group.items() if key not in ("rope_theta", "partial_rotary_factor")}
    is_scaled = scaling["rope_type"] != "default"
    return beside | {"rope_scaling": scaling if is_scaled else None, "rope_parameters": None}


def _as_gptj(given: dict[str, RotaryConfig], model_type: str | None) -> dict[str, Any]:
    config = next(iter(given.values()))
    if len(given) > 1 or config.scaling != Unscaled() or config.base != 10000 or config.layout != "interleaved":
        raise ConfigError(
            f"config.json of the model type '{model_type}' holds rotary_dim and nothing else: its class has one "
            "unscaled rotation with base 10000 and layout 'interleaved' for all layers."
        )
    length = {} if config.max_length is None else {"n_positions": config.max_length}
    return {"rotary_dim": config.rotary_dim} | length
