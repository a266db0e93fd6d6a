"""The RNN beside the Transformer: how far back a gradient reaches, and what must wait, by length of the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from locant.figures.drawing import Figure, label, new_figure
from locant.figures.palette import BLUE, GREEN, ORANGE, VERMILION
from locant.figures.registry import register_figure
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
_DIRECTIONS = 4  # along which the last output is differentiated
_LEAST = 1e-7  # share of a gradient below which it is drawn as nothing


def gradient_by_distance(outputs: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Return how much the last of the outputs of ``[B, L, E]`` depends on the input ``k`` tokens before it, ``[L]``.

    The number is the norm of the gradient of ``u . y_L`` with respect to ``x_{L-k}``, for unit vectors ``u`` drawn at
    random; the root of the mean square over rows and several ``u`` is the Frobenius norm of the Jacobian over the root
    of its number of rows, whose decay with ``k`` is the vanishing gradient (Bengio, Simard and Frasconi 1994, section
    4; Pascanu, Mikolov and Bengio 2013, section 2).
    """
    x = inputs.detach().clone().requires_grad_()
    last = outputs(x)[:, -1]
    generator = torch.Generator().manual_seed(0)
    squares = torch.zeros(inputs.shape[1], dtype=torch.float64)
    for number in range(_DIRECTIONS):
        unit = nn.functional.normalize(torch.randn(last.shape, generator=generator), dim=-1)
        (gradient,) = torch.autograd.grad((last * unit.to(last)).sum(), x, retain_graph=number + 1 < _DIRECTIONS)
        squares += gradient.double().square().sum(-1).mean(0).cpu()
    return (squares / _DIRECTIONS).sqrt().flip(0)


def operations_in_a_row(output: Tensor) -> int:
    """Return the number of operations of a differentiable pass of which each needs the result of the one before.

    It is the length of the longest path through the graph that PyTorch recorded for ``output``, back to a parameter or
    an input: however many processors there are, that many operations must wait for each other.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> operations_in_a_row((x * 2).exp() + x)
        3
    """
    longest: dict[object, int] = {}
    stack: list[tuple[Any, bool]] = [(output.grad_fn, False)]
    while stack:
        node, seen = stack.pop()
        before = [one for one, _ in node.next_functions if one is not None and one.next_functions]
        if seen:
            longest[node] = 1 + max((longest[one] for one in before), default=0)
        elif node not in longest:
            stack.append((node, True))
            stack.extend((one, False) for one in before if one not in longest)
    return longest[output.grad_fn]


def _recurrent(cells: Sequence[nn.Module], x: Tensor) -> Tensor:
    """Return the outputs of the last of several layers of cells for inputs ``[B, L, E]``."""
    tokens: Sequence[Tensor] = x.unbind(1)
    for cell in cells:
        state, outputs = None, []
        for token in tokens:
            state = cell(token, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        tokens = outputs
    return torch.stack(list(tokens), dim=1)


def numbers() -> dict[str, Any]:
    """Return gradients of untrained models of two layers by distance, and operations in a row, counted.

    The gradient is that of the last output with respect to the input ``k`` tokens back, as a share of that at
    ``k = 0``. Operations are those of a forward pass of which each waits for the one before.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        cells = [[kind(_WIDTH, _WIDTH) for _ in range(2)] for kind in (nn.RNNCell, nn.GRUCell, nn.LSTMCell)]
        config = LanguageModelConfig(
            vocab_size=2, layers=2, d_model=_WIDTH, d_ff=4 * _WIDTH, heads=4, dropout=0.0, position="sinusoidal"
        )
        stack = LanguageModel(config).stack

    def transformer(x: Tensor) -> Tensor:
        return stack(x, torch.arange(x.shape[1]), Mask(causal=True))

    inputs = torch.randn(_ROWS, _LENGTHS[-1], _WIDTH, generator=torch.Generator().manual_seed(2))
    found: dict[str, Any] = {"lengths": np.array(_LENGTHS, dtype=float)}
    models: list[Callable[[Tensor], Tensor]] = [*(partial(_recurrent, each) for each in cells), transformer]
    for name, model in zip(_LINES, models, strict=True):
        gradient = gradient_by_distance(model, inputs).numpy()
        found[f"gradient: {name}"] = gradient / gradient[0]
        waiting = [operations_in_a_row(model(inputs[:1, :length])[:, -1]) for length in _LENGTHS]
        found[f"operations: {name}"] = np.array(waiting, dtype=float)
    return found


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


register_figure("recurrence", numbers, draw)
