"""Attention weights of a model: every layer and head as an image of queries by keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.introspection import introspect, token_pair
from locant.errors import DataError
from locant.figures.drawing import FAINT, FigureData, Numbers, colours, drawing
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained, readable, short_sentence

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


_MOST_TOKENS = 40  # of a sentence whose attention can still be read


def _stacked(layers: Sequence[torch.Tensor]) -> Numbers:
    return torch.stack(list(layers)).double().numpy()


def attention_numbers(*, run: Path, text: str | None = None) -> dict[str, Any]:
    """Return the attention weights of a sentence and its translation by the model.

    Args:
        run: The run folder.
        text: A sentence; without one a short held-out sentence of the run's evaluation is taken.

    Raises:
        CheckpointError: The folder holds no trained model, or without ``text``: the run has not been evaluated.
        DataError: The sentence is empty, or too long to be read in a figure.
        ConfigError: The model is no Transformer.
    """
    translator, model = load_trained(run, "The figure 'attention'")
    if text is None:
        text = short_sentence(run, translator)
    if not text.strip():
        raise DataError("--text is empty; give a sentence.")
    pair = token_pair(translator.tokenizers, text, translator.translate(text), translator.prefixes)
    longest = max(len(pair.source), len(pair.target))
    if longest > _MOST_TOKENS:
        raise DataError(f"The sentence pair has up to {longest} tokens, of which at most {_MOST_TOKENS} can be drawn.")
    seen = introspect(model, pair.source, pair.target)
    source, target = (readable(tokens) for tokens in (pair.source_tokens, pair.target_tokens))
    kinds = [
        HeadWeights("Encoder: source to source", _stacked(seen.encoder_attention), source, source),
        HeadWeights("Decoder: target to earlier target", _stacked(seen.decoder_attention), target, target),
        HeadWeights(
            "Cross-attention: word being written to source",
            _stacked(seen.cross_attention),
            [*target[1:], "(end)"],
            source,
        ),
    ]
    return {"kinds": kinds}


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
            cmap=scale,
            norm=limits,
            interpolation="none",
            aspect="equal",
            extent=(x, x + keys, y + queries, y),
        )
        axes.add_patch(Rectangle((x, y), keys, queries, fill=False, edgecolor=FAINT, linewidth=0.6))
    # Each image has set the limits to its own place.
    axes.set_xlim(0, heads * (keys + _GAP))
    axes.set_ylim(layers * (queries + _GAP), 0)
    for head, x in enumerate(lefts, start=1):
        axes.annotate(
            f"head {head}",
            (x, 0),
            (0, 4),
            textcoords="offset points",
            fontsize=max(7.5, letters),
            color=FAINT,
            annotation_clip=False,
        )
    axes.set_xticks(
        (lefts[:, None] + np.arange(keys) + 0.5).ravel(), [_shown(key) for key in kind.keys] * heads, rotation=90
    )
    axes.set_yticks(
        (tops[:, None] + np.arange(queries) + 0.5).ravel(), [_shown(query) for query in kind.queries] * layers
    )
    axes.tick_params(labelsize=letters, length=0, pad=2)
    for layer, y in enumerate(tops, start=1):
        axes.text(
            names,
            y + queries / 2,
            f"layer {layer}",
            rotation=90,
            ha="center",
            va="center",
            transform=axes.get_yaxis_transform(),
            fontsize=max(8.5, letters),
            color=FAINT,
        )


def _add_scale(figure: Figure, weights: Numbers, left: float, top: float, height: float) -> None:
    from matplotlib.cm import ScalarMappable

    scale, limits = colours(np.ones_like(weights))
    place = figure.add_axes((left, top - height, 0.1 / figure.get_figwidth(), height))
    figure.colorbar(ScalarMappable(limits, scale), cax=place, label="weight").outline.set_visible(False)


def _shown(token: str) -> str:
    return token if len(token) <= _LONGEST else token[: _LONGEST - 1] + "…"


register_figure(
    "attention",
    numbers=attention_numbers,
    draw=attention,
    caption=Caption(
        "Where every head looks",
        "Each image is one head of one layer for one sentence: a row is a token that asks, a column a token that is "
        "looked at, and each row sums to 1. Stripes beside the diagonal are heads that follow position rather than "
        "content; in the last block a row is named by the word that is about to be written.",
        "A&nbsp;= softmax( Q&thinsp;K<sup>T</sup>&thinsp;/&thinsp;√D + bias ), &nbsp; output&nbsp;= A&thinsp;V",
    ),
)
