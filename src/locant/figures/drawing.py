"""Style of all figures: colours, type sizes, layout, and figures as SVG for a page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from locant.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]

# The palette of Okabe and Ito (2008), which people with any colour vision can tell apart; the first three also in grey.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
ORANGE, PURPLE, SKY = "#E69F00", "#CC79A7", "#56B4E9"
INK, FAINT = "#24292f", "#6e7781"

# Stops of the maps of colours: vermilion below zero and blue above, or from white for one sign alone.
BOTH_SIGNS = ("#5e2700", "#D55E00", "#f3c19f", "#ffffff", "#9fcbe8", "#0072B2", "#00304d")
ONE_SIGN = ("#ffffff", "#9fcbe8", "#0072B2", "#00304d")
HIDDEN = "#e4e8ec"  # the fill of a cell that holds nothing

MINUS = "\N{MINUS SIGN}"

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure looks the same everywhere
    "font.size": 10.5,
    "grid.color": "#d8dee4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in the style of the library, whatever the user's own matplotlib settings are.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib import style
    except ImportError:
        raise MissingExtraError("Drawing figures", "matplotlib", "report") from None
    with style.context(["default", _STYLE]):
        yield


@dataclass(frozen=True)
class FigureData:
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
        return LinearSegmentedColormap.from_list("vermilion-blue", BOTH_SIGNS), Normalize(-size, size)
    return LinearSegmentedColormap.from_list("blue", ONE_SIGN), Normalize(0, size)


_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # None leaves an entry out


def svg(figure: FigureData, *, name: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element that refers to nothing outside itself.

    Letters become outlines, so that it looks the same wherever it is read. The same figure gives the same text.

    Args:
        figure: The figure.
        name: Begins every id in the element; must be unique in a page. Letters, digits and hyphens.
        description: What the figure shows, for those who cannot see it.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: ``name`` cannot begin an id.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", name):
        raise ValueError(f"A figure's name must be letters, digits and hyphens, letter first; got {name!r}.")
    with drawing():
        import matplotlib

        text = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": name}):
            figure.figure.savefig(text, format="svg", metadata=_METADATA)
    # The XML declaration and document type before the element have no place inside a page.
    element = text.getvalue()
    element = element[element.index("<svg") :].strip()
    element = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", element)
    # A style sheet in the element would apply to the whole page; what it says can be inherited just as well.
    element = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", element, count=1, flags=re.DOTALL)
    opening, rest = element.split(">", 1)
    title = f'<title id="{name}-title">{html.escape(description)}</title>'
    return f'{opening} style="stroke-linejoin: round" role="img" aria-labelledby="{name}-title">{title}{rest}'
