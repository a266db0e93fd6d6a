"""Word vectors of a model, each with the places where its positions take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize


@dataclass(frozen=True)
class WordPlane:
    """Two directions of the model's space.

    Attributes:
        title: Which directions.
        axes: Their names.
        words: Word vectors there, ``[W, 2]``.
        positions: What positions 0 to ``P - 1`` add there, ``[P, 2]``.
    """

    title: str
    axes: tuple[str, str]
    words: Numbers
    positions: Numbers


def word_plus_position(
    planes: Sequence[WordPlane], *, labels: Sequence[str], word_norms: Numbers, position_norms: Numbers
) -> FigureData:
    """Draw words with the circle (or path) of their positions in several planes, and the lengths of both vectors.

    Args:
        planes: One panel each.
        labels: The words, ``W``.
        word_norms: Norm of every word vector of the vocabulary, ``[V]``.
        position_norms: Norm of what every position adds, ``[P]``.

    Returns:
        The figure, the norms, and ``words TITLE`` and ``positions TITLE`` of every plane.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        figure = new_figure(4.7 * len(planes) + 4.2, 5.2)
        panels = list(figure.subplots(1, len(planes) + 1, width_ratios=[1.15] * len(planes) + [1]))
        limits, shades = Normalize(0, len(planes[0].positions) - 1), colormaps["viridis"]
        for axes, plane in zip(panels, planes, strict=False):
            _draw_plane(axes, plane, labels, shades, limits)
        figure.colorbar(
            ScalarMappable(limits, shades), ax=panels[: len(planes)], label="position", location="bottom",
            shrink=0.4, aspect=40, ticks=range(0, len(planes[0].positions), 5),
        ).outline.set_visible(False)  # fmt: skip
        _draw_norms(panels[-1], word_norms, position_norms)
        settle(figure)
    data = {"word norms": word_norms, "position norms": position_norms}
    for plane in planes:
        data |= {f"words {plane.title}": plane.words, f"positions {plane.title}": plane.positions}
    return FigureData(figure, data)


def _draw_plane(axes: Axes, plane: WordPlane, labels: Sequence[str], shades: Colormap, limits: Normalize) -> None:
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke

    radii = np.hypot(*plane.positions.T)
    round_ = np.ptp(radii) < 1e-3 * radii.max()
    for word, label in zip(plane.words, labels, strict=True):
        places = word + plane.positions
        if round_:
            axes.add_patch(Circle(tuple(word), radii[0], fill=False, edgecolor="#c3cad1", linewidth=0.9))
        else:
            axes.plot(*places.T, color="#c3cad1", linewidth=0.9, zorder=1)
        axes.scatter(places[:, 0], places[:, 1], c=np.arange(len(places)), cmap=shades, norm=limits, s=22, zorder=3)
        axes.plot(*word, "x", color=INK, markersize=6, zorder=4)
        axes.annotate(
            label, tuple(word), (0, 5), textcoords="offset points", ha="center", fontsize=9.5, zorder=5,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],  # it may be wider than the circle
        )  # fmt: skip
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    axes.set_title(plane.title, fontsize=11, pad=9)
    axes.set_xlabel(plane.axes[0])
    axes.set_ylabel(plane.axes[1])


def _draw_norms(axes: Axes, words: Numbers, positions: Numbers) -> None:
    bins = np.linspace(0, 1.05 * max(words.max(), positions.max()), 60)
    axes.hist(words, bins.tolist(), color=BLUE, label=f"√E · word vectors, median {np.median(words):.1f}")
    name = f"position codes, {positions.min():.1f}"
    if np.ptp(positions) > 1e-3 * positions.max():
        name += f" to {positions.max():.1f}"
        axes.axvspan(positions.min(), positions.max(), color=VERMILION, alpha=0.25, linewidth=0)
    axes.axvline(float(np.median(positions)), color=VERMILION, linewidth=2, label=name)
    axes.set_title("Lengths of both", fontsize=11, pad=9)
    axes.set_xlabel("norm")
    axes.set_ylabel("pieces of the vocabulary")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    axes.legend(loc="upper left", fontsize=9, labelcolor=FAINT, frameon=True, framealpha=1, edgecolor="white")
