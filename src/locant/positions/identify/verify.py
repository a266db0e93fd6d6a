"""Compare a whole table with the exact one that a candidate predicts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from locant.positions.identify.frequencies import Candidate, geometric
from locant.positions.identify.result import Exponent
from locant.positions.identify.rounding import FLOAT32_FREQUENCY
from locant.positions.identify.tables import Reading

_BLOCK = 4096
# Values this close are what rounding sine and cosine themselves leaves.
_NEGLIGIBLE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How well a candidate explains a table.

    Attributes:
        accepted: Every value is as close as the storage and float32 arithmetic explain.
        error: Largest difference from the exact table.
        worst: Position of that difference.
        grows: Whether it is more than the storage explains.
    """

    accepted: bool
    error: float
    worst: int
    grows: bool


def verify(
    table: Tensor,
    positions: Tensor,
    reading: Reading,
    frequencies: Tensor,
    rounded_to: torch.dtype | None,
    precision: float,
) -> Verdict:
    """Compare ``table [R, E]`` with the sines and cosines of exact frequencies at ``positions [R]``.

    Args:
        table: Float64, without rows of padding.
        positions: Positions of the rows, float64.
        reading: Which columns hold what.
        frequencies: Exact frequencies ``[n]``.
        rounded_to: Dtype to which the frequencies seem to have been rounded; the error is that from the exact ones.
        precision: Largest relative error of the stored numbers.
    """
    used = frequencies if rounded_to is None else frequencies.to(rounded_to).double()
    accepted, error, worst = True, 0.0, 0
    storage = 2 * precision * reading.amplitude
    for rows, where in zip(torch.split(table, _BLOCK), torch.split(positions, _BLOCK), strict=True):
        difference, angle = _difference(rows, where, reading, used)
        accepted &= bool((difference <= storage + reading.amplitude * FLOAT32_FREQUENCY * angle).all())
        if rounded_to is not None:
            difference, _ = _difference(rows, where, reading, frequencies)
        largest, row = difference.amax(1).max(0)
        if float(largest) > error:
            error, worst = float(largest), int(where[row])
    return Verdict(accepted=accepted, error=error, worst=worst, grows=error > storage + _NEGLIGIBLE)


def _difference(table: Tensor, positions: Tensor, reading: Reading, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Return the differences of all columns read, and the sizes of their angles."""
    angle = positions.unsqueeze(1) * frequencies
    parts = []
    for columns, function in ((reading.sine, torch.sin), (reading.cosine, torch.cos)):
        if columns is not None:
            width = len(columns) // len(frequencies)
            parts.append((table[:, columns] - reading.amplitude * function(angle).repeat(1, width)).abs())
    return torch.cat(parts, dim=1), angle.abs().repeat(1, sum(part.shape[1] for part in parts) // angle.shape[1])


def recognise_unequal_pairs(table: Tensor, rows: Tensor, precision: float) -> tuple[Reading, Candidate, Verdict] | None:
    """Find the mistake of giving the cosine of a pair another frequency than its sine, by its own feature's index."""
    width = table.shape[1]
    columns = torch.arange(width)
    exponents: tuple[tuple[Exponent, int, str], ...] = (
        (
            "j/d",
            1,
            "the cosine of a pair has a frequency of its own: its exponent is j/d of its own feature j, not 2i/d",
        ),
        ("2j/d", 2, "double exponent, and of each feature's own index: 2*j/d although j counts features, not pairs"),
    )
    for exponent, times, mistake in exponents:
        for base in (10000.0, 1000.0):
            steps = width / times
            frequencies = geometric(width, base, steps)
            for start in (0, 1):
                for layout, sine, cosine in (
                    ("interleaved", columns[0::2], columns[1::2]),
                    ("concatenated", columns[: width // 2], columns[width // 2 :]),
                ):
                    order = torch.empty(width, dtype=torch.long)
                    order[sine], order[cosine] = columns[0::2], columns[1::2]
                    angle = (rows + start).unsqueeze(1) * frequencies[order]
                    exact = angle.cos()
                    exact[:, sine] = angle[:, sine].sin()
                    difference = (table - exact).abs()
                    if bool((difference <= 2 * precision + FLOAT32_FREQUENCY * angle).all()):
                        error, row = difference.amax(1).max(0)
                        reading = Reading(
                            layout=f"{layout}, sine first",
                            cache=False,
                            swapped=False,
                            sine=sine,
                            cosine=cosine,
                            amplitude=1.0,
                            frequencies=frequencies,
                            tolerance=frequencies,
                            first_row=start,
                        )
                        candidate = Candidate(exact=frequencies, base=base, exponent=exponent, mistakes=(mistake,))
                        grows = float(error) > 2 * precision + _NEGLIGIBLE
                        verdict = Verdict(accepted=True, error=float(error), worst=int(rows[row]), grows=grows)
                        return reading, candidate, verdict
    return None
