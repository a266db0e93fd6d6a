"""Extension methods: what each makes of a rotary configuration and of a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.exact import EXACT, TWO_PI
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Linear,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
)
from locant.rotary_configs.base import Reading, paper_attention_scale
from locant.rotary_configs.huggingface import LOCAL, read_huggingface, text_part, write_huggingface

METHODS = ("yarn", "ntk", "linear", "dynamic", "longrope")
"""Names of the methods."""

_LONGEST = 1 << 31
_LAST_KEPT, _FIRST_INTERPOLATED = 32, 1  # turns, as YaRN's beta_fast and beta_slow


def extend_configs(reading: Reading, method: str, target_length: int) -> dict[str, RotaryConfig]:
    """Return a model's rotary configurations, extended.

    Args:
        reading: What the model's file means.
        method: One of :data:`METHODS`.
        target_length: Length in tokens that the model shall read.

    Raises:
        ConfigError: The method is unknown or cannot be said for this model, or the model reads that far already.
    """
    check_request(method, target_length)
    if reading.multimodal:
        raise ConfigError(
            "The positions of this model have several axes; a scaling would be lost on images. It cannot be extended."
        )
    extended = {
        layer: _extended(config, method, target_length) for layer, config in reading.configs.items() if layer != LOCAL
    }
    if not extended:
        raise ConfigError("All layers of this model have sliding attention, which needs no scaling for longer texts.")
    length = next(iter(extended.values())).max_length
    return {
        layer: extended.get(layer) or replace(config, max_length=length) for layer, config in reading.configs.items()
    }


def check_request(method: str, target_length: int) -> None:
    """Raise ConfigError for a method that is unknown or a length that no position can have."""
    if method not in METHODS:
        raise ConfigError(f"Unknown method '{method}'.{nearest(method, METHODS)} Known: {', '.join(METHODS)}.")
    if not isinstance(target_length, int) or not 1 < target_length <= _LONGEST:
        raise ConfigError(f"The length to extend to must be a whole number of at most 2^31; got {target_length!r}.")


def present_length(config: RotaryConfig) -> int:
    """Return the length in tokens that a model reads as it is configured now.

    Raises:
        ConfigError: The file does not say it.
    """
    scaling = config.scaling
    if isinstance(scaling, DynamicNTK) and scaling.target_length is None:
        assert scaling.original_length is not None
        return scaling.original_length
    known = [length for length in (getattr(scaling, "target_length", None), config.max_length) if length]
    if not known:
        raise ConfigError(
            "The file does not say how long the texts were that the model was trained with "
            "(max_position_embeddings, context_length). Add it."
        )
    return max(known)


def _extended(config: RotaryConfig, method: str, target: int) -> RotaryConfig:
    scaling = config.scaling
    if isinstance(scaling, DynamicNTK):
        # No model is trained with it: below the original length it is the unscaled one.
        config = replace(config, scaling=Unscaled(), max_length=present_length(config))
        scaling = config.scaling
    if method == "longrope":
        new: FrequencyScaling = _longrope(config, target)
    elif isinstance(scaling, Unscaled):
        new = _first_scaling(method, present_length(config), target)
    else:
        new = _same_again(config, method, target)
    length = new.original_length if isinstance(new, DynamicNTK) else target
    return replace(config, scaling=new, max_length=length)


def _first_scaling(method: str, trained: int, target: int) -> FrequencyScaling:
    _require_longer(trained, target, "reads")
    match method:
        case "linear":
            return Linear(original_length=trained, target_length=target)
        case "ntk":
            return NTKAware(original_length=trained, target_length=target)
        case "dynamic":
            return DynamicNTK(original_length=trained, factor=target / trained, length_step=1)
        case _:
            return YaRN(original_length=trained, target_length=target)


def _same_again(config: RotaryConfig, method: str, target: int) -> FrequencyScaling:
    """Return the scaling that a model has, counted anew from its original length."""
    scaling = config.scaling
    if isinstance(scaling, NTKByParts) and method == "yarn":
        _require_longer(scaling.trained_length, target, "was trained for")
        fields: dict[str, Any] = {"factor": None, "target_length": target}
        if isinstance(scaling, YaRN) and scaling.attention_factor is not None:
            stated_anew = abs(scaling.attention_factor / paper_attention_scale(scaling) - 1) < 1e-6
            fields["attention_factor"] = None if stated_anew else scaling.attention_factor
        return replace(scaling, **fields)
    if isinstance(scaling, Linear) and method == "linear":
        if scaling.original_length is None:
            raise ConfigError(
                f"The model is scaled by 'linear' with factor {scaling.factor:g}, and the file does not say whether "
                f"{config.max_length} tokens are its length before or after that. Add "
                "original_max_position_embeddings, the length before, to rope_scaling or rope_parameters."
            )
        _require_longer(scaling.original_length, target, "was trained for")
        return Linear(original_length=scaling.original_length, target_length=target)
    if isinstance(scaling, Proportional):
        if method == "linear":
            length = present_length(config)
            _require_longer(length, target, "reads")
            return replace(scaling, factor=scaling.factor * target / length)
        raise ConfigError(f"The scaling 'proportional' of this model can be combined with linear alone, not {method}.")
    raise ConfigError(
        f"The model is extended already, by the scaling '{scaling.name}', and {method} on top of it cannot be said. "
        "Take the method longrope, which goes on from the present frequencies. Or, if the model was never trained "
        "with that scaling, remove it from the configuration and restore max_position_embeddings."
    )


def _longrope(config: RotaryConfig, target: int) -> LongRoPE:
    """Return two lists: the present frequencies, and NTK-by-parts on top of those of the longest texts."""
    assert config.rotary_dim is not None
    scaling, length = config.scaling, present_length(config)
    _require_longer(length, target, "reads")
    plain = Unscaled().frequencies(config.rotary_dim, config.base)
    present = config.frequencies(length)
    if not all(present):
        raise ConfigError("Some pairs of this model stand still, which the lists of LongRoPE cannot say.")
    is_longrope = isinstance(scaling, LongRoPE) and scaling.original_length != length
    switch = scaling.trained_length if isinstance(scaling, LongRoPE) and is_longrope else length
    with localcontext(EXACT):
        slowed = [by_parts(frequency, length, Decimal(target) / length) for frequency in present]
        short = [float(p / f) for p, f in zip(plain, config.frequencies(switch), strict=True)]
        long = [float(p / f) for p, f in zip(plain, slowed, strict=True)]
    return LongRoPE(
        original_length=switch,
        target_length=target,
        short_factors=short,
        long_factors=long,
        attention_factor=config.attention_scale(length),
    )


def by_parts(frequency: Decimal, length: int, factor: Decimal) -> Decimal:
    """Return a frequency slowed by NTK-by-parts.

    Source: Peng et al. 2023, "YaRN", section 3.2, with the ramp that all implementations have. It is linear in the
    index of the pair, which is linear in the logarithm of its turns ``r = length * f / (2 pi)``; in this form it holds
    for any frequencies::

        f' = (1 - g) * f / factor + g * f,   g = clip(ln r / ln 32, 0, 1)

    Args:
        frequency: In radians a token.
        length: Length in tokens that the model was trained for.
        factor: How much further it shall read.
    """
    turns = length * frequency / TWO_PI
    ramp = (turns / _FIRST_INTERPOLATED).ln() / (Decimal(_LAST_KEPT) / _FIRST_INTERPOLATED).ln()
    kept = min(max(ramp, Decimal(0)), Decimal(1))
    return (1 - kept) * frequency / factor + kept * frequency


def _require_longer(length: int, target: int, does: str) -> None:
    if target <= length:
        raise ConfigError(f"The model {does} {length} tokens already; extending it to {target} makes no sense.")


__all__ = ["METHODS", "TRACE", "apply_method", "before_extension", "mark_trained"]

TRACE = "locant_extension"
"""Entry of config.json that remembers what an extension replaced; engines pass over it."""

_ROTARY_KEYS = (
    *("rope_parameters", "rope_scaling", "rope_theta", "rope_local_base_freq", "rotary_emb_base", "rotary_pct"),
    *("partial_rotary_factor", "max_position_embeddings", "original_max_position_embeddings"),
)
_ONLY_LONGROPE = ("phi3", "phi4_multimodal")
_PRECISION = Decimal("1e-12")


def apply_method(config: Mapping[str, Any], method: str, target_length: int) -> dict[str, Any]:
    """Return the content of config.json for the extended model.

    Layers of sliding attention stay as they are: no query there sees a key beyond the window. A configuration that
    this function wrote before is taken back first, so that factors never multiply.

    Args:
        config: The content of config.json, of any 4.x or 5.x release of transformers; it is not changed.
        method: One of :data:`METHODS`.
        target_length: Length in tokens that the model shall read.

    Raises:
        ConfigError: The configuration contradicts itself, the method is unknown or cannot be said for this model, or
            the model reads that far already.

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
    reading = read_huggingface(whole)
    model_type = next((each["model_type"] for each in (plain, config) if isinstance(each.get("model_type"), str)), None)
    extended = extend_configs(reading, method, target_length)
    if model_type in _ONLY_LONGROPE and method not in ("ntk", "longrope"):
        raise ConfigError(
            f"The class of the model type '{model_type}' in transformers knows no scaling but LongRoPE. "
            "Take the method longrope, or ntk, which only changes the base."
        )
    written = write_huggingface(extended, "5" if plain.get("rope_parameters") else "4", model_type=model_type)
    changes = {key: written[key] for key in _ROTARY_KEYS if key in written}
    trace = {"method": method, "target_length": target_length, "before": before}
    result = _with_part(config, _merged(plain, changes) | {TRACE: trace})
    if not _is_same(read_huggingface(result).configs, extended, target_length):
        raise ConfigError(f"config.json of the model type '{model_type}' cannot say the method {method} exactly.")
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
