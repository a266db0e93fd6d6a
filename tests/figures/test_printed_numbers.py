"""Printed numbers are recognised by value, and the errors in them named."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from locant.errors import DataError
from locant.figures.errata import identify_array, identify_text


def table(length: int, width: int, exponent: str = "pair", base: float = 10000.0, start: int = 0) -> np.ndarray:
    j = np.arange(width)
    powers = {
        "pair": 2 * (j // 2) / width,
        "doubled": 4 * (j // 2) / width,
        "halved": (j // 2) / width,
        "own": j / width,
        "own doubled": 2 * j / width,
    }
    angles = np.arange(start, start + length)[:, None] / base ** powers[exponent]
    return np.where(j % 2, np.cos(angles), np.sin(angles))


def printed(values: np.ndarray, style: str) -> str:
    if style == "numpy":
        return str(values)
    if style == "four digits":
        return np.array2string(values, precision=4, suppress_small=True)
    if style == "list":
        return str(np.round(values, 3).tolist())
    if style == "tensor":
        return str(torch.tensor(values, dtype=torch.float32))
    assert style == "rows"
    return "\n".join(" ".join(f"{each:.4f}" for each in row) for row in values)


@pytest.mark.parametrize("style", ["numpy", "four digits", "list", "tensor", "rows"])
@pytest.mark.parametrize(
    ("values", "errata"),
    [
        (table(6, 8), ()),
        (table(6, 8, "doubled"), ("e4",)),
        (table(6, 8, "own doubled"), ("e33",)),
        (table(6, 8, "own"), ("e33",)),
        (table(6, 8, "halved"), ("e19", "e34")),
        (table(6, 8, base=1000.0), ("e34",)),
        (table(6, 8, start=1), ("e21",)),
        (table(6, 8, "doubled", start=1), ("e4", "e21")),
    ],
)
def test_tables(values: np.ndarray, errata: tuple[str, ...], style: str) -> None:
    finding = identify_text(printed(values, style))
    assert (finding.errata, finding.recognised, finding.wrong) == (errata, True, bool(errata)), finding.said


def test_lists_of_frequencies() -> None:
    assert identify_text("[1.0, 0.1, 0.01, 0.001]").recognised
    assert identify_text("1.0\n0.1\n0.01\n0.001").recognised


def test_a_slip_in_a_right_table() -> None:
    values = table(5, 8)
    right = identify_text(printed(values, "four digits"))
    assert right.recognised
    assert not right.wrong
    values[2, 3] += 2e-4  # in the last digit that is printed
    finding = identify_text(printed(values, "four digits"))
    assert finding.wrong or not finding.recognised


@pytest.mark.parametrize("decimals", [1, 2, 3, 4, 8])
def test_other_numbers(decimals: int) -> None:
    text = str(np.random.default_rng(0).normal(size=(5, 6)).round(decimals))
    finding = identify_text(text)
    assert not finding.recognised
    assert not finding.errata


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "No numbers.",
        "PE(1)[2] = 0.0464",
        "[[0, 1, 0, 1], [0.8415, 0.5403, x, 1]]",
        "[[0, 1], [2, 3, 4]]",
        "0.1 0.2\n0.3",
        "With positions:\n[[0, 1], [0.8415, 0.5403]]",
        repr(table(60, 512)),
        "[" * 20000,
    ],
)
def test_texts_that_are_no_array(text: str) -> None:
    with pytest.raises(DataError):
        identify_text(text)


def test_arrays_in_full_precision() -> None:
    assert identify_array(torch.tensor(table(60, 32, "doubled"))).errata == ("e4",)
    assert identify_array(torch.tensor(table(60, 32))).errata == ()
    assert not identify_array(torch.randn(20, 8, generator=torch.Generator().manual_seed(0))).recognised
