"""The RNN beside the Transformer: how far back gradients reach, what must wait, and times, by length of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from locant.analysis.gradients import operations_in_a_row
from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    ORANGE,
    VERMILION,
    FigureData,
    Numbers,
    drawing,
    new_figure,
    settle,
)
from locant.figures.record import read_record
from locant.figures.registry import Caption, register_figure
from locant.models import LanguageModel, LanguageModelConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = {
    "plain RNN": (ORANGE, ":", "D"),
    "GRU": (GREEN, "-.", "^"),
    "LSTM": (VERMILION, "--", "s"),
    "Transformer": (BLUE, "-", "o"),
}
_CELLS: dict[str, type[nn.RNNCell] | type[nn.GRUCell] | type[nn.LSTMCell]] = {
    "plain RNN": nn.RNNCell,
    "GRU": nn.GRUCell,
    "LSTM": nn.LSTMCell,
}
_LENGTHS = (8, 16, 32, 64)
_LEAST = 1e-7  # share of a gradient below which it is drawn as nothing
_WIDTH, _LAYERS = 4, 2


def waiting_operations(lengths: Sequence[int]) -> dict[str, Numbers]:
    """Return the operations of a forward pass of which each waits for the one before, by model and length.

    The recurrent networks have one layer, the Transformer two, as in the record of the gradients.

    Args:
        lengths: Of texts, in tokens.
    """
    with torch.random.fork_rng(devices=[]):
        cells = {name: kind(_WIDTH, _WIDTH) for name, kind in _CELLS.items()}
        model = LanguageModel(LanguageModelConfig(vocab_size=2, layers=_LAYERS, d_model=8, d_ff=8, heads=2))
    found = {
        name: [operations_in_a_row(_last_state(cell, length)) for length in lengths] for name, cell in cells.items()
    }
    found["Transformer"] = [
        operations_in_a_row(model.hidden(torch.ones(1, length, dtype=torch.long))[:, -1]) for length in lengths
    ]
    return {name: np.array(counts, dtype=float) for name, counts in found.items()}


def _last_state(cell: nn.Module, length: int) -> Tensor:
    """Return the hidden state of a recurrent cell after a text of a length."""
    state = None
    for _ in range(length):
        state = cell(torch.zeros(1, _WIDTH), state)
    hidden: Tensor = state[0] if isinstance(state, tuple) else state  # type: ignore[assignment]
    return hidden


def recurrence_numbers() -> dict[str, Any]:
    """Return gradients by distance and times from their records, and operations in a row, counted."""
    gradients, times = read_record("gradients"), read_record("times")
    models = gradients["models"]
    return {
        "gradients": {
            when: {name: np.array(one[when]) / one[when][0] for name, one in models.items()}
            for when in ("before", "after")
        },
        "losses": {name: one["test loss"] for name, one in models.items()},
        "lengths": np.array(_LENGTHS, dtype=float),
        "operations": waiting_operations(_LENGTHS),
        "timed_lengths": np.array(times["lengths"], dtype=float),
        "seconds": {name: np.array(seconds) for name, seconds in times["seconds"].items()},
        "timing": f"{times['tokens']:,} tokens a step, processor time on one core of\n{times['machine']}",
    }


def recurrence(
    gradients: Mapping[str, Mapping[str, Numbers]],
    *,
    losses: Mapping[str, float],
    lengths: Numbers,
    operations: Mapping[str, Numbers],
    timed_lengths: Numbers,
    seconds: Mapping[str, Numbers],
    timing: str,
) -> FigureData:
    """Draw recurrent networks beside a Transformer: gradients by distance, operations in a row, and times by length.

    Args:
        gradients: ``before`` and ``after`` training, by model: gradient of the last output with respect to the input
            ``k`` tokens back, as a share of that at ``k = 0``, ``[L]``.
        losses: Loss on held-out text after training, in nats a character, by model.
        lengths: Of texts in tokens, ``[N]``.
        operations: Operations that must wait for each other, ``[N]``, by model.
        timed_lengths: Of texts in tokens, ``[M]``.
        seconds: Of a training step, ``[M]``, by model.
        timing: How and where was timed.

    Returns:
        The figure, and the arrays as ``WHAT: MODEL``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {"lengths": lengths, "timed lengths": timed_lengths}
    with drawing():
        figure = new_figure(12, 8.4)
        (before, after), (waiting, time) = figure.subplots(2, 2)
        for axes, when in ((before, "before"), (after, "after")):
            for name, values in gradients[when].items():
                shown = np.where(values < _LEAST, np.nan, values)
                label = name if when == "before" else f"{name}, loss {losses[name]:.2f}"
                _line(axes, np.arange(float(len(values))), shown, name, label, points=False)
                data[f"{when} training: {name}"] = values
            axes.set_yscale("log")
            axes.set_ylim(_LEAST, 2)
            axes.set_title(f"How far back the last output reaches, {when} training", fontsize=11, pad=8)
            axes.set_xlabel("input k tokens back")
            axes.set_ylabel("gradient, of that at k = 0")
            axes.legend(loc="lower left", fontsize=9)
        for name, values in operations.items():
            _line(waiting, lengths, values, name, name)
            data[f"operations: {name}"] = values
        for name, values in seconds.items():
            _line(time, timed_lengths, 1000 * values, name, name)
            data[f"seconds: {name}"] = values
        time.set_xscale("log", base=2)
        time.minorticks_off()
        for axes, at in ((waiting, lengths), (time, timed_lengths)):
            axes.set_xticks(at, [f"{length:,.0f}" for length in at])
            axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
            axes.set_xlabel("tokens of a text")
            axes.legend(loc="upper left", fontsize=9)
        waiting.set_xlim(0, 1.03 * lengths[-1])
        waiting.set_title("Operations that must wait for each other", fontsize=11, pad=32)
        waiting.set_ylabel("in a row, forward")
        time.set_title("Time of a training step", fontsize=11, pad=32)
        time.set_ylabel("milliseconds")
        time.text(0, 1.02, timing, transform=time.transAxes, fontsize=8.5, color=FAINT)
        settle(figure)
    return FigureData(figure, data)


def _line(axes: Axes, x: Numbers, y: Numbers, name: str, label: str, *, points: bool = True) -> None:
    colour, style, marker = _LINES[name]
    axes.plot(x, y, style, marker=marker if points else None, markersize=5, color=colour, label=label)


register_figure(
    "recurrence",
    numbers=recurrence_numbers,
    draw=recurrence,
    caption=Caption(
        "Why not the RNN",
        "In a recurrent network everything about a word k tokens back has passed k steps, and the gradient with it: it "
        "fades. Attention has one step to every word, near or far. And a step of the network must wait for the one "
        "before: the longer the text, the more stand in a row, while in a Transformer their number stays the same.",
        "RNN: ∂h<sub>L</sub>/∂x<sub>L&minus;k</sub>&nbsp;= (Π<sub>t</sub> ∂h<sub>t</sub>/∂h<sub>t&minus;1</sub>) "
        "∂h<sub>L&minus;k</sub>/∂x<sub>L&minus;k</sub>, &nbsp; k factors &nbsp;&nbsp; "
        "steps in a row: O(L) and O(1) (Vaswani et al. 2017, table 1)",
        (
            "Gradients and times are records of small language models of characters, each of about as many parameters "
            "and trained for 400 updates; docs/figures.md has the command. Gates are the network's remedy: the trained "
            "GRU holds on to something, the plain network to nothing, and the LSTM has learned to forget faster.",
            "To reach far is not to be better: after so short a training the recurrent models predict the next "
            "character better. The Transformer's strength is what it can still learn.",
            "One core does one thing at a time: there the order costs a recurrent network only the size of its matrix "
            "products, and the LSTM is one fused operation of the library. Where thousands of units work at once, the "
            "operations in a row set the time. Attention pays for its reach with the square of the length.",
        ),
    ),
)
