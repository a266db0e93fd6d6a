"""Panels: the numbers of each picture of the explorer, drawn by ``charts`` and written as CSV here."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
        marked: A row around which a frame stands.
    """

    title: str
    caption: str
    values: NDArray[Any]
    measure: str
    row_name: str
    column_name: str
    rows: Sequence[Any] | None = None
    columns: Sequence[Any] | None = None
    marked: float | None = None


@dataclass(frozen=True)
class Cells:
    """Rows of numbers with scales of their own, the numbers in their cells where there is room.

    Attributes:
        title: What they are.
        caption: A sentence or two about how to read them.
        values: ``[R, C]``; minus infinity where something is hidden.
        row_name: What a row is.
        column_name: What a column is.
        rows: Names of the rows.
        columns: Names of the columns.
        scales: For each row the name of its scale; rows with one scale share their colours.
        splits: Columns before which a line is drawn.
    """

    title: str
    caption: str
    values: NDArray[Any]
    row_name: str
    column_name: str
    rows: Sequence[str]
    columns: Sequence[Any]
    scales: Sequence[str]
    splits: Sequence[int] = ()


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


@dataclass(frozen=True)
class Odometer:
    """Positions as an odometer shows them: decimal wheels, binary digits, and the hands of the pairs.

    Attributes:
        title: What they are.
        caption: A sentence or two about how to read them.
        positions: ``[L]``, one row each.
        digits: Decimal digits ``[L, W]``, the highest first.
        bits: Binary digits ``[L, B]``, the highest first.
        pairs: Number of each pair, the fastest first, ``[P]``; there may be none.
        sine: ``[L, P]``; a hand points at (sine, cosine), clockwise from 12.
        cosine: ``[L, P]``.
        wavelengths: Tokens of a full turn, ``[P]``.
        marked: The position whose row is marked.
    """

    title: str
    caption: str
    positions: NDArray[Any]
    digits: NDArray[Any]
    bits: NDArray[Any]
    pairs: NDArray[Any]
    sine: NDArray[Any]
    cosine: NDArray[Any]
    wavelengths: NDArray[Any]
    marked: int


@dataclass(frozen=True)
class Circle:
    """Positions of a two-dimensional code on one circle, and the matrix that turns each into one farther on.

    Attributes:
        title: What they are.
        caption: A sentence or two about how to read them.
        name: What the code of a position is called.
        offset: How much farther, in tokens, ``k``.
        positions: Positions ``p`` that are turned, ``[N]``.
        codes: Sine and cosine at ``p``, ``[N, 2]``.
        ahead: Sine and cosine at ``p + k``, ``[N, 2]``.
        matrix: ``M_k``, ``[2, 2]``.
        turned: ``M_k`` times the codes, ``[N, 2]``.
        angles: Angle at ``p`` in radians, clockwise from 12, ``[N]``.
        turn: Angle from ``p`` to ``p + k`` in radians.
    """

    title: str
    caption: str
    name: str
    offset: int
    positions: NDArray[Any]
    codes: NDArray[Any]
    ahead: NDArray[Any]
    matrix: NDArray[Any]
    turned: NDArray[Any]
    angles: NDArray[Any]
    turn: float


Panel = Matrix | Cells | Curves | Strips | Clocks | Odometer | Circle


@dataclass(frozen=True)
class Picture:
    """A panel that is computed when somebody looks.

    Attributes:
        compute: Returns the panel.
        depends: Its arguments, which are all that the panel depends on but for ``marked``.
        marked: The place that is marked in the panel, where a mark is all that this place changes.
    """

    compute: Callable[..., Panel]
    depends: tuple[Hashable, ...]
    marked: float | None = None

    def panel(self) -> Panel:
        """Return the panel; raises what ``compute`` raises."""
        panel = self.compute(*self.depends)
        return replace(panel, marked=self.marked) if isinstance(panel, Strips | Matrix) else panel

    @property
    def content(self) -> str:
        """Equal for pictures that show the same, whatever is marked."""
        return repr((self.compute.__name__, *self.depends))


def as_csv(panel: Panel) -> str:
    """Return the numbers of a picture as CSV with a row of names, every float with all its digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows(_table(panel))
    return out.getvalue()


def _table(panel: Panel) -> list[list[Any]]:
    if isinstance(panel, Matrix | Cells):
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
