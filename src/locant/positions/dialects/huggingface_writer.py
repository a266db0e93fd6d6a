"""Writing rotary positions into the config.json of Hugging Face's transformers, releases 4 and 5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.dialects import families
from locant.positions.dialects.huggingface import GLOBAL, LOCAL
from locant.positions.dialects.reading import ALL_LAYERS, by_layer, with_base_for_ntk
from locant.positions.dialects.rope_writer import write_rotated_fraction, write_scaling
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, Linear, LongRoPE, NTKByParts, Unscaled

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
        ConfigError: transformers cannot say a configuration.

    Example:
        >>> from locant.positions.scaling import Linear
        >>> written = write_huggingface(RotaryConfig(head_dim=128, scaling=Linear(factor=8, original_length=4096)))
        >>> written["rope_parameters"]
        {'rope_type': 'linear', 'factor': 8, 'rope_theta': 10000.0}
        >>> written["head_dim"], written["max_position_embeddings"]
        (128, 32768)
    """
    if version not in ("4", "5"):
        raise ConfigError(f"Unknown version '{version}' of transformers.{nearest(str(version), '45')} Known: 4, 5.")
    given = {layer: with_base_for_ntk(config) for layer, config in by_layer(configs).items()}
    if model_type in _ROTARY_DIM_ONLY:
        return _as_gptj(given, model_type)
    shared = _shared(given, model_type)
    groups = {layer: _group(config, model_type) for layer, config in given.items()}
    if version == "5":
        return shared | {"rope_parameters": groups.get(ALL_LAYERS, groups), "rope_scaling": None, "rope_theta": None}
    if ALL_LAYERS in groups:
        return shared | _as_version_4(groups[ALL_LAYERS], model_type)
    if set(groups) != {GLOBAL, LOCAL} or groups[LOCAL].keys() != {"rope_type", "rope_theta"}:
        raise ConfigError(
            f"config.json of transformers 4 cannot say rotary positions of the layer types {', '.join(groups)} apart: "
            "it has rope_local_base_freq for unscaled sliding_attention beside full_attention. Write version 5."
        )
    return shared | _as_version_4(groups[GLOBAL], model_type) | {"rope_local_base_freq": groups[LOCAL]["rope_theta"]}


def _shared(given: dict[str, RotaryConfig], model_type: str | None) -> dict[str, Any]:
    said = [_beside(config, model_type) for config in given.values()]
    lengths = {entry["max_position_embeddings"] for entry in said} - {None}
    if len(lengths) > 1 or len({config.head_dim for config in given.values()}) > 1:
        raise ConfigError(
            f"config.json has one head_dim and one max_position_embeddings, but the configurations of "
            f"{', '.join(given)} differ in them."
        )
    written = said[0] | {"max_position_embeddings": next(iter(lengths), None)}
    return {key: value for key, value in written.items() if value is not None}


def _beside(config: RotaryConfig, model_type: str | None) -> dict[str, Any]:
    """Return what stands next to the parameters of one configuration."""
    scaling, length = config.scaling, config.max_length
    if isinstance(scaling, DynamicNTK):
        if length not in (None, scaling.original_length) or scaling.length_step != 1:
            raise ConfigError(
                f"config.json cannot say the scaling 'dynamic' with max_length {length}, original_length "
                f"{scaling.original_length} and length_step {scaling.length_step}: transformers takes the original "
                "length from max_position_embeddings and counts every token. Set max_length to the original length and "
                "length_step to 1, or state a target_length."
            )
        length = scaling.original_length
    elif isinstance(scaling, Linear | NTKByParts | LongRoPE):
        length = length or scaling.target_length
    known = families.layout_of(model_type, None)
    if config.layout != known and model_type not in families.SWITCHED:
        raise ConfigError(
            f"config.json cannot say layout '{config.layout}': the class of the model type '{model_type}' decides, and "
            f"has '{known}'. Permute the projections of queries and keys, or name a model_type of that layout."
        )
    width = "qk_rope_head_dim" if model_type in families.SWITCHED else "head_dim"
    switch = config.layout == "interleaved" if model_type in families.SWITCHED else None
    written = {width: config.head_dim, "max_position_embeddings": length, "rope_interleave": switch}
    if isinstance(scaling, LongRoPE):
        # Releases up to 4.4x look for it only here, and Phi-3's class has a value of its own here.
        written["original_max_position_embeddings"] = scaling.original_length
    return written


def _group(config: RotaryConfig, model_type: str | None) -> dict[str, Any]:
    written = write_scaling(config, "config.json") | {"rope_theta": config.base}
    fraction = write_rotated_fraction(config, "config.json")
    if fraction != 1 or model_type in families.ROTATED_FRACTIONS:
        written["partial_rotary_factor"] = fraction
    return written


def _as_version_4(group: dict[str, Any], model_type: str | None) -> dict[str, Any]:
    if group["rope_type"] == "proportional":
        raise ConfigError("config.json of transformers 4 cannot say the scaling 'proportional'. Write version 5.")
    names = _NAMES_IN_4.get(model_type or "", {})
    beside = {names.get(key, key): group[key] for key in ("rope_theta", "partial_rotary_factor") if key in group}
    scaling = {key: value for key, value in group.items() if key not in ("rope_theta", "partial_rotary_factor")}
    is_scaled = scaling["rope_type"] != "default"
    return beside | {"rope_scaling": scaling if is_scaled else None, "rope_parameters": None}


def _as_gptj(given: dict[str, RotaryConfig], model_type: str | None) -> dict[str, Any]:
    config = next(iter(given.values()))
    if len(given) > 1 or config.scaling != Unscaled() or config.base != 10000 or config.layout != "interleaved":
        raise ConfigError(
            f"config.json of the model type '{model_type}' can say rotary_dim and nothing else: its class has one "
            "unscaled rotation with base 10000 and layout 'interleaved' for all layers."
        )
    length = {} if config.max_length is None else {"n_positions": config.max_length}
    return {"rotary_dim": config.rotary_dim} | length
