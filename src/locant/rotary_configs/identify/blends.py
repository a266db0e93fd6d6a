"""Recognition of frequencies of which the slow pairs are slowed: Llama 3's and YaRN's blends, LongRoPE's lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from locant.positions.scaling import FrequencyScaling, Llama3, YaRN
from locant.rotary_configs.identify.frequencies import Candidate, fits, geometric, rounded, slope_through_one

_ORIGINAL_LENGTHS = [1024 << power for power in range(9)]
_LLAMA3_BASE = 500_000.0

# Searched LongRoPE factors never fall from pair to pair; a few of the published ones begin a little below 1.
_SMALLEST_FACTOR = 0.99
_LONGROPE_BASE = 10_000.0
_FEWEST_PAIRS = 8
# Fewer leading pairs agree with a round base by chance.
_FEWEST_FAST_PAIRS = 5


def recognise_blend(values: Tensor, tolerance: Tensor) -> Candidate | None:
    """Explain frequencies of which the slow pairs are slowed, by Llama 3's or YaRN's formula, or return ``None``.

    Args:
        values: Measured frequencies in radians per token, float64 ``[n]``.
        tolerance: How far each may be from the exact one.
    """
    if len(values) < _FEWEST_PAIRS or not bool((values > 0).all()):
        return None
    for base, _ in bases_of_fast_pairs(values, tolerance):
        factor = _largest_factor(geometric(len(values), base) / values, tolerance / values)
        if factor is None:
            continue
        candidate = _usual_blend(values, tolerance, base, factor) or _any_blend(values, tolerance, base, factor)
        if candidate is not None:
            return candidate
    return None


def bases_of_fast_pairs(values: Tensor, tolerance: Tensor) -> Iterator[tuple[float, int]]:
    """Yield round bases that explain the leading pairs, which these scalings leave alone, and how many those are.

    Arguments as for :func:`recognise_blend`.
    """
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
                yield base, pairs


def _usual_blend(values: Tensor, tolerance: Tensor, base: float, factor: float) -> Candidate | None:
    """Find the original lengths with which the blends that most models have fit."""
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


def _any_blend(values: Tensor, tolerance: Tensor, base: float, factor: float) -> Candidate | None:
    """Explain kept pairs, then blended ones, then slowed ones, by the ramp that the blended ones follow."""
    plain = geometric(len(values), base)
    span = 1 - 1 / factor
    share, doubt = (values / plain - 1 / factor) / span, tolerance / plain / span
    kept, slowed = (share - 1).abs() <= doubt, share.abs() <= doubt
    first, last = int((~kept).nonzero()[0]), int((~slowed).nonzero()[-1]) + 1
    if first == 0 or last == len(values) or not bool(kept[:first].all() and slowed[last:].all()):
        return None
    if first == last:
        return _step(plain, factor, base, first)
    index = torch.arange(len(values), dtype=torch.float64)
    for name, abscissa in (("yarn", index), ("llama3", plain)):
        line = _line(abscissa[first:last], share[first:last], doubt[first:last])
        if line is None:
            continue
        for slope, offset, said in _in_whole_pairs(*line) if name == "yarn" else _in_turns(*line):
            ramp = (slope * abscissa + offset).clamp(0, 1)
            exact = plain * (ramp + (1 - ramp) / factor)
            if fits(exact, values, tolerance):
                return Candidate(exact=exact, base=base, scaling=name, factor=factor, notes=(said,))
    return None


def _step(plain: Tensor, factor: float, base: float, first: int) -> Candidate | None:
    """Explain a step from kept pairs to slowed ones, with none between."""
    fastest, slowest = (2 * math.pi / float(plain[pair]) for pair in (first - 1, first))
    lengths = tuple(n for n in _ORIGINAL_LENGTHS if fastest <= n < slowest)
    if not lengths:
        return None
    exact = torch.where(torch.arange(len(plain)) < first, plain, plain / factor)
    names = {"llama3": "Llama 3's scaling with low_freq_factor and high_freq_factor 1 (Llama 4 Scout)"}
    names["yarn"] = "YaRN with beta_fast and beta_slow 1 (Kimi K2), which scales attention besides,"
    name, other = ("llama3", "yarn") if base == _LLAMA3_BASE else ("yarn", "llama3")
    notes = (
        f"a step between pairs {first - 1} and {first}, without a ramp",
        f"{names[other]} has the same frequencies",
    )
    return Candidate(exact=exact, base=base, scaling=name, factor=factor, original_lengths=lengths, notes=notes)


def _line(abscissa: Tensor, share: Tensor, doubt: Tensor) -> tuple[float, float] | None:
    """Return slope and offset of a line through the shares, weighing them by their precision."""
    if len(share) < 2:
        return None
    weight = 1 / doubt**2
    mean_x, mean_y = (float((weight * x).sum() / weight.sum()) for x in (abscissa, share))
    moment = float((weight * (abscissa - mean_x) ** 2).sum())
    slope = float((weight * (abscissa - mean_x) * (share - mean_y)).sum()) / moment
    return slope, mean_y - slope * mean_x


def _in_whole_pairs(slope: float, offset: float) -> Iterator[tuple[float, float, str]]:
    """Yield YaRN's ramp, which falls from pair to pair: first with corners at whole pairs."""
    if slope >= 0:
        return
    low, high = (1 - offset) / slope, -offset / slope
    said = "NTK-by-parts has the same frequencies; YaRN scales attention besides; the ramp falls from pair {} to {}"
    if round(low) < round(high):
        slope_of_whole = -1 / (round(high) - round(low))
        yield slope_of_whole, -slope_of_whole * round(high), said.format(round(low), round(high))
    yield slope, offset, f"computed without truncation; {said.format(f'{low:.4g}', f'{high:.4g}')}"


def _in_turns(slope: float, offset: float) -> Iterator[tuple[float, float, str]]:
    """Yield Llama 3's ramp, which falls with the number of turns within the original length."""
    if slope <= 0 or offset >= 0:
        return
    high = 1 - 1 / offset
    length = 2 * math.pi * slope * (high - 1)
    said = f"with low_freq_factor 1, high_freq_factor is {high:.4g} and the original length {length:.6g}"
    yield slope, offset, said


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

    That explains many vectors, so it comes last, and not where the leading pairs are those of another base, from which
    they are slowed by something else. Arguments as for :func:`recognise_blend`.
    """
    if len(values) < _FEWEST_PAIRS or not bool((values > 0).all()) or fast_pairs_of_another_base(values, tolerance):
        return None
    factors = geometric(len(values), _LONGROPE_BASE) / values
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
    return Candidate(exact=values, base=_LONGROPE_BASE, scaling="longrope", notes=(note,), estimated=True)


def fast_pairs_of_another_base(values: Tensor, tolerance: Tensor) -> tuple[float, int] | None:
    """Return the round base other than LongRoPE's 10000 that the leading pairs have, and how many they are.

    Arguments as for :func:`recognise_blend`.
    """
    if not bool((values > 0).all()):
        return None
    found = next(bases_of_fast_pairs(values, tolerance), None)
    return found if found and found[1] >= _FEWEST_FAST_PAIRS and found[0] != _LONGROPE_BASE else None
