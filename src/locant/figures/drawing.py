"""Style of all figures: layout, matrices as cells, and figures as SVG for light and dark pages."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from locant.figures.palette import (
    BOTH_SIGNS,
    DARK,
    FAINT,
    GRID,
    HIDDEN,
    INK,
    ON_DARK,
    ON_LIGHT,
    ONE_SIGN,
    PAPER,
    VARIABLES,
)
from locant.lazy import require_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure as Figure
    from matplotlib.image import AxesImage
else:
    Axes = Figure = Any  # matplotlib is an extra, and takes its time to import

Numbers = NDArray[np.float64]

SLIDE_LETTERS = 10.5
"""Points of the smallest letters of a slide as it is drawn."""
SLIDE = (40 / 3 * SLIDE_LETTERS / 24, 7.5 * SLIDE_LETTERS / 24)
"""Inches of a slide as it is drawn: enlarged to 13.33 x 7.5 inches, its letters have 24 points."""

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
MONO: dict[str, Any] = {"family": "DejaVu Sans Mono"}

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "figure.facecolor": PAPER,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that a figure looks the same everywhere
    "font.size": 10.5,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 9.5,
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
    require_package("matplotlib", "Drawing figures")
    from matplotlib import style

    with style.context(["default", _STYLE]):
        yield


@dataclass(frozen=True)
class FigureData:
    """A figure together with what it shows.

    Attributes:
        figure: A matplotlib figure that belongs to no window or global state.
        data: The arrays that were drawn, by name.
    """

    figure: Figure
    data: Mapping[str, NDArray[Any]]


def signed(value: float) -> str:
    """Return a number with its sign and three digits after the point."""
    return f"{value:+.3f}".replace("-", MINUS)


def count(tokens: float) -> str:
    """Return a number of tokens that need not be whole."""
    return f"{tokens:,.0f}" if tokens >= 1000 else f"{tokens:.4g}"


# Layout


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches whose parts will not overlap; call inside ``drawing()``."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.12))


def panels(number: int, columns: int, *, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure with a number of panels, each of a height in inches, and these; the last row may end empty."""
    rows = -(-number // columns)
    figure = new_figure(width, height * rows)
    found = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for axes in found[number:]:
        axes.set_axis_off()
    return figure, found


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of a size and one panel that fills it, whose unit is an inch, for boxes and arrows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def blank(axes: Axes, *, width: float = 1, height: float = 1) -> None:
    """Make a panel a sheet of a width and a height to write on, without axes."""
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()


def label(axes: Axes, title: str = "", x: str = "", y: str = "", *, note: str = "", log: str = "") -> None:
    """Name a panel and its axes.

    Args:
        axes: The panel.
        title: Heading.
        x: What the horizontal axis is; left as it is unless given.
        y: Likewise the vertical one.
        note: Lines between heading and panel.
        log: Which axes are logarithmic, of ``x`` and ``y``.
    """
    for axis in log:
        axes.set(**{f"{axis}scale": "log"})
    if title:
        axes.set_title(title, pad=9 + 14 * len(note.splitlines()))
    if note:
        at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(note, (0, 1), (0, 6), fontsize=9.5, color=FAINT, linespacing=1.3, **at)
    if x:
        axes.set_xlabel(x)
    if y:
        axes.set_ylabel(y)


def shared_legend(figure: Figure, found: Iterable[Axes], columns: int) -> None:
    """Name the lines of several panels once, below them."""
    named = {name: line for axes in found for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(list(named.values()), list(named), loc="outside lower left", ncols=columns)


def write(axes: Axes, x: float, y: float, text: str, size: float = 9, **how: Any) -> None:
    """Write a text of a size in points around a place of a panel."""
    axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": size, "color": FAINT, **how})


def arrow(axes: Axes, start: Any, end: Any, *, color: str = INK, **style: Any) -> None:
    """Draw an arrow from one point of a panel to another."""
    kind = {"arrowstyle": "-|>", "color": color, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0, **style}
    axes.annotate("", end, start, arrowprops=kind, zorder=1)


def settle(figure: Figure, data: Mapping[str, NDArray[Any]]) -> FigureData:
    """Lay a figure out once for all (each drawing would move its panels by a hair) and return it with its data."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return FigureData(figure, data)


# Matrices


def colours(values: Numbers) -> tuple[Colormap, Normalize]:
    """Return a map of colours and its range: around white for values of both signs, from white for one sign alone.

    Vermilion is below zero and blue above, which people with any colour vision can tell apart.
    """
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    size = float(np.abs(values).max()) or 1.0
    if values.min() < 0:
        return LinearSegmentedColormap.from_list("vermilion-blue", BOTH_SIGNS), Normalize(-size, size)
    return LinearSegmentedColormap.from_list("blue", ONE_SIGN), Normalize(0, size)


def colour_scale(axes: Axes, image: ScalarMappable, label: str = "") -> None:
    """Put the scale of an image's colours to the right of it, exactly as high as the image."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    width = 0.1 / axes.get_position().width / figure.get_figwidth()  # a tenth of an inch
    place = axes.inset_axes((1.025, 0.0, width, 1.0))
    figure.colorbar(image, cax=place, label=label).outline.set_visible(False)


def draw_image(
    axes: Axes, values: Numbers, scale: tuple[Colormap, Normalize] | None = None, **options: Any
) -> AxesImage:
    """Draw ``[R, C]`` as an image, the first row at the top; without interpolation, so that cells stay cells."""
    scheme, limits = scale or colours(values)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes.imshow(values, cmap=scheme, norm=limits, interpolation="none", **options)


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
        scale: Map of colours and its range, see :func:`colours`.
        texts: What is in each cell, ``[R, C]``; nothing unless given.
        rows: Names of the rows; none unless given.
        columns: Names of the columns; none unless given.
        splits: Columns before which a line is drawn, as between heads.
        letters: Size of the names, in points.
        text_letters: Size of the texts; that of the names unless given.
        aspect: Whether cells are squares or fill the panel.
    """
    from matplotlib.patches import Rectangle

    shown = np.ma.masked_invalid(values)
    coloured, limits = scale[0].with_extremes(bad=HIDDEN), scale[1]
    draw_image(axes, shown, (coloured, limits), aspect=aspect)
    height, width = values.shape
    axes.add_patch(Rectangle((-0.5, -0.5), width, height, fill=False, edgecolor=FAINT, linewidth=0.7, clip_on=False))
    for split in splits:
        axes.plot([split - 0.5] * 2, [-0.5, height - 0.5], color=ON_LIGHT, linewidth=1.1)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    axes.tick_params(length=0, pad=2, labelsize=letters)
    axes.set_yticks(range(height) if rows else [], rows or [])
    axes.set_xticks(range(width) if columns else [], columns or [], rotation=90 if columns else 0)
    if texts is None:
        return
    for (row, column), value in np.ndenumerate(values):
        dark = np.isfinite(value) and abs(value) > 0.45 * (limits.vmax or 1)  # both maps begin white
        colour = ON_DARK if dark else ON_LIGHT
        write(axes, column, row, str(texts[row, column]), text_letters or letters, color=colour)


# Pages


def svg(figure: FigureData, *, name: str, description: str) -> str:
    """Return a figure as an ``<svg>`` element that refers to nothing outside itself and suits light and dark pages.

    Nothing is behind it, and every colour of :data:`VARIABLES` is the page's custom property of that name where it has
    one. Letters become outlines, so that it looks the same wherever it is read. The same figure gives the same text.

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
    element = svg_text(figure, salt=name)
    # The XML declaration and document type before the element have no place inside a page.
    element = element[element.index("<svg") :].strip()
    element = re.sub(r'(\sid="|href="#|url\(#)', rf"\g<1>{name}-", element)
    # A style sheet in the element would apply to the whole page; what it says can be inherited just as well.
    element = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", element, count=1, flags=re.DOTALL)
    element = _recoloured(element, {colour: f"var(--{VARIABLES[colour]}, {colour})" for colour in VARIABLES})
    opening, rest = element.split(">", 1)
    title = f'<title id="{name}-title">{html.escape(description)}</title>'
    return f'{opening} style="stroke-linejoin: round" role="img" aria-labelledby="{name}-title">{title}{rest}'


def svg_text(figure: FigureData, *, salt: str = "locant", dark: bool = False) -> str:
    """Return a figure as a file of SVG without a background; the same figure gives the same text.

    Args:
        figure: The figure.
        salt: Makes the ids in it others.
        dark: Whether it is for a dark page.
    """
    text = io.StringIO()
    with drawing():
        import matplotlib

        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))  # None leaves an entry out
        with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": salt}):
            figure.figure.savefig(text, format="svg", metadata=metadata, facecolor="none")
    return _recoloured(text.getvalue(), DARK) if dark else text.getvalue()


def _recoloured(text: str, others: Mapping[str, str]) -> str:
    """Return SVG with other colours in its styles."""
    by_hex = {colour.lower(): other for colour, other in others.items()}
    return re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda found: by_hex.get(found[0], found[0]), text)


def wrapped(text: str, width: int) -> str:
    """Return a text in lines of at most that many letters."""
    return "\n".join(fill(line, width) for line in text.splitlines())
