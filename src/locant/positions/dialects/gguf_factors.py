"""Factors of every pair, as GGUF files hold them in the tensor ``rope_freqs.weight``.

llama.cpp divides the angle of each pair by its factor. The tensor says what a scaling does, not which it is; here the
parameters are found again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Llama3, Proportional, Unscaled

STANDING = 1e30
"""Factor of a pair that does not turn: its angle is below any rounding."""

_TOLERANCE = 2e-6  # the tensor is float32


def factors_of(config: RotaryConfig) -> tuple[float, ...]:
    """Return by what the scaling of a configuration divides the frequency of every pair."""
    assert config.rotary_dim is not None
    plain = Unscaled().frequencies(config.rotary_dim, config.base)
    return tuple(
        float(whole / scaled) if scaled else STANDING for whole, scaled in zip(plain, config.frequencies(), strict=True)
    )


def scaling_of(factors: Sequence[float], rotary_dim: int, base: float) -> FrequencyScaling:
    """Return the scaling that divides frequencies by these factors.

    Raises:
        ConfigError: There is no factor for every pair, or no scaling that GGUF files hold in this tensor has them.
    """
    if len(factors) != rotary_dim // 2:
        raise ConfigError(
            f"rope_freqs.weight holds {len(factors)} factors, but {rotary_dim} rotated features are "
            f"{rotary_dim // 2} pairs."
        )
    plain = [float(frequency) for frequency in Unscaled().frequencies(rotary_dim, base)]
    for candidate in (_proportional(factors), _llama3(factors, plain)):
        if candidate is None:
            continue
        found = factors_of(RotaryConfig(head_dim=rotary_dim, base=base, scaling=candidate))
        if all(math.isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(found, factors, strict=True)):
            return candidate
    raise ConfigError(
        "The factors in rope_freqs.weight are neither those of Llama 3's scaling nor those of 'proportional' for "
        f"{rotary_dim} features and base {base:g}; check freq_base and dimension_count."
    )


def _proportional(factors: Sequence[float]) -> FrequencyScaling | None:
    """Return the scaling that turns the first pairs alike and not the others, if the factors look like one."""
    turning = sum(factor < math.sqrt(STANDING) for factor in factors)
    factor = factors[0] if turning else 1.0
    if factor < 1 or max(factors[:turning], default=factor) != min(factors[:turning], default=factor):
        return None
    if turning == len(factors) and factor == 1:
        return Unscaled()
    return Proportional(rotary_fraction=turning / len(factors), factor=factor)


def _llama3(factors: Sequence[float], plain: Sequence[float]) -> FrequencyScaling | None:
    """Return the scaling whose blend meets two of the blended pairs, if there are two.

    The blend is linear in the frequency: ``share = (L * f / 2 pi - low) / (high - low)``. Multiplying ``L``, ``low``
    and ``high`` by the same number changes nothing, so ``low`` is 1 wherever that makes ``L`` a whole number.
    """
    largest = max(factors)
    blended = [index for index, factor in enumerate(factors) if 1 + 1e-5 < factor < largest * (1 - 1e-5)]
    if len(blended) < 2 or largest >= STANDING:
        return None
    turns = [plain[index] / (2 * math.pi) for index in (blended[0], blended[-1])]
    shares = [(1 / factors[index] - 1 / largest) / (1 - 1 / largest) for index in (blended[0], blended[-1])]
    slope = (shares[0] - shares[1]) / (turns[0] - turns[1])
    offset = shares[0] - slope * turns[0]
    if slope <= 0 or offset >= 0:
        return None
    high = 1 - 1 / offset
    length = slope * (high - 1)
    whole = max(round(length), 1)
    low = whole / length
    if abs(low - 1) < 1e-4:
        low = 1.0
    return Llama3(
        original_length=whole, factor=largest, low_frequency_factor=low, high_frequency_factor=round(high * low, 3)
    )
