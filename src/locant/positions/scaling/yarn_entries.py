"""Corners of YaRN's ramp and its attention scales, as transformers and vLLM take them from their entries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.contexts import RopeContext, VllmContext
from locant.positions.scaling.fields import Fields, in_json


def stated_scales(rope: Fields, context: RopeContext, factor: float) -> dict[str, Any]:
    """Return ``attention_factor``, ``mscale`` and ``mscale_all_dim`` of a group, as transformers heeds them.

    Args:
        rope: The group.
        context: What stands around it.
        factor: The factor of the scaling.
    """
    mscale, mscale_all_dim = rope.number("mscale"), rope.number("mscale_all_dim")
    weight_of_scores = mscale_all_dim or None  # attention multiplies scores by it whether there is an mscale or not
    if bool(mscale) != bool(mscale_all_dim):
        theirs = mscale_of(factor, 1.0 if mscale is None else mscale) / mscale_of(factor, mscale_all_dim or 0.0)
        taken = rope.number("attention_factor") or mscale_of(factor)
        if not math.isclose(theirs, taken, rel_tol=1e-6):
            context.warn(
                f"mscale is {_or_missing(mscale)} and mscale_all_dim {_or_missing(mscale_all_dim)} in {rope.where}: "
                f"for cosine and sine transformers takes neither without the other, and scales them by {taken:.6g}; "
                f"DeepSeek's own code scales them by {theirs:.6g}.",
                "State both, or attention_factor.",
            )
        elif rope.number("attention_factor") is None:
            stated, other = ("mscale", "mscale_all_dim") if mscale else ("mscale_all_dim", "mscale")
            lacking = f"without {other}" if mscale is None or mscale_all_dim is None else f"beside {other} 0"
            context.note(
                f"{stated} is {mscale or mscale_all_dim:g} in {rope.where} {lacking}, and so without effect in "
                "transformers: the attention scale is YaRN's usual one.",
                f"Leave {stated} out, or state both.",
            )
        mscale = mscale_all_dim = None
    if mscale == mscale_all_dim == 0:
        usual = 0.1 * math.log(max(rope.number("factor") or 1.0, 1.0)) + 1
        context.warn(
            f"mscale and mscale_all_dim in {rope.where} are both 0, which transformers takes for absent: the "
            f"attention scale is {usual:.6g}. By DeepSeek's own code it would be 1.",
            "State attention_factor, or leave both out.",
        )
    attention_factor = rope.number("attention_factor")
    if weight_of_scores is not None and context.scales_scores:
        note_on_scores(context, weight_of_scores, factor)
    if attention_factor is not None and mscale and mscale_all_dim:
        context.warn(
            f"{rope.where} has attention_factor {attention_factor:g} as well as mscale {mscale:g}: transformers "
            "takes attention_factor, and passes over mscale and mscale_all_dim; DeepSeek's own code does not.",
            "Leave out what is not meant.",
        )
        mscale = mscale_all_dim = None
    if attention_factor is not None and attention_factor <= 0 and context.is_of_transformers:
        said = f"attention_factor in {rope.where} is {attention_factor:g}, which multiplies cosine and sine"
        remedy = f"Leave it out for the usual scale, {mscale_of(factor):.6g}, or state the one of the training."
        if attention_factor == 0:
            raise ConfigError(f"{said}: rotated features add nothing to scores. {remedy}")
        context.wrong(f"{said}, as is shown: scores go by its square, so that the sign changes none.", remedy)
    return {"attention_factor": attention_factor, "mscale": mscale or None, "mscale_all_dim": mscale_all_dim or None}


def note_on_scores(context: RopeContext, weight: float, factor: float) -> None:
    """Tell that models multiply scores by what follows from ``mscale_all_dim``, if it is not 1.

    Args:
        context: Where the note goes.
        weight: ``mscale_all_dim``.
        factor: The factor of the scaling.
    """
    if factor > 1:
        context.note(
            f"Models of DeepSeek's family also multiply all scores by {mscale_of(factor, weight) ** 2:.6g}, the square "
            "of 0.1 * mscale_all_dim * ln(factor) + 1; a rotary configuration does not hold that.",
            "Scale the scores in the attention, if the model is one of them.",
        )


def _or_missing(value: float | None) -> str:
    return "missing" if value is None else f"{value:g}"


def stated_corners(rope: Fields, context: RopeContext) -> tuple[float, float]:
    """Return ``beta_fast`` and ``beta_slow`` of a group, or what transformers takes for them.

    Args:
        rope: The group.
        context: What stands around it.
    """
    for name, usual in (("beta_fast", 32), ("beta_slow", 1)):
        if rope.number(name) == 0:
            context.warn(
                f"{name} in {rope.where} is 0, which transformers takes for absent, and reads as {usual}.",
                f"Write {usual}, or what is meant.",
            )
    fast, slow = rope.number("beta_fast") or 32.0, rope.number("beta_slow") or 1.0
    if slow > fast and context.is_of_transformers:
        context.wrong(
            f"beta_slow {slow:g} in {rope.where} is above beta_fast {fast:g}: transformers warns of it, and computes "
            "the ramp backwards, as is shown: pairs of many turns are interpolated, and those of few kept.",
            "Exchange them if they are swapped; beta_fast 32 and beta_slow 1 are common.",
        )
    return fast, slow


def stated_truncate(rope: Fields, context: RopeContext) -> bool:
    """Return whether the corners are rounded to whole pairs; classes of transformers take any value as Python does.

    Args:
        rope: The group.
        context: What stands around it.
    """
    value = rope.get("truncate")
    if not context.is_of_transformers or not isinstance(value, str | Sequence | Mapping):
        return rope.truth("truncate", True)
    context.wrong(
        f"truncate in {rope.where} is {in_json(value)}, neither true nor false: transformers takes it for "
        f"{in_json(bool(value))}, as is shown.",
        "State true or false, without quotation marks.",
    )
    return bool(value)


def entries_of_vllm(rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
    """Return the entries of which vLLM computes the attention scale, those that it passes over left out.

    Release 0.33 (``YaRNScalingRotaryEmbedding``, ``MRotaryEmbedding``) takes ``attention_factor``, else ``mscale``
    and ``mscale_all_dim``, else the paper's scale, as transformers does; releases up to 0.25 the paper's times
    ``attn_factor``. Classes with latent attention (``DeepseekScalingRotaryEmbedding``) take the quotient of
    DeepSeek's code alone, for which a missing ``mscale`` is 1 and a missing ``mscale_all_dim`` 0.

    Args:
        rope: The group.
        context: What stands around it.
    """
    entries = Fields(rope, context.engine)
    factor = entries.needed_factor("yarn")
    if factor <= 0:
        raise ConfigError(f"vLLM tabulates angles for factor {factor:g} times the length, and fails.")
    original = entries.whole("original_max_position_embeddings") or context.max_length
    if factor < 1 and original is not None:
        context.warn(
            f"factor {factor:g} of 'yarn': vLLM tabulates angles for {int(original * factor)} tokens alone, and "
            "fails beyond.",
            "State the factor by which the model reads longer texts.",
        )
    for name, idle in _PASSED_OVER_BY_VLLM.items():
        if entries.get(name) not in (None, idle):
            context.warn(
                f"{name} {rope[name]!r:.20} means nothing to vLLM since release 0.33; those up to 0.25 heeded it.",
                "State attention_factor, the attention scale itself, which transformers takes as well.",
            )
    kept = {key: value for key, value in rope.items() if key not in _PASSED_OVER_BY_VLLM}
    mscale, of_all = entries.number("mscale"), entries.number("mscale_all_dim")
    attention = entries.number("attention_factor")
    plain = mscale_of(factor, mscale) / mscale_of(factor, of_all) if mscale and of_all else mscale_of(factor)
    stated = plain if attention is None else attention
    if not context.is_latent:
        if not math.isclose(stated, mscale_of(factor), rel_tol=1e-6):
            context.note(
                f"vLLM: attention scale {stated:.6g}, as transformers. Its releases up to 0.25, which ignore "
                f"attention_factor and mscale: {mscale_of(factor):.6g}.",
                f"For these, state attn_factor {stated / mscale_of(factor):.6g} as well in --hf-overrides.",
            )
        return kept
    if kept.pop("truncate", True) is False:
        context.warn(
            "transformers: truncate false. vLLM's classes with latent attention pass over it, and round the "
            "corners of YaRN's ramp to whole pairs.",
            "Serve the model with an engine that heeds it.",
        )
    served = mscale_of(factor, 1.0 if mscale is None else mscale) / mscale_of(factor, of_all or 0.0)
    if not math.isclose(stated, served, rel_tol=1e-6):
        context.warn(
            f"transformers: attention scale {stated:.6g}. vLLM's classes with latent attention, which ignore "
            f"attention_factor: {served:.6g}.",
            "State mscale and mscale_all_dim in its place, of which both compute the same.",
        )
    kept.pop("attention_factor", None)
    if mscale and of_all:
        return kept
    kept = {key: value for key, value in kept.items() if key not in ("mscale", "mscale_all_dim")}
    return kept if math.isclose(served, mscale_of(factor), rel_tol=1e-9) else kept | {"attention_factor": served}


def mscale_of(factor: float, weight: float = 1.0) -> float:
    """Return the attention scale of YaRN's paper, of which DeepSeek's code weights the logarithm."""
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


_PASSED_OVER_BY_VLLM = {"attn_factor": 1, "extrapolation_factor": 1, "apply_yarn_scaling": True}
"""Entries that vLLM heeded up to release 0.25, with the values by which they changed nothing."""
