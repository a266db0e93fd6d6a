"""Position probe: how well the position can be read from each layer of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from locant.analysis.introspection import token_pair
from locant.analysis.position_probe import probe_positions
from locant.errors import DataError
from locant.figures.drawing import Figure, label, panels, shared_legend
from locant.figures.palette import BLUE, FAINT, INK, VERMILION
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained
from locant.training import load_run_evaluation

_STACKS = ("Encoder", "Decoder")
_LINES = {"with residual connections": (BLUE, "-", "o"), "without them": (VERMILION, "--", "s")}
_SENTENCES, _MOST_TOKENS = 240, 128


def numbers(*, run: Path) -> dict[str, Any]:
    """Return how well positions are read along the layers of a model, with and without its residual connections.

    The sentences are those of the run's evaluation, with their reference translations.

    Raises:
        CheckpointError: The run has not been evaluated.
        DataError: No sentence has at most 128 tokens on both sides.

    Returns:
        ``r2 STACK, CONDITION`` and ``error STACK, CONDITION`` (in tokens) along words, input and layers, and ``guess
        STACK``, the error of naming always the mean position.
    """
    translator, model = load_trained(run, "probe")
    evaluation, longest = load_run_evaluation(run), min(_MOST_TOKENS, model.max_positions or _MOST_TOKENS)
    tokens = (
        token_pair(translator.tokenizers, source, reference, translator.prefixes)
        for source, reference in zip(evaluation.sources, evaluation.references, strict=True)
    )
    usable = [(one.source, one.target) for one in tokens if max(len(one.source), len(one.target)) <= longest]
    if not usable:
        raise DataError(f"No held-out sentence of {run} has at most {longest} tokens.")
    pairs = usable[:: max(1, len(usable) // _SENTENCES)][:_SENTENCES]
    found: dict[str, Any] = {}
    for condition in _LINES:
        probe = probe_positions(model, pairs, residuals=condition.startswith("with "))
        for stack, readings in zip(_STACKS, (probe.encoder, probe.decoder), strict=True):
            along = (readings.words, *readings.layers)
            found[f"r2 {stack}, {condition}"] = np.array([one.r2 for one in along])
            found[f"error {stack}, {condition}"] = np.array([one.error for one in along])
            found[f"guess {stack}"] = readings.guess
    return found


def draw(**data: Any) -> Figure:
    """Draw how well the position is read, stack by stack: explained variance above, error in tokens below."""
    figure, found = panels(4, 2, width=10.8, height=3.3, sharex="col", sharey="row")
    for stack, above, below in zip(_STACKS, found[:2], found[2:], strict=True):
        for condition, (color, stroke, mark) in _LINES.items():
            # Worse than a guess is as good as nothing; how much worse would only stretch the axis.
            r2 = np.maximum(data[f"r2 {stack}, {condition}"], 0)
            above.plot(r2, stroke, marker=mark, color=color, label=condition)
            below.plot(data[f"error {stack}, {condition}"], stroke, marker=mark, color=color, label=condition)
        guess = data[f"guess {stack}"]
        below.axhline(guess, color=INK, linewidth=1, linestyle=":")
        place: dict[str, Any] = {"xytext": (2, 4), "textcoords": "offset points", "fontsize": 9, "color": FAINT}
        below.annotate("always the mean position", (0, guess), **place)
        label(above, stack)
        above.set_ylim(-0.03, 1.03)
        stages = ["words alone", "input", *(f"layer {n}" for n in range(1, len(r2) - 1))]
        below.set_xticks(range(len(stages)), stages, rotation=30, ha="right")
    worst = max(float(np.max(values)) for name, values in data.items() if not name.startswith("r2"))
    found[2].set(ylim=(0, 1.2 * worst), ylabel="mean error in tokens")
    found[0].set_ylabel("explained variance, R²")
    shared_legend(figure, found, 2)
    return figure


register_figure("probe", numbers, draw)
