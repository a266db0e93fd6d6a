"""Sine alone: no linear map leads to the shifted position; with the cosine one does."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.figures.drawing import MINUS, Figure, label, new_figure
from locant.figures.numbers import wavelengths_of
from locant.figures.palette import BLUE, FAINT, GREEN, INK, VERMILION
from locant.figures.registry import register_figure

_OFFSETS, _SHOWN, _STEP = 65, 120, 2


def numbers(*, d_model: int = 64, length: int = 1000, base: float = 10000.0) -> dict[str, Any]:
    """Return what the best linear map to the shifted code leaves, by offset, with and without cosines.

    It is fitted at ``length`` positions; what is left is the norm of the rest over that of the whole.
    """
    positions = np.arange(length + _OFFSETS)[:, None]
    angles = positions * (2 * np.pi / wavelengths_of(d_model, base=base))
    finer = positions * (2 * np.pi / wavelengths_of(2 * d_model, base=base))
    pairs = d_model // 2
    residuals = {}
    for name, table in (
        (f"{pairs} sines", np.sin(angles)),
        (f"{d_model} sines, of twice as many waves", np.sin(finer)),
        (f"{pairs} sines and {pairs} cosines", np.hstack((np.sin(angles), np.cos(angles)))),
    ):
        left, sizes, _ = np.linalg.svd(table[:length], full_matrices=False)
        basis = left[:, sizes > 1e-12 * sizes[0]]
        shifted = [table[k : k + length] for k in range(_OFFSETS)]
        rests = [np.linalg.norm(later - basis @ (basis.T @ later)) / np.linalg.norm(later) for later in shifted]
        residuals[name] = np.array(rests)
    fastest = angles[: _SHOWN + _STEP, 0]
    before, after = np.sin(fastest[:_SHOWN]), np.sin(fastest[_STEP:])
    gap = np.abs(np.subtract.outer(before, before))
    apart = np.abs(np.subtract.outer(after, after)) > 1
    alike = np.unravel_index(np.where(apart, gap, np.inf).argmin(), gap.shape)
    return {"before": before, "after": after, "alike": alike, "offsets": np.arange(float(_OFFSETS)), **residuals}


def draw(before: Any, after: Any, *, alike: Any, offsets: Any, **residuals: Any) -> Figure:
    """Draw the sine of a later position against that of a position, and residuals of linear maps by offset."""
    figure = new_figure(11.5, 5)
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.35])
    left.plot(before, after, "o", color=BLUE, markersize=3)
    for position, place in zip(sorted(alike, key=lambda one: -after[one]), ((-0.1, 0.45), (0.1, -0.2)), strict=True):
        x, y = before[position], after[position]
        left.plot(x, y, "o", color=VERMILION, markersize=9, markeredgecolor=INK, zorder=4)
        said = f"p = {position}\n{x:.3f} → {y:.3f}".replace("-", MINUS)
        line = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.8, "shrinkB": 5}
        left.annotate(said, (x, y), place, ha="center", va="center", fontsize=9.5, arrowprops=line)
    left.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    label(left, "One sine, two ways on", "sin p", f"sin(p + {_STEP})")
    styles = (VERMILION, "-"), (GREEN, "--"), (BLUE, "-")
    for (name, values), (color, stroke) in zip(residuals.items(), styles, strict=True):
        right.plot(offsets, values, stroke, color=color, label=name)
    right.set_ylim(-0.03, 1)
    label(right, "From the code of p to that of p + k", "offset k in tokens", "what is left, as a share of the norm")
    right.legend(loc="upper left", labelcolor=FAINT)
    return figure


register_figure("sine-alone", numbers, draw, limits={"d_model": (2, 256), "length": (200, 4000)})
