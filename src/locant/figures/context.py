"""Reach of a language model: perplexity against length, and what it finds at which depth of which length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILION,
    FigureData,
    Numbers,
    drawing,
    new_figure,
    settle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, FAINT)
_MARKERS = "osD^vP"
# A curve that leaves what is worth reading is cut here, above the best one.
_MOST_TIMES = 20.0


def perplexity_by_length(
    lengths: Sequence[int],
    curves: Mapping[str, Sequence[float | None]],
    *,
    title: str,
    trained_length: int | None = None,
) -> FigureData:
    """Draw perplexity against the length of the text, both axes logarithmic.

    Args:
        lengths: In tokens, ascending.
        curves: Perplexity at each length, by name; ``None`` where it is no finite number.
        title: What was measured.
        trained_length: Length in tokens that the model was trained with, marked by a line.

    Returns:
        The figure, 8 inches wide, and ``lengths`` and the curves by name. Perplexities above 20 times the least are
        drawn at the upper edge.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data = {name: np.asarray(values, dtype=np.float64) for name, values in curves.items()}
    finite = np.concatenate([values[np.isfinite(values)] for values in data.values()])
    lowest = float(finite.min()) if finite.size else 1.0
    top = min(float(finite.max(initial=lowest)) * 1.15, lowest * _MOST_TIMES)
    with drawing():
        figure = new_figure(8, 4.4)
        axes = figure.subplots()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for index, (name, values) in enumerate(data.items()):
            shown = np.where(np.isfinite(values), np.minimum(values, top), top)
            axes.plot(
                lengths,
                shown,
                color=_COLOURS[index % len(_COLOURS)],
                marker=_MARKERS[index % len(_MARKERS)],
                markersize=5,
                label=name,
                clip_on=False,
            )
        if trained_length is not None:
            axes.axvline(trained_length, color=FAINT, linestyle=":", linewidth=1.2, label="trained length")
        axes.set_ylim(lowest / 1.15, top)
        axes.set_title(title, pad=12)
        axes.set_ylabel("perplexity")
        _mark_lengths(axes, lengths)
        _mark_values(axes)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
        settle(figure)
    return FigureData(figure, {"lengths": np.asarray(lengths), **data})


def retrieval_grid(lengths: Sequence[int], depths: Sequence[float], scores: Numbers, *, title: str) -> FigureData:
    """Draw what share was found at every depth of every length.

    Args:
        lengths: In tokens.
        depths: From 0 (beginning of the text) to 1 (end).
        scores: Shares ``[D, L]``, 0 to 1.
        title: What was hidden.

    Returns:
        The figure, 8 inches wide, and ``scores``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        from matplotlib.colors import LinearSegmentedColormap

        figure = new_figure(8, 1.9 + 0.42 * len(depths))
        axes = figure.subplots()
        # Vermilion to blue over white: people with any colour vision tell the ends apart.
        scale = LinearSegmentedColormap.from_list("found", ["#D55E00", "#f6e3d5", "#0072B2"])
        # Cells as shapes: an image inside the picture would be kept out of a page by its content security policy.
        axes.pcolormesh(scores, cmap=scale, vmin=0.0, vmax=1.0, edgecolors="white", linewidth=0.5)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.set_xticks([column + 0.5 for column in range(len(lengths))], [_length(length) for length in lengths])
        axes.set_yticks([row + 0.5 for row in range(len(depths))], [f"{depth:.0%}" for depth in depths])
        axes.set_xlabel("length in tokens")
        axes.set_ylabel("depth")
        axes.set_title(title, pad=12)
        for (row, column), score in np.ndenumerate(scores):
            light = 0.25 < score < 0.75
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{score:.0%}",
                ha="center",
                va="center",
                color="#24292f" if light else "white",
                fontsize=9,
            )
        settle(figure)
    return FigureData(figure, {"scores": scores})


def _mark_lengths(axes: Axes, lengths: Sequence[int]) -> None:
    axes.set_xticks(list(lengths), [_length(length) for length in lengths])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("length in tokens")


def _mark_values(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _length(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,}"
