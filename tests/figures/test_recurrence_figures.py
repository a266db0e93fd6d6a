"""The figures of gradients, operations in a row and times: records as they must be, and counts anew."""

from __future__ import annotations

import numpy as np
import pytest

from locant.figures import FigureData, draw_figure

MODELS = ["plain RNN", "GRU", "LSTM", "Transformer"]


@pytest.fixture(scope="module")
def recurrence() -> FigureData:
    return draw_figure("recurrence")


def test_gradients_reach_as_the_theory_says(recurrence: FigureData) -> None:
    for when in ("before", "after"):
        curves = {name: recurrence.data[f"{when} training: {name}"] for name in MODELS}
        assert all(curve[0] == 1 and len(curve) == 64 for curve in curves.values())
        assert curves["Transformer"][-1] > 1e-3
        assert curves["plain RNN"][-1] < 1e-7
    # Every input but the last meets the plain network through the same matrix, and so fades by a nearly even factor.
    early = recurrence.data["before training: plain RNN"]
    factors = early[1:20] / early[:19]
    assert factors.max() / factors.min() < 2


def test_what_must_wait(recurrence: FigureData) -> None:
    lengths = recurrence.data["lengths"]
    assert lengths.tolist() == [8, 16, 32, 64]
    for name in MODELS[:3]:
        counts = recurrence.data[f"operations: {name}"]
        each = np.diff(counts) / np.diff(lengths)
        assert np.ptp(each) == 0  # a straight line
        assert each[0] >= 2  # a matrix product and its nonlinearity
    assert len(set(recurrence.data["operations: Transformer"])) == 1


def test_times_are_of_the_record(recurrence: FigureData) -> None:
    for name in MODELS:
        assert (recurrence.data[f"seconds: {name}"] > 0).all()
    (axes,) = (axes for axes in recurrence.figure.axes if "Time" in axes.get_title(loc="left"))
    assert any("cores, torch" in text.get_text() for text in axes.texts)  # on which machine
