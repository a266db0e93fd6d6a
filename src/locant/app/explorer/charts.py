"""Charts of panels: which kind draws which, and those of lines, by plotly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from locant.app.explorer.clock_charts import circle_chart, clocks_chart, odometer_chart
from locant.app.explorer.matrix_charts import cells_chart, matrix_chart
from locant.app.explorer.panels import Cells, Circle, Clocks, Curves, Matrix, Odometer, Panel, Strips
from locant.app.explorer.theme import GRID, LAYOUT, marks, packed
from locant.figures.drawing import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION

# Colour, dash and marker together, so that no line is told by its colour alone.
_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, INK, SKY, FAINT)
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid", "dash", "dot")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "circle-open")


def chart(panel: Panel, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a panel as plain data: a plotly figure, or under ``matrix`` what ``assets/matrix.js`` draws.

    Args:
        panel: The numbers.
        source: What to send where, as ``{"address": ..., "body": ...}``, to be given the numbers of a matrix as
            float32. Without it even a large matrix carries its numbers along.
    """
    match panel:
        case Matrix():
            return matrix_chart(panel, source)
        case Cells():
            return cells_chart(panel)
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
        "shown": panel.title,
        "uirevision": _axes(panel, panel.measure),
    }
    return {"data": data, "layout": layout}


def _decades(panel: Curves) -> dict[str, Any]:
    """Return a logarithmic axis; over few decades with 2 and 5 between the powers of ten."""
    values = np.concatenate([line[np.isfinite(line) & (line > 0)] for line in panel.lines.values()])
    if not values.size or values.max() / values.min() >= 1000:
        return {"type": "log", "dtick": 1}
    decades = range(math.floor(np.log10(values.min())), math.ceil(np.log10(values.max())) + 1)
    # Written out, because plotly's own labels between two powers are their first digit alone.
    ticks = [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}


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
        "shown": panel.title,
        "uirevision": _axes(panel, *panel.strips),
    }
    return {"data": data, "layout": layout}


def _axes(panel: Curves | Strips, *names: str) -> str:
    """Return what is equal as long as the axes are: until it changes, plotly keeps a picture zoomed."""
    places = panel.places
    return repr((panel.place_name, len(places), float(places[0]), float(places[-1]), *names))
