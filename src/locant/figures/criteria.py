"""Criteria: five properties of a position code, checked for every scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from locant.analysis.properties import PROPERTIES, check_registry
from locant.figures.drawing import FAINT, ON_LIGHT, PAPER, new_figure, wrapped
from locant.figures.registry import Caption, register_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Fill and sign of every verdict; the signs alone suffice.
_VERDICTS = {"yes": ("#c5e1f2", "✓"), "partly": ("#fbe6b3", "~"), "no": ("#f6c7a8", "✗")}
_CELL, _ROW = 1.35, 0.26


def numbers() -> dict[str, Any]:
    """Return the verdict on every property ``[schemes, properties]``."""
    checked = check_registry()
    verdicts = [[found.verdict for found in of_scheme] for of_scheme in checked.values()]
    return {"schemes": list(checked), "verdicts": np.array(verdicts)}


def draw(schemes: list[str], verdicts: Any) -> Figure:
    """Draw a table of signs: one row a scheme, one column a property."""
    from matplotlib.patches import Rectangle

    width, height = _CELL * len(PROPERTIES), _ROW * len(schemes)
    figure = new_figure(width + 2.0, height + 1.2)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(-1.6, width), ylim=(height + 0.4, -0.75))
    for column, name in enumerate(PROPERTIES):
        words = wrapped(name, 16)
        axes.text((column + 0.5) * _CELL, -0.08, words, fontweight="bold", fontsize=9.5, ha="center", va="bottom")
    for row, scheme in enumerate(schemes):
        top = row * _ROW
        axes.text(-0.12, top + _ROW / 2, scheme, ha="right", va="center")
        for column, verdict in enumerate(verdicts[row]):
            fill, sign = _VERDICTS[verdict]
            corner = (column * _CELL, top)
            axes.add_patch(Rectangle(corner, _CELL, _ROW, facecolor=fill, edgecolor=PAPER, linewidth=2))
            middle = (corner[0] + _CELL / 2, top + _ROW / 2)
            axes.text(*middle, sign, ha="center", va="center", fontsize=11, color=ON_LIGHT)
    axes.text(0, height + 0.2, "✓ yes    ~ partly    ✗ no", fontsize=9.5, color=FAINT, va="center")
    return figure


register_figure(
    "criteria",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "Five properties of a position code",
        "Unique: every position has a code of its own. Consistent distance: two tokens k apart differ alike wherever "
        "they stand. Defined beyond training length: the formula gives a number there; whether a trained model reads "
        "such texts well is another question, which only a test answers. Bounded: the code does not grow with the "
        "text. Deterministic: the same each time. All are computed from the schemes with their default options.",
        "for all p ≠ q: code(p) ≠ code(q); &nbsp; d(code(p), code(p + k)) depends on k alone",
        ("For one scheme, locant positions NAME gives the reason of each verdict, with its number.",),
    ),
    slides={},
)
