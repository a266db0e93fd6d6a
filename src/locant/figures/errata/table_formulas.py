"""Formulas that tables of sinusoids are met with: the right ones, and those with a known error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Columns = NDArray[np.int64]


@dataclass(frozen=True)
class Formula:
    """One way to compute a table.

    Attributes:
        name: What it is, in words.
        exponent: Negated exponent of the base for features ``[C]`` of a code of a width.
        cosine: Which of these features are cosines.
        base: The base.
        errata: Keys of the errata that it falls under; none for a right one.
    """

    name: str
    exponent: Callable[[Columns, int], Numbers]
    cosine: Callable[[Columns, int], NDArray[np.bool_]]
    base: float = 10000.0
    errata: tuple[str, ...] = ()

    def values(self, positions: Columns, features: Columns, width: int) -> Numbers:
        """Return the table ``[R, C]`` of positions ``[R]`` and features ``[C]`` of a code of a width."""
        angles = positions[:, None] / self.base ** self.exponent(features, width)
        return np.where(self.cosine(features, width), np.cos(angles), np.sin(angles))


def _odd(features: Columns, width: int) -> NDArray[np.bool_]:
    return features % 2 == 1


def _even(features: Columns, width: int) -> NDArray[np.bool_]:
    return features % 2 == 0


def _second_half(features: Columns, width: int) -> NDArray[np.bool_]:
    return features >= width // 2


def _of_pairs(times: float) -> Callable[[Columns, int], Numbers]:
    return lambda features, width: times * (features // 2) / width


def _of_features(times: float) -> Callable[[Columns, int], Numbers]:
    return lambda features, width: times * features / width


def _concatenated(features: Columns, width: int) -> Numbers:
    return 2 * (features % (width // 2)) / width


def _authors(features: Columns, width: int) -> Numbers:
    return (features % (width // 2)) / max(width // 2 - 1, 1)


RIGHT = (
    Formula("the sinusoids of the paper", _of_pairs(2), _odd),
    Formula("the sinusoids of the paper, all sines before all cosines", _concatenated, _second_half),
    Formula("the sinusoids of the authors' code (tensor2tensor)", _authors, _second_half),
)
"""Formulas in use that are no error."""

WRONG = (
    Formula("the exponent is doubled: 4i/d instead of 2i/d", _of_pairs(4), _odd, errata=("e4",)),
    Formula(
        "each feature has an exponent of its own, and that doubled: 2j/d of feature j",
        _of_features(2),
        _odd,
        errata=("e33",),
    ),
    Formula("each feature has an exponent of its own: j/d of feature j", _of_features(1), _odd, errata=("e33",)),
    Formula(
        "the factor 2 of the exponent is missing (i/d instead of 2i/d), or the base is 100",
        _of_pairs(1),
        _odd,
        errata=("e19", "e34"),
    ),
    Formula("the base is 1000 instead of the paper's 10000", _of_pairs(2), _odd, 1000.0, ("e34",)),
    Formula("sine and cosine are swapped", _of_pairs(2), _even, errata=("e32",)),
)
"""Formulas with a known error."""
