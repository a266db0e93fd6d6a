"""Heat map: the position codes of one scheme as an image, one row a position, one column a feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locant.figures.drawing import FigureData, Numbers, colour_scale, colours, drawing, new_figure, settle
from locant.figures.numbers import code_table, initial_note
from locant.figures.registry import Caption, register_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# Beyond this ratio of its sides an image of square cells would be a stripe.
_MOST_OBLONG = 5.0


def heatmap_numbers(
    *,
    scheme: str = "sinusoidal",
    dialect: str | None = None,
    d_model: int = 128,
    length: int = 50,
    base: float | None = None,
) -> dict[str, Any]:
    """Return what a scheme adds to the embeddings; errors as for :func:`~locant.figures.numbers.code_table`."""
    options = {name: value for name, value in (("dialect", dialect), ("base", base)) if value is not None}
    table = code_table(scheme, d_model=d_model, length=length, options=options)
    if scheme == "sinusoidal":
        detail = f", {dialect or 'paper'} order, base {base or 10000:,g}"
    else:
        detail = initial_note(scheme)
    return {"table": table, "title": f"{scheme}{detail}"}


def heatmap(table: Numbers, *, title: str) -> FigureData:
    """Draw position codes as an image.

    Args:
        table: Codes ``[L, E]`` of positions 0 to ``L - 1``.
        title: What they are.

    Returns:
        The figure, 10 inches wide, and ``table``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    rows, columns = table.shape
    # Room for labels and the colour scale besides the image itself, which is 8 inches wide or 7 high.
    wide = max(1.6, min(8.0, 7.0 * columns / rows if columns * _MOST_OBLONG > rows else 3.0))
    high = wide * rows / columns if _is_square(table) else 4.5
    with drawing():
        figure = new_figure(max(wide + 2.0, 6.0), min(max(high, 1.6), 7.5) + 1.2)
        axes = figure.subplots()
        image = draw_table(axes, table)
        axes.set_title(title, pad=12)
        axes.set_xlabel("feature")
        axes.set_ylabel("position")
        colour_scale(axes, image, "value")
        settle(figure)
    return FigureData(figure, {"table": table})


def _is_square(table: Numbers) -> bool:
    """Whether cells can be squares."""
    rows, columns = table.shape
    return 1 / _MOST_OBLONG <= rows / columns <= _MOST_OBLONG


def draw_table(axes: Axes, table: Numbers) -> AxesImage:
    """Draw codes ``[L, E]`` into a panel, with square cells unless they would make a stripe; returns the image."""
    from matplotlib.ticker import MaxNLocator

    scale, limits = colours(table)
    # Without interpolation a vector format keeps the cells as they are.
    image = axes.imshow(
        table, cmap=scale, norm=limits, interpolation="none", aspect="equal" if _is_square(table) else "auto"
    )
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(True)
    axes.xaxis.set_major_locator(MaxNLocator(9, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    return image


register_figure(
    "heatmap",
    numbers=heatmap_numbers,
    draw=heatmap,
    caption=Caption(
        "All of it as an image",
        "Every row is what one position adds to the embedding of its token. At the left the fast pairs alternate from "
        "row to row; to the right they slow down until sine stays near 0 and cosine near 1 for the whole text.",
        "row p&nbsp;= PE(p)&nbsp;= ( sin p&thinsp;ω<sub>0</sub>, cos p&thinsp;ω<sub>0</sub>, …, "
        "sin p&thinsp;ω<sub>d/2&minus;1</sub>, cos p&thinsp;ω<sub>d/2&minus;1</sub> )",
    ),
    limits={"length": (2, 4096), "d_model": (2, 4096)},
)
