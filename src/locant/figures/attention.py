"""Attention weights of a model: every layer and head as an image of queries by keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.analysis.introspection import introspect
from locant.errors import DataError
from locant.figures.drawing import SLIDE, SLIDE_LETTERS, Figure, colours, draw_cells, write
from locant.figures.palette import FAINT, INK
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, readable, sentence_pair

_GAP = 1.5  # between the images of two heads or layers, in cells
_WIDEST = 15.0  # inches of one row of heads, beyond which cells shrink
_CELL, _SMALLEST_CELL = 0.17, 0.075  # inches
_LONGEST = 14  # letters of a token that are shown
_MOST_TOKENS, _MOST_ON_A_SLIDE = 40, 14  # of a sentence whose attention can still be read
_KINDS = (
    "Encoder: source to source",
    "Decoder: target to earlier target",
    "Cross-attention: word being written to source",
)
_Names = dict[str, tuple[list[str], list[str]]]


def numbers(*, run: Path, text: str | None = None) -> dict[str, Any]:
    """Return the attention weights ``[N, H, Q, K]`` of a sentence and its translation by the model, by kind.

    Args:
        run: The run folder.
        text: A sentence; without one a short held-out sentence of the run's evaluation is taken.
    """
    translator, model = load_trained(run, "attention")
    pair = sentence_pair(run, translator, text, most=_MOST_TOKENS)
    seen = introspect(model, pair.source, pair.target)
    source, target = (readable(tokens) for tokens in (pair.source_tokens, pair.target_tokens))
    layers = (seen.encoder_attention, seen.decoder_attention, seen.cross_attention)
    weights = {kind: torch.stack(of).double().numpy() for kind, of in zip(_KINDS, layers, strict=True)}
    names = ((source, source), (target, target), ([*target[1:], "(end)"], source))
    return {"names": dict(zip(_KINDS, names, strict=True)), **weights}


def _cut(tokens: list[str], most: int) -> list[str]:
    return [token if len(token) <= most else token[: most - 1] + "…" for token in tokens]


def draw(names: _Names, **weights: Any) -> Figure:
    """Draw attention weights: one row of images a layer, one column a head, with tokens on the axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    across = max(of.shape[1] * (of.shape[3] + _GAP) for of in weights.values())
    cell = max(_SMALLEST_CELL, min(_CELL, _WIDEST / across))
    letters = 0.78 * 72 * cell
    named = {kind: [_cut(side, _LONGEST) for side in sides] for kind, sides in names.items()}
    longest = max(len(token) for sides in named.values() for side in sides for token in side)
    room = longest * 0.62 * letters / 72  # inches that the longest token takes
    left, right, above, below = room + 0.45, 0.95, 0.85, room + 0.25
    heights = {kind: of.shape[0] * (of.shape[2] + _GAP) * cell for kind, of in weights.items()}
    width, height = left + across * cell + right, sum(heights.values()) + len(weights) * (above + below)
    figure = Figure(figsize=(width, height))
    scale, limits = colours(np.ones(1))
    top = height
    for kind, of in weights.items():
        top -= above
        layers, heads, queries, keys = of.shape
        wide = heads * (keys + _GAP) * cell
        axes = figure.add_axes((left / width, (top - heights[kind]) / height, wide / width, heights[kind] / height))
        lefts, tops = np.arange(heads) * (keys + _GAP), np.arange(layers) * (queries + _GAP)
        for layer, head in np.ndindex(layers, heads):
            x, y = float(lefts[head]), float(tops[layer])
            place = (x, x + keys, y + queries, y)
            axes.imshow(of[layer, head], cmap=scale, norm=limits, interpolation="none", extent=place)
            axes.add_patch(Rectangle((x, y), keys, queries, fill=False, edgecolor=FAINT, linewidth=0.6))
        # Each image has set the limits to its own place.
        axes.set(xlim=(0, heads * (keys + _GAP)), ylim=(layers * (queries + _GAP), 0), aspect="equal")
        axes.set_title(kind, pad=26)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        for head, x in enumerate(lefts, start=1):
            write(axes, x, -0.4, f"head {head}", max(7.5, letters), ha="left", va="baseline")
        axes.set_xticks((lefts[:, None] + np.arange(keys) + 0.5).ravel(), named[kind][1] * heads, rotation=90)
        axes.set_yticks((tops[:, None] + np.arange(queries) + 0.5).ravel(), named[kind][0] * layers)
        axes.tick_params(labelsize=letters, length=0, pad=2)
        beside: dict[str, Any] = {"rotation": 90, "transform": axes.get_yaxis_transform()}
        for layer, y in enumerate(tops, start=1):
            write(axes, (0.2 - left) / wide, y + queries / 2, f"layer {layer}", max(8.5, letters), **beside)
        top -= heights[kind] + below
    bar = figure.add_axes(((width - right + 0.3) / width, 1 - (above + 1.6) / height, 0.1 / width, 1.6 / height))
    figure.colorbar(ScalarMappable(limits, scale), cax=bar, label="weight").outline.set_visible(False)
    return figure


def slides(names: _Names, **weights: Any) -> Iterator[Figure]:
    """Draw one kind on each slide: the mean of all heads of the last layer."""
    from matplotlib.figure import Figure

    tokens = max(len(side) for sides in names.values() for side in sides)
    if tokens > _MOST_ON_A_SLIDE:
        raise DataError(
            f"The sentence or its translation has {tokens} tokens, and a slide has room for {_MOST_ON_A_SLIDE}. Give a "
            "shorter one with --text."
        )
    for kind, of in weights.items():
        rows, columns = (_cut(side, 9) for side in names[kind])
        figure = Figure(figsize=SLIDE)
        axes = figure.add_axes((0.17, 0.225, 0.81, 0.615))
        draw_cells(axes, of[-1].mean(0), colours(np.ones(1)), rows=rows, columns=columns, letters=SLIDE_LETTERS)
        axes.set_aspect("auto")
        axes.tick_params(axis="x", rotation=60)
        figure.text(0.03, 0.95, kind, fontsize=12, fontweight="bold", va="center", color=INK)
        said = f"layer {len(of)}, mean of {of.shape[1]} heads"
        figure.text(0.03, 0.88, said, fontsize=SLIDE_LETTERS, va="center", color=FAINT)
        yield figure


register_figure("attention", numbers, draw, slides=slides)
