"""Clocks: positions read from decimal wheels, from binary digits and from the hands of the sinusoids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, FigureData, Numbers, count, drawing, new_figure, settle
from locant.figures.numbers import digits_of, hands
from locant.figures.registry import Caption, register_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAP = 1.2
_RADIUS = 0.4
_TINT = "#fde3cf"


def clocks_numbers(*, d_model: int = 8, length: int = 13, base: float = 10000.0) -> dict[str, Any]:
    """Return positions 0 to ``length - 1`` in decimal digits, in bits and as sine and cosine of every pair."""
    positions, last = np.arange(length), length - 1
    sine, cosine, wavelengths = hands(length, d_model=d_model, base=base)
    return {
        "positions": positions,
        "digits": digits_of(positions, 10, len(str(last))),
        "bits": digits_of(positions, 2, last.bit_length()),
        "sine": sine,
        "cosine": cosine,
        "wavelengths": wavelengths,
    }


def clocks(
    positions: NDArray[np.int64],
    digits: NDArray[np.int64],
    bits: NDArray[np.int64],
    sine: Numbers,
    cosine: Numbers,
    *,
    wavelengths: Numbers,
) -> FigureData:
    """Draw positions as an odometer does, in bits, and as a row of clocks.

    All three read from the slowest wheel at the left to the fastest at the right. A clock's hand points at the two
    features of its pair: sine to the right, cosine upwards, so that it runs clockwise from 12.

    Args:
        positions: The positions, ``[L]``; one row each.
        digits: Decimal digits ``[L, W]``, the highest first.
        bits: Binary digits ``[L, B]``, the highest first.
        sine: Sine ``[L, P]`` of every pair, the fastest pair first.
        cosine: Cosine ``[L, P]``.
        wavelengths: Tokens of a full turn, ``[P]``.

    Returns:
        The figure and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    pairs = sine.shape[1]
    starts = np.cumsum([0.0, max(digits.shape[1], 2) + _GAP, max(bits.shape[1], 3) + _GAP])
    width, height = float(starts[2]) + max(pairs, 3) + 1.2, len(positions) + 1.7
    with drawing():
        figure = new_figure(0.62 * width, 0.62 * height)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-1.4, width - 1.4)
        axes.set_ylim(len(positions) - 0.4, -2.1)
        for row, position in enumerate(positions):
            axes.text(-0.7, row, f"{position}", ha="right", va="center", fontsize=10, color=FAINT)
        axes.text(-0.7, -0.75, "position", ha="right", va="center", fontsize=9, color=FAINT)
        _boxes(axes, digits, float(starts[0]), dark=False)
        _boxes(axes, bits, float(starts[1]), dark=True)
        _hands(axes, sine[:, ::-1], cosine[:, ::-1], float(starts[2]))
        heads = [
            [f"{10**place:,}" for place in range(digits.shape[1])],
            [f"{2**place:,}" for place in range(bits.shape[1])],
            [count(wavelength) for wavelength in wavelengths],
        ]
        names = ("decimal wheels", "binary digits", "hands of the sinusoids")
        for start, head, name in zip(starts, heads, names, strict=True):
            middle = start + (len(head) - 1) / 2
            axes.text(middle, -1.65, name, ha="center", va="center", fontweight="bold", fontsize=11)
            for column, label in enumerate(reversed(head)):
                axes.text(start + column, -0.75, label, ha="center", va="center", fontsize=8, color=FAINT)
        axes.text(
            float(starts[2]) + (pairs - 1) / 2,
            -1.2,
            "tokens per turn",
            ha="center",
            va="center",
            fontsize=8,
            color=FAINT,
        )
        for start, head in zip(starts[:2], heads[:2], strict=True):
            axes.text(
                start + (len(head) - 1) / 2, -1.2, "place value", ha="center", va="center", fontsize=8, color=FAINT
            )
        settle(figure)
    data = {
        "positions": positions,
        "digits": digits,
        "bits": bits,
        "sine": sine,
        "cosine": cosine,
        "wavelengths": wavelengths,
    }
    return FigureData(figure, data)


def _boxes(axes: Axes, digits: NDArray[Any], start: float, *, dark: bool) -> None:
    """Draw digits in boxes; tinted where they have changed since the row above, or dark where they are 1."""
    from matplotlib.patches import Rectangle

    for (row, column), digit in np.ndenumerate(digits):
        changed = row > 0 and digits[row - 1, column] != digit
        fill = (BLUE if digit else "white") if dark else (_TINT if changed else "white")
        axes.add_patch(
            Rectangle((start + column - 0.42, row - 0.42), 0.84, 0.84, facecolor=fill, edgecolor=FAINT, linewidth=0.8)
        )
        axes.text(
            start + column,
            row,
            f"{digit}",
            ha="center",
            va="center",
            fontsize=10,
            color="white" if dark and digit else INK,
        )


def _hands(axes: Axes, sine: Numbers, cosine: Numbers, start: float) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Circle

    hands = []
    for row, column in np.ndindex(sine.shape):
        middle = (start + column, float(row))
        axes.add_patch(Circle(middle, _RADIUS, facecolor="white", edgecolor=FAINT, linewidth=0.8))
        axes.plot([middle[0]] * 2, [row - _RADIUS, row - _RADIUS + 0.08], color=FAINT, linewidth=0.8)
        # Rows grow downwards, so that up is negative.
        tip = (middle[0] + _RADIUS * sine[row, column], row - _RADIUS * cosine[row, column])
        hands.append([middle, tip])
    axes.add_collection(LineCollection(hands, colors=VERMILION, linewidths=2.0, capstyle="round", zorder=3))
    axes.plot(*zip(*(middle for middle, _ in hands), strict=True), "o", color=INK, markersize=2.5, zorder=4)


register_figure(
    "clocks",
    numbers=clocks_numbers,
    draw=clocks,
    caption=Caption(
        "A position is a row of wheels",
        "An odometer writes a position with wheels, each ten times slower than the one to its right; binary digits do "
        "the same by twos. Replace the wheels by hands that run smoothly, each pair of features at a pace of its own, "
        "and you have the sinusoids: few numbers, no two positions alike, and neighbours that differ only a little.",
        "hand of pair i at position p: &nbsp; angle&nbsp;= p&thinsp;ω<sub>i</sub>, &nbsp; "
        "ω<sub>i</sub>&nbsp;= 10000<sup>&minus;2i/d</sup>",
    ),
    limits={"length": (2, 32), "d_model": (2, 24)},
)
