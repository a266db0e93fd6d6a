"""How far stored numbers may be from the exact ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Frequencies computed in float32 as exp(-i * log(base) / n) are wrong by as much as this, relatively.
FLOAT32_FREQUENCY = 4e-6


def effective_dtype(values: Tensor) -> torch.dtype:
    """Return the coarsest of bfloat16, float16 and the tensor's own dtype that holds every value."""
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(values.to(dtype).to(values.dtype), values):
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
