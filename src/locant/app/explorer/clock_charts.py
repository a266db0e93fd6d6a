"""Charts of clocks, of the odometer and of the circle of a two-dimensional code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locant.app.explorer.panels import Circle, Clocks, Odometer
from locant.app.explorer.theme import GRID, LAYOUT, PLAIN_LINE, packed
from locant.figures.drawing import BLUE, FAINT, GREEN, INK, VERMILION, count, signed

_RADIUS = 0.4
_BOX = 0.42
_GAP = 1.2
_TINT = "#fde3cf"


def clocks_chart(panel: Clocks) -> dict[str, Any]:
    """Return a plotly figure of clocks in rows of eight."""
    columns = 8
    numbers = np.arange(len(panel.numbers))
    x, y = (numbers % columns).astype(float), -(numbers // columns) * 1.25
    told = [
        f"pair {pair}: {_hand(sine, cosine, wavelength)}"
        for pair, sine, cosine, wavelength in zip(
            panel.numbers, panel.sine, panel.cosine, panel.wavelengths, strict=True
        )
    ]
    hidden = {"visible": False, "fixedrange": True}
    rows = -(-len(numbers) // columns)
    labels = [
        {"x": at, "y": down - 0.52, "text": f"{pair}", "showarrow": False, "font": {"size": 11, "color": FAINT}}
        for at, down, pair in zip(x.tolist(), y.tolist(), panel.numbers.tolist(), strict=True)
    ]
    layout = LAYOUT | {
        "height": 40 + 95 * rows,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": hidden | {"range": [-0.6, columns - 0.4]},
        "yaxis": hidden | {"range": [-1.25 * rows + 0.55, 0.6], "scaleanchor": "x"},
        "annotations": labels,
        "shown": panel.title,
    }
    return {"data": _clocks(x, y, panel.sine, panel.cosine, told), "layout": layout}


def odometer_chart(panel: Odometer) -> dict[str, Any]:
    """Return a plotly figure with a row of wheels, bits and hands for each position, the slowest at the left."""
    widths = [panel.digits.shape[1], panel.bits.shape[1], len(panel.pairs)]
    starts = np.cumsum([0.0, widths[0] + _GAP, widths[1] + _GAP])
    right = float(starts[2] + widths[2]) if widths[2] else float(starts[1] + widths[1])
    worth = [[base**place for place in reversed(range(width))] for base, width in zip((10, 2), widths[:2], strict=True)]
    data = _digits(panel, panel.digits, worth[0], starts[0], bits=False)
    data += _digits(panel, panel.bits, worth[1], starts[1], bits=True)
    rows, columns = np.indices(panel.sine.shape)
    if widths[2]:
        told = [
            f"position {position}, pair {pair}: {_hand(sine, cosine, wavelength)}"
            for position, sines, cosines in zip(panel.positions, panel.sine, panel.cosine, strict=True)
            for pair, sine, cosine, wavelength in zip(panel.pairs, sines, cosines, panel.wavelengths, strict=True)
        ]
        x = starts[2] + widths[2] - 1 - columns.ravel()
        data += _clocks(x, -rows.ravel().astype(float), panel.sine.ravel(), panel.cosine.ravel(), told)
    heads = [[f"{one:,}" for one in worth[0]], [f"{one:,}" for one in worth[1]]]
    heads.append([count(wavelength) for wavelength in panel.wavelengths[::-1]])
    named = [group for group in zip(("decimal", "binary", "hands"), starts, heads, strict=True) if group[2]]
    last = len(panel.positions) - 1
    layout = LAYOUT | {
        "height": 490,
        "margin": LAYOUT["margin"] | {"b": 80},
        "xaxis": GRID
        | {
            "title": {"text": "worth of a digit, tokens of a hand's turn", "standoff": 8},
            "showgrid": False,
            "tickangle": -90,
            "tickvals": [float(start + at) for _, start, head in named for at in range(len(head))],
            "ticktext": [label for _, _, head in named for label in head],
            "tickfont": {"size": 11},
            "range": [-0.8, right - 0.2],
            "constrain": "domain",
        },
        "yaxis": GRID
        | {
            "title": {"text": "position"},
            "showgrid": False,
            "tickvals": list(range(0, -last - 1, -1)),
            "ticktext": [str(position) for position in panel.positions],
            "range": [-last - 0.7, 1.4],
            "scaleanchor": "x",
            "constrain": "domain",
            "constraintoward": "top",
        },
        "shapes": _row_mark(panel, right),
        "annotations": [
            {"x": float(start) + (len(head) - 1) / 2, "y": 0.95, "text": f"<b>{name}</b>", "showarrow": False}
            for name, start, head in named
        ],
        "shown": panel.title,
    }
    return {"data": data, "layout": layout}


def _hand(sine: float, cosine: float, wavelength: float) -> str:
    return f"sine {sine:+.4f}, cosine {cosine:+.4f}<br>{count(wavelength)} tokens a turn"


def _outlines(x: NDArray[Any], y: NDArray[Any], shape: NDArray[Any]) -> dict[str, Any]:
    """Return the same shape ``[N, 2]`` around each of many middles, as one line with gaps."""
    gap = np.full((len(x), 1), np.nan)
    return {
        "x": packed(np.hstack((x[:, None] + shape[:, 0], gap)).ravel()),
        "y": packed(np.hstack((y[:, None] + shape[:, 1], gap)).ravel()),
    }


def _clocks(
    x: NDArray[Any], y: NDArray[Any], sine: NDArray[Any], cosine: NDArray[Any], told: Sequence[str]
) -> list[dict[str, Any]]:
    """Return clocks at middles ``[N]``: their faces, their hands, and what is told about each."""
    turn = np.linspace(0, 2 * np.pi, 33)
    face = _RADIUS * np.column_stack((np.sin(turn), np.cos(turn)))
    gap = np.full(len(x), np.nan)
    hands = {
        "x": packed(np.column_stack((x, x + _RADIUS * sine, gap)).ravel()),
        "y": packed(np.column_stack((y, y + _RADIUS * cosine, gap)).ravel()),
    }
    return [
        PLAIN_LINE | _outlines(x, y, face) | {"line": {"color": FAINT, "width": 1}},
        PLAIN_LINE | hands | {"line": {"color": VERMILION, "width": 3}},
        {
            "type": "scatter",
            "mode": "markers",
            "x": packed(x),
            "y": packed(y),
            "showlegend": False,
            "marker": {"size": 4, "color": INK},
            "hovertext": list(told),
            "hoverinfo": "text",
        },
    ]


def _digits(
    panel: Odometer, digits: NDArray[Any], worth: Sequence[int], start: float, *, bits: bool
) -> list[dict[str, Any]]:
    """Return digits in boxes: dark where a bit is 1, tinted where a wheel has moved since the row above."""
    rows, columns = (one.ravel() for one in np.indices(digits.shape))
    if bits:
        marked, fill, ink = digits.ravel() == 1, BLUE, "#ffffff"
    else:
        moved = np.diff(digits, axis=0, prepend=digits[:1]) != 0
        marked, fill, ink = moved.ravel(), _TINT, INK
    x, y = start + columns, -rows.astype(float)
    corners = _BOX * np.array([(-1, -1), (-1, 1), (1, 1), (1, -1), (-1, -1)])
    told = np.array(
        [
            f"position {position}, {one:,}s: {digit}"
            for position, line in zip(panel.positions, digits, strict=True)
            for one, digit in zip(worth, line, strict=True)
        ]
    )
    data: list[dict[str, Any]] = []
    for chosen, inside, colour in ((~marked, "#ffffff", INK), (marked, fill, ink)):
        if chosen.any():
            box = {"fill": "toself", "fillcolor": inside, "line": {"color": FAINT, "width": 1}}
            data.append(PLAIN_LINE | _outlines(x[chosen], y[chosen], corners) | box)
            data.append(
                {
                    "type": "scatter",
                    "mode": "text",
                    "showlegend": False,
                    "x": packed(x[chosen]),
                    "y": packed(y[chosen]),
                    "text": [str(digit) for digit in digits.ravel()[chosen]],
                    "textfont": {"color": colour, "size": 12},
                    "hovertext": told[chosen].tolist(),
                    "hoverinfo": "text",
                }
            )
    return data


def _row_mark(panel: Odometer, right: float) -> list[dict[str, Any]]:
    stroke = {"color": VERMILION, "width": 2}
    return [
        {"type": "rect", "x0": -0.6, "x1": right - 0.4, "y0": -row - 0.5, "y1": -row + 0.5, "line": stroke}
        for row in np.flatnonzero(panel.positions == panel.marked).tolist()
    ]


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
                "x": x1,
                "y": y1,
                "ax": x0,
                "ay": y0,
                "axref": "x",
                "ayref": "y",
                "text": "",
                "showarrow": True,
                "arrowhead": 2,
                "arrowwidth": 2,
                "arrowcolor": colour,
            }
        )
    data += _dots(panel)
    shift = f"M<sub>{panel.offset}</sub>"
    lines = [f"{shift} = [ {_row(panel.matrix[0])} ;  {_row(panel.matrix[1])} ]"]
    lines += [
        f"{shift} {panel.name}({place}) = ({_row(end)}) = {panel.name}({place + panel.offset})"
        for place, end in zip(panel.positions.tolist(), panel.turned, strict=True)
    ]
    written = {
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": 0,
        "yref": "paper",
        "yanchor": "top",
        "xshift": -50,
        "yshift": -46,
        "align": "left",
        "showarrow": False,
        "text": "<br>".join(lines),
        "font": {"family": "ui-monospace, monospace", "size": 12},
    }
    axis = GRID | {"range": [-1.45, 1.45], "tickvals": [-1, 0, 1], "showgrid": False, "constrain": "domain"}
    layout = LAYOUT | {
        "height": 520,
        "margin": LAYOUT["margin"] | {"b": 60 + 20 * len(lines)},
        "xaxis": axis | {"title": {"text": "sine", "standoff": 2}, "automargin": False},
        "yaxis": axis | {"title": {"text": "cosine"}, "scaleanchor": "x", "constraintoward": "bottom"},
        "annotations": [*arrows, written],
        "shown": panel.title,
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
        "type": "scatter",
        "mode": "markers",
        "x": [x],
        "y": [y],
        "showlegend": False,
        "hoverinfo": "skip",
        "marker": {"symbol": "circle-open", "size": 15, "color": colour, "line": {"width": 2}},
    }


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
            "type": "scatter",
            "mode": "markers",
            "x": packed(codes[:, 0]),
            "y": packed(codes[:, 1]),
            "showlegend": False,
            "marker": {"size": 8, "color": INK},
            "hovertext": told,
            "hoverinfo": "text",
        },
        {
            "type": "scatter",
            "mode": "text",
            "x": packed(labels[:, 0]),
            "y": packed(labels[:, 1]),
            "showlegend": False,
            "text": [str(place) for place in places],
            "hoverinfo": "skip",
        },
    ]


def _rows(places: NDArray[Any], angles: NDArray[Any], codes: NDArray[Any]) -> list[tuple[int, float, NDArray[Any]]]:
    return list(zip(places.tolist(), angles.tolist(), codes, strict=True))
