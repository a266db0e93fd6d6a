"""Quality against the length of the text, with the spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from locant.errors import DataError
from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    FigureData,
    Numbers,
    drawing,
    new_figure,
    settle,
)

_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, INK)
_LINES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class LengthCurve:
    """One line.

    Attributes:
        label: Its name.
        values: For each length (1 and more) the values of all seeds; a length without any is left out.
    """

    label: str
    values: Mapping[int, Sequence[float]]


def quality_by_length(
    curves: Sequence[LengthCurve],
    *,
    title: str,
    length_label: str,
    quality_label: str,
    trained: int | None = None,
    logarithmic_lengths: bool = False,
    logarithmic_quality: bool = False,
    limits: tuple[float, float] | None = None,
) -> FigureData:
    """Draw the mean over seeds against length, and a band from the worst seed to the best.

    Args:
        curves: Lines; colours repeat after seven, with another kind of line and other markers. More than seven are
            listed from the highest on average to the lowest, fewer in their own order.
        title: Of the figure.
        length_label: What the lengths count.
        quality_label: What the values are, with their unit.
        trained: Longest length that was trained on; what lies beyond is shaded.
        logarithmic_lengths: Whether every doubling of the length takes the same room.
        logarithmic_quality: Likewise for the values.
        limits: Lowest and highest value shown; by default all are.

    Returns:
        The figure, 9 inches wide and as high as its lines need, and the means ``[2, N]`` (lengths, values) by label.

    Raises:
        MissingExtraError: matplotlib is not installed.
        DataError: There is not a single value.
    """
    lengths = sorted({length for curve in curves for length, values in curve.values.items() if values})
    if not lengths:
        raise DataError("There is no quality against length to draw: not a single value was measured.")
    curves = [curve for curve in curves if any(curve.values.values())]
    if len(curves) > len(_COLOURS):
        curves = sorted(curves, key=_mean, reverse=True)
    data: dict[str, Numbers] = {}
    with drawing():
        from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

        figure = new_figure(9, max(4.6, 1.3 + 0.2 * len(curves)))
        axes = figure.subplots()
        if trained is not None and lengths[-1] > trained:
            axes.axvspan(trained, lengths[-1], color=FAINT, alpha=0.08, lw=0)
            axes.axvline(trained, color=FAINT, linewidth=1)
            beyond = axes.get_xaxis_transform()
            axes.text(trained, 1.01, " longer than trained", transform=beyond, color=FAINT, va="bottom", fontsize=9)
        for number, curve in enumerate(curves):
            at = [length for length, values in sorted(curve.values.items()) if values]
            means = [float(np.mean(curve.values[length])) for length in at]
            low, high = ([float(f(curve.values[length])) for length in at] for f in (min, max))
            colour = _COLOURS[number % len(_COLOURS)]
            again = number // len(_COLOURS)
            style, marker = _LINES[again % len(_LINES)], _MARKERS[(number + 3 * again) % len(_MARKERS)]
            axes.plot(at, means, style, color=colour, marker=marker, markersize=4, label=curve.label)
            data[curve.label] = np.array([at, means], dtype=np.float64)
            axes.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
        axes.set_title(title, pad=22)  # above the words on what was trained
        axes.set_xlabel(length_label)
        axes.set_ylabel(quality_label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if logarithmic_lengths:
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_locator(FixedLocator([float(length) for length in lengths]))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter("{x:,.0f}")
        if logarithmic_quality:
            axes.set_yscale("log")
        if limits:
            axes.set_ylim(*limits)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9.5)
        settle(figure)
    return FigureData(figure, data)


def _mean(curve: LengthCurve) -> float:
    """Return the mean over lengths of the means over seeds."""
    return float(np.mean([np.mean(values) for values in curve.values.values() if values]))
