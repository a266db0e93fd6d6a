"""Decimal arithmetic for frequencies.

An angle is a position times a frequency, and so is its error: at position 2^31 a frequency rounded to float64 leaves
up to 1e-7 radians, one rounded to float32 up to 64. With 50 digits the only rounding left is that of the angle.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from functools import lru_cache

EXACT = Context(prec=50)
"""Context of every computation here: the caller's own decimal context has no say in it."""

TWO_PI = Decimal("6.2831853071795864769252867665590057683943387987502116419498891846156328")


@lru_cache(maxsize=256)
def geometric_frequencies(count: int, base: float | Decimal, steps: int | None = None) -> tuple[Decimal, ...]:
    """Return ``base^(-i / steps)`` for ``i = 0 .. count - 1``, in radians a token.

    With ``steps = count = d/2`` these are the frequencies of Vaswani et al. 2017, section 3.5, and of Su et al. 2021,
    "RoFormer", section 3.2.2.

    Args:
        count: Number of frequencies.
        base: Base of the progression, often called theta, above 0.
        steps: Number of steps in which the progression falls by the factor ``base``; ``count`` when ``None``.
    """
    with localcontext(EXACT):
        ratio = (-Decimal(base).ln() / (count if steps is None else steps)).exp()
        frequencies = [Decimal(1)]
        while len(frequencies) < count:
            frequencies.append(frequencies[-1] * ratio)
        return tuple(frequencies)


def cosine(angle: Decimal) -> Decimal:
    """Return the cosine of an angle from 0 to pi, to at least 45 digits."""
    with localcontext(EXACT):
        square, term, total = angle * angle, Decimal(1), Decimal(1)
        for step in range(2, 100, 2):  # the Taylor series: pi^98 / 98! is below 1e-105
            term *= -square / (step * (step - 1))
            total += term
        return total
