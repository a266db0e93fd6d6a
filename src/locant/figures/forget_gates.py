"""Forget gates: the bias of a scheme that reads the text, for equal gates and for gates that close at full stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from locant.figures.drawing import Figure, colours, draw_cells, label, new_figure
from locant.figures.registry import register_figure
from locant.positions import DataDependentALiBi

_TEXT = ["a", "dog", "runs", ".", "two", "cats", "sleep", ".", "it", "rains"]
_OPEN, _CLOSED = 0.95, 0.05


def numbers() -> dict[str, Any]:
    """Return the discount ``[queries, keys]`` of every key, with equal gates and with gates of the text."""
    stops = torch.tensor([word == "." for word in _TEXT], dtype=torch.float64)
    positions, q = torch.arange(len(_TEXT)), torch.zeros(1, 1, len(_TEXT), 2, dtype=torch.float64)
    scheme = DataDependentALiBi(1, 1, True).double()
    found = {}
    for name, closed in (("equal", _OPEN), ("read", _CLOSED)):
        with torch.no_grad():  # a gate is a logistic function of the one feature, which says whether it is a full stop
            scheme.bias.fill_(np.log(_OPEN / (1 - _OPEN)))
            scheme.weight.fill_(np.log(closed / (1 - closed)) - scheme.bias.item())
            state = scheme.prepare(stops[None, :, None], positions)
            found[name] = scheme(q, q, positions, state=state)[0, 0].exp().tril().numpy()
    return found


def draw(equal: Any, *, read: Any) -> Figure:
    """Draw by how much each key is discounted in the softmax, for both."""
    figure = new_figure(11, 5)
    panels = figure.subplots(1, 2, sharey=True)
    titles = (f"Every gate is {_OPEN:g}", f"{_CLOSED:g} at a full stop, {_OPEN:g} elsewhere")
    for axes, title, values in zip(panels, titles, (equal, read), strict=True):
        shown = np.where(np.tri(len(values)) > 0, values, -np.inf)
        texts = np.array([[f"{value:.2f}" if value >= 0 else "" for value in row] for row in shown])
        draw_cells(axes, shown, colours(values), texts=texts, rows=_TEXT, columns=_TEXT, letters=8)
        label(axes, title, "key")
    panels[0].set_ylabel("query")
    return figure


register_figure("forget-gates", numbers, draw)
