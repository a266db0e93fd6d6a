"""Printed numbers are recognised by value, and the errors in them named."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from locant.figures.errata import TOPICS, Erratum, identify_array, identify_printed

EXAMPLES = [entry for topic in TOPICS for entry in topic.entries if entry.example]


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
    if style == "labels":
        return "\n".join(f"{p}: {' '.join(f'{each:.4f}' for each in row)}" for p, row in enumerate(values))
    assert style == "table"
    rows = [f"| {p} | {' | '.join(f'{each:.4f}' for each in row)} |" for p, row in enumerate(values)]
    return "\n".join(["| position | features |", "| --- | --- |", *rows])


@pytest.mark.parametrize("style", ["numpy", "four digits", "list", "tensor", "labels", "table"])
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
    (finding,) = identify_printed(f"What a program printed:\n\n{printed(values, style)}\n")
    assert (finding.errata, finding.recognised, finding.wrong) == (errata, True, bool(errata)), finding.said


def test_what_numpy_leaves_out() -> None:
    (right,) = identify_printed(repr(table(60, 512)))
    assert right.said == "3 x 512: the sinusoids of the paper; right in all printed digits"
    (wrong,) = identify_printed(f"d_model = 128\n{table(60, 128, 'doubled')}")
    assert (wrong.line, wrong.errata) == (2, ("e4",))


@pytest.mark.parametrize("entry", EXAMPLES, ids=lambda entry: entry.key)
def test_the_examples_of_the_errata(entry: Erratum) -> None:
    """Each example that a page shows is recognised as that erratum and nothing else."""
    findings = identify_printed(entry.example)
    assert {key for finding in findings for key in finding.errata} == {entry.key}


@pytest.mark.parametrize(
    ("text", "said", "errata"),
    [
        ("PE(1)[2] = sin(1/10000^(2/6)) = sin(0.0464) = 0.0464, d = 6", "right in all printed digits", ()),
        ("PE(1)[2] = 0.0215 with d = 4", "right is 0.01", ()),
        ("PE(pos=3, 0) \u2248 0.1411 for d_model=512", "right in all printed digits", ()),
        ("PE[1, 0] = 0.9093 for d = 4", "position 2: off by one", ("e21",)),
        ("PE(1, 1) = 0.84147 for d = 4", "sine and cosine are swapped", ("e32",)),
        ("PE(1)[2] = 0.0022 (d = 6), as one sees.", "the exponent is doubled", ("e4",)),
        ("so that the first word has sin(1) = 0 here.", "sin(0): off by one", ("e21",)),
        ("sin(2) = 0.9093", "right in all printed digits", ()),
        ("sin(2) = 0.8415", "sin(1): off by one", ("e21",)),
        ("math.sin(0.5) = 0.5794", "0.5794 is printed; right is 0.4794", ()),
        ("10000^(2/4) = 100", "right in all printed digits", ()),
        ("10000^(1/4) = 10 for d = 4", "the divisor 100", ("e19",)),
        ("theta = [1.0, 0.1, 0.01, 0.001]", "frequencies, d = 8: right", ()),
        ("theta = [1.0, 0.01, 0.0001, 0.000001]", "the exponent is doubled", ("e4", "e25")),
        ("d = 2048\n[1, 0.99105, ..., 0.0001009]", "frequencies, d = 2048: right", ()),
        ("[0.8415, 0.5403, 0.0464, 0.9989, 0.0022, 1.0]", "the code of position 1, d = 6", ()),
        ("0 0.0 1.0 0.0 1.0\n1 0.84 0.54 0.01 1.0\n2 0.91 -0.42 0.02 1.0", "3 x 4: the sinusoids of the paper", ()),
    ],
)
def test_lines_and_lists(text: str, said: str, errata: tuple[str, ...]) -> None:
    (finding,) = identify_printed(text)
    assert said in finding.said
    assert finding.errata == errata


def test_a_slip_in_a_right_table() -> None:
    values = table(5, 8)
    values[2, 3] = 0.5
    (finding,) = identify_printed(printed(values, "four digits"))
    assert finding.wrong
    assert not finding.errata
    right = math.cos(2 / 10000 ** (2 / 8))
    assert f"position 2, feature 3 is printed as 0.5; right is {right:.4f}" in finding.said


@pytest.mark.parametrize(
    "text",
    [
        "[[1, 2, 3, 4]\n [5, 6, 7, 8]\n [1, 2, 9, 1]]",
        str(np.random.default_rng(0).normal(size=(5, 6))),
        str(np.random.default_rng(0).normal(size=8)),
        "[[0. 1. 0. 1.]\n [0. 1. 0. 1.]]",
        "[[0.84 0.54 0.01]\n [0.9 0.1]]",
    ],
)
def test_other_numbers(text: str) -> None:
    (finding,) = identify_printed(text)
    assert not finding.recognised
    assert not finding.errata


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No numbers.",
        "x[3] = 7 and f(2) = 4",
        "[" * 20000,
        "[1" * 5000,
        "9**9**9**9**9 = 1",
        "__import__('os').system('true') = 0",
        "sin() = 1",
        "sin(1/0) = 1",
        "2**-0.5",
        "sin(1) = 2 cos(3)",
        "a" * 100_000 + "sin(1" * 1000 + " = 1",
    ],
)
def test_texts_without_any(text: str) -> None:
    assert identify_printed(text) == []


def test_arrays_in_full_precision() -> None:
    assert identify_array(torch.tensor(table(60, 32, "doubled"))).errata == ("e4",)
    assert identify_array(torch.tensor(table(60, 32))).errata == ()
    assert not identify_array(torch.randn(20, 8, generator=torch.Generator().manual_seed(0))).recognised
