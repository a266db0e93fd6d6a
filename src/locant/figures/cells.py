"""Matrices as cells: colours, and where there is room the numbers themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from locant.figures.drawing import FAINT, HIDDEN, INK, MINUS, Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize


def draw_cells(
    axes: Axes,
    values: Numbers,
    scale: tuple[Colormap, Normalize],
    *,
    texts: NDArray[Any] | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    splits: Sequence[int] = (),
    letters: float = 8.0,
    text_letters: float | None = None,
    aspect: Literal["equal", "auto"] = "equal",
) -> None:
    """Draw a matrix into a panel, the first row at the top.

    Args:
        axes: The panel.
        values: ``[R, C]``; a cell of minus infinity is filled with grey.
        scale: Map of colours and its range, see :func:`~locant.figures.drawing.colours`.
        texts: What stands in each cell, ``[R, C]``; nothing unless given.
        rows: Names of the rows; none unless given.
        columns: Names of the columns; none unless given.
        splits: Columns before which a line is drawn, as between heads.
        letters: Size of the names, in points.
        text_letters: Size of the texts; that of the names unless given.
        aspect: Whether cells are squares or fill the panel.
    """
    from matplotlib.patches import Rectangle

    scheme, limits = scale
    shown = np.ma.masked_invalid(values)
    coloured = scheme.with_extremes(bad=HIDDEN)
    axes.imshow(shown, cmap=coloured, norm=limits, interpolation="none", aspect=aspect)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    height, width = values.shape
    axes.add_patch(Rectangle((-0.5, -0.5), width, height, fill=False, edgecolor=FAINT, linewidth=0.7, clip_on=False))
    for split in splits:
        axes.plot([split - 0.5] * 2, [-0.5, height - 0.5], color=INK, linewidth=1.1)
    axes.set_xlim(-0.5, width - 0.5)
    axes.set_ylim(height - 0.5, -0.5)
    axes.tick_params(length=0, pad=2, labelsize=letters)
    axes.set_yticks(range(height) if rows else [], rows or [])
    axes.set_xticks(range(width) if columns else [], columns or [], rotation=90 if columns else 0)
    if texts is not None:
        for row, column in np.ndindex(height, width):
            fill = coloured(limits(shown[row, column])) if np.isfinite(values[row, column]) else None
            axes.text(
                column,
                row,
                str(texts[row, column]),
                ha="center",
                va="center",
                fontsize=text_letters or letters,
                color=INK if fill is None or _lightness(fill) > 0.45 else "white",
            )


def numbers_in(values: Numbers, digits: int = 2) -> NDArray[Any]:
    """Return the texts of numbers with some digits after the point; minus infinity is written as such."""
    texts = [
        "\N{MINUS SIGN}∞" if value == -np.inf else f"{value:.{digits}f}".replace("-", MINUS) for value in values.ravel()
    ]
    return np.array(texts, dtype=object).reshape(values.shape)


def _lightness(colour: tuple[float, ...]) -> float:
    """Return the relative luminance of a colour as displays weigh red, green and blue (ITU-R BT.709)."""
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]
