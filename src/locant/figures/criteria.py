"""Criteria: five properties of a position code, checked for every scheme."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from locant.analysis.properties import PROPERTIES, check_registry
from locant.figures.drawing import FAINT, INK, FigureData, drawing, new_figure, settle
from locant.figures.registry import Caption, register_figure

# Fill and sign of every verdict; the signs alone suffice.
_VERDICTS = {"yes": ("#c5e1f2", "✓"), "partly": ("#fbe6b3", "~"), "no": ("#f6c7a8", "✗")}
_CELL, _ROW = 2.05, 0.5


def criteria_numbers() -> dict[str, Any]:
    """Return the verdict on every property of every scheme, with its reason."""
    checked = check_registry()
    return {
        "schemes": list(checked),
        "properties": PROPERTIES,
        "verdicts": [[found.verdict for found in of_scheme] for of_scheme in checked.values()],
        "reasons": [[found.reason for found in of_scheme] for of_scheme in checked.values()],
    }


def criteria(
    schemes: Sequence[str],
    properties: Sequence[str],
    verdicts: Sequence[Sequence[str]],
    reasons: Sequence[Sequence[str]],
) -> FigureData:
    """Draw a table: one row a scheme, one column a property, with the verdict and its reason.

    Args:
        schemes: Names of the rows.
        properties: Names of the columns.
        verdicts: ``yes``, ``partly`` or ``no`` for each scheme and property.
        reasons: A few words for each.

    Returns:
        The figure, and ``verdicts`` ``[schemes, properties]``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        from matplotlib.patches import Rectangle

        width, height = _CELL * len(properties), _ROW * len(schemes)
        figure = new_figure(width + 2.0, height + 1.0)
        axes = figure.subplots()
        axes.set_axis_off()
        axes.set_xlim(-1.6, width)
        axes.set_ylim(height, -0.55)
        for column, name in enumerate(properties):
            axes.text(column * _CELL + 0.08, -0.22, name, fontweight="bold", fontsize=10, va="center")
        for row, scheme in enumerate(schemes):
            top = row * _ROW
            axes.text(-0.12, top + _ROW / 2, scheme, ha="right", va="center", fontsize=10.5)
            for column, (verdict, reason) in enumerate(zip(verdicts[row], reasons[row], strict=True)):
                fill, sign = _VERDICTS[verdict]
                left = column * _CELL
                axes.add_patch(Rectangle((left, top), _CELL, _ROW, facecolor=fill, edgecolor="white", linewidth=2))
                axes.text(left + 0.16, top + _ROW / 2, sign, ha="center", va="center", fontsize=13, color=INK)
                words = textwrap.fill(reason, 29)
                axes.text(left + 0.34, top + _ROW / 2, words, va="center", fontsize=7.5, color=INK, linespacing=1.15)
        axes.text(0, height + 0.2, "✓ yes    ~ partly    ✗ no", fontsize=9.5, color=FAINT, va="center")
        settle(figure)
    return FigureData(figure, {"verdicts": np.array(verdicts)})


register_figure(
    "criteria",
    numbers=criteria_numbers,
    draw=criteria,
    caption=Caption(
        "Five properties of a position code",
        "Every position with a code of its own, a distance that is the same everywhere, defined for longer texts, "
        "bounded, and the same each time. The table is computed from the schemes themselves, with their default "
        "options; that a code extends means that it is defined there, not that a trained model reads such texts well.",
        "for all p ≠ q: code(p) ≠ code(q); &nbsp; d(code(p), code(p + k)) depends on k alone",
    ),
)
