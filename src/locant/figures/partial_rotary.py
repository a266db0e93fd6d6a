"""Partial rotary embedding: how alike a query and an equal key stay over a distance, if only some features turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from locant.figures.drawing import Figure, count, label, new_figure
from locant.figures.palette import BLUE, GREEN, VERMILION
from locant.figures.registry import register_figure
from locant.positions import Rotary

_HEAD = 128
_FACTORS = ((1.0, BLUE, "-"), (0.5, VERMILION, "--"), (0.25, GREEN, "-."))


def numbers(*, length: int = 32_768, base: float = 10000.0) -> dict[str, Any]:
    """Return the score of equal features by distance for each factor, as a share of that at distance 0."""
    distances = np.unique(np.geomspace(1, length, 400).astype(int)) - 1
    positions = torch.from_numpy(distances)
    scores = []
    for factor, _, _ in _FACTORS:
        rope = Rotary(_HEAD, base=base, rotary_dim=int(_HEAD * factor))
        ones = torch.ones(1, 1, len(distances), _HEAD, dtype=torch.float64)
        q, k = rope(ones[:, :, :1], ones, torch.zeros(1, dtype=torch.long), positions)
        scores.append((q @ k.mT)[0, 0, 0].numpy() / _HEAD)
    return {"distances": distances, "scores": np.stack(scores)}


def draw(distances: Any, *, scores: Any) -> Figure:
    """Draw the scores against the distance."""
    figure = new_figure(9, 4.2)
    axes = figure.subplots()
    for (factor, colour, stroke), score in zip(_FACTORS, scores, strict=True):
        name = "all features turn" if factor == 1 else f"partial rotary factor {factor:g}"
        axes.plot(distances + 1, score, stroke, color=colour, label=name)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, place: count(int(value)))
    label(axes, "A query and a key with equal features", "distance in tokens, plus 1", "score, at distance 0 it is 1")
    axes.legend(loc="lower left")
    return figure


register_figure("partial-rotary", numbers, draw, limits={"length": (64, 1_000_000)})
