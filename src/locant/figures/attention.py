"""Attention weights of a model: every layer and head as an image of queries by keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from locant.figures.drawing import FAINT, FigureData, Numbers, colours, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GAP = 1.5  # between the images of two heads or layers, in cells
_WIDEST = 15.0  # inches of one row of heads, beyond which cells shrink
_CELL, _SMALLEST_CELL = 0.17, 0.075  # inches
_LONGEST = 14  # letters of a token that are shown


@dataclass(frozen=True)
class HeadWeights:
    """The weights of one kind of attention.

    Attributes:
        title: Which kind.
        weights: Of every layer and head, ``[N, H, Q, K]``, from 0 to 1.
        queries: Tokens of the rows, ``Q``.
        keys: Tokens of the columns, ``K``.
    """

    title: str
    weights: Numbers
    queries: Sequence[str]
    keys: Sequence[str]


def attention(kinds: Sequence[HeadWeights]) -> FigureData:
    """Draw attention weights: one row of images a layer, one column a head, with tokens on the axes.

    Args:
        kinds: One block each, from the top.

    Returns:
        The figure, and the weights by title.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    across = max(kind.weights.shape[1] * (len(kind.keys) + _GAP) for kind in kinds)
    cell = max(_SMALLEST_CELL, min(_CELL, _WIDEST / across))
    letters = 0.78 * 72 * cell
    longest = max(len(_shown(token)) for kind in kinds for token in (*kind.queries, *kind.keys))
    label = longest * 0.62 * letters / 72  # inches that the longest token takes
    left, right, above, below = label + 0.45, 0.95, 0.85, label + 0.25
    heights = [kind.weights.shape[0] * (len(kind.queries) + _GAP) * cell for kind in kinds]
    width = left + across * cell + right
    height = sum(heights) + len(kinds) * (above + below)
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height))
        top = height
        for kind, high in zip(kinds, heights, strict=True):
            top -= above
            wide = kind.weights.shape[1] * (len(kind.keys) + _GAP) * cell
            place = (left / width, (top - high) / height, wide / width, high / height)
            axes = figure.add_axes(place)
            _draw(axes, kind, letters, names=(0.2 - left) / wide)
            top -= high + below
        _add_scale(figure, kinds[0].weights, (width - right + 0.3) / width, (height - above) / height, 1.6 / height)
    return FigureData(figure, {kind.title: kind.weights for kind in kinds})


def _draw(axes: Axes, kind: HeadWeights, letters: float, *, names: float) -> None:
    """Draw one kind, with letters of a size in points and the names of the layers at a share of its width."""
    from matplotlib.patches import Rectangle

    layers, heads, queries, keys = kind.weights.shape
    scale, limits = colours(np.ones((1, 1)))
    axes.set_xlim(0, heads * (keys + _GAP))
    axes.set_ylim(layers * (queries + _GAP), 0)
    axes.set_aspect("equal")
    axes.set_title(kind.title, pad=26)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    lefts, tops = np.arange(heads) * (keys + _GAP), np.arange(layers) * (queries + _GAP)
    for layer, head in np.ndindex(layers, heads):
        x, y = float(lefts[head]), float(tops[layer])
        axes.imshow(
            kind.weights[layer, head],
            cmap=scale, norm=limits, interpolation="none", aspect="equal", extent=(x, x + keys, y + queries, y),
        )  # fmt: skip
        axes.add_patch(Rectangle((x, y), keys, queries, fill=False, edgecolor=FAINT, linewidth=0.6))
    # Each image has set the limits to its own place.
    axes.set_xlim(0, heads * (keys + _GAP))
    axes.set_ylim(layers * (queries + _GAP), 0)
    for head, x in enumerate(lefts, start=1):
        axes.annotate(
            f"head {head}", (x, 0), (0, 4), textcoords="offset points",
            fontsize=max(7.5, letters), color=FAINT, annotation_clip=False,
        )  # fmt: skip
    axes.set_xticks(
        (lefts[:, None] + np.arange(keys) + 0.5).ravel(), [_shown(key) for key in kind.keys] * heads, rotation=90
    )
    axes.set_yticks(
        (tops[:, None] + np.arange(queries) + 0.5).ravel(), [_shown(query) for query in kind.queries] * layers
    )
    axes.tick_params(labelsize=letters, length=0, pad=2)
    for layer, y in enumerate(tops, start=1):
        axes.text(
            names, y + queries / 2, f"layer {layer}", rotation=90, ha="center", va="center",
            transform=axes.get_yaxis_transform(), fontsize=max(8.5, letters), color=FAINT,
        )  # fmt: skip


def _add_scale(figure: Figure, weights: Numbers, left: float, top: float, height: float) -> None:
    from matplotlib.cm import ScalarMappable

    scale, limits = colours(np.ones_like(weights))
    place = figure.add_axes((left, top - height, 0.1 / figure.get_figwidth(), height))
    figure.colorbar(ScalarMappable(limits, scale), cax=place, label="weight").outline.set_visible(False)


def _shown(token: str) -> str:
    return token if len(token) <= _LONGEST else token[: _LONGEST - 1] + "…"
