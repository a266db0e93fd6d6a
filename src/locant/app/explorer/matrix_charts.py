"""Charts of matrices: axes drawn by plotly, and images of the cells, of their numbers and of the scale of colours.

Plotly draws a matrix of a quarter of a million cells in a second or so as a heat map, but at once as an image; and it
lays out everything anew where a trace changes, while it exchanges an image of the layout where it stands. So all that
changes with the numbers is an image of the layout, and the one trace is an empty one that finds the cell under the
pointer. ``assets/cells.js`` shows the number there, from those sent along or from those that it fetches.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from locant.app.explorer.panels import Cells, Matrix
from locant.app.explorer.theme import GRID, LAYOUT, marks, raw
from locant.figures.drawing import BOTH_SIGNS, HIDDEN, INK, MINUS, ONE_SIGN

_SHADES = 254
_MOST_TICKS = 60
_MOST_CARRIED = 64 * 64
_MOST_NUMBERED = 12
_SIDE = 256  # pixels that an image has at least, so that its cells have sharp edges wherever it is enlarged
_LETTERS = "font-family='system-ui, sans-serif'"


def matrix_chart(panel: Matrix, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a plotly figure of a matrix with its scale of colours.

    Args:
        panel: The numbers.
        source: What to send where, as ``{"address": ..., "body": ...}``, to be given the numbers as float32. Without
            it even a large matrix carries its numbers along.
    """
    size = float(np.abs(panel.values).max()) or 1.0
    lowest = -size if panel.values.min() < 0 else 0.0
    colours = BOTH_SIGNS if lowest else ONE_SIGN
    images = [
        _over_cells(panel.values.shape, png((panel.values - lowest) / (size - lowest), colours)),
        {"x": 1, "xref": "paper", "y": 1, "yref": "paper", "sizex": 1, "sizey": 1, "sizing": "stretch"}
        | {"source": _svg(_scale(lowest, size, colours, panel.measure))},
    ]
    figure = _framed(panel, panel.measure, images, source)
    figure["layout"] |= {"shapes": marks(panel.marked, "row"), "margin": LAYOUT["margin"] | {"r": 84}}
    return figure


def cells_chart(panel: Cells) -> dict[str, Any]:
    """Return a plotly figure of rows of numbers; those that share a scale go from vermilion through white to blue."""
    rows, columns = panel.values.shape
    shown = np.isfinite(panel.values)
    sizes = {}
    for scale in dict.fromkeys(panel.scales):
        part = panel.values[[one == scale for one in panel.scales]]
        sizes[scale] = float(np.abs(part[np.isfinite(part)]).max(initial=0)) or 1.0
    shares = np.where(shown, panel.values, 0) / np.array([sizes[scale] for scale in panel.scales])[:, None]
    images = [_over_cells(panel.values.shape, png((shares + 1) / 2, BOTH_SIGNS, hidden=~shown))]
    if columns <= _MOST_NUMBERED:
        images.append(_over_cells(panel.values.shape, _svg(_numbers(panel.values, abs(shares) > 0.6)), anchor="right"))
    between = [
        {"type": "line", "x0": at - 0.5, "x1": at - 0.5, "y0": 0, "y1": 1, "yref": "paper", "line": {"width": 1.5}}
        for at in panel.splits
    ]
    figure = _framed(panel, "value", images, None)
    figure["layout"]["yaxis"]["title"] = {"text": ""}
    figure["layout"] |= {"shapes": between, "height": 110 + 27 * rows}
    return figure


def _framed(
    panel: Matrix | Cells, measure: str, images: Sequence[Mapping[str, Any]], source: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return images between axes, with what ``cells.js`` reads of them."""
    rows, columns = panel.values.shape
    carried = source is None or panel.values.size <= _MOST_CARRIED
    numbers = {"values": base64.b64encode(raw(panel.values)).decode("ascii")} if carried else {"source": source}
    cells = numbers | {
        "rows": _names(panel.rows),
        "columns": _names(panel.columns),
        "names": [panel.row_name, panel.column_name, measure],
        "width": columns,
    }
    trace = {"type": "image", "source": _empty(rows, columns), "hoverinfo": "none", "cells": cells}
    layout = LAYOUT | {
        "xaxis": _axis(panel.column_name, panel.columns) | {"range": [-0.5, columns - 0.5], "constrain": "range"},
        "yaxis": _axis(panel.row_name, panel.rows) | {"range": [rows - 0.5, -0.5], "scaleanchor": False},
        "images": images,
        "shown": panel.title,
        # Equal where the axes are, so that no more than images and marks are drawn anew.
        "datarevision": repr((cells["rows"], cells["columns"], rows, columns)),
    }
    return {"data": [trace], "layout": layout}


def _over_cells(shape: tuple[int, ...], source: str, anchor: Literal["left", "right"] = "left") -> dict[str, Any]:
    """Return an image that covers all cells; plotly tells images from each other by the corner that they hang on."""
    rows, columns = shape
    place = {"xref": "x", "x": -0.5 if anchor == "left" else columns - 0.5, "xanchor": anchor, "sizex": columns}
    return {**place, "yref": "y", "y": -0.5, "sizey": rows, "sizing": "stretch", "layer": "below", "source": source}


def _axis(name: str, names: Sequence[Any] | None) -> dict[str, Any]:
    axis: dict[str, Any] = GRID | {"title": {"text": name}, "showgrid": False}
    if names is not None:
        every = -(-len(names) // _MOST_TICKS)
        ticks = {"tickvals": list(range(0, len(names), every)), "ticktext": [str(name) for name in names[::every]]}
        # Room for names takes a second drawing, so only where there are names.
        axis |= ticks | {"automargin": True, "title": {"text": name, "standoff": 8}}
    return axis


def _names(names: Sequence[Any] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _svg(content: str) -> str:
    """Return the address of an image that fills the place it is given; lengths in it are shares of that, or pixels."""
    whole = f"<svg xmlns='http://www.w3.org/2000/svg' width='100%' height='100%' {_LETTERS}>{content}</svg>"
    return f"data:image/svg+xml,{quote(whole)}"


def _numbers(values: NDArray[Any], dark: NDArray[Any]) -> str:
    """Return the numbers ``[R, C]`` in the middle of their cells; white where the cell is dark."""
    rows, columns = values.shape
    letters = []
    for (row, column), value in np.ndenumerate(values):
        place = f"x='{100 * (column + 0.5) / columns:.2f}%' y='{100 * (row + 0.5) / rows:.2f}%'"
        letters.append(f"<text {place} fill='{'#ffffff' if dark[row, column] else INK}'>{_written(value)}</text>")
    return f"<g font-size='11' text-anchor='middle' dominant-baseline='central'>{''.join(letters)}</g>"


def _written(value: float) -> str:
    return f"{value:.2f}".replace("-inf", f"{MINUS}∞").replace("-", MINUS)


def _scale(lowest: float, highest: float, colours: Sequence[str], measure: str) -> str:
    """Return a strip of colours with some of the numbers beside it, and what they are."""
    stops = zip(np.linspace(100, 0, len(colours)), colours, strict=True)
    strip = "".join(f"<stop offset='{place:.2f}%' stop-color='{colour}'/>" for place, colour in reversed(list(stops)))
    said = []
    for value in scale_ticks(lowest, highest):
        share = (highest - value) / (highest - lowest)
        # What stands at an end must not reach out of the image.
        baseline = "hanging" if share < 0.03 else "alphabetic" if share > 0.97 else "central"
        written = f"{value:g}".replace("-", MINUS)
        said.append(f"<text x='27' y='{100 * share:.2f}%' dominant-baseline='{baseline}'>{written}</text>")
    turned = "transform='translate(68) rotate(90)' text-anchor='middle'"
    return (
        f"<linearGradient id='strip' x2='0' y2='1'>{strip}</linearGradient>"
        f"<rect x='10' width='12' height='100%' fill='url(#strip)'/><g fill='{INK}' font-size='12'>{''.join(said)}"
        f"<svg y='50%' overflow='visible'><text {turned}>{html.escape(measure)}</text></svg></g>"
    )


def scale_ticks(lowest: float, highest: float) -> list[float]:
    """Return three to seven even numbers in a range, 0 among them where it is inside.

    Example:
        >>> scale_ticks(-1.3, 1.3)
        [-1.0, -0.5, 0.0, 0.5, 1.0]
    """
    rough = (highest - lowest) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(math.log(factor * power / rough)))
    numbers = range(math.ceil(lowest / step - 1e-9), math.floor(highest / step + 1e-9) + 1)
    return [float(f"{number * step:.12g}") for number in numbers]


def png(shares: NDArray[Any], colours: Sequence[str], *, hidden: NDArray[Any] | None = None) -> str:
    """Return numbers from 0 to 1 as the address of an image, some pixels each; what is hidden is grey."""
    from PIL import Image

    stops = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours], dtype=float)
    places = np.linspace(0, _SHADES, len(colours))
    palette = np.stack([np.interp(np.arange(_SHADES + 1), places, stops[:, channel]) for channel in range(3)], axis=1)
    # The last colour of a palette of 256 is for what is hidden.
    indices = np.rint(shares * _SHADES).astype(np.uint8)
    if hidden is not None:
        indices = np.where(hidden, np.uint8(_SHADES + 1), indices)
    for axis, length in enumerate(indices.shape):
        indices = indices.repeat(-(-_SIDE // length), axis=axis)
    image = Image.fromarray(indices)
    image.putpalette(np.rint(palette).astype(np.uint8).tobytes() + bytes.fromhex(HIDDEN[1:]))
    return _address(image)


def _empty(rows: int, columns: int) -> str:
    """Return the address of an image without anything in it, a pixel a cell."""
    from PIL import Image

    return _address(Image.new("LA", (columns, rows)))


def _address(image: Any) -> str:
    content = io.BytesIO()
    image.save(content, format="png", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
