"""Recognition of position tables: which columns hold sines and cosines, of which frequencies, within which rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from locant.rotary_configs.identify.frequencies import FLOAT32_FREQUENCY, Candidate, geometric
from locant.rotary_configs.identify.result import Exponent

# Stands for a frequency too slow to be measured, where its logarithm is asked for.
_SLOWEST = 1e-12


@dataclass(frozen=True, kw_only=True)
class ColumnLayout:
    """The columns of a table under one order of features.

    Attributes:
        name: The order, in words.
        cache: Whether rotary caches have this order.
        swapped: Whether the cosine comes first.
        sine: Columns that hold sines, or ``None``.
        cosine: Columns that hold cosines, or ``None``.
        amplitude: Largest value of the sines and cosines.
        frequencies: Measured frequencies in radians per row, float64 ``[n]``.
        tolerance: How far each may be off.
        first_row: Position of the first row.
    """

    name: str
    cache: bool
    swapped: bool
    sine: Tensor | None
    cosine: Tensor | None
    amplitude: float
    frequencies: Tensor
    tolerance: Tensor
    first_row: int


def column_layouts(table: Tensor, rows: Tensor, precision: float) -> Iterator[ColumnLayout]:
    """Yield the layouts under which a table's columns lie on circles.

    Args:
        table: Float64 ``[R, E]``, without rows of padding.
        rows: Float64 indices ``[R]`` of these rows in the full table.
        precision: Largest relative error of the stored numbers.
    """
    pairs = table.shape[1] // 2
    columns = torch.arange(2 * pairs)
    for layout, first, second in (
        ("interleaved", columns[0::2], columns[1::2]),
        ("concatenated", columns[:pairs], columns[pairs:]),
    ):
        if torch.equal(table[:, first], table[:, second]):
            found = _one_function(table[:, first], rows, precision, layout)
            if found is not None:
                yield found
            continue
        for swapped in (False, True):
            sine, cosine = (first, second) if not swapped else (second, first)
            found = _pairs(table, sine, cosine, rows, precision, layout, swapped)
            if found is not None:
                yield found


def _pairs(
    table: Tensor, sine: Tensor, cosine: Tensor, rows: Tensor, precision: float, layout: str, swapped: bool
) -> ColumnLayout | None:
    """Read pairs of sine and cosine, which lie on circles of one radius and turn forwards."""
    s, c = table[:, sine], table[:, cosine]
    radius = torch.hypot(s, c)
    amplitude = float(radius.mean())
    if amplitude == 0 or float((radius - amplitude).abs().max()) > 4 * precision * amplitude:
        return None
    if abs(amplitude - 1) < 2 * precision:
        amplitude = 1.0
    steps = (rows[1:] - rows[:-1]).unsqueeze(1)
    angle = torch.atan2(s, c)
    turned = torch.remainder(angle[1:] - angle[:-1] + math.pi, 2 * math.pi) - math.pi
    # A padding row leaves a step of two; no frequency is above 1 radian a token, so that cannot pass half a turn.
    slow = turned.sum(0) / steps.sum()
    if not bool((slow > -precision).all()):
        return None
    unwrapped = torch.cat((angle[:1], angle[:1] + turned.cumsum(0)))
    centred = (rows - rows.mean()).unsqueeze(1)
    frequencies = (centred * unwrapped).sum(0) / (centred**2).sum()
    absolute = 8 * precision / (float(centred.abs().mean()) * math.sqrt(len(rows)))
    tolerance = (FLOAT32_FREQUENCY + precision / math.sqrt(len(rows))) * frequencies.abs() + absolute
    return ColumnLayout(
        name=f"{layout}, {'cosine' if swapped else 'sine'} first",
        # An input embedding has no reason to begin with the cosines; vLLM's cache does.
        cache=swapped and layout == "concatenated",
        swapped=swapped,
        sine=sine,
        cosine=cosine,
        amplitude=amplitude,
        frequencies=torch.where((s == 0).all(0), 0.0, frequencies.clamp(min=_SLOWEST)),
        tolerance=tolerance,
        first_row=_first_row(unwrapped, frequencies, rows, tolerance),
    )


def _first_row(unwrapped: Tensor, frequencies: Tensor, rows: Tensor, tolerance: Tensor) -> int:
    """Return the position of row 0: of pairs too slow to have gone round, the one that says it best."""
    at_zero = unwrapped.mean(0) - frequencies * rows.mean()
    known = frequencies > 4 * tolerance
    # From the slowest pair, whose turns cannot be miscounted, to faster ones, which say it more exactly.
    start = 0.0
    for index in sorted(torch.nonzero(known).flatten().tolist(), key=lambda i: float(frequencies[i])):
        frequency = float(frequencies[index])
        turns = round((start * frequency - float(at_zero[index])) / (2 * math.pi))
        start = (float(at_zero[index]) + 2 * math.pi * turns) / frequency
    return round(start)


def _one_function(half: Tensor, rows: Tensor, precision: float, layout: str) -> ColumnLayout | None:
    """Read a cache that holds cosines alone or sines alone, each column twice, from position 0 on."""
    first = half[0]
    cosine = float(first.min()) > 0
    if float(rows[0]) != 0 or not (torch.equal(first, first[:1].expand_as(first)) and (cosine or not first.any())):
        return None
    amplitude = float(first[0]) if cosine else _amplitude_of_sines(half)
    if not 0 < amplitude < 10:
        return None
    measured = [_of_column(column, cosine, precision) for column in (half / amplitude).clamp(-1, 1).T]
    columns = torch.arange(2 * half.shape[1])
    return ColumnLayout(
        name=("cosines" if cosine else "sines")
        + (" only, each twice" if layout == "interleaved" else " only, halves repeated"),
        cache=True,
        swapped=False,
        sine=None if cosine else columns,
        cosine=columns if cosine else None,
        amplitude=1.0 if abs(amplitude - 1) < 1e-5 + 2 * precision else amplitude,
        frequencies=torch.tensor([frequency for frequency, _ in measured], dtype=torch.float64).clamp(min=_SLOWEST),
        tolerance=torch.tensor([error for _, error in measured], dtype=torch.float64),
        first_row=0,
    )


def _of_column(column: Tensor, cosine: bool, precision: float) -> tuple[float, float]:
    """Return the frequency of one sine or cosine and its uncertainty, from the first row that is well off its start."""
    reached = column < 0.5 if cosine else column > 0.5
    row = int(reached.nonzero()[0]) if bool(reached.any()) else len(column) - 1
    value = float(column[row])
    angle = math.acos(value) if cosine else math.asin(value)
    steepness = math.sin(angle) if cosine else math.cos(angle)
    error = 4 * precision / (row * max(steepness, precision**0.5))
    return angle / row, FLOAT32_FREQUENCY * angle / row + error


def _amplitude_of_sines(half: Tensor) -> float:
    """Return the amplitude of the first column from its recurrence, ``x[p+1] + x[p-1] = 2 cos(w) x[p]``."""
    column = half[:, 0]
    middle = column[1:-1]
    cosine = float((middle * (column[2:] + column[:-2])).sum() / (2 * (middle**2).sum()).clamp(min=1e-30))
    return float(column[1]) / math.sqrt(1 - cosine**2) if abs(cosine) < 1 else 0.0


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
    layout: ColumnLayout,
    frequencies: Tensor,
    rounded_to: torch.dtype | None,
    precision: float,
) -> Verdict:
    """Compare ``table [R, E]`` with the sines and cosines of exact frequencies at ``positions [R]``.

    Args:
        table: Float64, without rows of padding.
        positions: Positions of the rows, float64.
        layout: Which columns hold what.
        frequencies: Exact frequencies ``[n]``.
        rounded_to: Dtype to which the frequencies seem to have been rounded; the error is that from the exact ones.
        precision: Largest relative error of the stored numbers.
    """
    used = frequencies if rounded_to is None else frequencies.to(rounded_to).double()
    accepted, error, worst = True, 0.0, 0
    storage = 2 * precision * layout.amplitude
    for rows, where in zip(torch.split(table, _BLOCK), torch.split(positions, _BLOCK), strict=True):
        difference, angle = _difference(rows, where, layout, used)
        accepted &= bool((difference <= storage + layout.amplitude * FLOAT32_FREQUENCY * angle).all())
        if rounded_to is not None:
            difference, _ = _difference(rows, where, layout, frequencies)
        largest, row = difference.amax(1).max(0)
        if float(largest) > error:
            error, worst = float(largest), int(where[row])
    return Verdict(accepted=accepted, error=error, worst=worst, grows=error > storage + _NEGLIGIBLE)


def _difference(table: Tensor, positions: Tensor, layout: ColumnLayout, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Return the differences of all columns read, and the sizes of their angles."""
    angle = positions.unsqueeze(1) * frequencies
    parts = []
    for columns, function in ((layout.sine, torch.sin), (layout.cosine, torch.cos)):
        if columns is not None:
            width = len(columns) // len(frequencies)
            parts.append((table[:, columns] - layout.amplitude * function(angle).repeat(1, width)).abs())
    return torch.cat(parts, dim=1), angle.abs().repeat(1, sum(part.shape[1] for part in parts) // angle.shape[1])


def recognise_unequal_pairs(
    table: Tensor, rows: Tensor, precision: float
) -> tuple[ColumnLayout, Candidate, Verdict] | None:
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
                        found = ColumnLayout(
                            name=f"{layout}, sine first",
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
                        return found, candidate, verdict
    return None
