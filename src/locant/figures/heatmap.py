"""Position codes as images: one row a position, one column a feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from locant.figures.drawing import FigureData, Numbers, colour_scale, colours, drawing, new_figure, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

# Beyond this ratio of its sides an image of square cells would be a stripe.
_MOST_OBLONG = 5.0
_COLUMNS = 2


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
        image = _draw(axes, table)
        axes.set_title(title, pad=12)
        axes.set_xlabel("feature")
        axes.set_ylabel("position")
        colour_scale(axes, image, "value")
        settle(figure)
    return FigureData(figure, {"table": table})


def heatmaps(tables: Mapping[str, Numbers]) -> FigureData:
    """Draw the codes of several schemes, one image each with its own colour scale.

    Args:
        tables: Codes ``[L, E]`` by the name of the scheme; all of the same shape.

    Returns:
        The figure, 11 inches wide, and the tables by name.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    count = -(-len(tables) // _COLUMNS)
    with drawing():
        figure = new_figure(11, 2.9 * count)
        grid = list(figure.subplots(count, _COLUMNS, squeeze=False).flat)
        for axes, (name, table) in zip(grid, tables.items(), strict=False):
            image = _draw(axes, table)
            axes.set_title(name, pad=8)
            axes.set_xlabel("feature")
            axes.set_ylabel("position")
            colour_scale(axes, image)
        for axes in grid[len(tables) :]:
            axes.set_visible(False)
        settle(figure)
    return FigureData(figure, dict(tables))


def _is_square(table: Numbers) -> bool:
    """Whether cells can be squares."""
    rows, columns = table.shape
    return 1 / _MOST_OBLONG <= rows / columns <= _MOST_OBLONG


def _draw(axes: Axes, table: Numbers) -> AxesImage:
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
