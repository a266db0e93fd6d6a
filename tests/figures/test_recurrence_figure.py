"""The figure of gradients by distance and of operations in a row."""

import numpy as np

from locant.figures import draw_figure

MODELS = ["plain RNN", "GRU", "LSTM", "Transformer"]


def test_gradients_fade_in_recurrent_networks_alone() -> None:
    data = draw_figure("recurrence").data
    assert all(data[f"gradient: {name}"][0] == 1 for name in MODELS)
    assert data["gradient: Transformer"][-1] > 1e-3
    assert all(data[f"gradient: {name}"][-1] < 1e-6 for name in MODELS[:3])
    lengths = data["lengths"]
    for name in MODELS[:3]:
        each = np.diff(data[f"operations: {name}"]) / np.diff(lengths)
        assert np.ptp(each) == 0  # a straight line
        assert each[0] >= 2  # a matrix product and its nonlinearity
    assert len(set(data["operations: Transformer"])) == 1
