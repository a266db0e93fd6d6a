"""Training curves: losses, translation scores, learning rate and speed over the updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from locant.errors import CheckpointError, DataError
from locant.figures.drawing import BLUE, FAINT, GREEN, VERMILION, FigureData, Numbers, drawing
from locant.figures.registry import Caption, register_figure
from locant.training import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
Row = Mapping[str, Any]

_LEAST_GAP = 0.08  # of the width of a panel, between labels
_TIME_UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))


_SHOWN = {
    "training": ("step", "nll", "learning_rate", "tokens_per_second"),
    "validation": ("step", "loss", "bleu", "chrf"),
}


def training_numbers(*, run: Path) -> dict[str, Any]:
    """Return the metric rows of a run.

    Raises:
        CheckpointError: The folder holds no metrics.
    """
    try:
        return {"rows": read_metrics(run)}
    except OSError as error:
        raise CheckpointError(f"{run} holds no metrics of a training run ({error.strerror}).") from None


def _columns(rows: Sequence[Row]) -> dict[str, Numbers]:
    return {
        f"{kind} {key}": np.array([row.get(key) for row in rows if row["kind"] == kind], dtype=float)
        for kind, keys in _SHOWN.items()
        for key in keys
    }


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
    training = [row for row in rows if row["kind"] == "training"]
    validation = [row for row in rows if row["kind"] == "validation"]
    if not training and not validation:
        raise DataError("There are no training curves to draw: the run has not reported any metrics yet.")
    with drawing():
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
        from matplotlib.ticker import MaxNLocator

        scored = any(row.get("bleu") is not None or row.get("chrf") is not None for row in validation)
        layout: list[Any] = [["loss", "score"] if scored else ["loss", "loss"]]
        if training:
            layout.append(["rate", "speed"])
        engine = ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.12)
        figure = Figure(figsize=(10, 3.4 * len(layout)), layout=engine)
        panels = figure.subplot_mosaic(layout, sharex=True)
        _draw_loss(panels["loss"], training, validation)
        if scored:
            _draw_scores(panels["score"], validation)
        if training:
            _draw_line(panels["rate"], training, "learning_rate", BLUE)
            _label(panels["rate"], "Learning rate", "learning rate", from_zero=True)
            panels["rate"].yaxis.set_major_formatter("{x:g}")
            _draw_line(panels["speed"], training, "tokens_per_second", BLUE)
            _label(panels["speed"], "Speed", "target tokens per second", from_zero=True)
            panels["speed"].yaxis.set_major_formatter("{x:,.0f}")
        for name in dict.fromkeys(layout[0]):
            _add_time(panels[name], [*training, *validation])
        for name in dict.fromkeys(layout[-1]):
            panels[name].set_xlabel("updates")
            panels[name].set_xlim(0, 1.02 * max(1, *(row["step"] for row in rows)))
            panels[name].xaxis.set_major_locator(MaxNLocator(5, integer=True))
            panels[name].xaxis.set_major_formatter("{x:,.0f}")
        # Laid out once for all: each drawing would move the panels by a hair, and no two pages would be the same.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return FigureData(figure, _columns(rows))


def _draw_loss(axes: Axes, training: Sequence[Row], validation: Sequence[Row]) -> None:
    _draw_line(axes, training, "nll", BLUE, label="training")
    _draw_line(axes, validation, "loss", VERMILION, label="validation", marked=True)
    _label(axes, "Loss", "nats per token")
    axes.legend(loc="best")


def _draw_scores(axes: Axes, validation: Sequence[Row]) -> None:
    _draw_line(axes, validation, "bleu", VERMILION, label="BLEU", marked=True)
    _draw_line(axes, validation, "chrf", GREEN, label="chrF", marked=True, dashed=True)
    _label(axes, "Validation translations", "score (0 to 100)", from_zero=True)
    axes.legend(loc="best")


def _draw_line(
    axes: Axes,
    rows: Sequence[Row],
    key: str,
    color: str,
    *,
    label: str | None = None,
    marked: bool = False,
    dashed: bool = False,
) -> None:
    points = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
    if points:
        # A line through one point alone would not show.
        marker = "o" if marked or len(points) == 1 else None
        style = "--" if dashed else "-"
        axes.plot(*zip(*points, strict=True), style, color=color, label=label, marker=marker, markersize=4)


def _label(axes: Axes, title: str, unit: str, *, from_zero: bool = False) -> None:
    axes.set_title(title, pad=10)
    axes.set_ylabel(unit)
    if from_zero:
        axes.set_ylim(bottom=0)


def _add_time(axes: Axes, rows: Sequence[Row]) -> None:
    """Show the time trained along the top, at round numbers."""
    from matplotlib.ticker import MaxNLocator

    points = [(0, 0), *sorted((row["seconds"], row["step"]) for row in rows if row.get("seconds") is not None)]
    total = points[-1][0]
    if not total:
        return
    unit, size = next((unit, size) for unit, size in _TIME_UNITS if total >= 2 * size or size == 1)
    seconds, steps = zip(*points, strict=True)
    ticks: dict[float, float] = {}
    for time in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0, total / size):
        place = float(np.interp(time * size, seconds, steps))
        # Updates that took long (a validation among them) bring round numbers of time close together.
        if time * size <= total and all(place - other >= _LEAST_GAP * steps[-1] for other in ticks.values()):
            ticks[time] = place
    top = axes.secondary_xaxis("top")
    top.set_xticks(list(ticks.values()), [f"{time:g}" for time in ticks])
    top.tick_params(labelsize=9, labelcolor=FAINT, width=0.6)
    top.spines["top"].set_visible(False)
    top.set_xlabel(f"{unit} of training", fontsize=9, color=FAINT)


register_figure(
    "training",
    numbers=training_numbers,
    draw=training_curves,
    caption=Caption(
        "How the model was trained",
        "The loss falls fast at first, while the model learns which words are frequent, and then slowly, while it "
        "learns to translate. BLEU compares whole translations with those by people and rises only when sentences come "
        "out right; the learning rate rises at first, so that early steps do no harm, and then sinks.",
        "loss&nbsp;= &minus;1/T&thinsp;Σ<sub>t</sub> log p(y<sub>t</sub> | y<sub>&lt;t</sub>, x) &nbsp;&nbsp; "
        "BLEU&nbsp;= brevity · (p<sub>1</sub>&thinsp;p<sub>2</sub>&thinsp;p<sub>3</sub>&thinsp;p<sub>4</sub>)"
        "<sup>1/4</sup>",
    ),
)
