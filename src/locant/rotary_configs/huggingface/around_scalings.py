"""Lengths, corners and bases by which a class of transformers computes a scaling otherwise than its group says."""

from __future__ import annotations

from dataclasses import replace

from locant.errors import ConfigError
from locant.positions.scaling.contexts import RopeContext
from locant.positions.scaling.fields import Fields
from locant.positions.scaling.frequency import FrequencyScaling
from locant.positions.scaling.longrope import LongRoPE
from locant.positions.scaling.ntk_by_parts import NTKByParts
from locant.positions.scaling.out_of_range import YaRNOfAnyNumbers
from locant.positions.scaling.yarn import YaRN
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.rope_parameters import read_type
from locant.rotary_configs.spellings import LENGTHS

_EXTENDED = frozenset(["llama3", "longrope", "su", "yarn"])
"""Types for which transformers looks for an original length beside the group, also that of the class."""


def base_of_one_more(features: int, base: float, context: RopeContext) -> float:
    """Return the base by which one feature more has the frequencies of an odd number of them.

    Args:
        features: The odd number.
        base: The base of the file, with the frequencies ``base^(-2i/features)``.
        context: Where the warning goes.
    """
    context.warn(
        f"The share of a head is {features} features, an odd number: the class rotates {features + 1} of them by "
        f"frequencies for {features}, which those shown are by their base. No other engine does.",
        "State a share that is an even number of features.",
        "odd share",
    )
    return float(base ** ((features + 1) / features))


def with_ramp_of_transformers(
    scaling: FrequencyScaling, rotary_dim: int, base: float, context: RopeContext
) -> FrequencyScaling:
    """Return a scaling whose ramp keeps all pairs where it runs backwards in transformers, of which it warns then.

    Args:
        scaling: The scaling.
        rotary_dim: Features that are rotated.
        base: Base of the frequencies.
        context: Where the warning goes.
    """
    if not isinstance(scaling, NTKByParts) or isinstance(scaling, YaRNOfAnyNumbers) or rotary_dim < 2:
        return scaling
    if base == 1:
        raise ConfigError(
            "The base is 1, and YaRN divides by its logarithm, which is 0: transformers and vLLM fail. State the base "
            "that the weights were trained with; it is above 1, like 10000."
        )
    if base < 1:  # of which there is an error of its own
        return YaRNOfAnyNumbers.of(scaling) if isinstance(scaling, YaRN) else scaling
    if isinstance(scaling, YaRN) and scaling.keeps_every_pair(rotary_dim, base):
        context.warn(
            f"All pairs make more than {scaling.beta_fast:g} turns within the {scaling.trained_length} tokens before "
            "the extension, so that none has to be interpolated: the ramp of YaRN runs backwards in transformers and "
            "vLLM, which interpolate all of them, as is shown. llama.cpp keeps all.",
            "State the base and the length that the model was trained with.",
        )
        return YaRNOfAnyNumbers.of(scaling)
    kept = scaling.with_ramp_of_transformers(rotary_dim, base)
    if kept is not scaling:
        context.warn(
            f"No pair makes {scaling.beta_slow:g} turns within the {scaling.trained_length} tokens before the "
            "extension: the ramp of YaRN runs backwards in transformers and vLLM, which keep all frequencies, as is "
            "shown. llama.cpp interpolates all of them but the first.",
            "State the length that the model was trained for before the extension.",
        )
    return kept


def with_list_of_class(
    scaling: FrequencyScaling, where: str, kind: ModelType | None, context: RopeContext
) -> FrequencyScaling:
    """Return a scaling by the short list of LongRoPE alone where the class never takes the long one, with a warning.

    Args:
        scaling: The scaling.
        where: Where it is stated.
        kind: The facts of the class.
        context: Where the warning goes.
    """
    if kind is None or not kind.keeps_short_list or not isinstance(scaling, LongRoPE):
        return scaling
    if scaling.short_factors == scaling.long_factors:
        return scaling
    scales = "" if scaling.short_attention_factor is None else ", and changes the attention scale alone beyond that"
    context.warn(
        f"The class of '{kind.name}' in transformers takes short_factor of {where} for texts of any length, also "
        f"beyond {scaling.original_length} tokens{scales}, as is shown. Other engines take long_factor there, as the "
        "file means it.",
        f"Read texts beyond {scaling.original_length} tokens with another engine.",
    )
    return replace(scaling, long_factors=scaling.short_factors)


def goes_by_length(rope: Fields) -> bool:
    """Whether transformers computes a scaling with the longest text of the model.

    Args:
        rope: The group.
    """
    kind = read_type(rope)
    names = ("factor", "original_max_position_embeddings")
    return kind == "dynamic" or (kind in _EXTENDED and any(rope.values.get(name) is None for name in names))


def length_for(rope: Fields, stated: int | None, kind: ModelType | None) -> int | None:
    """Return the declared length; that of the class where the file has none and a scaling goes by it.

    Args:
        rope: The group.
        stated: The length beside it.
        kind: The facts of the class.
    """
    return length_of_class(kind) if stated is None and read_type(rope) != "default" else stated


def length_of_class(kind: ModelType | None) -> int | None:
    """Return the length in tokens that a class has where the file declares none."""
    return None if kind is None else next((kind.defaults[name] for name in LENGTHS if name in kind.defaults), None)


def original_length_for(rope: Fields, stated: int | None, kind: ModelType | None) -> int | None:
    """Return the original length beside the group; that of the class, as of Phi-3, where the file has none.

    Args:
        rope: The group.
        stated: The length beside it.
        kind: The facts of the class.
    """
    name = "original_max_position_embeddings"
    if stated is not None or kind is None or rope.values.get(name) is not None or read_type(rope) not in _EXTENDED:
        return stated
    return kind.defaults.get(name)
