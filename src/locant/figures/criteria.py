"""Criteria: five properties of a position code, checked for every scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from locant.analysis.properties import PROPERTIES, check_registry
from locant.figures.drawing import SLIDE, SLIDE_LETTERS, Figure, canvas, wrapped, write
from locant.figures.palette import INK, ON_LIGHT, PAPER
from locant.figures.registry import register_figure

# Fill and sign of every verdict; the signs alone suffice.
_VERDICTS = {"yes": ("#c5e1f2", "✓"), "partly": ("#fbe6b3", "~"), "no": ("#f6c7a8", "✗")}
_ON_A_SLIDE = 8  # schemes


def numbers() -> dict[str, Any]:
    """Return the verdict on every property ``[schemes, properties]``."""
    checked = check_registry()
    verdicts = [[found.verdict for found in of_scheme] for of_scheme in checked.values()]
    return {"schemes": list(checked), "verdicts": np.array(verdicts)}


def draw(schemes: Sequence[str], verdicts: Any) -> Figure:
    """Draw a table of signs: one row a scheme, one column a property."""
    return _table(schemes, verdicts, (8.9, 0.26 * len(schemes) + 1.25), left=1.75, above=0.8, row=0.26, letters=10)


def slides(schemes: Sequence[str], verdicts: Any) -> Iterator[Figure]:
    """Draw the table in parts."""
    left = 0.12 + 0.08 * max(map(len, schemes))
    for first in range(0, len(schemes), _ON_A_SLIDE):
        part = slice(first, first + _ON_A_SLIDE)
        yield _table(schemes[part], verdicts[part], SLIDE, left=left, above=0.92, row=0.245, letters=SLIDE_LETTERS)


def _table(
    schemes: Sequence[str],
    verdicts: Any,
    size: tuple[float, float],
    *,
    left: float,
    above: float,
    row: float,
    letters: float,
) -> Figure:
    """Draw rows of a height with their names in ``left`` inches, and those of the columns in ``above``."""
    from matplotlib.patches import Rectangle

    figure, axes = canvas(*size)
    cell, top = (size[0] - left - 0.1) / len(PROPERTIES), size[1] - above
    for column, name in enumerate(PROPERTIES):
        words = wrapped(name, 16) if cell > 1 else wrapped(name.replace("deterministic", "determin- istic"), 10)
        weight = "bold" if cell > 1 else "normal"
        write(axes, left + (column + 0.5) * cell, top + 0.06, words, letters, color=INK, va="bottom", fontweight=weight)
    for number, (scheme, found) in enumerate(zip(schemes, verdicts, strict=True)):
        y = top - (number + 1) * row
        write(axes, left - 0.1, y + row / 2, scheme, letters, color=INK, ha="right")
        for column, verdict in enumerate(found):
            fill, sign = _VERDICTS[verdict]
            x = left + column * cell
            axes.add_patch(Rectangle((x, y), cell, row, facecolor=fill, edgecolor=PAPER, linewidth=2))
            write(axes, x + cell / 2, y + row / 2, sign, 11, color=ON_LIGHT)
    write(axes, left, y - 0.22, "✓ yes    ~ partly    ✗ no", letters, ha="left")
    return figure


register_figure("criteria", numbers, draw, slides=slides)
