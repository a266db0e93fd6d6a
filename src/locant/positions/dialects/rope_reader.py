"""Reading ``rope_scaling`` and ``rope_parameters``, which Hugging Face and vLLM share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.dialects.reading import Finding
from locant.positions.dialects.values import Fields, agreed
from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Unscaled,
    YaRN,
)

KEYS = [
    *("rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings"),
    *("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "finetuned"),
    *("short_factor", "long_factor", "short_mscale", "long_mscale", "low_freq_factor", "high_freq_factor"),
    *("mrope_section", "mrope_interleaved", "llama_4_scaling_beta"),
]

# Files that transformers saved have the old name beside the new one.
_ALIASES = {"su": "longrope", "mrope": "default"}


@dataclass
class Surroundings:
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


def read_scaling(rope: Fields, around: Surroundings) -> FrequencyScaling:
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


def _default(rope: Fields, around: Surroundings) -> FrequencyScaling:
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


def _linear(rope: Fields, around: Surroundings) -> FrequencyScaling:
    del around
    return Linear(factor=_factor(rope, "linear"), original_length=rope.whole("original_max_position_embeddings"))


def _dynamic(rope: Fields, around: Surroundings) -> FrequencyScaling:
    stated = _original_length(rope, around)
    if stated is not None and around.max_length is not None and stated != around.max_length:
        raise ConfigError(
            f"The scaling 'dynamic' in {rope.where} has original_max_position_embeddings {stated}, but transformers "
            f"takes the original length from max_position_embeddings, which is {around.max_length}. "
            "Set max_position_embeddings to the length trained before the extension."
        )
    return DynamicNTK(original_length=around.max_length or stated, factor=_factor(rope, "dynamic"), length_step=1)


def _original_length(rope: Fields, around: Surroundings) -> int | None:
    inside = rope.whole("original_max_position_embeddings")
    agreed(
        inside,
        around.original_length,
        f"original_max_position_embeddings is {inside} in {rope.where} but {around.original_length} next to it. "
        "transformers takes the second, other engines the first; make them equal.",
    )
    return around.original_length or inside


def _extension(rope: Fields, around: Surroundings, kind: str, original: int | None) -> dict[str, Any]:
    """Return original length and factor; a factor that is left out is that of the two lengths."""
    factor, declared = rope.number("factor"), around.max_length
    if factor is None:
        rope.need(declared, "factor", f"the scaling '{kind}' needs it, and max_position_embeddings is missing as well")
        return {"original_length": original, "target_length": declared}
    if original is not None and declared is not None and factor > 1:
        _compare(rope.where, kind, factor, original, declared, around)
    return {"original_length": original, "factor": factor}


def _compare(where: str, kind: str, factor: float, original: int, declared: int, around: Surroundings) -> None:
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


def _yarn(rope: Fields, around: Surroundings) -> FrequencyScaling:
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


def _longrope(rope: Fields, around: Surroundings) -> FrequencyScaling:
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


def _llama3(rope: Fields, around: Surroundings) -> FrequencyScaling:
    original = _original_length(rope, around)
    if original is None:
        raise _silent_original(rope, around, "llama3", "wavelengths would be compared with the extended length")
    why = "the scaling 'llama3' compares wavelengths by it"
    return Llama3(
        **_extension(rope, around, "llama3", original),
        low_frequency_factor=rope.need(rope.number("low_freq_factor"), "low_freq_factor", why),
        high_frequency_factor=rope.need(rope.number("high_freq_factor"), "high_freq_factor", why),
    )


def _silent_original(rope: Fields, around: Surroundings, kind: str, effect: str) -> ConfigError:
    assumed = "" if around.max_length is None else f" ({around.max_length})"
    return ConfigError(
        f"original_max_position_embeddings is missing in {rope.where}. transformers silently takes "
        f"max_position_embeddings{assumed} for the scaling '{kind}': {effect}. "
        "State the length that the model was trained for before the extension."
    )


def _proportional(rope: Fields, around: Surroundings) -> FrequencyScaling:
    fraction = 1.0 if around.rotary_fraction is None else around.rotary_fraction
    return Proportional(rotary_fraction=fraction, factor=rope.number("factor") or 1.0)


_READERS: dict[str, Callable[[Fields, Surroundings], FrequencyScaling]] = {
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
