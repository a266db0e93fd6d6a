"""Quality against the length of the text: with the spread over seeds, and what is found at which depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from locant.errors import DataError
from locant.figures.drawing import FigureData, Numbers, colours, draw_cells, drawing, label, new_figure, settle
from locant.figures.palette import FAINT, styles_of

_MOST_TIMES = 20.0  # a curve that leaves what is worth reading is cut here, above the best one


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
        axes.set_xticks(lengths, [_length(length) for length in lengths])
        axes.set_xticks([], minor=True)
    if logarithmic_quality:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    if limits:
        axes.set_ylim(*limits)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return settle(figure, data)


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
        trained_length: Length in tokens that the model was trained with; what lies beyond is shaded.

    Returns:
        The figure, 9 inches wide, and ``lengths`` and the curves by name. Perplexities above 20 times the least are
        drawn at the upper edge.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data = {name: np.asarray(values, dtype=np.float64) for name, values in curves.items()}
    finite = np.concatenate([values[np.isfinite(values)] for values in data.values()])
    lowest = float(finite.min()) if finite.size else 1.0
    top = min(float(finite.max(initial=lowest)) * 1.15, lowest * _MOST_TIMES)
    shown = {name: np.where(np.isfinite(values), np.minimum(values, top), top) for name, values in data.items()}
    drawn = quality_by_length(
        {name: {n: [y] for n, y in zip(lengths, values, strict=True)} for name, values in shown.items()},
        title=title,
        length_label="length in tokens",
        quality_label="perplexity",
        trained=trained_length,
        logarithmic_lengths=True,
        logarithmic_quality=True,
        limits=(lowest / 1.15, top),
    )
    return FigureData(drawn.figure, {"lengths": np.asarray(lengths), **data})


@drawing()
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
    texts = np.array([[f"{score:.0%}" for score in row] for row in scores])
    figure = new_figure(8, 1.9 + 0.42 * len(depths))
    axes = figure.subplots()
    rows, columns = [f"{depth:.0%}" for depth in depths], [_length(length) for length in lengths]
    scale = colours(np.ones(1))
    draw_cells(axes, scores, scale, texts=texts, rows=rows, columns=columns, letters=9, aspect="auto")
    axes.tick_params(axis="x", rotation=0)
    label(axes, title, "length in tokens", "depth")
    return settle(figure, {"scores": scores})


def _length(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,}"
