"""Write what a picture shows as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locant.app.explorer.panels import Circle, Clocks, Curves, Matrix, Odometer, Panel, Strips


def as_csv(panel: Panel) -> str:
    """Return the numbers of a picture as CSV with a row of names, every float with all its digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(_table(panel))
    return out.getvalue()


def _table(panel: Panel) -> list[list[Any]]:
    if isinstance(panel, Matrix):
        count = panel.values.shape
        rows = range(count[0]) if panel.rows is None else panel.rows
        columns = range(count[1]) if panel.columns is None else panel.columns
        head = [f"{panel.row_name} / {panel.column_name}", *columns]
        return [head, *([name, *values] for name, values in zip(rows, panel.values.tolist(), strict=True))]
    named = _columns(panel)
    return [list(named), *np.column_stack([np.asarray(column, dtype=np.float64) for column in named.values()]).tolist()]


def _columns(panel: Curves | Strips | Clocks | Odometer | Circle) -> dict[str, NDArray[Any]]:
    match panel:
        case Curves():
            return {panel.place_name: panel.places, **panel.lines}
        case Strips():
            lines = {f"{strip}, {name}": line for strip, one in panel.strips.items() for name, line in one.items()}
            return {panel.place_name: panel.places, **lines}
        case Clocks():
            hands = {"sine": panel.sine, "cosine": panel.cosine, "tokens a turn": panel.wavelengths}
            return {"pair": panel.numbers, **hands}
        case Odometer():
            return _odometer_columns(panel)
        case Circle():
            return _circle_columns(panel)


def _odometer_columns(panel: Odometer) -> dict[str, NDArray[Any]]:
    named = {"position": panel.positions}
    for what, base, digits in (("decimal", 10, panel.digits), ("binary", 2, panel.bits)):
        worth = [base**place for place in reversed(range(digits.shape[1]))]
        named |= {f"{what} {one}": digits[:, column] for column, one in enumerate(worth)}
    for column, pair in enumerate(panel.pairs.tolist()):
        named |= {f"pair {pair}, sine": panel.sine[:, column], f"pair {pair}, cosine": panel.cosine[:, column]}
    return named


def _circle_columns(panel: Circle) -> dict[str, NDArray[Any]]:
    ones = np.ones(len(panel.positions))
    named: dict[str, NDArray[Any]] = {"p": panel.positions, "angle at p in radians": panel.angles}
    named |= {"k": ones * panel.offset, "angle from p to p + k in radians": ones * panel.turn}
    for what, codes in (("at p", panel.codes), ("at p + k", panel.ahead), ("of M_k times the code", panel.turned)):
        named |= {f"sine {what}": codes[:, 0], f"cosine {what}": codes[:, 1]}
    for (row, column), value in np.ndenumerate(panel.matrix):
        named[f"M_k, row {row + 1}, column {column + 1}"] = ones * value
    return named
