"""The RNN beside the Transformer: how far back a gradient reaches, and what must wait, by length of the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from locant.analysis.gradients import gradient_by_distance, operations_in_a_row
from locant.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.registry import Caption, register_figure
from locant.models import LanguageModel, LanguageModelConfig
from locant.positions import Mask

_LINES = {
    "plain RNN": (ORANGE, ":", "D"),
    "GRU": (GREEN, "-.", "^"),
    "LSTM": (VERMILION, "--", "s"),
    "Transformer": (BLUE, "-", "o"),
}
_LENGTHS = (8, 16, 32, 64)
_WIDTH, _ROWS = 64, 16
_LEAST = 1e-7  # share of a gradient below which it is drawn as nothing


def _models() -> dict[str, Callable[[Tensor], Tensor]]:
    """Return untrained models of two layers, which map inputs ``[B, L, 64]`` to outputs ``[B, L, 64]``."""

    def reading(network: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda x: network(x)[0]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        networks: list[nn.Module] = [
            nn.RNN(_WIDTH, _WIDTH, num_layers=2, batch_first=True),
            nn.GRU(_WIDTH, _WIDTH, num_layers=2, batch_first=True),
            nn.LSTM(_WIDTH, _WIDTH, num_layers=2, batch_first=True),
        ]
        config = LanguageModelConfig(
            vocab_size=2, layers=2, d_model=_WIDTH, d_ff=4 * _WIDTH, heads=4, dropout=0.0, position="sinusoidal"
        )
        stack = LanguageModel(config).stack
    found = {name: reading(network) for name, network in zip(_LINES, networks, strict=False)}
    found["Transformer"] = lambda x: stack(x, torch.arange(x.shape[1]), Mask(causal=True))
    return found


def waiting_operations(lengths: Sequence[int]) -> dict[str, Numbers]:
    """Return the operations of a forward pass of which each waits for the one before, by model and length.

    The recurrent networks are cells of one layer, the Transformer has two.

    Args:
        lengths: Of texts, in tokens.
    """
    cells: dict[str, nn.Module] = {"plain RNN": nn.RNNCell(4, 4), "GRU": nn.GRUCell(4, 4), "LSTM": nn.LSTMCell(4, 4)}
    states = {name: [_last_state(cell, length) for length in lengths] for name, cell in cells.items()}
    transformer = _models()["Transformer"]
    states["Transformer"] = [transformer(torch.zeros(1, length, _WIDTH))[:, -1] for length in lengths]
    counts = {name: [operations_in_a_row(state) for state in of_lengths] for name, of_lengths in states.items()}
    return {name: np.array(found, dtype=float) for name, found in counts.items()}


def _last_state(cell: nn.Module, length: int) -> Tensor:
    """Return the hidden state of a recurrent cell after a text of a length."""
    state = None
    for _ in range(length):
        state = cell(torch.zeros(1, 4), state)
    return state[0] if isinstance(state, tuple) else state  # type: ignore[return-value]


def recurrence_numbers() -> dict[str, Any]:
    """Return gradients of untrained models by distance, and operations in a row, counted."""
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(_ROWS, _LENGTHS[-1], _WIDTH, generator=generator)
    reached = {name: gradient_by_distance(model, inputs).numpy() for name, model in _models().items()}
    return {
        "gradients": {name: values / values[0] for name, values in reached.items()},
        "lengths": np.array(_LENGTHS, dtype=float),
        "operations": waiting_operations(_LENGTHS),
    }


def recurrence(gradients: Mapping[str, Numbers], *, lengths: Numbers, operations: Mapping[str, Numbers]) -> FigureData:
    """Draw recurrent networks beside a Transformer: gradients by distance, and operations in a row by length.

    Args:
        gradients: Gradient of the last output with respect to the input ``k`` tokens back, as a share of that at
            ``k = 0``, ``[L]``, by model.
        lengths: Of texts in tokens, ``[N]``.
        operations: Operations that must wait for each other, ``[N]``, by model.

    Returns:
        The figure, and the arrays as ``gradient: MODEL`` and ``operations: MODEL``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {"lengths": lengths}
    with drawing():
        figure = new_figure(11, 4.4)
        reach, waiting = figure.subplots(1, 2)
        for name, (colour, style, marker) in _LINES.items():
            data[f"gradient: {name}"], data[f"operations: {name}"] = gradients[name], operations[name]
            shown = np.where(gradients[name] < _LEAST, np.nan, gradients[name])
            reach.plot(np.arange(len(shown)), shown, style, color=colour, label=name)
            waiting.plot(lengths, operations[name], style, marker=marker, markersize=5, color=colour, label=name)
        reach.set_yscale("log")
        reach.set_ylim(_LEAST, 2)
        reach.set_title("How far back the last output reaches, untrained", fontsize=11, pad=8)
        reach.set_xlabel("input k tokens back")
        reach.set_ylabel("gradient, relative to k = 0")
        reach.legend(loc="lower left", fontsize=9)
        waiting.set_title("Operations that must wait for each other", fontsize=11, pad=8)
        waiting.set_xticks(lengths)
        waiting.set_xlim(0, 1.03 * lengths[-1])
        waiting.set_ylim(0, 1.05 * waiting.get_ylim()[1])
        waiting.set_xlabel("tokens of a text")
        waiting.set_ylabel("in a row, forward")
        waiting.legend(loc="upper left", fontsize=9)
        settle(figure)
    return FigureData(figure, data)


register_figure(
    "recurrence",
    numbers=recurrence_numbers,
    draw=recurrence,
    caption=Caption(
        "Why not the RNN",
        "In a recurrent network everything about a word k tokens back passed k steps, and the gradient with it: it "
        "fades before training has begun. Attention needs one step to every word, near or far. And a step of the "
        "network must wait for the one before: the longer the text, the more stand in a row, while in a Transformer "
        "their number stays the same.",
        "RNN: ∂h<sub>L</sub>/∂x<sub>L&minus;k</sub>&nbsp;= (Π<sub>t</sub> ∂h<sub>t</sub>/∂h<sub>t&minus;1</sub>) "
        "∂h<sub>L&minus;k</sub>/∂x<sub>L&minus;k</sub>, &nbsp; k factors &nbsp;&nbsp; "
        "steps in a row: O(L) and O(1) (Vaswani et al. 2017, table 1)",
        (
            "The models are untrained, of two layers and 64 features; the inputs are random. Gates are the network's "
            "remedy: training can open them, so a trained LSTM remembers farther than this.",
            "Where thousands of units work at once, the operations in a row set the time. Attention pays for its reach "
            "with the square of the length.",
        ),
    ),
)
