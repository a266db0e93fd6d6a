"""What a picture of the explorer shows, in numbers: drawn by one module, written as CSV by this one."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Matrix:
    """Numbers by row and column.

    Attributes:
        title: What they are.
        caption: A sentence or two about how to read them.
        values: ``[R, C]``.
        measure: What a value is, with its unit.
        row_name: What a row is.
        column_name: What a column is.
        rows: Names of the rows; their numbers from 0 where it is ``None``.
        columns: Likewise for the columns.
    """

    title: str
    caption: str
    values: NDArray[Any]
    measure: str
    row_name: str
    column_name: str
    rows: Sequence[Any] | None = None
    columns: Sequence[Any] | None = None


@dataclass(frozen=True)
class Curves:
    """Numbers along a line.

    Attributes:
        title: What they are.
        caption: A sentence or two about how to read them.
        places: Where along the axis, ``[N]``.
        place_name: What the axis is, with its unit.
        lines: Values ``[N]`` by name; those that do not exist are NaN.
        measure: What a value is, with its unit.
        references: Values that a level line marks, by name.
        marked: A place that a vertical line marks.
        logarithmic: Whether values are of many magnitudes.
        points: Whether only the places themselves have a meaning, not what is between them.
    """

    title: str
    caption: str
    places: NDArray[Any]
    place_name: str
    lines: Mapping[str, NDArray[Any]]
    measure: str
    references: Mapping[str, float] = field(default_factory=dict)
    marked: float | None = None
    logarithmic: bool = False
    points: bool = False


@dataclass(frozen=True)
class Strips:
    """Several small pictures of curves below each other that share their places.

    Attributes:
        title: What they are.
        caption: A sentence or two about how to read them.
        places: Where along the axis, ``[N]``.
        place_name: What the axis is, with its unit.
        strips: For each strip, by name, its lines ``[N]`` by name.
        marked: A place that a vertical line marks.
    """

    title: str
    caption: str
    places: NDArray[Any]
    place_name: str
    strips: Mapping[str, Mapping[str, NDArray[Any]]]
    marked: float | None = None


@dataclass(frozen=True)
class Clocks:
    """Hands of clocks, each pointing at (sine, cosine): clockwise from 12.

    Attributes:
        title: What they are.
        caption: A sentence or two about how to read them.
        numbers: Number of each pair, ``[P]``.
        sine: ``[P]``.
        cosine: ``[P]``.
        wavelengths: Tokens of a full turn, ``[P]``.
    """

    title: str
    caption: str
    numbers: NDArray[Any]
    sine: NDArray[Any]
    cosine: NDArray[Any]
    wavelengths: NDArray[Any]


Panel = Matrix | Curves | Strips | Clocks


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
    if isinstance(panel, Clocks):
        named = {
            "pair": panel.numbers, "sine": panel.sine, "cosine": panel.cosine, "tokens a turn": panel.wavelengths,
        }  # fmt: skip
    elif isinstance(panel, Curves):
        named = {panel.place_name: panel.places, **panel.lines}
    else:
        named = {panel.place_name: panel.places}
        named |= {f"{strip}, {name}": line for strip, lines in panel.strips.items() for name, line in lines.items()}
    return [list(named), *np.column_stack([np.asarray(column, dtype=np.float64) for column in named.values()]).tolist()]
