"""Clocks: positions read from decimal wheels, from binary digits and from the hands of the sinusoids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from locant.figures.drawing import BLUE, FAINT, INK, ON_DARK, PAPER, VERMILION, new_figure
from locant.figures.numbers import digits_of, hands
from locant.figures.registry import Caption, register_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GAP, _RADIUS = 1.2, 0.4
_TINT = "#f9d3b4"


def numbers(*, d_model: int = 8, length: int = 13, base: float = 10000.0) -> dict[str, Any]:
    """Return positions 0 to ``length - 1`` in decimal digits, in bits and as sine and cosine of every pair."""
    positions, last = np.arange(length), length - 1
    sine, cosine, wavelengths = hands(length, d_model=d_model, base=base)
    digits, bits = digits_of(positions, 10, len(str(last))), digits_of(positions, 2, last.bit_length())
    return {
        "positions": positions,
        "digits": digits,
        "bits": bits,
        "sine": sine,
        "cosine": cosine,
        "wavelengths": wavelengths,
    }


def draw(positions: Any, digits: Any, bits: Any, sine: Any, cosine: Any, wavelengths: Any) -> Figure:
    """Draw a row a position: all three read from the slowest wheel at the left to the fastest at the right."""
    wide = [max(digits.shape[1], 2), max(bits.shape[1], 2), max(sine.shape[1], 3)]
    starts = np.cumsum([0.0, wide[0] + _GAP, wide[1] + _GAP])
    width, height = float(starts[2]) + wide[2] + 1.2, len(positions) + 1.7
    figure = new_figure(0.62 * width, 0.62 * height)
    axes = figure.subplots()
    axes.set(xlim=(-1.4, width - 1.4), ylim=(len(positions) - 0.4, -2.1), aspect="equal")
    axes.set_axis_off()

    def write(x: float, y: float, text: str, size: float = 8, **how: Any) -> None:
        axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": size, "color": FAINT, **how})

    for row, position in enumerate(positions):
        write(-0.7, row, f"{position}", 10, ha="right")
    write(-0.7, -0.75, "position", 9, ha="right")
    _boxes(axes, digits, starts[0], dark=False)
    _boxes(axes, bits, starts[1], dark=True)
    clock_hands(axes, sine[:, ::-1], cosine[:, ::-1], starts[2])
    for start, name, unit, head in (
        (starts[0], "decimal", "place value", [f"{10**place:,}" for place in range(digits.shape[1])]),
        (starts[1], "binary", "place value", [f"{2**place:,}" for place in range(bits.shape[1])]),
        (
            starts[2],
            "clock hands",
            "tokens per turn",
            [f"{each:,.0f}" if each > 100 else f"{each:.3g}" for each in wavelengths],
        ),
    ):
        middle = start + (len(head) - 1) / 2
        write(middle, -1.65, name, 11, fontweight="bold", color=INK)
        write(middle, -1.2, unit)
        for column, text in enumerate(reversed(head)):
            write(start + column, -0.75, text)
    return figure


def _boxes(axes: Axes, digits: Any, start: float, *, dark: bool) -> None:
    """Draw digits in boxes; tinted where they have changed since the row above, or dark where they are 1."""
    from matplotlib.patches import Rectangle

    for (row, column), digit in np.ndenumerate(digits):
        changed = row > 0 and digits[row - 1, column] != digit
        fill, letters = PAPER, INK
        if dark and digit:
            fill, letters = BLUE, ON_DARK
        elif changed and not dark:
            fill, letters = _TINT, "#20252b"
        corner = (start + column - 0.42, row - 0.42)
        axes.add_patch(Rectangle(corner, 0.84, 0.84, facecolor=fill, edgecolor=FAINT, linewidth=0.8))
        axes.text(start + column, row, f"{digit}", ha="center", va="center", fontsize=10, color=letters)


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


register_figure(
    "clocks",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "A position is a row of wheels",
        "An odometer writes a position with wheels, each ten times slower than the one to its right; binary digits do "
        "the same by twos. Replace the wheels by hands that run smoothly, each pair of features at a pace of its own, "
        "and you have the sinusoids: few numbers, no two positions alike, and neighbours that differ only a little.",
        "hand of pair i at position p: &nbsp; angle&nbsp;= p&thinsp;ω<sub>i</sub>, &nbsp; "
        "ω<sub>i</sub>&nbsp;= 10000<sup>&minus;2i/d</sup>",
    ),
    limits={"length": (2, 32), "d_model": (2, 24)},
    slides={"length": 6, "d_model": 6},
)
