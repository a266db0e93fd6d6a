"""Recognition of tables and lists of numbers: the formula that gives all of them, or all but a few."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from locant.figures.errata.findings import Cells, NumberFinding, like, tolerance
from locant.figures.errata.reading import Table
from locant.figures.errata.table_formulas import RIGHT, WRONG, Columns, Numbers
from locant.rotary_configs import identify

_WIDTHS = (512, 768, 1024, 256, 128, 64, 32, 16, 8, 4, 6, 10, 12, 20, 24, 48, 96, 100, 192, 300, 384, 2048, 4096)
_POSITIONS = 1000  # of a single row without a label
_MOSTLY = 0.7
_FEWEST = 3
_FULL_PRECISION = 1e-6


def table_finding(table: Table) -> NumberFinding:
    """Say which formula gave a table or a list of numbers."""
    line = table.rows[0].line
    if len({len(row.cells) for row in table.rows}) > 1:
        return NumberFinding(line, "its rows have different lengths", recognised=False)
    if len(table.rows) == 1 and table.rows[0].label is None:
        return _of_vector(table)
    labels = [row.label for row in table.rows]
    rows = np.arange(len(labels))
    said = np.array([row if label is None else label for row, label in zip(rows, labels, strict=True)])
    for width in _widths(table):
        cells = _cells(table, said, width)
        if _telling(cells.printed) < _FEWEST:
            return NumberFinding(line, "too few numbers besides 0 and 1 to tell a formula", recognised=False)
        finding = _explained(cells, line)
        if finding is None and not np.array_equal(said, rows):
            finding = _mislabelled(_cells(table, rows, width), said, line)
        if finding is not None:
            return finding
    return _with_slips(table, said) or _as_tensor(table) or _unknown(table)


def _size(cells: Cells) -> str:
    return f"{len(cells.positions)} x {cells.width}"


def _widths(table: Table) -> Sequence[int]:
    row = table.rows[0]
    if row.complete:
        return [len(row.cells)]
    return [table.width] if table.width else _WIDTHS


def _cells(table: Table, positions: Columns, width: int) -> Cells:
    return Cells(
        positions=positions,
        features=np.array([column % width for column, _ in table.rows[0].cells]),
        printed=np.array([[number.value for _, number in row.cells] for row in table.rows]),
        tolerance=np.array([[tolerance(number) for _, number in row.cells] for row in table.rows]),
        width=width,
    )


def _telling(printed: Numbers) -> int:
    """Return how many numbers are neither 0 nor 1, which every formula has in its first row."""
    return int(((printed != 0) & (printed != 1)).sum())


def _explained(cells: Cells, line: int) -> NumberFinding | None:
    """Return the formula that gives all cells, the right ones first."""
    counted = "the first row is position {}: off by one where texts count from 0"
    for start in (0, 1):
        for formula in RIGHT:
            if not cells.misfits(formula, start).any():
                said = f"{_size(cells)}: {formula.name}"
                if start:
                    off = counted.format(cells.positions[0] + 1)
                    return NumberFinding(line, f"{said}; {off}", ("e21",), wrong=True)
                return NumberFinding(line, f"{said}; right in all printed digits")
    for start in (0, 1):
        for formula in WRONG:
            if not cells.misfits(formula, start).any():
                said, errata = f"{_size(cells)}: {formula.name}", formula.errata
                if start:
                    said, errata = f"{said}; {counted.format(cells.positions[0] + 1)}", (*errata, "e21")
                return NumberFinding(line, f"{said}. {_difference(cells)}", errata, wrong=True)
    return None


def _mislabelled(cells: Cells, labels: Columns, line: int) -> NumberFinding | None:
    """Return what to say of rows that are right as they follow each other, and labelled otherwise."""
    for formula in RIGHT:
        if not cells.misfits(formula).any():
            row = int(np.argmax(labels != cells.positions))
            said = f"{_size(cells)}: {formula.name}, but the row labelled {labels[row]} is position {row}"
            return NumberFinding(line, said, ("e20",), wrong=True)
    return None


def _difference(cells: Cells) -> str:
    """Say where a table leaves the paper's formula first."""
    wrong = np.argwhere(cells.misfits(RIGHT[0]))
    row, column = wrong[0]
    where = f"position {cells.positions[row]}, feature {cells.features[column]}"
    exact = RIGHT[0].values(cells.positions[row : row + 1], cells.features[column : column + 1], cells.width)[0, 0]
    return f"First difference: {where} is printed as {cells.printed[row, column]:g}; right is {like(exact)}"


def _with_slips(table: Table, positions: Columns) -> NumberFinding | None:
    """Return what to say of a table that is right but for a few cells."""
    for width in _widths(table):
        cells = _cells(table, positions, width)
        misfits = cells.misfits(RIGHT[0])
        told = (cells.printed != 0) & (cells.printed != 1)
        if (~misfits & told).sum() >= max(_FEWEST, _MOSTLY * told.sum()):
            said = f"{_size(cells)}: {RIGHT[0].name}, but for {misfits.sum()} of {misfits.size} numbers"
            return NumberFinding(table.rows[0].line, f"{said}. {_difference(cells)}", wrong=True)
    return None


def _as_tensor(table: Table) -> NumberFinding | None:
    """Return what :func:`locant.rotary_configs.identify` finds in numbers that are printed in full."""
    numbers = [[number for _, number in row.cells] for row in table.rows]
    if not all(row.complete for row in table.rows) or min(n.step for row in numbers for n in row) > _FULL_PRECISION:
        return None
    found = identify_array(torch.tensor([[number.value for number in row] for row in numbers]), table.rows[0].line)
    return found if found.recognised else None


def identify_array(values: torch.Tensor, line: int = 1) -> NumberFinding:
    """Say of a table or a vector of frequencies in full precision which formula gave it, and name known errors.

    Args:
        values: As for :func:`locant.rotary_configs.identify`, which does the work.
        line: Where it stands.

    Raises:
        ConfigError: It is not a tensor of floating or complex numbers.

    Example:
        >>> import torch
        >>> from locant.positions import sinusoid_table
        >>> identify_array(sinusoid_table(torch.arange(1, 50), 16)).errata
        ('e21',)
    """
    found = identify(values)
    errata = []
    if found.kind == "sinusoid table":
        errata += {"4i/d": ["e4"], "j/d": ["e33"], "2j/d": ["e33"]}.get(found.exponent or "", [])
        errata += ["e34"] * (found.base == 1000.0) + ["e21"] * (found.first_row == 1 and found.padding_row is None)
    return NumberFinding(
        line,
        str(found).rstrip("."),
        tuple(errata),
        wrong=bool(found.mistakes or errata),
        recognised=found.kind != "unknown",
    )


def _unknown(table: Table) -> NumberFinding:
    row = table.rows[0]
    size = f"{len(table.rows)} x {len(row.cells)}" if len(table.rows) > 1 else f"{len(row.cells)} numbers"
    return NumberFinding(row.line, f"{size}: not the sinusoids or frequencies of any known formula", recognised=False)


def _of_vector(table: Table) -> NumberFinding:
    row = table.rows[0]
    numbers = [number for _, number in row.cells]
    values = [number.value for number in numbers]
    falling = values[0] == 1 and all(0 < later < earlier for earlier, later in pairwise(values))
    finding = _of_frequencies(table) if falling else _of_code(table)
    if finding is None and row.complete and min(number.step for number in numbers) <= _FULL_PRECISION:
        found = identify_array(torch.tensor(values), row.line)
        finding = found if found.recognised else None
    return finding or _unknown(table)


def _of_frequencies(table: Table) -> NumberFinding | None:
    """Return what to say of a list that begins with 1 and falls: frequencies, 10000^(-2i/d)."""
    row = table.rows[0]
    count = len(row.cells) if row.complete else None
    known = [table.width] if table.width else []
    widths = known or ([2 * count] if count else [])
    for width in widths:
        pairs = width // 2
        if pairs < 1:
            continue
        for times, base, said, errata in (
            (2.0, 10000.0, "right in all printed digits", ()),
            (4.0, 10000.0, "the exponent is doubled, or i runs over all features instead of the pairs", ("e4", "e25")),
            (1.0, 10000.0, "the factor 2 of the exponent is missing", ("e19",)),
            (2.0, 1000.0, "the base is 1000 instead of 10000", ("e34",)),
        ):
            exact = {column: base ** (-times * (column % pairs) / width) for column, _ in row.cells}
            if all(abs(exact[column] - number.value) <= tolerance(number) for column, number in row.cells):
                return NumberFinding(row.line, f"frequencies, d = {width}: {said}", errata, wrong=bool(errata))
    for width in known:
        exact = {column: 10000.0 ** (-2 * (column % (width // 2)) / width) for column, _ in row.cells}
        for column, number in row.cells:
            if abs(exact[column] - number.value) > tolerance(number):
                index = column % (width // 2)
                said = f"frequencies, d = {width}: theta_{index} is printed as {number.value:g}; right is "
                said += f"{exact[column]:.5g}"
                return NumberFinding(row.line, said, ("e25",), wrong=True)
    return None


def _of_code(table: Table) -> NumberFinding | None:
    """Return what to say of one row without a label: the code of a position that is not said."""
    for width in _widths(table):
        for formula in (*RIGHT, *WRONG):
            cells = _cells(table, np.array([0]), width)
            if _telling(cells.printed) < _FEWEST:
                return None
            every = np.arange(_POSITIONS)
            exact = formula.values(every, cells.features, width)
            fits = (np.abs(exact - cells.printed) <= cells.tolerance + 1e-7 * (1 + every[:, None])).all(1)
            if fits.any():
                said = f"the code of position {int(np.argmax(fits))}, d = {width}: {formula.name}"
                return NumberFinding(table.rows[0].line, said, formula.errata, wrong=bool(formula.errata))
    return None
