"""The matrix of a shift, derived line by line, with the numbers of one pair beside the symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from locant.analysis.geometry import shift_matrix
from locant.errors import UsageError
from locant.figures.drawing import BLUE, FAINT, INK, FigureData, Numbers, drawing, new_figure, settle, signed
from locant.figures.registry import Caption, register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

_SHIFT, _PAIR = 2, 1


@dataclass(frozen=True)
class DerivationStep:
    """One line of a derivation.

    Attributes:
        reason: What is done.
        symbols: The line in symbols.
        numbers: The same with numbers; may be empty.
    """

    reason: str
    symbols: str
    numbers: str = ""


def shift_derivation_numbers(*, d_model: int = 8, token: int = 3, base: float = 10000.0) -> dict[str, Any]:
    """Return the derivation of ``M_k`` for the second pair, a shift by 2, and what the whole matrix makes of a code.

    Raises:
        UsageError: The width has no second pair.
        ConfigError: The width is odd.
    """
    if d_model < 4:
        raise UsageError(f"The derivation shows the second pair, which --d-model {d_model} does not have; 4 or more.")
    frequency = float(sinusoid_frequencies(d_model, base=base).radians[_PAIR])
    k, here = _SHIFT, token * frequency
    turn, there = k * frequency, (token + k) * frequency
    (s, c), (sk, ck), (st, ct) = ((np.sin(angle), np.cos(angle)) for angle in (here, turn, there))
    matrix = shift_matrix(d_model, k, base=base)
    code = sinusoid_table(torch.tensor([token, token + k]), d_model, base=base).double()
    pair = slice(2 * _PAIR, 2 * _PAIR + 2)
    block = matrix[pair, pair].numpy()
    one, inverse = block.T @ block, shift_matrix(d_model, -k, base=base)[pair, pair].numpy()
    steps = [
        DerivationStep(
            "The pair at position p",
            "PE(p) = (sin ωp, cos ωp)",
            f"ω = {frequency:.6g}, p = {token}: ({signed(s)}, {signed(c)})",
        ),
        DerivationStep(
            "Wanted: the pair k tokens on",
            "PE(p + k) = (sin(ωp + ωk), cos(ωp + ωk))",
            f"k = {k}: ({signed(st)}, {signed(ct)})",
        ),
        DerivationStep(
            "Addition theorem of the sine",
            "sin(ωp + ωk) = cos ωk · sin ωp + sin ωk · cos ωp",
            f"{signed(ck)} · {signed(s)} + {signed(sk)} · {signed(c)} = {signed(ck * s + sk * c)}",
        ),
        DerivationStep(
            "Addition theorem of the cosine",
            "cos(ωp + ωk) = \N{MINUS SIGN}sin ωk · sin ωp + cos ωk · cos ωp",
            f"{signed(-sk)} · {signed(s)} + {signed(ck)} · {signed(c)} = {signed(-sk * s + ck * c)}",
        ),
        DerivationStep(
            "What stands before sin ωp and cos ωp\nis free of p: a matrix",
            "M = [  cos ωk  sin ωk ]\n    [ \N{MINUS SIGN}sin ωk  cos ωk ]",
            f"[ {signed(block[0, 0])}  {signed(block[0, 1])} ]\n[ {signed(block[1, 0])}  {signed(block[1, 1])} ]",
        ),
        DerivationStep(
            "It is a rotation: its transpose undoes it,\nand is the shift by \N{MINUS SIGN}k",
            "Mᵀ M = I,   Mᵀ = M of \N{MINUS SIGN}k",
            f"largest differences {np.abs(one - np.eye(2)).max():.0e} and {np.abs(block.T - inverse).max():.0e}",
        ),
        DerivationStep(
            "So a dot product knows the distance alone",
            "PE(p) · PE(p + k) = PE(p)ᵀ M PE(p) = cos ωk",
            f"{signed(s)} · {signed(st)} + {signed(c)} · {signed(ct)} = {signed(s * st + c * ct)}",
        ),
        DerivationStep(
            f"All {d_model // 2} pairs: such blocks on the diagonal",
            "PE(p + k) = Mₖ PE(p)",
            f"both sides within {float((matrix @ code[0] - code[1]).abs().max()):.0e} (codes in float32)",
        ),
    ]
    return {"steps": steps, "matrix": matrix.numpy(), "codes": code.numpy(), "k": k}


def shift_derivation(steps: Sequence[DerivationStep], *, matrix: Numbers, codes: Numbers, k: int) -> FigureData:
    """Write a derivation: reason, symbols and numbers of each line beside each other.

    Args:
        steps: Its lines.
        matrix: ``M_k``, ``[E, E]``.
        codes: Codes of a position and of that ``k`` tokens on, ``[2, E]``.
        k: The offset.

    Returns:
        The figure, 13 inches wide, and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    rows = [1 + max(part.count("\n") for part in (step.reason, step.symbols, step.numbers)) for step in steps]
    with drawing():
        figure = new_figure(13, 0.6 + sum(0.3 + 0.24 * lines for lines in rows))
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_xlim(0, 1)
        axes.set_ylim(-sum(0.3 + 0.24 * lines for lines in rows), 0.5)
        for place, title in ((0.03, "step"), (0.3, "in symbols"), (0.66, f"in numbers, pair {_PAIR}, k = {k}")):
            axes.text(place, 0.25, title, fontsize=9.5, color=FAINT, va="center")
        at = 0.0
        for number, (step, lines) in enumerate(zip(steps, rows, strict=True), start=1):
            height = 0.3 + 0.24 * lines
            axes.plot([0, 1], [at, at], color="#d8dee4", linewidth=0.8)
            middle = at - height / 2
            axes.text(0, middle, f"{number}", fontweight="bold", color=BLUE, va="center")
            axes.text(0.03, middle, step.reason, va="center", fontsize=10)
            mono: dict[str, Any] = {"family": "DejaVu Sans Mono", "va": "center", "fontsize": 9.3}
            axes.text(0.3, middle, step.symbols, color=INK, **mono)
            axes.text(0.66, middle, step.numbers, color=BLUE, **mono)
            at -= height
        settle(figure)
    return FigureData(figure, {"matrix": matrix, "codes": codes})


register_figure(
    "shift-derivation",
    numbers=shift_derivation_numbers,
    draw=shift_derivation,
    caption=Caption(
        "The matrix of a shift, line by line",
        "The addition theorems split the angle of the later position into that of p and that of k. What then stands "
        "before sin ωp and cos ωp depends on k alone: it is the matrix that the paper speaks of. Follow the numbers on "
        "the right: both sides of every line are the same.",
        "PE(p + k)&nbsp;= M<sub>k</sub>&thinsp;PE(p)  &nbsp; (Vaswani et al. 2017, section 3.5)",
    ),
    limits={"d_model": (4, 1024), "token": (0, 10_000)},
)
