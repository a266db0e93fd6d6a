"""Position probe: how well the position can be read from each layer of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from locant.analysis.introspection import token_pair
from locant.analysis.position_probe import StackReadings, probe_positions
from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained
from locant.training import load_run_evaluation

_LINES = ((BLUE, "-", "o"), (VERMILION, "--", "s"))


@dataclass(frozen=True)
class ProbeCurve:
    """Readings of the position along the layers of one stack.

    Attributes:
        label: In which condition.
        r2: Share of the variance that is explained, ``[N]``.
        error: Mean absolute error in tokens, ``[N]``.
    """

    label: str
    r2: Numbers
    error: Numbers


_PROBE_SENTENCES, _PROBE_TOKENS = 240, 128


def _curve(label: str, readings: StackReadings) -> ProbeCurve:
    along = (readings.words, *readings.layers)
    return ProbeCurve(label, np.array([one.r2 for one in along]), np.array([one.error for one in along]))


def probe_numbers(*, run: Path) -> dict[str, Any]:
    """Return how well positions are read along the layers of a model, with and without its residual connections.

    The sentences are those of the run's evaluation, with their reference translations.

    Raises:
        CheckpointError: The folder holds no trained model, or the run has not been evaluated.
        DataError: There are too few sentences.
        ConfigError: The model is no Transformer.
    """
    translator, model = load_trained(run, "The figure 'probe'")
    evaluation = load_run_evaluation(run)
    tokens = (
        token_pair(translator.tokenizers, *pair) for pair in zip(evaluation.sources, evaluation.references, strict=True)
    )
    longest = min(_PROBE_TOKENS, model.max_positions or _PROBE_TOKENS)
    usable = [(one.source, one.target) for one in tokens if max(len(one.source), len(one.target)) <= longest]
    step = max(1, len(usable) // _PROBE_SENTENCES)
    pairs = usable[::step][:_PROBE_SENTENCES]
    probes = {
        "with residual connections": probe_positions(model, pairs),
        "without them": probe_positions(model, pairs, residuals=False),
    }
    found: Mapping[str, dict[str, StackReadings]] = {
        stack: {label: getattr(one, stack.lower()) for label, one in probes.items()} for stack in ("Encoder", "Decoder")
    }
    return {
        "stacks": {stack: [_curve(label, one) for label, one in curves.items()] for stack, curves in found.items()},
        "stages": {
            stack: ["words alone", "input", *(f"layer {n}" for n in range(1, len(next(iter(curves.values())).layers)))]
            for stack, curves in found.items()
        },
        "guesses": {stack: next(iter(curves.values())).guess for stack, curves in found.items()},
    }


def probe(
    stacks: Mapping[str, Sequence[ProbeCurve]], *, stages: Mapping[str, Sequence[str]], guesses: Mapping[str, float]
) -> FigureData:
    """Draw how well the position is read, stack by stack: explained variance above, error in tokens below.

    Args:
        stacks: Up to two curves by the name of the stack.
        stages: Where along the stack the readings were taken, ``N`` names each.
        guesses: Error in tokens of naming always the mean position.

    Returns:
        The figure, and ``r2 STACK, LABEL`` and ``error STACK, LABEL`` of every curve.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {}
    with drawing():
        figure = new_figure(5.4 * len(stacks), 6.6)
        panels = figure.subplots(2, len(stacks), sharex="col", sharey="row", squeeze=False)
        for (name, curves), (above, below) in zip(stacks.items(), panels.T, strict=True):
            for curve, (colour, style, marker) in zip(curves, _LINES, strict=False):
                # Worse than a guess is as good as nothing; how much worse would only stretch the axis.
                above.plot(np.maximum(curve.r2, 0), style, marker=marker, color=colour, label=curve.label)
                below.plot(curve.error, style, marker=marker, color=colour)
                data |= {f"r2 {name}, {curve.label}": curve.r2, f"error {name}, {curve.label}": curve.error}
            below.axhline(guesses[name], color=INK, linewidth=1, linestyle=":")
            below.annotate(
                "always the mean position",
                (0, guesses[name]),
                (2, 4),
                textcoords="offset points",
                fontsize=9,
                color=FAINT,
            )
            above.set_title(name, pad=9)
            above.set_ylim(-0.03, 1.03)
            below.set_xticks(range(len(stages[name])), stages[name], rotation=30, ha="right")
        worst = max(float(curve.error.max()) for curves in stacks.values() for curve in curves)
        panels[1, 0].set_ylim(0, 1.2 * max(worst, *guesses.values()))
        panels[0, 0].set_ylabel("explained variance, R²")
        panels[1, 0].set_ylabel("mean error in tokens")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=10)
        settle(figure)
    return FigureData(figure, data)


register_figure(
    "probe",
    numbers=probe_numbers,
    draw=probe,
    caption=Caption(
        "Why the position is not lost on the way up",
        "A linear function, fitted on some sentences, reads the position of a token from its hidden state in others. A "
        "residual connection adds what a layer computes to what it received, so that a position told at the input can "
        "pass every layer; the dashed line is the same model with these connections cut.",
        "p̂&nbsp;= w · h + b, &nbsp; w, b&nbsp;= argmin Σ (w · h + b &minus; p)<sup>2</sup> + |w|<sup>2</sup>; &nbsp; "
        "h<sub>l+1</sub>&nbsp;= h<sub>l</sub> + f(h<sub>l</sub>) &nbsp;against&nbsp; f(h<sub>l</sub>)",
    ),
)
