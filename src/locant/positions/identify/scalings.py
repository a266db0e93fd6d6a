"""Recognise frequencies that a scaling has changed pair by pair: Llama 3, YaRN and LongRoPE."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from locant.positions.identify.frequencies import Candidate, fits, geometric, slope_through_one
from locant.positions.identify.rounding import rounded
from locant.positions.scaling import FrequencyScaling, Llama3, YaRN

_ORIGINAL_LENGTHS = [1024 << power for power in range(9)]

# Searched LongRoPE factors never fall from pair to pair; a few of the published ones begin a little below 1.
_SMALLEST_FACTOR = 0.99
_FEWEST_PAIRS = 8


def recognise_blend(values: Tensor, tolerance: Tensor) -> Candidate | None:
    """Explain frequencies of which the slow pairs are slowed, by Llama 3's or YaRN's formula, or return ``None``.

    Args:
        values: Measured frequencies in radians per token, float64 ``[n]``.
        tolerance: How far each may be from the exact one.
    """
    if len(values) < _FEWEST_PAIRS or not bool((values > 0).all()):
        return None
    for base in _bases_of_fast_pairs(values, tolerance):
        candidate = _blended(values, tolerance, base)
        if candidate is not None:
            return candidate
    return None


def _bases_of_fast_pairs(values: Tensor, tolerance: Tensor) -> Iterator[float]:
    """Yield round bases that explain the leading pairs, which these scalings leave alone."""
    for pairs in range(len(values), 2, -1):
        slope = slope_through_one(values[:pairs], tolerance[:pairs])
        fast = torch.exp(-slope * torch.arange(pairs, dtype=torch.float64))
        if slope > 0 and fits(fast, values[:pairs], tolerance[:pairs]):
            break
    else:
        return
    estimate = math.exp(slope * len(values))
    seen: set[float] = set()
    for digits in range(3):
        base = float(f"{estimate:.{digits}e}")
        if base > 1 and base not in seen:
            seen.add(base)
            if fits(geometric(len(values), base)[:pairs], values[:pairs], tolerance[:pairs]):
                yield base


def _blended(values: Tensor, tolerance: Tensor, base: float) -> Candidate | None:
    """Find the original lengths with which Llama 3's or YaRN's blend of kept and slowed pairs fits."""
    factor = _largest_factor(geometric(len(values), base) / values, tolerance / values)
    if factor is None:
        return None
    variants: dict[str, Callable[[int], FrequencyScaling]] = {
        "llama3": lambda length: Llama3(original_length=length, factor=factor),
        "yarn": lambda length: YaRN(original_length=length, factor=factor),
        "yarn without truncation": lambda length: YaRN(original_length=length, factor=factor, truncate=False),
    }
    for variant, build in variants.items():
        lengths = [n for n in _ORIGINAL_LENGTHS if fits(_frequencies(build(n), values, base), values, tolerance)]
        if lengths:
            name, _, detail = variant.partition(" ")
            notes: tuple[str, ...] = (f"computed {detail}",) if detail else ()
            if name == "yarn":
                notes += ("NTK-by-parts has the same frequencies; YaRN scales attention besides",)
            return Candidate(
                exact=_frequencies(build(lengths[0]), values, base),
                base=base,
                scaling=name,
                factor=factor,
                original_lengths=tuple(lengths),
                notes=notes,
            )
    return None


def _largest_factor(factors: Tensor, doubt: Tensor) -> float | None:
    """Return the factor that the slowest pairs share, from the one of them that was measured best.

    Args:
        factors: By how much each pair is slowed.
        doubt: Relative uncertainty of each.
    """
    largest = (factors * (1 - doubt)).max()
    shared = torch.nonzero(factors * (1 + doubt) >= largest).flatten()
    best = int(shared[doubt[shared].argmin()])
    factor, limit = float(factors[best]), float(doubt[best])
    return rounded(factor, lambda f: f > 1 and abs(f / factor - 1) <= limit)


def _frequencies(scaling: FrequencyScaling, values: Tensor, base: float) -> Tensor:
    return torch.tensor([float(f) for f in scaling.frequencies(2 * len(values), base)], dtype=torch.float64)


def recognise_longrope(values: Tensor, tolerance: Tensor) -> Candidate | None:
    """Read the factors off, if these can be LongRoPE's over the base 10000: they never fall and begin near 1.

    That explains many vectors, so it comes last. Arguments as for :func:`recognise_blend`.
    """
    if len(values) < _FEWEST_PAIRS or not bool((values > 0).all()):
        return None
    factors = geometric(len(values), 10000.0) / values
    slack = factors * tolerance / values
    falls = factors[1:] < factors[:-1] - slack[1:] - slack[:-1]
    begins = _SMALLEST_FACTOR <= float(factors[0]) <= 2
    if bool(falls.any()) or not begins or float(factors[-1]) <= float(factors[0]) + float(slack[-1]):
        return None
    if bool((values[1:] >= values[:-1]).any()):
        return None
    shown = ", ".join(f"{factor:.4g}" for factor in (factors[0], factors[len(factors) // 2], factors[-1]))
    note = (
        f"the factors are read off for base 10000 and cannot be checked: first, middle and last {shown}; "
        "any other frequencies that fall as these do would look the same"
    )
    return Candidate(exact=values, base=10000.0, scaling="longrope", notes=(note,), estimated=True)
