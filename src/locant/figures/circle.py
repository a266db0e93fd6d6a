"""Circle: a shift by that many positions is a rotation, and the same one everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.analysis.geometry import shift_matrix
from locant.figures.drawing import MONO, Figure, arrow, blank, label, new_figure, signed
from locant.figures.numbers import hands
from locant.figures.palette import BLUE, FAINT, GREEN, GRID, INK, VERMILION
from locant.figures.registry import register_figure

_SHIFT, _MARKED = 2, {0: VERMILION, 1: BLUE, 3: GREEN}


def numbers() -> dict[str, Any]:
    """Return the code of two features at seven positions, and what the matrix of a shift by 2 makes of three."""
    sine, cosine, _ = hands(7, d_model=2, base=10000.0)
    codes = np.concatenate((sine, cosine), axis=1)
    matrix = shift_matrix(2, _SHIFT).numpy()
    return {"codes": codes, "matrix": matrix, "turned": codes[list(_MARKED)] @ matrix.T}


def draw(codes: Any, matrix: Any, turned: Any) -> Figure:
    """Draw the codes ``[7, 2]`` on their circle, and the matrix that turns each into the one two farther on."""
    figure = new_figure(10, 5.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
    turn = np.linspace(0, 2 * np.pi, 361)
    left.plot(np.sin(turn), np.cos(turn), color=FAINT, linewidth=1)
    for position, (x, y) in enumerate(codes):
        left.plot([0, x], [0, y], color=GRID, linewidth=0.9, zorder=1)
        left.plot(x, y, "o", color=INK, markersize=6, zorder=4)
        how: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": 11}
        left.annotate(f"{position}", (x, y), (16 * x, 16 * y), **how)
    label(right, "One matrix for every p: PE(p + 2) = M₂ PE(p)")
    blank(right)
    rows = ["  ".join(map(signed, row)) for row in matrix]
    right.text(0.0, 0.85, "M₂ =", va="center", fontsize=13)
    right.text(0.19, 0.85, f"⎡ {rows[0]} ⎤\n⎣ {rows[1]} ⎦", fontsize=11.5, va="center", **MONO)
    for number, ((position, color), end) in enumerate(zip(_MARKED.items(), turned, strict=True)):
        arc, radius = np.linspace(position, position + _SHIFT, 60), 0.34 + 0.2 * number  # a radian per token
        left.plot(radius * np.sin(arc), radius * np.cos(arc), color=color, linewidth=2.4)
        beside, tip = (radius * np.array([np.sin(at), np.cos(at)]) for at in arc[[-4, -1]])
        arrow(left, beside, tip, color=color, linewidth=2.0)
        for place in (codes[position], end):
            left.plot([0, place[0]], [0, place[1]], color=color, linewidth=1.3, zorder=2)
        left.plot(*end, "o", markersize=12, markerfacecolor="none", markeredgecolor=color, markeredgewidth=1.8)
        before, after = ("  ".join(map(signed, code)) for code in (codes[position], end))
        said = f"PE({position}) = ({before})\nM₂ PE({position}) = ({after})"
        right.text(0, 0.6 - 0.2 * number, said, color=color, fontsize=11.5, va="center", **MONO)
    left.set(aspect="equal", xlim=(-1.28, 1.28), ylim=(-1.28, 1.28), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    label(left, f"PE(p) for p = 0 … {len(codes) - 1}", "sine feature", "cosine feature")
    return figure


register_figure("circle", numbers, draw)
