"""The matrix of a shift, derived line by line, with the numbers of one pair beside the symbols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from locant.analysis.geometry import shift_matrix
from locant.figures.drawing import MINUS, MONO, SLIDE, SLIDE_LETTERS, Figure, blank, canvas, new_figure, signed, write
from locant.figures.palette import BLUE, GRID, INK
from locant.figures.registry import register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

_SHIFT, _PAIR = 2, 1
_ON_A_SLIDE = 3  # steps


def numbers(*, d_model: int = 8, token: int = 3, base: float = 10000.0) -> dict[str, Any]:
    """Return the derivation of ``M_k`` for the second pair, a shift by 2, and what the whole matrix makes of a code.

    A step is a reason, a line in symbols and the same in numbers.
    """
    frequency = float(sinusoid_frequencies(d_model, base=base).radians[_PAIR])
    k, here = _SHIFT, token * frequency
    (s, c), (sk, ck), (st, ct) = (
        (np.sin(angle), np.cos(angle)) for angle in (here, k * frequency, here + k * frequency)
    )
    matrix = shift_matrix(d_model, k, base=base)
    code = sinusoid_table(torch.tensor([token, token + k]), d_model, base=base).double()
    pair = slice(2 * _PAIR, 2 * _PAIR + 2)
    block = matrix[pair, pair].numpy()
    inverse = shift_matrix(d_model, -k, base=base)[pair, pair].numpy()
    off, back = np.abs(block.T @ block - np.eye(2)).max(), np.abs(block.T - inverse).max()

    def sum_of(a: float, b: float, c: float, d: float) -> str:
        return f"{signed(a)} · {signed(b)} + {signed(c)} · {signed(d)} = {signed(a * b + c * d)}"

    steps = [
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
        write(axes, place, 0.25, title, 9.5, ha="left")
    at = 0.0
    for number, ((reason, symbols, values), height) in enumerate(zip(steps, heights, strict=True), start=1):
        axes.plot([0, 1], [at, at], color=GRID, linewidth=0.8)
        middle = at - height / 2
        write(axes, 0, middle, f"{number}", 10.5, ha="left", color=BLUE, fontweight="bold")
        write(axes, 0.03, middle, reason, 10, ha="left", color=INK)
        write(axes, 0.3, middle, symbols, 9.3, ha="left", color=INK, **MONO)
        write(axes, 0.66, middle, values, 9.3, ha="left", color=BLUE, **MONO)
        at -= height
    return figure


def slides(steps: list[tuple[str, str, str]], **_: Any) -> Iterator[Figure]:
    """Write a few steps on each slide, reason, symbols and numbers below each other."""
    for first in range(0, len(steps), _ON_A_SLIDE):
        figure, axes = canvas(*SLIDE)
        top = SLIDE[1] - 0.15
        how: dict[str, Any] = {"ha": "left", "va": "top"}
        for number, (reason, symbols, values) in enumerate(steps[first : first + _ON_A_SLIDE], start=first + 1):
            write(axes, 0.15, top, f"{number}  {' '.join(reason.split())}", 11, weight="bold", color=INK, **how)
            for text, color in ((symbols, INK), (values, BLUE)):
                top -= 0.25
                write(axes, 0.15, top, text, SLIDE_LETTERS, color=color, **how, **MONO)
                top -= 0.17 * text.count("\n")
            top -= 0.42
        yield figure


register_figure("shift-derivation", numbers, draw, limits={"d_model": (4, 1024), "token": (0, 10_000)}, slides=slides)
