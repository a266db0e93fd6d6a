"""Products of the factors of several settings, which llama.cpp computes and no scaling has: LongRoPE with equal lists.

Source: ``llama_context::llama_context``, and ``rope_yarn`` in ggml: factors of tensors divide every angle before a
scale multiplies it, ``yarn_ext_factor`` may mix YaRN with interpolation in any proportion, and ``rope_attn_factor``
multiplies cosine and sine whatever the type of the scaling is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

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
        base: Base of the unscaled frequencies; up to 1 the ramp has no two corners in their order.
    """
    interpolated = 1 / (scaling.stretch or 1.0)
    if base > 1:
        ratios = [1 / divisor for divisor in gguf_factors(scaling, rotary_dim, base)]
    else:
        ratios = [interpolated + kept * (1 - interpolated) for kept in _ramp(scaling, rotary_dim, base)]
    return tuple(1 / (interpolated + mix * (ratio - interpolated)) for ratio in ratios)


def _ramp(scaling: YaRN, rotary_dim: int, base: float) -> Iterator[float]:
    """Yield how far every pair keeps its frequency (``ggml_rope_yarn_corr_dims`` and ``rope_yarn_ramp``)."""
    low = max(0.0, _rounded(math.floor, _corner(scaling, scaling.beta_fast, rotary_dim, base)))
    high = min(rotary_dim - 1.0, _rounded(math.ceil, _corner(scaling, scaling.beta_slow, rotary_dim, base)))
    for pair in range(rotary_dim // 2):
        yield 1 - min(1.0, max(0.0, (pair - low) / max(0.001, high - low)))


def _corner(scaling: YaRN, turns: float, rotary_dim: int, base: float) -> float:
    """Return the pair of so many turns in the trained length, infinitely far away where all pairs turn alike."""
    logarithm = math.log(scaling.trained_length / (turns * 2 * math.pi))
    if base == 1:
        return math.copysign(math.inf, logarithm)
    return rotary_dim * logarithm / (2 * math.log(base))


def _rounded(by: Callable[[float], int], corner: float) -> float:
    return corner if math.isinf(corner) else float(by(corner))


def of_small_base_in_yarn(said: str) -> str:
    """Return that YaRN finds the corners of its ramp by a base up to 1.

    Args:
        said: The base, with where it stands.
    """
    return f"{said} has a logarithm that is not above 0, by which YaRN's ramp finds its corners"


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
