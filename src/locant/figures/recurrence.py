"""The RNN beside the Transformer: how far back a gradient reaches, and what must wait, by length of the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from locant.analysis.gradients import gradient_by_distance, operations_in_a_row
from locant.figures.drawing import BLUE, GREEN, ORANGE, VERMILION, label, new_figure
from locant.figures.registry import Caption, register_figure
from locant.models import LanguageModel, LanguageModelConfig
from locant.positions import Mask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINES = {
    "plain RNN": (ORANGE, ":", "D"),
    "GRU": (GREEN, "-.", "^"),
    "LSTM": (VERMILION, "--", "s"),
    "Transformer": (BLUE, "-", "o"),
}
_LENGTHS = (8, 16, 32, 64)
_WIDTH, _ROWS = 64, 16
_LEAST = 1e-7  # share of a gradient below which it is drawn as nothing


def numbers() -> dict[str, Any]:
    """Return gradients of untrained models by distance, and operations in a row, counted.

    The gradient is that of the last output with respect to the input ``k`` tokens back, as a share of that at
    ``k = 0``. Operations are those of a forward pass of which each waits for the one before; the recurrent networks
    are cells of one layer there, the Transformer has two.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        recurrent = [kind(_WIDTH, _WIDTH, num_layers=2, batch_first=True) for kind in (nn.RNN, nn.GRU, nn.LSTM)]
        config = LanguageModelConfig(
            vocab_size=2, layers=2, d_model=_WIDTH, d_ff=4 * _WIDTH, heads=4, dropout=0.0, position="sinusoidal"
        )
        stack = LanguageModel(config).stack

    def transformer(x: Tensor) -> Tensor:
        return stack(x, torch.arange(x.shape[1]), Mask(causal=True))

    def reading(network: nn.Module) -> Callable[[Tensor], Tensor]:
        return lambda x: network(x)[0]

    inputs = torch.randn(_ROWS, _LENGTHS[-1], _WIDTH, generator=torch.Generator().manual_seed(2))
    found: dict[str, Any] = {"lengths": np.array(_LENGTHS, dtype=float)}
    for name, model in zip(_LINES, [*map(reading, recurrent), transformer], strict=True):
        gradient = gradient_by_distance(model, inputs).numpy()
        found[f"gradient: {name}"] = gradient / gradient[0]
    cells = [kind(4, 4) for kind in (nn.RNNCell, nn.GRUCell, nn.LSTMCell)]
    for name, cell in zip(_LINES, cells, strict=False):
        waiting = [operations_in_a_row(_last_state(cell, length)) for length in _LENGTHS]
        found[f"operations: {name}"] = np.array(waiting, dtype=float)
    states = [transformer(torch.zeros(1, length, _WIDTH))[:, -1] for length in _LENGTHS]
    return found | {"operations: Transformer": np.array([operations_in_a_row(state) for state in states], dtype=float)}


def _last_state(cell: nn.Module, length: int) -> Tensor:
    """Return the hidden state of a recurrent cell after a text of a length."""
    state = None
    for _ in range(length):
        state = cell(torch.zeros(1, 4), state)
    return state[0] if isinstance(state, tuple) else state  # type: ignore[return-value]


def draw(lengths: Any, **data: Any) -> Figure:
    """Draw recurrent networks beside a Transformer: gradients by distance, and operations in a row by length."""
    figure = new_figure(11, 4.4)
    reach, waiting = figure.subplots(1, 2)
    for name, (color, stroke, mark) in _LINES.items():
        gradient = data[f"gradient: {name}"]
        reach.plot(np.where(gradient < _LEAST, np.nan, gradient), stroke, color=color, label=name)
        waiting.plot(lengths, data[f"operations: {name}"], stroke, marker=mark, markersize=5, color=color, label=name)
    label(reach, "How far back the last output reaches, untrained", "input k tokens back", log="y")
    reach.set(ylim=(_LEAST, 2), ylabel="gradient, relative to k = 0")
    reach.legend(loc="lower left")
    label(waiting, "Operations that must wait for each other", "tokens of a text", "in a row, forward")
    waiting.set(xticks=lengths, xlim=(0, 1.03 * lengths[-1]), ylim=(0, 1.05 * waiting.get_ylim()[1]))
    waiting.legend(loc="upper left")
    return figure


register_figure(
    "recurrence",
    numbers=numbers,
    draw=draw,
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
