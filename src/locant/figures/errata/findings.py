"""Findings about printed numbers, and the cells of a table held against a formula."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from locant.figures.errata.reading import Printed
from locant.figures.errata.table_formulas import Columns, Formula, Numbers


@dataclass(frozen=True)
class NumberFinding:
    """An explanation of numbers.

    Attributes:
        line: Where they begin, from 1.
        said: A sentence or two.
        errata: Keys of the errata in them; none where nothing is wrong, or nothing known.
        wrong: Whether something is wrong.
        recognised: Whether a formula was found for them.
    """

    line: int
    said: str
    errata: tuple[str, ...] = ()
    wrong: bool = False
    recognised: bool = True


@dataclass(frozen=True)
class Cells:
    """The cells of a table, for one width of the code.

    Attributes:
        positions: Of the rows, ``[R]``.
        features: Of the columns, ``[C]``.
        printed: The numbers, ``[R, C]``.
        tolerance: How far each may be from the exact one, ``[R, C]``.
        width: Features of a code.
    """

    positions: Columns
    features: Columns
    printed: Numbers
    tolerance: Numbers
    width: int

    def misfits(self, formula: Formula, start: int = 0) -> NDArray[np.bool_]:
        """Return which cells ``[R, C]`` a formula does not give."""
        positions = self.positions + start
        exact = formula.values(positions, self.features, self.width)
        # Tables in float32 are wrong by the rounding of their angles besides.
        return np.abs(exact - self.printed) > self.tolerance + 1e-7 * (1 + positions[:, None])


def tolerance(number: Printed) -> float:
    """Return how far a number may be from what it prints: digits are rounded or cut off, whole numbers rounded."""
    return number.step * (1.01 if number.step < 1 else 0.5)


def like(number: float) -> str:
    """Return a right value as it is written beside a wrong one."""
    return f"{number:.4g}" if abs(number) < 0.1 else f"{number:.4f}"
