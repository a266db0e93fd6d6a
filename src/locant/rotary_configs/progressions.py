"""Frequencies of sinusoids and rotary positions recognised: spacing, base and scaling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from locant.positions.exact import geometric_frequencies

FLOAT32_FREQUENCY = 4e-6
"""How wrong frequencies are, relatively, that were computed in float32 as ``exp(-i * log(base) / n)``."""

COMMON_BASES = (10000.0, 500000.0, 1000000.0)
_AGREEING = 0.9  # of the pairs, before rounding is blamed; a tie may fall to either side


@dataclass(frozen=True)
class Candidate:
    """An exact explanation of measured frequencies."""

    exact: Tensor  # the frequencies that it predicts, float64 [n]
    said: dict[str, Any] = field(default_factory=dict)  # fields of Identification
    rounded_to: torch.dtype | None = None  # to which the frequencies were rounded before they were used


def rounding(dtype: torch.dtype) -> float:
    """Return the largest relative error of rounding to ``dtype``; float64 tables are often computed in float32."""
    return torch.finfo(torch.float32 if dtype == torch.float64 else dtype).eps / 2


def geometric(count: int, base: float, steps: float | None = None) -> Tensor:
    """Return ``base^(-i/steps)`` for ``count`` pairs, float64; ``steps`` is ``count`` unless given."""
    if steps is None or steps == int(steps):
        exact = geometric_frequencies(count, base, None if steps is None else int(steps))
        return torch.tensor([float(each) for each in exact], dtype=torch.float64)
    return torch.tensor([base ** (-i / steps) for i in range(count)], dtype=torch.float64)


def candidates(values: Tensor, tolerance: Tensor, *, table: bool) -> Iterator[Candidate]:
    """Yield explanations of frequencies: as they are, then as rounded to bfloat16 or float16.

    Args:
        values: Measured frequencies in radians a token, float64 ``[n]``.
        tolerance: How far each may be from the exact one.
        table: Whether they come from a sinusoid table, where a base of 1e8 is a double exponent rather than a choice.
    """
    for dtype in (None, torch.bfloat16, torch.float16):
        step = 0.0 if dtype is None else torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps / 2
        loose = tolerance if dtype is None else tolerance + rounding(dtype) * values + step
        found = _unscaled(values, loose, table=table) or _linear(values, loose)
        if found is None:
            continue
        if dtype is not None:
            agree = (found.exact.to(dtype).double() - values).abs() <= tolerance
            if float(agree.double().mean()) < _AGREEING:
                continue
            name = str(dtype).removeprefix("torch.")
            mistake = f"the frequencies are rounded to {name}, which turns far positions by wrong angles"
            mistakes = (*found.said.get("mistakes", ()), mistake)
            found = Candidate(found.exact, found.said | {"mistakes": mistakes}, dtype)
        yield found


def _fits(exact: Tensor, values: Tensor, tolerance: Tensor) -> bool:
    return bool(((exact - values).abs() <= tolerance).all())


def _rounded(value: float, accept: Callable[[float], bool], digits: int = 3) -> float | None:
    """Return the roundest number near ``value`` that is accepted, of at most ``digits`` digits, or ``None``."""
    return next((each for n in range(digits) if accept(each := float(f"{value:.{n}e}"))), None)


def _slope_through_one(values: Tensor, tolerance: Tensor) -> float:
    """Return the fall of ``log(values)`` a pair, through 1 at pair 0, weighing pairs by their precision."""
    index = torch.arange(len(values), dtype=torch.float64)
    weight = (values / tolerance) ** 2
    return -float((weight * index * values.log()).sum() / (weight * index**2).sum())


def _unscaled(values: Tensor, tolerance: Tensor, *, table: bool) -> Candidate | None:
    """Explain a progression from 1 on."""
    if not bool((values > 0).all()):
        return None
    count, slope = len(values), _slope_through_one(values, tolerance)
    index = torch.arange(count, dtype=torch.float64)
    if slope <= 0 or not _fits(torch.exp(-slope * index), values, tolerance):
        return None
    steps = {"2i/d": count, "i/(d/2-1)": max(count - 1, 1), "4i/d": count / 2}
    bases = {}
    for exponent, step in steps.items():
        fits = lambda base, step=step: _fits(geometric(count, base, step), values, tolerance)  # noqa: E731
        if (base := _rounded(math.exp(slope * step), fits)) is not None:
            bases[exponent] = base
    usual = [each for each in bases if bases[each] == 10000.0 and (table or each != "4i/d")]
    for exponent in [*usual, *(each for each in bases if each == "2i/d" or (each != "4i/d" and table))]:
        base, said = bases[exponent], {"exponent": exponent, "base": bases[exponent]}
        if exponent == "4i/d":
            said["mistakes"] = ("double exponent: the base is raised to 2*i/d although i steps by 2 already",)
            said["notes"] = (f"a base of {base**2:.6g} with the right exponent gives the same numbers",)
        elif base == 1000.0:
            said["mistakes"] = ("the base is 1000 instead of the paper's 10000 (unless it is meant)",)
        return Candidate(geometric(count, base, steps[exponent]), said)
    estimate = math.exp(slope * count)
    return Candidate(geometric(count, estimate), {"base": estimate, "notes": ("the base is an estimate",)})


def _linear(values: Tensor, tolerance: Tensor) -> Candidate | None:
    """Explain a progression of which all frequencies are divided by one factor."""
    count, index = len(values), torch.arange(len(values), dtype=torch.float64)
    if count < 3 or not bool((values > 0).all()):
        return None
    weight = (values / tolerance) ** 2
    mean_index, mean_log = (float((weight * x).sum() / weight.sum()) for x in (index, values.log()))
    centred = index - mean_index
    slope = -float((weight * centred * (values.log() - mean_log)).sum() / (weight * centred**2).sum())
    scale = math.exp(mean_log + slope * mean_index)
    if slope <= 0 or not _fits(scale * torch.exp(-slope * index), values, tolerance):
        return None
    factor, base = 1 / scale, math.exp(slope * count)
    factor = _rounded(factor, lambda f: _fits(torch.exp(-slope * index) / f, values, tolerance)) or factor
    base = _rounded(base, lambda b: _fits(geometric(count, b) / factor, values, tolerance)) or base
    return Candidate(geometric(count, base) / factor, {"base": base, "scaling": "linear", "factor": factor})
