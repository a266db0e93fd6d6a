"""Writing ``rope_scaling`` and ``rope_parameters``, which Hugging Face and vLLM share."""

from __future__ import annotations

import math
from typing import Any

from locant.errors import ConfigError
from locant.positions.dialects.reading import as_yarn, cannot_say, refuse_final_length
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, Linear, Llama3, LongRoPE, NTKByParts, Proportional, Unscaled, YaRN


def write_scaling(config: RotaryConfig, dialect: str) -> dict[str, Any]:
    """Return the parameters of a scaling, with ``rope_type`` and without base and rotated fraction."""
    match config.scaling:
        case Unscaled():
            return {"rope_type": "default"}
        case Linear() as scaling:
            return {"rope_type": "linear", "factor": scaling.factor}
        case DynamicNTK() as scaling:
            return {"rope_type": "dynamic", "factor": scaling.factor}
        case NTKByParts() as scaling:
            return _write_yarn(as_yarn(scaling))
        case LongRoPE() as scaling:
            refuse_final_length(scaling, dialect)
            return {
                "rope_type": "longrope",
                "factor": scaling.factor,
                "original_max_position_embeddings": scaling.original_length,
                "short_factor": list(scaling.short_factors),
                "long_factor": list(scaling.long_factors),
                "attention_factor": scaling.attention_scale(),
            }
        case Llama3() as scaling:
            return {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "original_max_position_embeddings": scaling.original_length,
                "low_freq_factor": scaling.low_frequency_factor,
                "high_freq_factor": scaling.high_frequency_factor,
            }
        case Proportional() as scaling:
            return {"rope_type": "proportional", "factor": scaling.factor}
        case scaling:
            raise cannot_say(dialect, scaling, "it has no such rope_type")


def _write_yarn(scaling: YaRN) -> dict[str, Any]:
    written: dict[str, Any] = {
        "rope_type": "yarn",
        "factor": scaling.factor,
        "original_max_position_embeddings": scaling.original_length,
        "beta_fast": scaling.beta_fast,
        "beta_slow": scaling.beta_slow,
    }
    if not scaling.truncate:
        written["truncate"] = False
    if scaling.attention_factor is not None:
        written["attention_factor"] = float(scaling.attention_factor)
    if scaling.mscale is not None:
        written |= {"mscale": scaling.mscale, "mscale_all_dim": scaling.mscale_all_dim}
    return written


def write_rotated_fraction(config: RotaryConfig, dialect: str) -> float:
    """Return ``partial_rotary_factor``: of the features, or for the scaling 'proportional' of the pairs."""
    assert config.rotary_dim is not None
    if isinstance(config.scaling, Proportional):
        if config.rotary_dim != config.head_dim:
            raise ConfigError(
                f"{dialect} cannot say the scaling 'proportional' on {config.rotary_dim} of {config.head_dim} "
                "features: it takes the whole head."
            )
        return config.scaling.rotary_fraction
    fraction = config.rotary_dim / config.head_dim
    # transformers cuts the product with the head off to a whole number.
    while int(config.head_dim * fraction) < config.rotary_dim:
        fraction = math.nextafter(fraction, 1)
    return fraction
