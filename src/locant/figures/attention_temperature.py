"""Attention temperature: factors that grow with the position, and what they do for one right key among many."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.figures.drawing import Figure, count, label, new_figure
from locant.figures.palette import BLUE, FAINT, VERMILION
from locant.figures.registry import register_figure

_GAP = 10.0  # by which the score of the right key is above the others
_TRAINED = 8192

_FACTORS = {
    "none": (FAINT, "-"),
    "1 + 0.1 log(1 + ⌊n / 8192⌋)": (BLUE, "-"),
    "log n / log 8192": (VERMILION, "--"),
}


def numbers(*, length: int = 1_048_576) -> dict[str, Any]:
    """Return the factors of scores by the number of keys, and the weight of the right key with each."""
    keys = np.unique(np.geomspace(256, length, 400).astype(int))
    stepped = 1 + 0.1 * np.log1p(np.floor(keys / _TRAINED))
    factors = np.stack((np.ones(len(keys)), stepped, np.log(keys) / np.log(_TRAINED)))
    return {"keys": keys, "factors": factors, "weights": 1 / (1 + (keys - 1) * np.exp(-_GAP * factors))}


def draw(keys: Any, *, factors: Any, weights: Any) -> Figure:
    """Draw the factors, and the weights of the right key."""
    figure = new_figure(11, 4.2)
    above, below = figure.subplots(1, 2)
    for (name, (colour, stroke)), factor, weight in zip(_FACTORS.items(), factors, weights, strict=True):
        above.plot(keys, factor, stroke, color=colour, label=name)
        below.plot(keys, weight, stroke, color=colour)
    label(above, "What scores are multiplied by", "keys that the query sees", "factor")
    above.legend(loc="lower right")
    label(below, f"Weight of a key that scores {_GAP:g} more", "keys that the query sees", "weight")
    below.set_ylim(0, 1)
    for axes in (above, below):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, place: count(int(value)))
        axes.axvline(_TRAINED, color=FAINT, linewidth=0.9, linestyle=":")
    below.annotate(" trained", (_TRAINED, 0.01), va="bottom", fontsize=9, color=FAINT)
    return figure


register_figure("attention-temperature", numbers, draw, limits={"length": (16_384, 100_000_000)})
