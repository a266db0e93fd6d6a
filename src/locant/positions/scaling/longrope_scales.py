"""The attention scales of LongRoPE: those that files state, and those that follow from lengths."""

from __future__ import annotations

import math

from locant.positions.scaling.contexts import RopeContext
from locant.positions.scaling.fields import Fields


def stated_scales(rope: Fields, context: RopeContext) -> tuple[float | None, float | None]:
    """Return the attention scales of short and of long texts that a group states, ``None`` for the formula's."""
    short, long = rope.number("short_mscale"), rope.number("long_mscale")
    stated = rope.number("attention_factor")
    if short is None and long is None:
        return stated, stated
    scales = (("short_mscale", short), ("long_mscale", long))
    names = " and ".join(f"{name} {value:g}" for name, value in scales if value is not None)
    if not context.heeds_mscale:
        context.warn(
            f"The model's class in transformers passes over {names} in {rope.where}.",
            "State attention_factor, the scale of both.",
        )
        return stated, stated
    if stated is not None and stated not in (short, long):
        context.warn(
            f"attention_factor in {rope.where} is {stated:g}; the model's code takes {names} in its place.",
            "Remove attention_factor, or make them agree.",
        )
    return (long if short is None else short), (short if long is None else long)


def scales_in_words(short: float, long: float) -> str:
    """Return the attention scales of short and of long texts in words."""
    return f"{long:.6g}" if short == long else f"{short:.6g} for short texts and {long:.6g} for long ones"


def ctranslate2_attention_scale(length: int, original_length: int) -> float:
    """Return what CTranslate2 multiplies cosine and sine by whenever a layer has both lengths."""
    ratio = length // original_length
    return usual_scale(ratio, original_length)


def usual_scale(stretch: float, original: float) -> float:
    """Return the attention scale of the paper for a text ``stretch`` times as long as those of the training."""
    return math.sqrt(1 + math.log(stretch) / math.log(original)) if stretch > 1 < original else 1.0
