"""Quality against the length of the text, with the spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from locant.errors import DataError
from locant.figures.drawing import FigureData, drawing, label, new_figure, settle
from locant.figures.palette import FAINT, styles_of


@drawing()
def quality_by_length(
    curves: Mapping[str, Mapping[int, Sequence[float]]],
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
        curves: By label, for each length (1 and more), the values of all seeds; a length without any is left out. A
            label that is the name of a scheme, or begins with it, gives the scheme's colour. More than seven lines are
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
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    measured = {
        name: {length: list(values) for length, values in sorted(curve.items()) if values}
        for name, curve in curves.items()
    }
    lengths = sorted({length for values in measured.values() for length in values})
    if not lengths:
        raise DataError("There is no quality against length to draw: not a single value was measured.")
    data = {
        name: np.array([list(values), [np.mean(seeds) for seeds in values.values()]], dtype=np.float64)
        for name, values in measured.items()
        if values
    }
    if len(data) > 7:
        data = dict(sorted(data.items(), key=lambda item: -float(item[1][1].mean())))
    figure = new_figure(9, max(4.6, 1.3 + 0.2 * len(data)))
    axes = figure.subplots()
    if trained is not None and lengths[-1] > trained:
        axes.axvspan(trained, lengths[-1], color=FAINT, alpha=0.08, lw=0)
        axes.axvline(trained, color=FAINT, linewidth=1)
        place = axes.get_xaxis_transform()
        axes.text(trained, 1.01, " longer than trained", transform=place, color=FAINT, va="bottom", fontsize=9)
    for (name, means), style in zip(data.items(), styles_of(list(data)), strict=True):
        axes.plot(*means, label=name, **style)
        low, high = ([float(end(seeds)) for seeds in measured[name].values()] for end in (min, max))
        axes.fill_between(means[0], low, high, color=style["color"], alpha=0.15, lw=0)
    label(axes, "", length_label, quality_label, log="y" if logarithmic_quality else "")
    axes.set_title(title, pad=22)  # above the words on what was trained
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if logarithmic_lengths:
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [length_name(length) for length in lengths])
        axes.set_xticks([], minor=True)
    if logarithmic_quality:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    if limits:
        axes.set_ylim(*limits)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return settle(figure, data)


def length_name(tokens: int) -> str:
    """Return a number of tokens as axes have it, such as ``4k``."""
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,}"
