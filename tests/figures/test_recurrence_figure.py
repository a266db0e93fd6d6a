"""The figure of gradients by distance and of operations in a row."""

import numpy as np
import torch
from torch import Tensor, nn

from locant.figures import draw_figure
from locant.figures.recurrence import gradient_by_distance, operations_in_a_row
from locant.models import LanguageModel, LanguageModelConfig

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


def test_a_linear_recurrence_forgets_by_its_factor() -> None:
    def read(x: Tensor) -> Tensor:
        state, states = torch.zeros_like(x[:, 0]), []
        for token in x.unbind(1):
            state = 0.5 * state + token
            states.append(state)
        return torch.stack(states, dim=1)

    found = gradient_by_distance(read, torch.randn(3, 6, 4))
    torch.testing.assert_close(found, 0.5 ** torch.arange(6.0, dtype=torch.float64), rtol=1e-6, atol=0)


def test_it_is_the_jacobian_of_the_last_output() -> None:
    torch.manual_seed(0)
    gru = nn.GRU(3, 5, batch_first=True)
    x = torch.randn(400, 4, 3)
    found = gradient_by_distance(lambda given: gru(given)[0], x)
    squares = torch.zeros(4, dtype=torch.float64)
    for row in x[:100]:
        jacobian = torch.autograd.functional.jacobian(lambda given: gru(given[None])[0][0, -1], row)
        squares += jacobian.double().square().sum((0, 2)) / 5  # the mean over unit vectors
    torch.testing.assert_close(found, (squares / 100).sqrt().flip(0), rtol=0.1, atol=0)


def test_operations_in_a_row() -> None:
    cell = nn.RNNCell(4, 4)
    model = LanguageModel(LanguageModelConfig(vocab_size=9, layers=2, d_model=8, d_ff=8, heads=2))

    def recurrent(length: int) -> int:
        state = torch.zeros(1, 4)
        for _ in range(length):
            state = cell(torch.ones(1, 4), state)
        return operations_in_a_row(state)

    one, two, nine = recurrent(1), recurrent(2), recurrent(9)
    assert nine - two == 7 * (two - one) > 0
    attentive = {operations_in_a_row(model(torch.ones(1, length, dtype=torch.long))) for length in (2, 9, 40)}
    assert len(attentive) == 1
