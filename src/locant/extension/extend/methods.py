"""Extension methods: what each makes of a rotary configuration and of a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import SCALINGS
from locant.positions.scaling.frequency import ExtensionMethod
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.classes.entries import type_taken_for
from locant.rotary_configs.huggingface.reading import read_huggingface
from locant.rotary_configs.huggingface.text_parts import text_part
from locant.rotary_configs.huggingface.writing import write_huggingface
from locant.rotary_configs.layer_types import LOCAL

AUTO = "auto"
"""The method that measures the others and takes one of them."""

DEFAULT = "yarn"

_LONGEST = 1 << 31


def extension_methods() -> dict[str, ExtensionMethod]:
    """Return the scalings that are offered as methods, by name."""
    return {name: scaling.method for name, scaling in SCALINGS.items() if scaling.method is not None}


def main_layer(configs: Mapping[str, RotaryConfig]) -> str:
    """Return the layer type whose positions are extended: the first that is not sliding attention, if there is one."""
    return next((layer for layer in configs if layer != LOCAL), LOCAL)


def extend_configs(parsed: ParsedConfig, method: str, target_length: int) -> dict[str, RotaryConfig]:
    """Return a model's rotary configurations, extended.

    Args:
        parsed: What the model's file means.
        method: One of :func:`extension_methods`.
        target_length: Length in tokens that the model shall read.

    Raises:
        ConfigError: The method is unknown or cannot be expressed for this model, the model reads that far already, or
            its file contradicts itself.
    """
    check_request(method, target_length)
    wrong = next((finding for finding in parsed.findings if finding.severity == "error"), None)
    if wrong is not None:  # engines and releases disagree about such a file, and would about the extended one
        raise ConfigError(f"{wrong.message} {wrong.remedy} Extend it then.")
    if parsed.multimodal:
        raise ConfigError(
            "The positions of this model have several axes; a scaling would be lost on images. It cannot be extended."
        )
    extended = {
        layer: _extended(config, method, target_length) for layer, config in parsed.configs.items() if layer != LOCAL
    }
    if not extended:
        raise ConfigError("All layers of this model have sliding attention, which needs no scaling for longer texts.")
    length = next(iter(extended.values())).max_length
    return {
        layer: extended.get(layer) or replace(config, max_length=length) for layer, config in parsed.configs.items()
    }


def check_request(method: str, target_length: int) -> None:
    """Raise ConfigError for a method that is unknown or a length that no position can have."""
    methods = extension_methods()
    if method not in methods:
        raise ConfigError(f"Unknown method '{method}'.{nearest(method, methods)} Known: {', '.join(methods)}.")
    if not isinstance(target_length, int) or not 1 < target_length <= _LONGEST:
        raise ConfigError(f"The length to extend to must be a whole number of at most 2^31; got {target_length!r}.")


def _extended(config: RotaryConfig, method: str, target_length: int) -> RotaryConfig:
    in_training = config.scaling.in_training()
    if in_training != config.scaling:
        config = replace(config, scaling=in_training, max_length=config.present_length())
    scaling = SCALINGS[method].extending(config, target_length)
    return replace(config, scaling=scaling, max_length=scaling.length_to_declare(target_length))


TRACE = "locant_extension"
"""Entry of config.json that remembers what an extension replaced; engines pass over it."""

_ROTARY_KEYS = (
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rope_local_base_freq",
    "rotary_emb_base",
    "rotary_pct",
    "partial_rotary_factor",
    "max_position_embeddings",
    "original_max_position_embeddings",
)
_PRECISION = Decimal("1e-12")


def apply_method(config: Mapping[str, Any], method: str, target_length: int) -> dict[str, Any]:
    """Return the content of config.json for the extended model.

    Layers of sliding attention stay as they are: no query there sees a key beyond the window. A configuration that
    this function wrote before is taken back first, so that factors never multiply.

    Args:
        config: The content of config.json, of any 4.x or 5.x release of transformers; it is not changed.
        method: One of :func:`extension_methods`.
        target_length: Length in tokens that the model shall read.

    Raises:
        ConfigError: The configuration contradicts itself, the method is unknown or cannot be expressed for this model,
            or the model reads that far already.

    Example:
        >>> old = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 8192, "rope_theta": 100000.0}
        >>> new = apply_method(old, "yarn", 16384)
        >>> new["max_position_embeddings"], new["rope_scaling"]["factor"]
        (16384, 2.0)
        >>> new["rope_scaling"]["original_max_position_embeddings"]
        8192
    """
    whole = before_extension(config, method)
    plain = text_part(whole)
    before = {key: plain[key] for key in _ROTARY_KEYS if plain.get(key) is not None}
    parsed = read_huggingface(whole)
    model_type = next((each["model_type"] for each in (plain, config) if isinstance(each.get("model_type"), str)), None)
    extended = extend_configs(parsed, method, target_length)
    if type_taken_for(model_type, "yarn") == "longrope" and method not in ("ntk", "longrope"):
        raise ConfigError(
            f"The class of the model type '{model_type}' in transformers knows no scaling but LongRoPE. "
            "Take the method longrope, or ntk, which only changes the base."
        )
    written = write_huggingface(extended, "5" if plain.get("rope_parameters") else "4", model_type=model_type)
    changes = {key: written[key] for key in _ROTARY_KEYS if key in written}
    trace = {"method": method, "target_length": target_length, "before": before}
    result = _with_part(config, _merged(plain, changes) | {TRACE: trace})
    if not _is_same(read_huggingface(result).configs, extended, target_length):
        raise ConfigError(f"config.json of the model type '{model_type}' cannot express the method {method} exactly.")
    return result


def mark_trained(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of :func:`apply_method` with the remark that the model was trained with it."""
    part = text_part(config)
    return _with_part(config, dict(part) | {TRACE: part[TRACE] | {"finetuned": True}})


def before_extension(config: Mapping[str, Any], method: str | None = None) -> dict[str, Any]:
    """Return config.json as it was before :func:`apply_method` extended the model; as it is, where it did not.

    Args:
        config: The content of config.json.
        method: The one that shall be applied now, if any.

    Raises:
        ConfigError: Its rotary entries were changed afterwards, or the model was fine-tuned with another method.
    """
    part = text_part(config)
    trace = part.get(TRACE)
    if trace is None:
        return dict(config)
    before = trace.get("before") if isinstance(trace, Mapping) else None
    if not isinstance(before, Mapping) or set(before) - set(_ROTARY_KEYS):
        raise ConfigError(f"'{TRACE}' in config.json is damaged. Remove it, or copy the file again.")
    plain = _with_part(config, _merged(part, before))
    first, length = trace.get("method"), trace.get("target_length")
    expected = extend_configs(read_huggingface(plain), str(first), length)
    if not _is_same(read_huggingface(config).configs, expected, length):
        raise ConfigError(
            f"The rotary entries of config.json are no longer those that the method {first} gave them, which "
            f"'{TRACE}' tells. Remove that entry if they are right; they count as those of training then."
        )
    if trace.get("finetuned") and method not in (None, first):
        raise ConfigError(f"The model was fine-tuned with the method {first}; take that again, not {method}.")
    return plain


def _merged(part: Mapping[str, Any], rotary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with other rotary entries; those that are ``None`` are left out."""
    kept = {key: value for key, value in part.items() if key not in _ROTARY_KEYS and key != TRACE}
    return kept | {key: value for key, value in rotary.items() if value is not None}


def _with_part(config: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration whose text part is replaced."""
    old = text_part(config)
    if old is config:
        return dict(part)
    return {key: dict(part) if value is old else value for key, value in config.items()}


def _is_same(found: Mapping[str, RotaryConfig], wanted: Mapping[str, RotaryConfig], length: int) -> bool:
    """Whether two sets of configurations turn by the same angles and scale alike, in short and in long texts."""
    return found.keys() == wanted.keys() and all(
        abs(found[layer].attention_scale(size) - config.attention_scale(size)) < _PRECISION
        and all(
            abs(a - b) <= _PRECISION * b
            for a, b in zip(found[layer].frequencies(size), config.frequencies(size), strict=True)
        )
        for layer, config in wanted.items()
        for size in (1, length)
    )
