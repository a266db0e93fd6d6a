"""Circle: a shift by so many positions is a rotation, and the same one everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from locant.analysis.geometry import shift_matrix
from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    VERMILION,
    FigureData,
    Numbers,
    drawing,
    new_figure,
    settle,
    signed,
)
from locant.figures.numbers import hands
from locant.figures.registry import Caption, register_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (VERMILION, BLUE, GREEN)


def circle_numbers() -> dict[str, Any]:
    """Return the code of two features at seven positions, and what the matrix of a shift by 2 makes of three."""
    k, marked = 2, (0, 1, 3)
    sine, cosine, _ = hands(7, d_model=2, base=10000.0)
    codes = np.concatenate((sine, cosine), axis=1)
    matrix = shift_matrix(2, k).numpy()
    return {
        "codes": codes,
        "matrix": matrix,
        "turned": codes[list(marked)] @ matrix.T,
        "angles": np.arange(7.0),
        "k": k,
        "marked": marked,
    }


def circle(
    codes: Numbers, matrix: Numbers, turned: Numbers, *, angles: Numbers, k: int, marked: Sequence[int]
) -> FigureData:
    """Draw the codes of a two-dimensional encoding, and the matrix that turns each into the one ``k`` farther on.

    Args:
        codes: ``(sine, cosine)`` of positions 0 to ``L - 1``, ``[L, 2]``.
        matrix: ``M_k``, ``[2, 2]``.
        turned: ``M_k`` times the codes of the marked positions, ``[len(marked), 2]``.
        angles: Angle of every position in radians, ``[L]``, clockwise from the top.
        k: The offset in tokens.
        marked: Up to three positions from which the shift is shown; each plus ``k`` must be below ``L``.

    Returns:
        The figure and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        figure = new_figure(10, 5.6)
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
        _draw_circle(left, codes, turned, angles, k, marked)
        _write_matrix(right, matrix, k, marked, codes, turned)
        settle(figure)
    return FigureData(figure, {"codes": codes, "matrix": matrix, "turned": turned, "angles": angles})


def _draw_circle(axes: Axes, codes: Numbers, turned: Numbers, angles: Numbers, k: int, marked: Sequence[int]) -> None:
    turn = np.linspace(0, 2 * np.pi, 361)
    axes.plot(np.sin(turn), np.cos(turn), color=FAINT, linewidth=1)
    for position, (x, y) in enumerate(codes):
        axes.plot([0, x], [0, y], color="#d8dee4", linewidth=0.9, zorder=1)
        axes.plot(x, y, "o", color=INK, markersize=6, zorder=4)
        axes.text(1.13 * x, 1.13 * y, f"{position}", ha="center", va="center", fontsize=11)
    for number, (position, end, colour) in enumerate(zip(marked, turned, _COLOURS, strict=False)):
        radius = 0.34 + 0.2 * number
        arc = np.linspace(angles[position], angles[position + k], 60)
        axes.plot(radius * np.sin(arc), radius * np.cos(arc), color=colour, linewidth=2.4)
        beside, tip = radius * np.array([np.sin(arc[[-4, -1]]), np.cos(arc[[-4, -1]])]).T
        axes.annotate(
            "",
            tip,
            beside,
            arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2.0, "shrinkA": 0, "shrinkB": 0},
        )
        axes.plot(*zip((0, 0), codes[position], strict=True), color=colour, linewidth=1.3, zorder=2)
        axes.plot(*zip((0, 0), end, strict=True), color=colour, linewidth=1.3, zorder=2)
        axes.plot(*end, "o", markersize=12, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=1.8)
    axes.set_aspect("equal")
    axes.set_xlim(-1.28, 1.28)
    axes.set_ylim(-1.28, 1.28)
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])
    axes.set_xlabel("sine feature")
    axes.set_ylabel("cosine feature")
    axes.set_title(f"PE(p) for p = 0 … {len(codes) - 1}", pad=10)


def _write_matrix(axes: Axes, matrix: Numbers, k: int, marked: Sequence[int], codes: Numbers, turned: Numbers) -> None:
    def row(values: Numbers) -> str:
        return "  ".join(map(signed, values))

    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_title(f"One matrix for every p: PE(p + {k}) = M{_subscript(k)} PE(p)", fontsize=11, pad=10)
    mono: dict[str, Any] = {"family": "DejaVu Sans Mono", "fontsize": 11.5, "va": "center"}
    axes.text(0.0, 0.85, f"M{_subscript(k)} =", va="center", fontsize=13)
    axes.text(0.19, 0.885, f"⎡ {row(matrix[0])} ⎤", **mono)
    axes.text(0.19, 0.815, f"⎣ {row(matrix[1])} ⎦", **mono)
    for number, (position, end, colour) in enumerate(zip(marked, turned, _COLOURS, strict=False)):
        height = 0.62 - 0.2 * number
        axes.text(0.0, height, f"PE({position}) = ({row(codes[position])})", color=colour, **mono)
        axes.text(0.0, height - 0.075, f"M{_subscript(k)} PE({position}) = ({row(end)})", color=colour, **mono)


def _subscript(number: int) -> str:
    return str(number).translate(str.maketrans("-0123456789", "₋₀₁₂₃₄₅₆₇₈₉"))


register_figure(
    "circle",
    numbers=circle_numbers,
    draw=circle,
    caption=Caption(
        "A shift is a rotation",
        "On the circle of one pair, moving k tokens on turns the hand by the same angle from wherever it starts. So "
        "one matrix, which depends on k alone, turns the code of any position into that of the position k farther "
        "on: a model can learn to look k tokens back.",
        "PE(p + k)&nbsp;= M<sub>k</sub>&thinsp;PE(p), &nbsp; M<sub>k</sub>&nbsp;= "
        "[ cos kω &nbsp; sin kω ; &nbsp; &minus;sin kω &nbsp; cos kω ]",
    ),
)
