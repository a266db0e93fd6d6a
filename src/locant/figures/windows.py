"""Windows: the keys that a local layer sees, and the tokens that several such layers reach one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.figures.drawing import Figure, colours, draw_cells, label, new_figure
from locant.figures.masks import mask_weights
from locant.figures.registry import register_figure
from locant.positions import Mask

_LAYERS, _WINDOW = 3, 4


def numbers(*, length: int = 12) -> dict[str, Any]:
    """Return the layer in which each token ``[length, length]`` first learns of each other one, 0 where in none."""
    sees = mask_weights(Mask(causal=True, window=_WINDOW), length, length) > 0
    reach, first = sees, sees.astype(float)
    for layer in range(2, _LAYERS + 1):
        reach = reach @ sees
        first[reach & (first == 0)] = layer
    return {"first": first}


def draw(first: Any) -> Figure:
    """Draw what one layer sees, and beside it in which layer a token is first heard of."""
    figure = new_figure(11, 5)
    panels = figure.subplots(1, 2, sharey=True)
    one = np.where(first == 1, 1.0, 0.0)
    titles = (f"One layer with a window of {_WINDOW}", f"The first of {_LAYERS} such layers that hears of a token")
    names = [str(token) for token in range(len(first))]
    for axes, title, values in zip(panels, titles, (one, first), strict=True):
        shown = np.where(values > 0, values, -np.inf)
        texts = np.array([[f"{value:g}" if value > 0 else "" for value in row] for row in shown])
        draw_cells(axes, shown, colours(np.array([[0.0, _LAYERS]])), texts=texts, rows=names, columns=names, letters=9)
        label(axes, title, "key, token")
    panels[0].set_ylabel("query, token")
    return figure


register_figure("windows", numbers, draw, limits={"length": (2, 24)})
