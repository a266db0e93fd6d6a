"""Heat maps: the position codes of a scheme as an image, one row a position, one column a feature."""

from __future__ import annotations

from typing import Any, get_args

from locant.figures.drawing import (
    Axes,
    Figure,
    FigureData,
    Numbers,
    colour_scale,
    draw_image,
    drawing,
    label,
    new_figure,
    panels,
    settle,
)
from locant.figures.numbers import code_table, embedding_schemes, initial_note
from locant.figures.registry import register_figure
from locant.positions.embeddings.sinusoidal import SinusoidDialect

_MOST_OBLONG = 5.0  # ratio of the sides beyond which an image of square cells would be a stripe


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
    order = f", {dialect or 'paper'} order, base {base or 10000:,g}"
    return {"table": table, "title": scheme + (order if scheme == "sinusoidal" else initial_note(scheme))}


def heatmaps_numbers(*, d_model: int = 32, length: int = 16, base: float = 10000.0) -> dict[str, Any]:
    """Return the codes of all schemes at the input embedding by name, the sinusoids in each of their dialects."""
    shape: dict[str, Any] = {"d_model": d_model, "length": length}
    tables = {
        f"sinusoidal, {dialect}": code_table("sinusoidal", options={"dialect": dialect, "base": base}, **shape)
        for dialect in get_args(SinusoidDialect)
    }
    others = [scheme for scheme in embedding_schemes() if scheme != "sinusoidal"]
    return tables | {f"{scheme}{initial_note(scheme)}": code_table(scheme, **shape) for scheme in others}


@drawing()
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
    wide = min(8.0, max(3.0, 7.0 * columns / rows))
    figure = new_figure(max(wide + 2.0, 6.0), min(7.0, max(2.8, wide * rows / columns)) + 1.2)
    _draw_table(figure.subplots(), table, title, "value")
    return settle(figure, {"table": table})


def _draw_all(**tables: Any) -> Figure:
    figure, found = panels(len(tables), 2, width=11, height=2.9)
    for axes, (name, table) in zip(found, tables.items(), strict=False):
        _draw_table(axes, table, name)
    return figure


def _draw_table(axes: Axes, table: Numbers, title: str, unit: str = "") -> None:
    rows, columns = table.shape
    square = 1 / _MOST_OBLONG <= rows / columns <= _MOST_OBLONG
    image = draw_image(axes, table, aspect="equal" if square else "auto")
    axes.spines[:].set_visible(True)
    axes.locator_params(integer=True, nbins=8, steps=[1, 2, 5, 10])
    label(axes, title, "feature", "position")
    colour_scale(axes, image, unit)


register_figure("heatmap", heatmap_numbers, heatmap, limits={"length": (2, 4096), "d_model": (2, 4096)})
register_figure("heatmaps", heatmaps_numbers, _draw_all, limits={"length": (2, 512), "d_model": (2, 512)})
