"""The matrix of a shift, derived line by line, with the numbers of one pair beside the symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.geometry import shift_matrix
from locant.figures.drawing import BLUE, FAINT, GRID, MINUS, blank, new_figure, signed
from locant.figures.registry import Caption, register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHIFT, _PAIR = 2, 1


def numbers(*, d_model: int = 8, token: int = 3, base: float = 10000.0) -> dict[str, Any]:
    """Return the derivation of ``M_k`` for the second pair, a shift by 2, and what the whole matrix makes of a code.

    Raises:
        ConfigError: The width is odd.
    """
    frequency = float(sinusoid_frequencies(d_model, base=base).radians[_PAIR])
    k, here = _SHIFT, token * frequency
    turn, there = k * frequency, (token + k) * frequency
    (s, c), (sk, ck), (st, ct) = ((np.sin(angle), np.cos(angle)) for angle in (here, turn, there))
    matrix = shift_matrix(d_model, k, base=base)
    code = sinusoid_table(torch.tensor([token, token + k]), d_model, base=base).double()
    pair = slice(2 * _PAIR, 2 * _PAIR + 2)
    block = matrix[pair, pair].numpy()
    inverse = shift_matrix(d_model, -k, base=base)[pair, pair].numpy()
    off, back = np.abs(block.T @ block - np.eye(2)).max(), np.abs(block.T - inverse).max()

    def sum_of(a: float, b: float, c: float, d: float) -> str:
        return f"{signed(a)} · {signed(b)} + {signed(c)} · {signed(d)} = {signed(a * b + c * d)}"

    steps = [  # reason, symbols, numbers
        (
            "The pair at position p",
            "PE(p) = (sin ωp, cos ωp)",
            f"ω = {frequency:.6g}, p = {token}: ({signed(s)}, {signed(c)})",
        ),
        (
            "Wanted: the pair k tokens on",
            "PE(p + k) = (sin(ωp + ωk), cos(ωp + ωk))",
            f"k = {k}: ({signed(st)}, {signed(ct)})",
        ),
        (
            "Addition theorem of the sine",
            "sin(ωp + ωk) = cos ωk · sin ωp + sin ωk · cos ωp",
            sum_of(ck, s, sk, c),
        ),
        (
            "Addition theorem of the cosine",
            f"cos(ωp + ωk) = {MINUS}sin ωk · sin ωp + cos ωk · cos ωp",
            sum_of(-sk, s, ck, c),
        ),
        (
            "What stands before sin ωp and cos ωp\nis free of p: a matrix",
            f"M = [  cos ωk  sin ωk ]\n    [ {MINUS}sin ωk  cos ωk ]",
            "\n".join(f"[ {signed(left)}  {signed(right)} ]" for left, right in block),
        ),
        (
            f"It is a rotation: its transpose undoes it,\nand is the shift by {MINUS}k",
            f"Mᵀ M = I,   Mᵀ = M of {MINUS}k",
            f"largest differences {off:.0e} and {back:.0e}",
        ),
        (
            "So a dot product knows the distance alone",
            "PE(p) · PE(p + k) = PE(p)ᵀ M PE(p) = cos ωk",
            sum_of(s, st, c, ct),
        ),
        (
            f"All {d_model // 2} pairs: such blocks on the diagonal",
            "PE(p + k) = Mₖ PE(p)",
            f"both sides within {float((matrix @ code[0] - code[1]).abs().max()):.0e} (codes in float32)",
        ),
    ]
    return {"steps": steps, "matrix": matrix.numpy(), "codes": code.numpy()}


def draw(steps: list[tuple[str, str, str]], **_: Any) -> Figure:
    """Write a derivation: reason, symbols and numbers of each line beside each other."""
    heights = [0.3 + 0.24 * (1 + max(part.count("\n") for part in step)) for step in steps]
    figure = new_figure(13, 0.6 + sum(heights))
    axes = figure.subplots()
    blank(axes)
    axes.set_ylim(-sum(heights), 0.5)
    for place, title in ((0.03, "step"), (0.3, "in symbols"), (0.66, f"in numbers, pair {_PAIR}, k = {_SHIFT}")):
        axes.text(place, 0.25, title, fontsize=9.5, color=FAINT, va="center")
    mono: dict[str, Any] = {"family": "DejaVu Sans Mono", "va": "center", "fontsize": 9.3}
    at = 0.0
    for number, ((reason, symbols, values), height) in enumerate(zip(steps, heights, strict=True), start=1):
        axes.plot([0, 1], [at, at], color=GRID, linewidth=0.8)
        middle = at - height / 2
        axes.text(0, middle, f"{number}", fontweight="bold", color=BLUE, va="center")
        axes.text(0.03, middle, reason, va="center", fontsize=10)
        axes.text(0.3, middle, symbols, **mono)
        axes.text(0.66, middle, values, color=BLUE, **mono)
        at -= height
    return figure


register_figure(
    "shift-derivation",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "The matrix of a shift, line by line",
        "The addition theorems split the angle of the later position into that of p and that of k. What then stands "
        "before sin ωp and cos ωp depends on k alone: it is the matrix that the paper speaks of. Follow the numbers on "
        "the right: both sides of every line are the same.",
        "PE(p + k)&nbsp;= M<sub>k</sub>&thinsp;PE(p)  &nbsp; (Vaswani et al. 2017, section 3.5)",
    ),
    limits={"d_model": (4, 1024), "token": (0, 10_000)},
    slides={},
)
