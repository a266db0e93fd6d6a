"""The groups ``rope_scaling`` and ``rope_parameters``, which Hugging Face and vLLM share: reading and writing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
)
from locant.rotary_configs.base import Fields, Finding, agreed, as_yarn, cannot_express, refuse_final_length

KEYS = [
    *("rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings"),
    *("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "finetuned"),
    *("short_factor", "long_factor", "short_mscale", "long_mscale", "low_freq_factor", "high_freq_factor"),
    *("mrope_section", "mrope_interleaved", "llama_4_scaling_beta"),
]

# Files that transformers saved have the old name beside the new one.
_ALIASES = {"su": "longrope", "mrope": "default"}


@dataclass
class RopeContext:
    """What stands around the parameters and decides about their meaning.

    Attributes:
        max_length: ``max_position_embeddings``.
        original_length: ``original_max_position_embeddings`` next to the parameters, as in Phi-3.
        rotary_fraction: ``partial_rotary_factor`` in force.
        takes_yarn_for_longrope: Whether the model's class does, as that of Phi-3.
        findings: Where findings go.
    """

    max_length: int | None = None
    original_length: int | None = None
    rotary_fraction: float | None = None
    takes_yarn_for_longrope: bool = False
    findings: list[Finding] = field(default_factory=list)

    def warn(self, message: str, remedy: str) -> None:
        """Add a warning."""
        self.findings.append(Finding("warning", message, remedy))

    def note(self, message: str, remedy: str) -> None:
        """Add a note."""
        self.findings.append(Finding("note", message, remedy))


def read_type(rope: Fields) -> str:
    """Return the type of scaling under either of its two names."""
    new, old = rope.text("rope_type"), rope.text("type")
    if new is not None and old is not None and _ALIASES.get(new, new) != _ALIASES.get(old, old):
        raise ConfigError(
            f"{rope.where} has rope_type '{new}' and type '{old}': new releases of transformers take the first, old "
            "ones the second. Keep one of them, as rope_type."
        )
    return new or old or "default"


def read_scaling(rope: Fields, around: RopeContext) -> FrequencyScaling:
    """Read the scaling of one group of parameters; every entry must have a meaning for its type."""
    kind = read_type(rope)
    if around.takes_yarn_for_longrope and kind == "yarn":
        kind = "longrope"
    if kind not in _READERS:
        raise ConfigError(
            f"Unknown rope_type '{kind}' in {rope.where}.{nearest(kind, _READERS)} Known: {', '.join(_READERS)}."
        )
    rope.flag("finetuned")  # of the YaRN authors' own code: whether the model was trained with the scaling
    scaling = _READERS[kind](rope, around)
    if rope.number("llama_4_scaling_beta"):
        around.note(
            "llama_4_scaling_beta makes queries grow with their position; a rotary configuration does not hold that.",
            "Scale the queries in the attention.",
        )
    rope.refuse_rest(KEYS)
    return scaling


def _default(rope: Fields, around: RopeContext) -> FrequencyScaling:
    del around
    factor = rope.number("factor")
    if factor not in (None, 1):
        raise ConfigError(
            f"{rope.where} has factor {factor:g} but rope_type 'default', which scales nothing. "
            "Name the scaling in rope_type, or remove factor."
        )
    return Unscaled()


def _factor(rope: Fields, kind: str) -> float:
    return rope.need(rope.number("factor"), "factor", f"the scaling '{kind}' divides by it")


def _linear(rope: Fields, around: RopeContext) -> FrequencyScaling:
    del around
    return Linear(factor=_factor(rope, "linear"), original_length=rope.whole("original_max_position_embeddings"))


def _dynamic(rope: Fields, around: RopeContext) -> FrequencyScaling:
    stated = _original_length(rope, around)
    if stated is not None and around.max_length is not None and stated != around.max_length:
        raise ConfigError(
            f"The scaling 'dynamic' in {rope.where} has original_max_position_embeddings {stated}, but transformers "
            f"takes the original length from max_position_embeddings, which is {around.max_length}. "
            "Set max_position_embeddings to the length trained before the extension."
        )
    return DynamicNTK(original_length=around.max_length or stated, factor=_factor(rope, "dynamic"), length_step=1)


def _original_length(rope: Fields, around: RopeContext) -> int | None:
    inside = rope.whole("original_max_position_embeddings")
    agreed(
        inside,
        around.original_length,
        f"original_max_position_embeddings is {inside} in {rope.where} but {around.original_length} next to it. "
        "transformers takes the second, other engines the first; make them equal.",
    )
    return around.original_length or inside


def _extension(rope: Fields, around: RopeContext, kind: str, original: int | None) -> dict[str, Any]:
    """Return original length and factor; a factor that is left out is that of the two lengths."""
    factor, declared = rope.number("factor"), around.max_length
    if factor is None:
        rope.need(declared, "factor", f"the scaling '{kind}' needs it, and max_position_embeddings is missing as well")
        return {"original_length": original, "target_length": declared}
    if original is not None and declared is not None and factor > 1:
        _compare(rope.where, kind, factor, original, declared, around)
    return {"original_length": original, "factor": factor}


def _compare(where: str, kind: str, factor: float, original: int, declared: int, around: RopeContext) -> None:
    reached = factor * original
    if abs(factor * declared - original) <= 0.5:
        raise ConfigError(
            f"original_max_position_embeddings in {where} is {original}, which is factor {factor:g} times "
            f"max_position_embeddings {declared}: the extended length stands where the original one belongs. "
            f"Set original_max_position_embeddings to {declared} and max_position_embeddings to {original}."
        )
    if declared == original:
        around.warn(
            f"original_max_position_embeddings and max_position_embeddings are both {original}, with factor "
            f"{factor:g} of the scaling '{kind}'.",
            f"If {original} is the length trained before the extension, raise max_position_embeddings to "
            f"{reached:.0f}; if it is the extended length, original_max_position_embeddings should be "
            f"{original / factor:.0f}.",
        )
    elif declared < reached - 0.5 and kind != "llama3":
        around.warn(
            f"factor {factor:g} makes {reached:.0f} of original_max_position_embeddings {original}, but "
            f"max_position_embeddings is {declared}. transformers uses the factor.",
            f"Set factor to {declared / original:g} for {declared} tokens, or max_position_embeddings to "
            f"{reached:.0f}.",
        )


def _yarn(rope: Fields, around: RopeContext) -> FrequencyScaling:
    original = _original_length(rope, around)
    if original is None and around.max_length is not None:
        original = around.max_length
        around.warn(
            f"original_max_position_embeddings is missing in {rope.where}; transformers silently takes "
            f"max_position_embeddings, {original}, and so does this reading.",
            "Write down the length that the model was trained for before the extension.",
        )
        extension: dict[str, Any] = {"original_length": original, "factor": _factor(rope, "yarn")}
    else:
        extension = _extension(rope, around, "yarn", original)
    mscale, mscale_all_dim = rope.number("mscale"), rope.number("mscale_all_dim")
    if bool(mscale) != bool(mscale_all_dim):
        around.warn(
            f"mscale is {mscale} and mscale_all_dim {mscale_all_dim}: transformers ignores one without the other, "
            "DeepSeek's own code does not.",
            "State both, or attention_factor.",
        )
        mscale = mscale_all_dim = None
    truncate = rope.flag("truncate")
    scaling = YaRN(
        **extension,
        beta_fast=rope.number("beta_fast") or 32.0,
        beta_slow=rope.number("beta_slow") or 1.0,
        truncate=truncate is not False,
        attention_factor=rope.number("attention_factor"),
        mscale=mscale or None,
        mscale_all_dim=mscale_all_dim or None,
    )
    if scaling.mscale_all_dim is not None:
        assert scaling.factor is not None
        whole = 0.1 * scaling.mscale_all_dim * math.log(scaling.factor) + 1
        around.note(
            f"Models of DeepSeek's family also multiply all scores by {whole**2:.6g}, the square of "
            "0.1 * mscale_all_dim * ln(factor) + 1; a rotary configuration does not hold that.",
            "Scale the scores in the attention, if the model is one of them.",
        )
    return scaling


def _longrope(rope: Fields, around: RopeContext) -> FrequencyScaling:
    original = _original_length(rope, around)
    if original is None:
        raise _silent_original(rope, around, "longrope", "the long factors would never be used, nor scores scaled")
    short, long = rope.number("short_mscale"), rope.number("long_mscale")
    attention = agreed(short, long, f"{rope.where} has short_mscale {short} and long_mscale {long}; one scale is known")
    attention = agreed(
        rope.number("attention_factor"), attention, f"attention_factor in {rope.where} contradicts its mscale"
    )
    extension = _extension(rope, around, "longrope", original)
    if around.max_length is not None and "factor" in extension and attention is None:
        ratio = around.max_length / original
        if abs(ratio - extension["factor"]) > 0.5 / original:
            raise ConfigError(
                f"factor in {rope.where} is {extension['factor']:g}, but max_position_embeddings {around.max_length} "
                f"is {ratio:g} times original_max_position_embeddings {original}. transformers 4 takes the ratio for "
                "the attention scale and transformers 5 the factor; make them agree, or state attention_factor."
            )
    return LongRoPE(
        **extension,
        short_factors=rope.numbers("short_factor") or (),
        long_factors=rope.numbers("long_factor") or (),
        attention_factor=attention,
    )


def _llama3(rope: Fields, around: RopeContext) -> FrequencyScaling:
    original = _original_length(rope, around)
    if original is None:
        raise _silent_original(rope, around, "llama3", "wavelengths would be compared with the extended length")
    why = "the scaling 'llama3' compares wavelengths by it"
    return Llama3(
        **_extension(rope, around, "llama3", original),
        low_frequency_factor=rope.need(rope.number("low_freq_factor"), "low_freq_factor", why),
        high_frequency_factor=rope.need(rope.number("high_freq_factor"), "high_freq_factor", why),
    )


def _silent_original(rope: Fields, around: RopeContext, kind: str, effect: str) -> ConfigError:
    assumed = "" if around.max_length is None else f" ({around.max_length})"
    return ConfigError(
        f"original_max_position_embeddings is missing in {rope.where}. transformers silently takes "
        f"max_position_embeddings{assumed} for the scaling '{kind}': {effect}. "
        "State the length that the model was trained for before the extension."
    )


def _proportional(rope: Fields, around: RopeContext) -> FrequencyScaling:
    fraction = 1.0 if around.rotary_fraction is None else around.rotary_fraction
    return Proportional(rotary_fraction=fraction, factor=rope.number("factor") or 1.0)


_READERS: dict[str, Callable[[Fields, RopeContext], FrequencyScaling]] = {
    "default": _default,
    "mrope": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "su": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


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
            raise cannot_express(dialect, scaling, "it has no such rope_type")


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
