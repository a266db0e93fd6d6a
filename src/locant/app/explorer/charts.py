"""Draw panels with plotly. Large matrices travel as images alone; their numbers are fetched when somebody asks.

Plotly draws a matrix of a quarter of a million cells in a second or so as a heat map, but at once as an image.
``assets/cells.js`` shows the number under the pointer, from those sent along or from those that it fetches.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from locant.app.explorer.clock_charts import circle_chart, clocks_chart, odometer_chart
from locant.app.explorer.panels import Cells, Circle, Clocks, Curves, Matrix, Odometer, Panel, Strips
from locant.app.explorer.theme import GRID, LAYOUT, packed, raw
from locant.figures.drawing import BLUE, FAINT, GREEN, INK, MINUS, ORANGE, PURPLE, VERMILION

# Colour, dash and marker together, so that no line is told by its colour alone.
_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, INK, "#56B4E9", FAINT)
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid", "dash", "dot")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "circle-open")

_BOTH_SIGNS = ("#5e2700", "#D55E00", "#f3c19f", "#ffffff", "#9fcbe8", "#0072B2", "#00304d")
_ONE_SIGN = ("#ffffff", "#9fcbe8", "#0072B2", "#00304d")
_HIDDEN = "#e4e8ec"
_SHADES = 254
_MOST_TICKS = 60
_MOST_CARRIED = 64 * 64
_MOST_NUMBERED = 12


def chart(panel: Panel, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a panel as a plotly figure, in plain data.

    Args:
        panel: The numbers.
        source: What to send where, as ``{"address": ..., "body": ...}``, to be given the numbers of a matrix as
            float32. Without it even a large matrix carries its numbers along.
    """
    match panel:
        case Matrix():
            return _matrix(panel, source)
        case Cells():
            return _cells(panel)
        case Curves():
            return _curves(panel)
        case Strips():
            return _strips(panel)
        case Clocks():
            return clocks_chart(panel)
        case Odometer():
            return odometer_chart(panel)
        case Circle():
            return circle_chart(panel)


def _matrix(panel: Matrix, source: Mapping[str, Any] | None) -> dict[str, Any]:
    rows, columns = panel.values.shape
    size = float(np.abs(panel.values).max()) or 1.0
    lowest = -size if panel.values.min() < 0 else 0.0
    colours = _BOTH_SIGNS if lowest else _ONE_SIGN
    carried = source is None or panel.values.size <= _MOST_CARRIED
    numbers = {"values": base64.b64encode(raw(panel.values)).decode("ascii")} if carried else {"source": source}
    image = {
        "type": "image",
        "source": _png((panel.values - lowest) / (size - lowest), colours),
        "hoverinfo": "none",
        "meta": {
            **numbers,
            "rows": _names(panel.rows),
            "columns": _names(panel.columns),
            "names": [panel.row_name, panel.column_name, panel.measure],
            "width": columns,
        },
    }
    # An image has no scale of colours of its own.
    scale = {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "mode": "markers",
        "showlegend": False,
        "hoverinfo": "skip",
        "marker": {
            "colorscale": [[place, colour] for place, colour in _placed(colours)],
            "cmin": lowest,
            "cmax": size,
            "color": [0],
            "showscale": True,
            "colorbar": {"thickness": 12, "outlinewidth": 0, "title": {"text": panel.measure, "side": "right"}},
        },
    }
    x = _axis(panel.column_name, panel.columns) | {"range": [-0.5, columns - 0.5], "constrain": "range"}
    y = _axis(panel.row_name, panel.rows) | {"range": [rows - 0.5, -0.5], "scaleanchor": False}
    layout = LAYOUT | {"xaxis": x, "yaxis": y, "shapes": marks(panel.marked, "row"), "meta": panel.title}
    return {"data": [image, scale], "layout": layout}


def _cells(panel: Cells) -> dict[str, Any]:
    """Draw rows of numbers; those that share a scale go from vermilion through white to blue alike."""
    rows, columns = panel.values.shape
    shown = np.isfinite(panel.values)
    sizes = {}
    for scale in dict.fromkeys(panel.scales):
        part = panel.values[[one == scale for one in panel.scales]]
        sizes[scale] = float(np.abs(part[np.isfinite(part)]).max(initial=0)) or 1.0
    shares = np.where(shown, panel.values, 0) / np.array([sizes[scale] for scale in panel.scales])[:, None]
    image = {
        "type": "image",
        "source": _png((shares + 1) / 2, _BOTH_SIGNS, hidden=~shown),
        "hoverinfo": "none",
        "meta": {
            "values": base64.b64encode(raw(panel.values)).decode("ascii"),
            "rows": _names(panel.rows),
            "columns": _names(panel.columns),
            "names": [panel.row_name, panel.column_name, "value"],
            "width": columns,
        },
    }
    data: list[dict[str, Any]] = [image]
    if columns <= _MOST_NUMBERED:
        at, place = (one.ravel() for one in np.indices(panel.values.shape))
        letters = {"size": 11, "color": ["#ffffff" if dark else INK for dark in (abs(shares) > 0.6).ravel()]}
        data.append(
            {
                "type": "scatter",
                "mode": "text",
                "x": place.tolist(),
                "y": at.tolist(),
                "text": [_written(value) for value in panel.values.ravel().tolist()],
                "textfont": letters,
                "showlegend": False,
                "hoverinfo": "skip",
            }
        )
    x = _axis(panel.column_name, panel.columns) | {"range": [-0.5, columns - 0.5], "constrain": "range"}
    y = _axis(panel.row_name, panel.rows) | {"range": [rows - 0.5, -0.5], "scaleanchor": False, "title": {"text": ""}}
    between = [
        {
            "type": "line",
            "x0": split - 0.5,
            "x1": split - 0.5,
            "y0": 0,
            "y1": 1,
            "yref": "paper",
            "line": {"width": 1.5},
        }
        for split in panel.splits
    ]
    layout = LAYOUT | {"xaxis": x, "yaxis": y, "shapes": between, "height": 110 + 27 * rows, "meta": panel.title}
    return {"data": data, "layout": layout}


def _written(value: float) -> str:
    return f"{value:.2f}".replace("-inf", f"{MINUS}∞").replace("-", MINUS)


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


def _placed(colours: Sequence[str]) -> list[tuple[float, str]]:
    return list(zip(np.linspace(0, 1, len(colours)).tolist(), colours, strict=True))


def _png(shares: NDArray[Any], colours: Sequence[str], *, hidden: NDArray[Any] | None = None) -> str:
    """Return numbers from 0 to 1 as the address of an image with a pixel each; what is hidden is grey."""
    from PIL import Image

    stops = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours], dtype=float)
    places = np.linspace(0, _SHADES, len(colours))
    palette = np.stack([np.interp(np.arange(_SHADES + 1), places, stops[:, channel]) for channel in range(3)], axis=1)
    # The last colour of a palette of 256 is for what is hidden.
    indices = np.rint(shares * _SHADES).astype(np.uint8)
    image = Image.fromarray(indices if hidden is None else np.where(hidden, np.uint8(_SHADES + 1), indices))
    image.putpalette(np.rint(palette).astype(np.uint8).tobytes() + bytes.fromhex(_HIDDEN[1:]))
    content = io.BytesIO()
    image.save(content, format="png", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def _line(number: int, name: str, x: Any, y: Any, *, points: bool = False, **more: Any) -> dict[str, Any]:
    colour, dash, marker = (kinds[number % len(kinds)] for kinds in (_COLOURS, _DASHES, _MARKERS))
    look: dict[str, Any] = {"mode": "markers", "marker": {"color": colour, "symbol": marker, "size": 6}}
    if not points:
        look = {"mode": "lines", "line": {"color": colour, "dash": dash, "width": 2}}
    return {"type": "scatter", "name": name, "x": x, "y": y, **look, **more}


def _curves(panel: Curves) -> dict[str, Any]:
    x = packed(panel.places)
    data = [
        _line(number, name, x, packed(values), points=panel.points)
        for number, (name, values) in enumerate(panel.lines.items())
    ]
    layout = LAYOUT | {
        "xaxis": GRID | {"title": {"text": panel.place_name}},
        "yaxis": GRID | {"title": {"text": panel.measure}} | (_decades(panel) if panel.logarithmic else {}),
        "showlegend": len(data) > 1,
        "shapes": [*marks(panel.marked), *map(_level, panel.references.values())],
        "annotations": [_level_name(panel, name, value) for name, value in panel.references.items()],
        "meta": panel.title,
    }
    return {"data": data, "layout": layout}


def _decades(panel: Curves) -> dict[str, Any]:
    """Return a logarithmic axis; over few decades with 2 and 5 between the powers of ten."""
    values = np.concatenate([line[np.isfinite(line) & (line > 0)] for line in panel.lines.values()])
    return {"type": "log", "dtick": "D2" if values.size and values.max() / values.min() < 1000 else 1}


def marks(place: float | None, kind: Literal["place", "row"] = "place") -> list[dict[str, Any]]:
    """Return the vertical line at a place that is marked, or the frame around a row, as shapes of a layout."""
    if place is None:
        return []
    if kind == "row":
        frame = {"color": GREEN, "width": 3}
        return [
            {"type": "rect", "x0": 0, "x1": 1, "xref": "paper", "y0": place - 0.5, "y1": place + 0.5, "line": frame}
        ]
    stroke = {"color": INK, "width": 1}
    return [{"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "yref": "paper", "line": stroke}]


def _level(value: float) -> dict[str, Any]:
    stroke = {"color": INK, "width": 1, "dash": "dash"}
    return {"type": "line", "x0": 0, "x1": 1, "xref": "paper", "y0": value, "y1": value, "line": stroke}


def _level_name(panel: Curves, name: str, value: float) -> dict[str, Any]:
    height = float(np.log10(value)) if panel.logarithmic else value
    return {
        "x": 0.01,
        "xref": "paper",
        "xanchor": "left",
        "y": height,
        "yanchor": "bottom",
        "text": name,
        "showarrow": False,
    }


def _strips(panel: Strips) -> dict[str, Any]:
    """Draw all strips in one frame, each moved to a height of its own: a frame each would take long."""
    x, data, heights = packed(panel.places), [], []
    for row, (strip, lines) in enumerate(panel.strips.items()):
        heights.append(-row)
        low = min(float(values.min()) for values in lines.values())
        spread = max(float(values.max()) for values in lines.values()) - low or 1.0
        for number, (name, values) in enumerate(lines.items()):
            moved = (values - low) / spread * 0.8 - 0.4 - row
            hover = f"{strip}<br>{panel.place_name} %{{x:.5~g}}, {name} %{{customdata:.4f}}<extra></extra>"
            more: dict[str, Any] = {
                "customdata": packed(values),
                "hovertemplate": hover,
                "showlegend": row == 0 and len(lines) > 1,
            }
            data.append(_line(number, name, x, packed(moved), legendgroup=name, **more))
    layout = LAYOUT | {
        "height": 110 + 44 * len(panel.strips),
        "margin": {**LAYOUT["margin"], "l": 110},
        "xaxis": GRID | {"title": {"text": panel.place_name}},
        "yaxis": GRID
        | {
            "tickvals": heights,
            "ticktext": [strip.replace(": ", "<br>") for strip in panel.strips],
            "range": [-len(heights) + 0.4, 0.6],
        },
        "shapes": marks(panel.marked),
        "meta": panel.title,
    }
    return {"data": data, "layout": layout}
