"""Common parts of all charts: colours, axes, margins, and numbers on their way to plotly."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locant.figures.drawing import FAINT, INK

GRID = {
    "gridcolor": "#d8dee4",
    "zeroline": False,
    "linecolor": FAINT,
    "ticks": "outside",
    "tickcolor": FAINT,
    "ticklabeloverflow": "allow",  # otherwise the place of every label is measured
}
LAYOUT: dict[str, Any] = {
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
    "plot_bgcolor": "rgba(0,0,0,0)",
    "margin": {"l": 60, "r": 12, "t": 12, "b": 48},
    "height": 380,
    "legend": {"orientation": "h", "yref": "container", "yanchor": "top", "y": 1, "x": 0},
    "hovermode": "closest",
}
PLAIN_LINE: dict[str, Any] = {"type": "scatter", "mode": "lines", "showlegend": False, "hoverinfo": "skip"}


def raw(values: NDArray[Any]) -> bytes:
    """Return numbers as float32, little-endian, row by row."""
    return np.ascontiguousarray(values, dtype="<f4").tobytes()


def packed(values: NDArray[Any]) -> dict[str, str]:
    """Return numbers as plotly reads them without parsing digits: float32, base64, and their shape."""
    return {
        "dtype": "f4",
        "bdata": base64.b64encode(raw(values)).decode("ascii"),
        "shape": ", ".join(map(str, values.shape)),
    }


def marks(place: float | None) -> list[dict[str, Any]]:
    """Return the vertical line at a place that is marked, as shapes of a layout."""
    if place is None:
        return []
    stroke = {"color": INK, "width": 1}
    return [{"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "yref": "paper", "line": stroke}]
