"""Clocks: positions read from decimal wheels, from binary digits and from the hands of the sinusoids."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.figures.drawing import Axes, Figure, new_figure, write
from locant.figures.numbers import digits_of, hands
from locant.figures.palette import BLUE, FAINT, INK, ON_DARK, ON_LIGHT, PAPER, VERMILION
from locant.figures.registry import register_figure

_GAP, _RADIUS = 1.2, 0.4
_TINT = "#f9d3b4"


def numbers(*, d_model: int = 8, length: int = 13, base: float = 10000.0) -> dict[str, Any]:
    """Return positions 0 to ``length - 1`` in decimal digits, in bits and as sine and cosine of every pair."""
    positions, last = np.arange(length), length - 1
    sine, cosine, wavelengths = hands(length, d_model=d_model, base=base)
    digits, bits = digits_of(positions, 10, len(str(last))), digits_of(positions, 2, last.bit_length())
    wheels = {"positions": positions, "digits": digits, "bits": bits}
    return {**wheels, "sine": sine, "cosine": cosine, "wavelengths": wavelengths}


def draw(positions: Any, digits: Any, bits: Any, sine: Any, cosine: Any, wavelengths: Any) -> Figure:
    """Draw a row a position: all three read from the slowest wheel at the left to the fastest at the right."""
    from matplotlib.patches import Rectangle

    wide = [max(digits.shape[1], 2), max(bits.shape[1], 2), max(sine.shape[1], 3)]
    starts = np.cumsum([0.0, wide[0] + _GAP, wide[1] + _GAP])
    width, height = float(starts[2]) + wide[2] + 1.2, len(positions) + 1.7
    figure = new_figure(0.62 * width, 0.62 * height)
    axes = figure.subplots()
    axes.set(xlim=(-1.4, width - 1.4), ylim=(len(positions) - 0.4, -2.1), aspect="equal")
    axes.set_axis_off()
    for row, position in enumerate(positions):
        write(axes, -0.7, row, f"{position}", 10, ha="right")
    write(axes, -0.7, -0.75, "position", 9, ha="right")
    for start, wheels in ((starts[0], digits), (starts[1], bits)):
        for (row, column), digit in np.ndenumerate(wheels):
            # A decimal digit is tinted where it has changed since the row above, a bit is dark where it is 1.
            fill, letters = PAPER, INK
            if wheels is bits and digit:
                fill, letters = BLUE, ON_DARK
            elif wheels is digits and row and wheels[row - 1, column] != digit:
                fill, letters = _TINT, ON_LIGHT
            corner = (start + column - 0.42, row - 0.42)
            axes.add_patch(Rectangle(corner, 0.84, 0.84, facecolor=fill, edgecolor=FAINT, linewidth=0.8))
            write(axes, start + column, row, f"{digit}", 10, color=letters)
    clock_hands(axes, sine[:, ::-1], cosine[:, ::-1], starts[2])
    for start, name, unit, head in (
        (starts[0], "decimal", "place value", [f"{10**place:,}" for place in range(digits.shape[1])]),
        (starts[1], "binary", "place value", [f"{2**place:,}" for place in range(bits.shape[1])]),
        (starts[2], "clock hands", "tokens per turn", [f"{w:,.0f}" if w > 100 else f"{w:.3g}" for w in wavelengths]),
    ):
        middle = start + (len(head) - 1) / 2
        write(axes, middle, -1.65, name, 11, fontweight="bold", color=INK)
        write(axes, middle, -1.2, unit, 8)
        for column, text in enumerate(reversed(head)):
            write(axes, start + column, -0.75, text, 8)
    return figure


def clock_hands(axes: Axes, sine: Any, cosine: Any, start: float = 0.0, *, color: str = VERMILION) -> None:
    """Draw a clock for each sine and cosine ``[rows, columns]``; the hand runs clockwise from 12."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    found = []
    for row, column in np.ndindex(sine.shape):
        middle = (start + column, float(row))
        axes.add_patch(Circle(middle, _RADIUS, facecolor=PAPER, edgecolor=FAINT, linewidth=0.8))
        axes.plot([middle[0]] * 2, [row - _RADIUS, row - _RADIUS + 0.08], color=FAINT, linewidth=0.8)
        # Rows grow downwards, so that up is negative.
        found.append([middle, (middle[0] + _RADIUS * sine[row, column], row - _RADIUS * cosine[row, column])])
    axes.add_collection(LineCollection(found, colors=color, linewidths=2.0, capstyle="round", zorder=3))
    axes.plot(*zip(*(middle for middle, _ in found), strict=True), "o", color=INK, markersize=2.5, zorder=4)


_LIMITS = {"length": (2, 32), "d_model": (2, 24)}
register_figure("clocks", numbers, draw, limits=_LIMITS, slides={"length": 6, "d_model": 6})
