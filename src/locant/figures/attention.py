"""Attention weights of a model: every layer and head as an image of queries by keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.analysis.introspection import introspect
from locant.errors import DataError
from locant.figures.drawing import Figure, colour_scale, colours, draw_cells, label, new_figure, panels
from locant.figures.palette import FAINT
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, readable, sentence_pair

_WIDEST = 13.0  # inches of one row of heads, beyond which cells shrink
_CELL, _SMALLEST_CELL = 0.17, 0.075  # inches
_LONGEST = 14  # letters of a token that are shown
_MOST_TOKENS, _MOST_ON_A_SLIDE = 40, 12  # of a sentence whose attention can still be read
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
    heads = max(of.shape[1] for of in weights.values())
    tokens = max(max(of.shape[2:]) for of in weights.values())
    cell = max(_SMALLEST_CELL, min(_CELL, _WIDEST / (heads * tokens)))
    heights = [of.shape[0] * (of.shape[2] * cell + 0.3) + 1.6 for of in weights.values()]
    figure = new_figure(heads * (tokens * cell + 0.3) + 2.2, sum(heights))
    scale, letters = colours(np.ones(1)), 0.78 * 72 * cell
    parts: Any = figure.subfigures(len(weights), height_ratios=heights)
    for part, (kind, of) in zip(parts, weights.items(), strict=True):
        part.suptitle(kind, x=0.02, ha="left", fontweight="bold")
        rows, columns = (_cut(side, _LONGEST) for side in names[kind])
        grid = part.subplots(*of.shape[:2], squeeze=False)
        for (layer, head), axes in np.ndenumerate(grid):
            below = columns if layer == len(of) - 1 else None
            draw_cells(axes, of[layer, head], scale, rows=None if head else rows, columns=below, letters=letters)
            if not layer:
                axes.set_title(f"head {head + 1}", fontsize=max(7.5, letters), fontweight="normal", color=FAINT, pad=4)
            if not head:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=max(8.5, letters), color=FAINT)
        colour_scale(grid[0, -1], grid[0, -1].images[0], "weight")
    return figure


def slides(names: _Names, **weights: Any) -> Figure:
    """Draw the mean of all heads of the last layer, a panel for each kind."""
    tokens = max(len(side) for sides in names.values() for side in sides)
    if tokens > _MOST_ON_A_SLIDE:
        raise DataError(
            f"The sentence or its translation has {tokens} tokens, and a slide has room for {_MOST_ON_A_SLIDE}. Give a "
            "shorter one with --text."
        )
    figure, found = panels(len(weights), 1, width=6, height=4)
    for axes, (kind, of) in zip(found, weights.items(), strict=True):
        rows, columns = (_cut(side, 9) for side in names[kind])
        draw_cells(axes, of[-1].mean(0), colours(np.ones(1)), rows=rows, columns=columns, aspect="auto")
        axes.tick_params(axis="x", rotation=60)
        label(axes, kind, note=f"layer {len(of)}, mean of {of.shape[1]} heads")
    return figure


register_figure("attention", numbers, draw, slides=slides)
