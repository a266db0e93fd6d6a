"""What each method of an extension makes of a rotary configuration.

A method is applied once, to what the model was trained with. Where a configuration is scaled already, the same method
counts anew from the original length, and ``longrope``, whose lists can say any frequencies, goes on from the present
ones; no other scaling can be put on top of a first one in config.json or GGUF, and none is ever multiplied into it.

What a method decides, for a model of trained length ``T`` that shall read ``to`` tokens:

======== ==================================================================================================
linear   position interpolation by ``to / T`` (Chen et al. 2023)
ntk      a larger base, ``base * (to / T)^(d/(d-2))`` (bloc97 2023)
dynamic  the same, growing with the text, with factor ``to / T`` as transformers and vLLM count it
yarn     YaRN with factor ``to / T``, ramp from 32 turns to 1 (Peng et al. 2023)
longrope two lists (Ding et al. 2024): texts up to ``T`` keep the present frequencies, longer ones take those of
         NTK-by-parts; scores are not scaled anew, so that nothing changes for texts up to ``T``
======== ==================================================================================================
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.dialects import Reading
from locant.positions.dialects.huggingface import LOCAL
from locant.positions.dialects.reading import paper_attention_scale
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
