"""Products of the factors of several settings, which llama.cpp computes and no scaling has: LongRoPE with equal lists.

Source: ``llama_context::llama_context``, and ``rope_yarn`` in ggml: factors of tensors divide every angle before a
scale multiplies it, ``yarn_ext_factor`` may mix YaRN with interpolation in any proportion, and ``rope_attn_factor``
multiplies cosine and sine whatever the type of the scaling is.
"""

from __future__ import annotations

from collections.abc import Sequence

from locant.positions.scaling import FrequencyScaling, LongRoPE, YaRN
from locant.positions.scaling.forms import gguf_factors
from locant.positions.scaling.out_of_range import class_of_lists


def one_list(
    divisors: Sequence[float], length: int, attention_factor: float = 1.0, reach: int | None = None
) -> LongRoPE:
    """Return frequencies that are divided by any factors, in texts of all lengths.

    Args:
        divisors: A factor for every pair.
        length: Length in tokens that the model was trained for.
        attention_factor: What multiplies cosine and sine.
        reach: Length in tokens that it reads, where it is another.
    """
    factors = multiplied(divisors, (1.0,) * len(divisors))
    return class_of_lists(factors)(
        short_factors=factors,
        long_factors=factors,
        original_length=length,
        target_length=max(length, reach or 0),
        attention_factor=attention_factor,
    )


def mixed(scaling: YaRN, mix: float, rotary_dim: int, base: float) -> tuple[float, ...]:
    """Return by what YaRN divides every pair where its ramp counts in part, and interpolation for the rest.

    Args:
        scaling: YaRN.
        mix: ``yarn_ext_factor``: 1 for YaRN, 0 for interpolation.
        rotary_dim: Number of rotated features.
        base: Base of the unscaled frequencies.
    """
    interpolated = 1 / (scaling.stretch or 1.0)
    ratios = (1 / divisor for divisor in gguf_factors(scaling, rotary_dim, base))
    return tuple(1 / (interpolated + mix * (ratio - interpolated)) for ratio in ratios)


def of_both(
    tensors: FrequencyScaling, other: FrequencyScaling, length: int, rotary_dim: int, base: float
) -> FrequencyScaling:
    """Return the frequencies that both the tensors of a file and a scaling divide.

    Args:
        tensors: What the tensors divide by, as a scaling.
        other: The other scaling.
        length: Length in tokens that the model was trained for, where the tensors do not tell.
        rotary_dim: Number of rotated features.
        base: Base of the unscaled frequencies.
    """
    divisors = gguf_factors(other, rotary_dim, base)
    scale = tensors.attention_scale() * other.attention_scale()
    if not isinstance(tensors, LongRoPE):
        return one_list(multiplied(gguf_factors(tensors, rotary_dim, base), divisors), length, scale, other.reach)
    lists = multiplied(tensors.short_factors, divisors), multiplied(tensors.long_factors, divisors)
    return class_of_lists(*lists)(
        original_length=tensors.original_length,
        target_length=max(tensors.target_length or 0, other.reach or 0),
        short_factors=lists[0],
        long_factors=lists[1],
        attention_factor=scale,
        short_attention_factor=tensors.short_attention_factor,
        final_length=tensors.final_length,
    )


def multiplied(first: Sequence[float], second: Sequence[float]) -> tuple[float, ...]:
    """Return the factors of two lists, pair by pair."""
    return tuple(one * other for one, other in zip(first, second, strict=True))
