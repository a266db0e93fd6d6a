"""Recognition of frequency vectors: spacing, base and scaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from locant.positions.exact import geometric_frequencies
from locant.rotary_configs.identify.result import Exponent

# Frequencies computed in float32 as exp(-i * log(base) / n) are wrong by as much as this, relatively.
FLOAT32_FREQUENCY = 4e-6


def effective_dtype(values: Tensor) -> torch.dtype:
    """Return the coarsest of bfloat16, float16 and the tensor's own dtype that holds every value.

    One number throughout, which coarse dtypes hold as well, tells nothing: it has the tensor's own.
    """
    varies = bool((values != values.flatten()[0]).any())
    for dtype in (torch.bfloat16, torch.float16):
        if values.dtype == dtype or (varies and torch.equal(values.to(dtype).to(values.dtype), values)):
            return dtype
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def rounding(dtype: torch.dtype) -> float:
    """Return the largest relative error of rounding to ``dtype``; float64 tables are often computed in float32."""
    return torch.finfo(torch.float32 if dtype == torch.float64 else dtype).eps / 2


def smallest_step(dtype: torch.dtype) -> float:
    """Return the largest absolute error of rounding a subnormal number to ``dtype``."""
    return torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps / 2


def rounded(value: float, accept: Callable[[float], bool], digits: int = 3) -> float | None:
    """Return the roundest number near ``value`` that is accepted, of at most ``digits`` digits, or ``None``."""
    for count in range(digits):
        candidate = float(f"{value:.{count}e}")
        if accept(candidate):
            return candidate
    return None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An exact explanation of measured frequencies.

    Attributes:
        exact: The frequencies it predicts, float64 ``[n]``.
        base: As in :class:`Identification`, like the attributes below.
        exponent: See there.
        scaling: See there.
        factor: See there.
        original_lengths: See there.
        mistakes: See there.
        notes: See there.
        estimated: Whether the frequencies themselves were read off, so that their own error cannot be told.
        rounded_to: Dtype to which the frequencies were rounded before they were used.
    """

    exact: Tensor
    base: float | None
    exponent: Exponent = "2i/d"
    scaling: str = "none"
    factor: float | None = None
    original_lengths: tuple[int, ...] = ()
    mistakes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    estimated: bool = False
    rounded_to: torch.dtype | None = None


def geometric(count: int, base: float, steps: float | None = None) -> Tensor:
    """Return ``base^(-i/steps)`` for ``count`` pairs, float64; ``steps`` is ``count`` unless given."""
    if steps is None or steps == int(steps):
        exact = geometric_frequencies(count, base, None if steps is None else int(steps))
        return torch.tensor([float(f) for f in exact], dtype=torch.float64)
    return torch.tensor([base ** (-i / steps) for i in range(count)], dtype=torch.float64)


def fits(exact: Tensor, values: Tensor, tolerance: Tensor) -> bool:
    """Whether every value is within its tolerance of the exact one."""
    return bool(((exact - values).abs() <= tolerance).all())


def recognise_progression(values: Tensor, tolerance: Tensor, *, table: bool) -> Candidate | None:
    """Explain frequencies by one formula for all pairs, or return ``None``.

    Args:
        values: Measured frequencies in radians per token, float64 ``[n]``.
        tolerance: How far each may be from the exact one.
        table: Whether they come from a sinusoid table, where a base of 1e8 is a double exponent rather than a choice.
    """
    return (
        _integer_division(values, tolerance)
        or _unscaled(values, tolerance, table=table)
        or _linear(values, tolerance)
        or _proportional(values, tolerance)
    )


def slope_through_one(values: Tensor, tolerance: Tensor) -> float:
    """Return the fall of ``log(values)`` per pair, through 1 at pair 0, weighing pairs by their precision."""
    index = torch.arange(len(values), dtype=torch.float64)
    weight = (values / tolerance) ** 2
    return -float((weight * index * values.log()).sum() / (weight * index**2).sum())


def _unscaled(values: Tensor, tolerance: Tensor, *, table: bool) -> Candidate | None:
    if not bool((values > 0).all()):
        return None
    count, slope = len(values), slope_through_one(values, tolerance)
    if slope <= 0 or not fits(torch.exp(-slope * torch.arange(count, dtype=torch.float64)), values, tolerance):
        return None
    choices = list(_bases(values, tolerance, slope))
    for exponent, base in choices:
        if base == 10000.0 and (table or exponent != "4i/d"):
            return _explained(count, exponent, base, table)
    for exponent, base in choices:
        if exponent == "2i/d" or (exponent == "i/(d/2-1)" and table):
            return _explained(count, exponent, base, table)
    return _base_of_no_round_number(values, tolerance, slope)


def _steps(count: int, exponent: Exponent) -> float:
    """Return in how many pairs the frequencies fall by the factor ``base``."""
    return {"2i/d": count, "i/(d/2-1)": max(count - 1, 1), "4i/d": count / 2}[exponent]


def _bases(values: Tensor, tolerance: Tensor, slope: float) -> Iterator[tuple[Exponent, float]]:
    """Yield the exponents for which a round base explains the values."""
    count = len(values)
    exponents: tuple[Exponent, ...] = ("2i/d", "i/(d/2-1)", "4i/d")
    for exponent in exponents:
        steps = _steps(count, exponent)
        base = rounded(math.exp(slope * steps), lambda b, s=steps: fits(geometric(count, b, s), values, tolerance))  # type: ignore[misc]
        if base is not None:
            yield exponent, base


def _explained(count: int, exponent: Exponent, base: float, table: bool) -> Candidate:
    candidate = Candidate(exact=geometric(count, base, _steps(count, exponent)), base=base, exponent=exponent)
    if exponent == "4i/d":
        return replace(
            candidate,
            mistakes=("double exponent: the base is raised to 2*i/d although i steps by 2 already",),
            notes=(f"a base of {base**2:.6g} with the right exponent gives the same numbers",),
        )
    if base == 1000.0:
        return replace(candidate, mistakes=("the base is 1000 instead of the paper's 10000 (unless it is meant)",))
    if exponent != "2i/d" or base == 10000.0 or table:
        return candidate
    notes = []
    if base > 10000 and count > 1:
        factor = (base / 10000) ** ((count - 1) / count)
        notes.append(f"base 10000 with NTK-aware scaling by {factor:.4g} gives the same frequencies")
    if base == 1e8:
        notes.append("base 10000 with a double exponent gives the same frequencies")
    return replace(candidate, notes=tuple(notes))


def _base_of_no_round_number(values: Tensor, tolerance: Tensor, slope: float) -> Candidate | None:
    """A base that is not round is a round one changed by NTK-aware scaling, or just that."""
    count = len(values)
    estimate = math.exp(slope * count)
    power = count / (count - 1) if count > 1 else 1.0
    for base in (10000.0, 500000.0, 1000000.0):
        if estimate <= base:
            continue
        factor = rounded(
            (estimate / base) ** (1 / power),
            lambda f, b=base: f > 1 and fits(geometric(count, b * f**power), values, tolerance),  # type: ignore[misc]
            digits=2,
        )
        if factor is not None:
            note = f"a base of {base * factor**power:.8g} without scaling gives the same frequencies"
            note += ", and so does dynamic NTK scaling for one length"
            exact = geometric(count, base * factor**power)
            return Candidate(exact=exact, base=base, scaling="ntk", factor=factor, notes=(note,))
    exact = geometric(count, estimate)
    return Candidate(exact=exact, base=estimate, notes=("the base is an estimate",), estimated=True)


def _linear(values: Tensor, tolerance: Tensor) -> Candidate | None:
    """All frequencies of a progression divided by one factor: linear scaling, or position interpolation."""
    if not bool((values > 0).all()) or len(values) < 3:
        return None
    count = len(values)
    index = torch.arange(count, dtype=torch.float64)
    weight = (values / tolerance) ** 2
    mean_index, mean_log = (float((weight * x).sum() / weight.sum()) for x in (index, values.log()))
    moment = (weight * (index - mean_index) ** 2).sum()
    slope = -float((weight * (index - mean_index) * (values.log() - mean_log)).sum() / moment)
    scale = math.exp(mean_log + slope * mean_index)
    if slope <= 0 or not fits(scale * torch.exp(-slope * index), values, tolerance):
        return None

    def factor_of(base: float) -> float:
        unscaled = geometric(count, base)
        best = float((weight * (unscaled / values).log()).sum() / weight.sum())
        whole = rounded(math.exp(best), lambda f: fits(unscaled / f, values, tolerance))
        return math.exp(best) if whole is None else whole

    estimate = math.exp(slope * count)
    base = rounded(estimate, lambda b: fits(geometric(count, b) / factor_of(b), values, tolerance)) or estimate
    factor = factor_of(base)
    return Candidate(exact=geometric(count, base) / factor, base=base, scaling="linear", factor=factor)


def _proportional(values: Tensor, tolerance: Tensor) -> Candidate | None:
    """The slowest pairs do not turn at all (Barbero et al. 2024)."""
    still = values <= tolerance
    turning = int((~still).sum())
    count = len(values)
    if not 2 <= turning < count or not bool(still[turning:].all()):
        return None
    head, limits = values[:turning], tolerance[:turning]
    slope = slope_through_one(head, limits)
    base = rounded(math.exp(slope * count), lambda b: fits(geometric(count, b)[:turning], head, limits))
    if base is None:
        return None
    exact = geometric(count, base)
    exact[turning:] = 0
    note = f"{turning} of {count} pairs turn"
    return Candidate(exact=exact, base=base, scaling="proportional", notes=(note,))


def _integer_division(values: Tensor, tolerance: Tensor) -> Candidate | None:
    """Exponents cut to whole numbers leave frequencies of 1 and 1/base only."""
    fast = int(((values - 1).abs() <= tolerance).sum())
    count = len(values)
    if (
        count < 3
        or fast < count // 2
        or not fits(torch.ones(fast, dtype=torch.float64), values[:fast], tolerance[:fast])
    ):
        return None
    exact, base = torch.ones(count, dtype=torch.float64), None
    if fast < count:
        base = rounded(1 / float(values[fast]), lambda b: fits(1 / b * exact[fast:], values[fast:], tolerance[fast:]))
        if base is None or base <= 1:
            return None
        exact[fast:] = 1 / base
    mistake = "integer division in the exponent, so that the pairs' frequencies are 1"
    mistake += " throughout" if base is None else f" or 1/{base:.6g} only"
    return Candidate(exact=exact, base=base, exponent="integer", mistakes=(mistake,))
