"""Attention weights of a model: every layer and head as an image of queries by keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.introspection import introspect
from locant.figures.drawing import FAINT, colours
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained, readable, sentence_pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GAP = 1.5  # between the images of two heads or layers, in cells
_WIDEST = 15.0  # inches of one row of heads, beyond which cells shrink
_CELL, _SMALLEST_CELL = 0.17, 0.075  # inches
_LONGEST = 14  # letters of a token that are shown
_MOST_TOKENS = 40  # of a sentence whose attention can still be read
_KINDS = (
    "Encoder: source to source",
    "Decoder: target to earlier target",
    "Cross-attention: word being written to source",
)


def numbers(*, run: Path, text: str | None = None) -> dict[str, Any]:
    """Return the attention weights ``[N, H, Q, K]`` of a sentence and its translation by the model, by kind.

    Args:
        run: The run folder.
        text: A sentence; without one a short held-out sentence of the run's evaluation is taken.

    Raises:
        CheckpointError: The folder holds no trained model, or without ``text``: the run has not been evaluated.
        DataError: The sentence is empty, or too long to be read in a figure.
        ConfigError: The model is no Transformer.
    """
    translator, model = load_trained(run, "attention")
    pair = sentence_pair(run, translator, text, most=_MOST_TOKENS)
    seen = introspect(model, pair.source, pair.target)
    source, target = (
        [token if len(token) <= _LONGEST else token[: _LONGEST - 1] + "…" for token in readable(tokens)]
        for tokens in (pair.source_tokens, pair.target_tokens)
    )
    layers = (seen.encoder_attention, seen.decoder_attention, seen.cross_attention)
    weights = {kind: torch.stack(of).double().numpy() for kind, of in zip(_KINDS, layers, strict=True)}
    names = ((source, source), (target, target), ([*target[1:], "(end)"], source))
    return {"names": dict(zip(_KINDS, names, strict=True)), **weights}


def draw(names: dict[str, tuple[list[str], list[str]]], **weights: Any) -> Figure:
    """Draw attention weights: one row of images a layer, one column a head, with tokens on the axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

    across = max(of.shape[1] * (of.shape[3] + _GAP) for of in weights.values())
    cell = max(_SMALLEST_CELL, min(_CELL, _WIDEST / across))
    letters = 0.78 * 72 * cell
    longest = max(len(token) for sides in names.values() for side in sides for token in side)
    room = longest * 0.62 * letters / 72  # inches that the longest token takes
    left, right, above, below = room + 0.45, 0.95, 0.85, room + 0.25
    heights = {kind: of.shape[0] * (of.shape[2] + _GAP) * cell for kind, of in weights.items()}
    width = left + across * cell + right
    height = sum(heights.values()) + len(weights) * (above + below)
    figure = Figure(figsize=(width, height))
    top = height
    for kind, of in weights.items():
        top -= above
        wide = of.shape[1] * (of.shape[3] + _GAP) * cell
        place = (left / width, (top - heights[kind]) / height, wide / width, heights[kind] / height)
        _draw_kind(figure.add_axes(place), kind, of, names[kind], letters, (0.2 - left) / wide)
        top -= heights[kind] + below
    scale, limits = colours(np.ones(1))
    bar = figure.add_axes(((width - right + 0.3) / width, 1 - (above + 1.6) / height, 0.1 / width, 1.6 / height))
    figure.colorbar(ScalarMappable(limits, scale), cax=bar, label="weight").outline.set_visible(False)
    return figure


def _draw_kind(
    axes: Axes, kind: str, weights: Any, names: tuple[list[str], list[str]], letters: float, beside: float
) -> None:
    """Draw one kind, with letters of a size in points and the names of the layers at a share of its width."""
    from matplotlib.patches import Rectangle

    layers, heads, queries, keys = weights.shape
    scale, limits = colours(np.ones(1))
    lefts, tops = np.arange(heads) * (keys + _GAP), np.arange(layers) * (queries + _GAP)
    for layer, head in np.ndindex(layers, heads):
        x, y = float(lefts[head]), float(tops[layer])
        place = (x, x + keys, y + queries, y)
        axes.imshow(weights[layer, head], cmap=scale, norm=limits, interpolation="none", extent=place)
        axes.add_patch(Rectangle((x, y), keys, queries, fill=False, edgecolor=FAINT, linewidth=0.6))
    # Each image has set the limits to its own place.
    axes.set(xlim=(0, heads * (keys + _GAP)), ylim=(layers * (queries + _GAP), 0), aspect="equal")
    axes.set_title(kind, pad=26)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    for head, x in enumerate(lefts, start=1):
        axes.text(x, -0.4, f"head {head}", fontsize=max(7.5, letters), color=FAINT)
    axes.set_xticks((lefts[:, None] + np.arange(keys) + 0.5).ravel(), names[1] * heads, rotation=90)
    axes.set_yticks((tops[:, None] + np.arange(queries) + 0.5).ravel(), names[0] * layers)
    axes.tick_params(labelsize=letters, length=0, pad=2)
    how: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center", "color": FAINT}
    for layer, y in enumerate(tops, start=1):
        beside_rows = axes.get_yaxis_transform()
        axes.text(beside, y + queries / 2, f"layer {layer}", transform=beside_rows, fontsize=max(8.5, letters), **how)


register_figure(
    "attention",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "Where every head looks",
        "Each image is one head of one layer for one sentence: a row is a token that asks, a column a token that is "
        "looked at, and each row sums to 1. Stripes beside the diagonal are heads that follow position rather than "
        "content; in the last block a row is named by the word that is about to be written.",
        "A&nbsp;= softmax( Q&thinsp;K<sup>T</sup>&thinsp;/&thinsp;√D + bias ), &nbsp; output&nbsp;= A&thinsp;V",
    ),
    slides={},
)
