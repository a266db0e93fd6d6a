"""Draw the circle of a two-dimensional code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from locant.app.explorer.looks import GRID, LAYOUT, PLAIN_LINE, packed
from locant.app.explorer.panels import Circle
from locant.figures.drawn import signed
from locant.figures.style import BLUE, FAINT, GREEN, INK, VERMILION

_MARKS = (VERMILION, BLUE, GREEN)


def circle_chart(panel: Circle) -> dict[str, Any]:
    """Return a plotly figure of the circle, the equal angles in it, and the matrix below."""
    around = np.linspace(0, 2 * np.pi, 181)
    data = [_path(np.column_stack((np.sin(around), np.cos(around))), FAINT, 1)]
    arrows = []
    for number, (angle, colour) in enumerate(zip(panel.angles.tolist(), _MARKS, strict=False)):
        radius = 0.34 + 0.2 * number
        arc = np.linspace(angle, angle + panel.turn % (2 * np.pi), 60)
        legs = [panel.codes[number], (0, 0), panel.turned[number]]
        data += [
            _path(np.array(legs), colour, 1.3),
            _path(radius * np.column_stack((np.sin(arc), np.cos(arc))), colour, 2.4),
            _ring(panel, number, colour),
        ]
        (x0, y0), (x1, y1) = (
            radius * np.array([np.sin(end), np.cos(end)]) for end in arc[[-1 - round(2.4 / radius), -1]]
        )
        arrows.append(
            {
                "x": x1, "y": y1, "ax": x0, "ay": y0, "axref": "x", "ayref": "y", "text": "", "showarrow": True,
                "arrowhead": 2, "arrowwidth": 2, "arrowcolor": colour,
            }
        )  # fmt: skip
    data += _dots(panel)
    shift = f"M<sub>{panel.offset}</sub>"
    lines = [f"{shift} = [ {_row(panel.matrix[0])} ;  {_row(panel.matrix[1])} ]"]
    lines += [
        f"{shift} {panel.name}({place}) = ({_row(end)}) = {panel.name}({place + panel.offset})"
        for place, end in zip(panel.positions.tolist(), panel.turned, strict=True)
    ]
    written = {
        "x": 0, "xref": "paper", "xanchor": "left", "y": 0, "yref": "paper", "yanchor": "top",
        "xshift": -50, "yshift": -46, "align": "left", "showarrow": False, "text": "<br>".join(lines),
        "font": {"family": "ui-monospace, monospace", "size": 12},
    }  # fmt: skip
    axis = GRID | {"range": [-1.45, 1.45], "tickvals": [-1, 0, 1], "showgrid": False, "constrain": "domain"}
    layout = LAYOUT | {
        "height": 520,
        "margin": LAYOUT["margin"] | {"b": 60 + 20 * len(lines)},
        "xaxis": axis | {"title": {"text": "sine", "standoff": 2}, "automargin": False},
        "yaxis": axis | {"title": {"text": "cosine"}, "scaleanchor": "x", "constraintoward": "bottom"},
        "annotations": [*arrows, written],
        "meta": panel.title,
    }
    return {"data": data, "layout": layout}


def _row(values: NDArray[Any]) -> str:
    return "  ".join(map(signed, values))


def _path(points: NDArray[Any], colour: str, width: float) -> dict[str, Any]:
    line = {"color": colour, "width": width}
    return PLAIN_LINE | {"x": packed(points[:, 0]), "y": packed(points[:, 1]), "line": line}


def _ring(panel: Circle, number: int, colour: str) -> dict[str, Any]:
    """Return a ring around what the matrix makes of a code."""
    x, y = panel.turned[number].tolist()
    return {
        "type": "scatter", "mode": "markers", "x": [x], "y": [y], "showlegend": False, "hoverinfo": "skip",
        "marker": {"symbol": "circle-open", "size": 15, "color": colour, "line": {"width": 2}},
    }  # fmt: skip


def _dots(panel: Circle) -> list[dict[str, Any]]:
    """Return the codes as dots with their positions outside the circle, farther out where another would be covered."""
    turned = panel.angles + panel.turn
    places = {place: (angle, code, 1.16) for place, angle, code in _rows(panel.positions, panel.angles, panel.codes)}
    for place, angle, code in _rows(panel.positions + panel.offset, turned, panel.ahead):
        crowded = any(abs(np.sin((angle - other) / 2)) < 0.1 for other in panel.angles)
        places.setdefault(place, (angle, code, 1.33 if crowded else 1.16))
    codes = np.array([code for _, code, _ in places.values()])
    labels = np.array([(far * np.sin(angle), far * np.cos(angle)) for angle, _, far in places.values()])
    told = [f"{panel.name}({place}) = ({_row(code)})" for place, (_, code, _) in places.items()]
    return [
        {
            "type": "scatter", "mode": "markers", "x": packed(codes[:, 0]), "y": packed(codes[:, 1]),
            "showlegend": False, "marker": {"size": 8, "color": INK}, "hovertext": told, "hoverinfo": "text",
        },
        {
            "type": "scatter", "mode": "text", "x": packed(labels[:, 0]), "y": packed(labels[:, 1]),
            "showlegend": False, "text": [str(place) for place in places], "hoverinfo": "skip",
        },
    ]  # fmt: skip


def _rows(places: NDArray[Any], angles: NDArray[Any], codes: NDArray[Any]) -> list[tuple[int, float, NDArray[Any]]]:
    return list(zip(places.tolist(), angles.tolist(), codes, strict=True))
