"""Printed numbers in a text: arrays as NumPy and Python print them, tables with labelled rows, and worked lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_ARRAY = re.compile(r"[\s\d.,;eE+\-\[\]…]*")
_WIDTH = re.compile(r"\bd(?:_?model|_?dim|im)?\s*[=:]\s*(\d+)", re.IGNORECASE)
_LABEL = re.compile(r"^\D*?(\d+)\D*$")
_PLAIN_ROW = re.compile(
    r"^(?:\s*(?:pos(?:ition)?\s*)?(\d+)\s*[:|)])?((?:[\s|,;]*" + _NUMBER.pattern + r")+)[\s|,;]*$", re.I
)


@dataclass(frozen=True)
class Printed:
    """A printed number.

    Attributes:
        value: The number.
        step: Value of a one in its last printed digit.
        scientific: Whether it is printed with a power of ten, and so with all its digits.
    """

    value: float
    step: float
    scientific: bool = False

    @classmethod
    def of(cls, text: str) -> Printed:
        """Read a number."""
        number = Decimal(text)
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        return cls(float(number), 10.0**exponent, "e" in text.lower())


@dataclass(frozen=True)
class Row:
    """A row of numbers.

    Attributes:
        line: Where it begins, from 1.
        cells: Column and number; columns after an ellipsis count from the right, ``-1`` being the last.
        complete: Whether no ellipsis left columns out.
        label: Number before the row, which says its position.
    """

    line: int
    cells: tuple[tuple[int, Printed], ...]
    complete: bool = True
    label: int | None = None


@dataclass(frozen=True)
class Table:
    """Rows that belong together, up to an ellipsis; one row is a vector.

    Attributes:
        rows: The rows.
        width: Number of features that the text says (``d = 512``), the last time before the end of the table.
    """

    rows: tuple[Row, ...]
    width: int | None = None


@dataclass(frozen=True)
class Clause:
    """What stands between commas in a line, with an equals sign in it.

    Attributes:
        line: Number of the line, from 1.
        sides: What stands between equals signs.
        width: As in :class:`Table`.
    """

    line: int
    sides: tuple[str, ...]
    width: int | None = None


def normal(text: str) -> str:
    """Return a text with ASCII signs for minus, times, ellipsis, pi and the like."""
    for written, plain in (
        ("\N{MINUS SIGN}", "-"),
        ("\N{EN DASH}", "-"),
        ("\N{MULTIPLICATION SIGN}", "*"),
        ("\N{MIDDLE DOT}", "*"),
        ("\N{ALMOST EQUAL TO}", "="),
        ("\N{RIGHTWARDS ARROW}", "="),
        ("\N{GREEK SMALL LETTER PI}", "pi"),
        ("\N{HORIZONTAL ELLIPSIS}", "..."),
    ):
        text = text.replace(written, plain)
    return text


def read_tables(text: str) -> list[Table]:
    """Return the arrays and rows of numbers of a normal text, in their order."""
    bracketed = list(_bracketed(text))
    free = list(text)
    for start, stop, _ in bracketed:
        free[start:stop] = ["\n" if each == "\n" else "\0" for each in text[start:stop]]
    found = [(text.count("\n", 0, start) + 1, rows) for start, _, rows in bracketed]
    for number, line in enumerate("".join(free).split("\n"), 1):
        row = _plain_row(line, number)
        if row is not None:
            found.append((number, [row]))
    found.sort(key=lambda each: each[0])
    tables = [
        Table(tuple(_same_step(rows)), _width(text, rows[-1].line)) for rows in _joined([rows for _, rows in found])
    ]
    return [_with_labels(table) for table in tables]


def read_clauses(text: str) -> list[Clause]:
    """Return the equations of a normal text, such as ``PE(1)[2] = 0.0464``."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        for clause in re.split(r"[;,]\s+(?![^(\[]*[)\]])|\s+(?:and|for|with|where|so|but)\s+|\.\s+|\.$", line):
            sides = tuple(side.strip() for side in re.split(r"=(?![^(]*\))", clause))
            if len(sides) > 1 and all(sides):
                found.append(Clause(number, sides, _width(text, number)))
    return found


def _width(text: str, line: int) -> int | None:
    """Return the last width that is said up to the end of a line, or else the first after it."""
    lines = text.split("\n")
    before = _WIDTH.findall("\n".join(lines[:line]))
    after = _WIDTH.findall("\n".join(lines[line:]))
    chosen = before[-1:] or after[:1]
    return int(chosen[0]) if chosen else None


def _bracketed(text: str) -> Iterator[tuple[int, int, list[Row]]]:
    """Yield start, end and rows of every array in brackets."""
    start = 0
    ends = _ends(text)
    while (start := text.find("[", start)) >= 0:
        stop = ends.get(start)
        inside = "" if stop is None else text[start : stop + 1]
        index = start > 0 and (text[start - 1].isalnum() or text[start - 1] in ")]_")
        if stop is None or index or not _ARRAY.fullmatch(inside) or len(_NUMBER.findall(inside)) < 2:
            start += 1
            continue
        rows = list(_rows(inside, text.count("\n", 0, start) + 1))
        if len(rows) == 1:
            label = _LABEL.match(text[text.rfind("\n", 0, start) + 1 : start])
            rows = [replace(rows[0], label=int(label[1]) if label else None)]
        if not rows:
            start += 1
            continue
        yield start, stop + 1, rows
        start = stop + 1


def _ends(text: str) -> dict[int, int]:
    """Return the place of the closing bracket of every opening one."""
    ends, opened = {}, []
    for place, sign in enumerate(text):
        if sign == "[":
            opened.append(place)
        elif sign == "]" and opened:
            ends[opened.pop()] = place
    return ends


def _rows(array: str, line: int) -> Iterator[Row]:
    """Yield the rows of an array up to an ellipsis between rows."""
    if "[" not in array[1:]:
        yield _row(array[1:-1], line)
        return
    for inner in re.finditer(r"\[([^\[\]]*)\]|\.\.\.", array[1:-1]):
        if inner[1] is None:
            return
        yield _row(inner[1], line + array[: inner.start() + 1].count("\n"))


def _row(text: str, line: int) -> Row:
    left, ellipsis, right = text.partition("...")
    head = [Printed.of(each) for each in _NUMBER.findall(left)]
    tail = [Printed.of(each) for each in _NUMBER.findall(right)]
    cells = [*enumerate(head), *((index - len(tail), each) for index, each in enumerate(tail))]
    return Row(line, tuple(cells), complete=not ellipsis)


def _plain_row(line: str, number: int) -> Row | None:
    """Read a line that holds nothing but three numbers or more, and perhaps a label."""
    match = _PLAIN_ROW.match(line)
    if match is None:
        return None
    texts = _NUMBER.findall(match[2])
    if len(texts) < 3 or not any("." in each for each in texts):
        return None
    label = None if match[1] is None else int(match[1])
    return Row(number, tuple(enumerate(map(Printed.of, texts))), label=label)


def _joined(groups: list[list[Row]]) -> list[list[Row]]:
    """Join single rows of one length on lines that follow each other."""
    joined: list[list[Row]] = []
    for rows in groups:
        last = joined[-1] if joined else []
        if (
            last
            and len(rows) == 1
            and rows[0].line - last[-1].line in (1, 2)
            and len(rows[0].cells) == len(last[-1].cells)
            and (rows[0].label is None) == (last[-1].label is None)
        ):
            last.extend(rows)
        else:
            joined.append(list(rows))
    return joined


def _same_step(rows: list[Row]) -> list[Row]:
    """Give numbers of which trailing zeros were not printed the step that most numbers of the array have."""
    steps = Counter(number.step for row in rows for _, number in row.cells if number.step < 1)
    if not steps:
        return rows
    common = max(steps, key=lambda step: (steps[step], step))

    def full(number: Printed) -> Printed:
        return number if number.scientific else replace(number, step=min(number.step, common))

    return [replace(row, cells=tuple((column, full(number)) for column, number in row.cells)) for row in rows]


def _with_labels(table: Table) -> Table:
    """Take whole numbers before an even number of features for labels."""
    rows = table.rows
    if len(rows) < 2 or any(row.label is not None or not row.complete or len(row.cells) % 2 == 0 for row in rows):
        return table
    firsts = [row.cells[0][1].value for row in rows]
    if any(first != int(first) or first < 0 for first in firsts) or firsts != sorted(set(firsts)):
        return table
    return replace(
        table,
        rows=tuple(
            replace(row, label=int(row.cells[0][1].value), cells=tuple((c - 1, n) for c, n in row.cells[1:]))
            for row in rows
        ),
    )
