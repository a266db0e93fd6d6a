"""The numbers against statements about position codes that many texts repeat."""

from __future__ import annotations

import math

import numpy as np

from locant.app.gallery.codes import product_matrix, wavelengths_of
from locant.figures import Curve, Refutation

_TRAINED = 512  # tokens


def refutations(*, d_model: int = 64) -> list[Refutation]:
    """Return four statements and the numbers that refute them, for sinusoidal codes of a width.

    Raises:
        ConfigError: The width is odd.
    """
    return [_double_exponent(d_model), _growing_angle(d_model), _higher_is_faster(d_model), _wider_is_longer()]


def _double_exponent(width: int) -> Refutation:
    features = np.arange(0, width, 2, dtype=float)
    right = wavelengths_of(width)
    wrong = 2 * math.pi * 10000 ** (2 * features / width)
    turned = [int((wavelengths <= _TRAINED).sum()) for wavelengths in (right, wrong)]
    return Refutation(
        claim="for i in range(0, d, 2): p / 10000 ** (2 * i / d)",
        finding=f"i is 2i already: waves reach {wrong[-1]:.1e} tokens instead of {right[-1]:,.0f}, and only\n"
        f"{turned[1]} pairs instead of {turned[0]} of {width // 2} make a turn within {_TRAINED} tokens",
        curves=[
            Curve("right: 10000 ** (i / d)", features, right),
            Curve("doubled: 10000 ** (2 * i / d)", features, wrong),
        ],
        axes=("feature i = 0, 2, 4 …", "tokens of a full turn"),
        logarithmic="y",
    )


def _growing_angle(width: int) -> Refutation:
    products = product_matrix(d_model=width, length=101, base=10000.0)
    distances = np.arange(101.0)
    angles = np.degrees(np.arccos(np.clip(products.matrix[0], -1, 1)))
    turn = products.first_rise
    assert turn is not None
    return Refutation(
        claim="The angle always grows with distance",
        finding=f"d = {width}: it shrinks from distance {turn - 1} ({angles[turn - 1]:.1f}°) to {turn} "
        f"({angles[turn]:.1f}°);\nof 100 steps outwards {int((np.diff(angles) < 0).sum())} make it smaller",
        curves=[Curve("angle", distances, angles, marked=turn)],
        axes=("distance in tokens", "angle between PE(0) and PE(k), degrees"),
    )


def _higher_is_faster(width: int) -> Refutation:
    wavelengths = wavelengths_of(width)
    pairs = np.arange(width / 2)
    return Refutation(
        claim="The higher i, the higher the frequency",
        finding=f"pair 0 turns once in {wavelengths[0]:.2f} tokens, pair {width // 2 - 1} once in "
        f"{wavelengths[-1]:,.0f}:\nthe higher i, the lower the frequency and the longer the wave",
        curves=[Curve("frequency", pairs, 1 / wavelengths)],
        axes=("pair i", "turns a token"),
        logarithmic="y",
    )


def _wider_is_longer() -> Refutation:
    widths = [32, 64, 128, 256, 512, 1024]
    waves = {
        base: np.array([wavelengths_of(width, base=base)[-1] for width in widths])
        for base in (10_000, 100_000, 1_000_000)
    }
    grown = 100 * (waves[10_000][-1] / waves[10_000][1] - 1)
    share = [100 * float((wavelengths_of(width) > 4096).mean()) for width in (64, 1024)]
    return Refutation(
        claim="A larger d extends the context",
        finding=f"from d = 64 to 1024 the longest wave grows by {grown:.0f} %; the share of\n"
        f"pairs slower than a turn in 4,096 tokens stays: {share[0]:.0f} % and {share[1]:.0f} %",
        curves=[
            Curve(f"base {base:,}", np.array(widths, dtype=float), longest, dotted=True)
            for base, longest in waves.items()
        ],
        axes=("width d", "longest wave in tokens"),
        logarithmic="xy",
    )
