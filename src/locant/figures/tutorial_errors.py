"""Tutorial errors: common statements, each against the numbers that refute it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locant.figures.dot_products import product_matrix
from locant.figures.drawing import BLUE, FAINT, GREEN, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.numbers import wavelengths_of
from locant.figures.registry import Caption, register_figure

_LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."))


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes:
        label: What it is.
        x: Places ``[N]``.
        y: Values ``[N]``.
        marked: Index of a point that is marked.
        dotted: Draw the points, where there are few.
    """

    label: str
    x: Numbers
    y: Numbers
    marked: int | None = None
    dotted: bool = False


@dataclass(frozen=True)
class Refutation:
    """A statement and what is computed instead.

    Attributes:
        claim: The statement.
        finding: What the numbers say, in a line or two.
        curves: The numbers, up to three.
        axes: What the two axes are.
        logarithmic: Which axes are, of ``x`` and ``y``.
    """

    claim: str
    finding: str
    curves: Sequence[Curve]
    axes: tuple[str, str]
    logarithmic: str = ""


_TRAINED = 512  # tokens


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
        axes=("pair i", "turns per token"),
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


def tutorial_errors_numbers(*, d_model: int = 64) -> dict[str, Any]:
    """Return four statements and the numbers that refute them, for sinusoidal codes of a width.

    Raises:
        ConfigError: The width is odd.
    """
    return {
        "refutations": [
            _double_exponent(d_model),
            _growing_angle(d_model),
            _higher_is_faster(d_model),
            _wider_is_longer(),
        ]
    }


def tutorial_errors(refutations: Sequence[Refutation]) -> FigureData:
    """Draw statements and what refutes them, two panels in a row.

    Args:
        refutations: One panel each.

    Returns:
        The figure, 11 inches wide, and ``CLAIM: LABEL`` of every curve, ``[2, N]``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {}
    with drawing():
        rows = -(-len(refutations) // 2)
        figure = new_figure(11, 4.1 * rows)
        panels = list(figure.subplots(rows, 2, squeeze=False).flat)
        for axes, refutation in zip(panels, refutations, strict=False):
            for curve, (colour, style) in zip(refutation.curves, _LINES, strict=False):
                marker = "o" if curve.dotted else None
                axes.plot(curve.x, curve.y, style, marker=marker, markersize=4, color=colour, label=curve.label)
                if curve.marked is not None:
                    axes.plot(
                        curve.x[curve.marked],
                        curve.y[curve.marked],
                        "o",
                        color=INK,
                        markersize=8,
                        markeredgecolor="white",
                        zorder=4,
                    )
                data[f"{refutation.claim}: {curve.label}"] = np.stack((curve.x, curve.y))
            axes.set_title(f"“{refutation.claim}”", fontsize=11.5, pad=36)
            axes.annotate(
                refutation.finding,
                (0, 1),
                (0, 6),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=9.5,
                color=FAINT,
                linespacing=1.3,
            )
            axes.set_xlabel(refutation.axes[0])
            axes.set_ylabel(refutation.axes[1])
            if "x" in refutation.logarithmic:
                axes.set_xscale("log", base=2)
                axes.set_xticks(refutation.curves[0].x, [f"{x:g}" for x in refutation.curves[0].x])
                axes.minorticks_off()
            if "y" in refutation.logarithmic:
                axes.set_yscale("log")
            if len(refutation.curves) > 1:
                low, high = axes.get_ylim()
                axes.set_ylim(low, 15 * high if "y" in refutation.logarithmic else high + 0.3 * (high - low))
                axes.legend(loc="upper left", fontsize=9)
        for axes in panels[len(refutations) :]:
            axes.set_axis_off()
        settle(figure)
    return FigureData(figure, data)


register_figure(
    "tutorial-errors",
    numbers=tutorial_errors_numbers,
    draw=tutorial_errors,
    caption=Caption(
        "Four errors that many tutorials repeat",
        "Each panel holds a sentence or a line of code that is often met against the numbers. None of them stops a "
        "program from running, and so they are copied from text to text.",
        "ω<sub>i</sub>&nbsp;= 10000<sup>&minus;2i/d</sup>, &nbsp; i&nbsp;= 0 … d/2&minus;1 &nbsp;&nbsp; "
        "λ<sub>d/2&minus;1</sub>&nbsp;= 2π&thinsp;·&thinsp;10000<sup>1&minus;2/d</sup>&nbsp;&lt; "
        "2π&thinsp;·&thinsp;10000",
        (
            "The double exponent: a loop over the features 0, 2, 4 … already counts 2i. Doubling it again makes the "
            "waves so long that half of the features hardly move within any text.",
            "Distance and angle: near positions have near codes, but only up to a point. Beyond it the angle between "
            "two codes goes up and down, so that a farther token can look nearer.",
            "The order of the frequencies: the first pair is the fastest. The exponent grows with i, and it divides.",
            "Width and context: more features put more waves between the same two ends. How far the longest one "
            "reaches is set by the base, and how long a text can be read is set by the lengths seen in training.",
        ),
    ),
    limits={"d_model": (2, 1024)},
)
