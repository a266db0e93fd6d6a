"""Heat maps: the position codes of every scheme at the input embedding, one image each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from locant.figures.drawing import FigureData, Numbers, colour_scale, drawing, new_figure, settle
from locant.figures.heatmap import draw_table
from locant.figures.numbers import code_table, embedding_schemes, initial_note
from locant.figures.registry import Caption, register_figure
from locant.positions.embeddings.sinusoidal import SinusoidDialect

_COLUMNS = 2


def heatmaps_numbers(*, d_model: int = 32, length: int = 16, base: float = 10000.0) -> dict[str, Any]:
    """Return the codes of all schemes at the input embedding, the sinusoids in each of their dialects.

    Raises:
        LocantError: A scheme does not take such a width or length.
    """

    def table(scheme: str, **options: Any) -> Numbers:
        return code_table(scheme, d_model=d_model, length=length, options=options)

    tables = {
        f"sinusoidal, {dialect}": table("sinusoidal", dialect=dialect, base=base)
        for dialect in get_args(SinusoidDialect)
    }
    for scheme in embedding_schemes():
        if scheme != "sinusoidal":
            tables[f"{scheme}{initial_note(scheme)}"] = table(scheme)
    return {"tables": tables}


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
            image = draw_table(axes, table)
            axes.set_title(name, pad=8)
            axes.set_xlabel("feature")
            axes.set_ylabel("position")
            colour_scale(axes, image)
        for axes in grid[len(tables) :]:
            axes.set_visible(False)
        settle(figure)
    return FigureData(figure, dict(tables))


register_figure(
    "heatmaps",
    numbers=heatmaps_numbers,
    draw=heatmaps,
    caption=Caption(
        "What others add to the embedding",
        "The three dialects of the sinusoids differ in the order of the features and in the spacing of the waves. "
        "Learned codes are noise until training shapes them; the bare index grows without bound, its share of the "
        "length depends on what length is declared, and binary digits jump.",
        "index: x<sub>0</sub>&nbsp;+ p &nbsp;&nbsp; normalised: x<sub>0</sub>&nbsp;+ p&thinsp;/&thinsp;(L&minus;1) "
        "&nbsp;&nbsp; binary: ⌊p&thinsp;/&thinsp;2<sup>i</sup>⌋ mod 2",
    ),
    limits={"length": (2, 512), "d_model": (2, 512)},
)
