"""Training curves: losses, translation scores, learning rate and speed over the updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from locant.errors import CheckpointError, DataError
from locant.figures.drawing import Axes, FigureData, drawing, label, panels, settle
from locant.figures.palette import BLUE, FAINT, GREEN, VERMILION
from locant.figures.registry import register_figure
from locant.training import read_metrics

Row = Mapping[str, Any]

_TIME_UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))
_PANELS = (  # title, unit, and the lines: kind of row, key, colour and stroke
    ("Loss", "nats per token", (("training", "nll", BLUE, "-"), ("validation", "loss", VERMILION, "o-"))),
    (
        "Validation translations",
        "score (0 to 100)",
        (("validation", "bleu", VERMILION, "o-"), ("validation", "chrf", GREEN, "o--")),
    ),
    ("Learning rate", "learning rate", (("training", "learning_rate", BLUE, "-"),)),
    ("Speed", "target tokens per second", (("training", "tokens_per_second", BLUE, "-"),)),
)
_NAMES = {"nll": "training", "loss": "validation", "bleu": "BLEU", "chrf": "chrF"}


def training_numbers(*, run: Path) -> dict[str, Any]:
    """Return the metric rows of a run.

    Raises:
        CheckpointError: The folder holds no metrics.
    """
    try:
        return {"rows": read_metrics(run)}
    except OSError as error:
        raise CheckpointError(f"{run} holds no metrics of a training run ({error.strerror}).") from None


@drawing()
def training_curves(rows: Sequence[Row]) -> FigureData:
    """Draw the metrics of a run, one panel each; a panel without numbers is left out.

    Args:
        rows: Metric rows in the order of training, told apart by ``kind``. A ``training`` row has ``step`` (updates),
            ``nll`` (nats a token), ``learning_rate``, ``tokens_per_second`` and ``seconds`` (time trained); a
            ``validation`` row has ``step``, ``loss`` (nats a token) and, where translations were scored, ``bleu`` and
            ``chrf`` (0 to 100). Other keys are ignored, and a value may be ``None``.

    Returns:
        The figure, 10 inches wide, and every curve as ``KIND KEY``; a value that is missing is NaN.

    Raises:
        MissingExtraError: matplotlib is not installed.
        DataError: There is not a single row.
    """
    from matplotlib.ticker import MaxNLocator

    rows = [row for row in rows if row["kind"] in ("training", "validation")]
    if not rows:
        raise DataError("There are no training curves to draw: the run has not reported any metrics yet.")
    data = {}
    for kind, key in [("validation", "step"), ("training", "step"), *(line[:2] for _, _, of in _PANELS for line in of)]:
        data[f"{kind} {key}"] = np.array([row.get(key) for row in rows if row["kind"] == kind], dtype=float)
    drawn = []
    for title, unit, of in _PANELS:
        lines = [line for line in of if np.isfinite(data[f"{line[0]} {line[1]}"]).any()]
        drawn += [(title, unit, lines)] if lines else []
    figure, found = panels(len(drawn), min(2, len(drawn)), width=10, height=3.4, sharex=True)
    for number, (axes, (title, unit, lines)) in enumerate(zip(found, drawn, strict=False)):
        for kind, key, color, stroke in lines:
            steps, values = data[f"{kind} step"], data[f"{kind} {key}"]
            there = np.isfinite(values)
            # A line through one point alone would not show.
            stroke = stroke if there.sum() > 1 else "o"
            axes.plot(steps[there], values[there], stroke, color=color, markersize=4, label=_NAMES.get(key))
        label(axes, title, y=unit)
        if title != "Loss":
            axes.set_ylim(bottom=0)
        if key in _NAMES:
            axes.legend(loc="best")
        axes.yaxis.set_major_formatter("{x:,.0f}" if title == "Speed" else "{x:g}")
        if number < 2:
            _add_time(axes, rows)
        if number + 2 >= len(drawn):
            axes.set(xlabel="updates", xlim=(0, 1.02 * max(1, *(row["step"] for row in rows))))
            axes.tick_params(labelbottom=True)
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            axes.xaxis.set_major_formatter("{x:,.0f}")
    return settle(figure, data)


def _add_time(axes: Axes, rows: Sequence[Row]) -> None:
    """Show the time trained along the top, at round numbers."""
    from matplotlib.ticker import MaxNLocator

    points = [(0, 0), *sorted((row["seconds"], row["step"]) for row in rows if row.get("seconds") is not None)]
    total = points[-1][0]
    if not total:
        return
    unit, size = next((unit, size) for unit, size in _TIME_UNITS if total >= 2 * size or size == 1)
    ticks = np.array(MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0, total / size))
    ticks = ticks[ticks * size <= total]
    top = axes.secondary_xaxis("top")
    top.set_xticks(np.interp(ticks * size, *np.array(points, dtype=float).T), [f"{time:g}" for time in ticks])
    top.tick_params(labelsize=9, labelcolor=FAINT, width=0.6)
    top.spines["top"].set_visible(False)
    top.set_xlabel(f"{unit} of training", fontsize=9, color=FAINT)


register_figure("training", training_numbers, training_curves)
