"""What a drawing function of this room gives back, and what all of them end with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]

# Further colours of the palette of Okabe and Ito (2008).
ORANGE, PURPLE = "#E69F00", "#CC79A7"

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Drawn:
    """A figure together with what it shows.

    Attributes:
        figure: A matplotlib figure that belongs to no window or global state.
        data: The arrays that were drawn, by name; the names are those of the drawing function's arguments.
    """

    figure: Figure
    data: Mapping[str, NDArray[Any]]


def signed(value: float) -> str:
    """Return a number with its sign and three digits after the point."""
    return f"{value:+.3f}".replace("-", MINUS)


def count(tokens: float) -> str:
    """Return a number of tokens that need not be whole."""
    return f"{tokens:,.0f}" if tokens >= 1000 else f"{tokens:.4g}"


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches whose parts will not overlap; call inside ``drawing()``."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.12))


def settle(figure: Figure) -> None:
    """Lay a figure out once for all: each drawing would move its panels by a hair."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def colour_scale(axes: Axes, image: ScalarMappable, label: str = "") -> None:
    """Put the scale of an image's colours to the right of it, exactly as high as the image."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width = 0.1 / axes.get_position().width / figure.get_figwidth()  # a tenth of an inch
    place = axes.inset_axes((1.025, 0.0, width, 1.0))
    figure.colorbar(image, cax=place, label=label).outline.set_visible(False)


def colours(values: Numbers) -> tuple[Colormap, Normalize]:
    """Return a map of colours and its range: around white for values of both signs, from white for one sign alone.

    Vermilion is below zero and blue above, which people with any colour vision can tell apart.
    """
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    size = float(np.abs(values).max()) or 1.0
    if values.min() < 0:
        both = ["#5e2700", "#D55E00", "#f3c19f", "#ffffff", "#9fcbe8", "#0072B2", "#00304d"]
        return LinearSegmentedColormap.from_list("vermilion-blue", both), Normalize(-size, size)
    return LinearSegmentedColormap.from_list("blue", ["#ffffff", "#9fcbe8", "#0072B2", "#00304d"]), Normalize(0, size)
