"""Score biases: what is added to an attention score at each distance, head by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from locant.figures.drawing import FAINT, FigureData, Numbers, colour_scale, colours, drawing, new_figure, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3


@dataclass(frozen=True)
class HeadBiases:
    """The biases of one scheme.

    Attributes:
        title: Its name, and whether the values are trained.
        values: Bias ``[H, N]`` of every head at every distance.
        stepped: Whether distances share values without any order among these, which an image shows better than lines.
    """

    title: str
    values: Numbers
    stepped: bool = False


def bias(distances: Numbers, schemes: Sequence[HeadBiases]) -> FigureData:
    """Draw the biases of several schemes, one line a head, or one row a head.

    Args:
        distances: How far before the query the key stands, ``[N]``, in tokens.
        schemes: One panel each; all with the same number of heads.

    Returns:
        The figure, 3.7 inches wide a panel and 11 at most, the distances and the values by title.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    heads = len(schemes[0].values)
    legend = any(not scheme.stepped for scheme in schemes)  # takes a panel's place
    columns = min(_COLUMNS, len(schemes) + legend)
    rows = -(-(len(schemes) + legend) // columns)
    with drawing():
        from matplotlib import colormaps

        figure = new_figure(11 / _COLUMNS * columns, 3.3 * rows)
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        shades = colormaps["viridis"](np.linspace(0, 0.92, heads))
        for axes, scheme in zip(panels, schemes, strict=False):
            if scheme.stepped:
                _draw_rows(axes, scheme.values)
            else:
                for head, shade in enumerate(shades):
                    axes.plot(distances, scheme.values[head], color=shade, linewidth=1.5, label=f"head {head + 1}")
                axes.axhline(0, color=FAINT, linewidth=0.8)
                axes.set_ylabel("added to the score")
            axes.set_title(scheme.title, fontsize=11, pad=9)
            axes.set_xlabel("distance of the key, tokens")
            axes.set_xlim(distances[0], distances[-1])
        for axes in panels[len(schemes) :]:
            axes.set_axis_off()
        if legend:
            lined = next(axes for axes, scheme in zip(panels, schemes, strict=False) if not scheme.stepped)
            handles, labels = lined.get_legend_handles_labels()
            panels[len(schemes)].legend(handles, labels, loc="center left", ncols=1, fontsize=10.5)
        settle(figure)
    return FigureData(figure, {"distances": distances} | {scheme.title: scheme.values for scheme in schemes})


def _draw_rows(axes: Axes, values: Numbers) -> None:
    heads, count = values.shape
    scale, limits = colours(values)
    place = (-0.5, count - 0.5, heads + 0.5, 0.5)
    image = axes.imshow(values, cmap=scale, norm=limits, aspect="auto", interpolation="none", extent=place)
    axes.grid(visible=False)
    axes.set_yticks(range(1, heads + 1))
    axes.set_ylabel("head")
    colour_scale(axes, image)
