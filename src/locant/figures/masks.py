"""Masks: which keys each query may see in encoder, decoder and between them, in packed texts, and within windows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import torch

from locant.figures.drawing import Figure, Numbers, colours, draw_cells, label, new_figure, panels
from locant.figures.registry import register_figure
from locant.positions import Mask, attend

_SOURCE = ["a", "dog", "runs", "(end)", "(pad)", "(pad)"]
_TARGET = ["(begin)", "ein", "Hund", "rennt"]
_PACKED = ["a", "dog", "(end)", "two", "cats", "(end)"]
_SAME_TEXT = (torch.arange(6)[:, None] < 3) == (torch.arange(6) < 3)  # the first of the packed texts has three tokens
_PADDING = Mask.from_lengths(torch.tensor([_SOURCE.index("(pad)")]), len(_SOURCE))

_KINDS = (  # title, where it is used, the mask, tokens of the rows and of the columns
    ("Padding", "encoder: no query looks at padding", _PADDING, _SOURCE, _SOURCE),
    ("Causal", "decoder: no query looks ahead", Mask(causal=True), _TARGET, _TARGET),
    ("Causal, one new token", "translating with a cache: nothing to hide", Mask(causal=True), _TARGET[-1:], _TARGET),
    ("Packed", "two texts in one row, kept apart", Mask(keys=_SAME_TEXT[None, None]), _PACKED, _PACKED),
    (
        "Packed and causal",
        "two texts in one row of a language model",
        Mask(causal=True, keys=_SAME_TEXT[None, None]),
        _PACKED,
        _PACKED,
    ),
    ("Cross", "decoder to encoder: all but padding", _PADDING, _TARGET, _SOURCE),
)


def mask_weights(mask: Mask, queries: int, keys: int) -> Numbers:
    """Return the attention weights ``[queries, keys]`` of equal scores under a mask, by the attention of the models.

    Attention is linear in the values, so that with the identity matrix in their place it returns the weights.
    """
    q, k = torch.zeros(1, 1, queries, keys, dtype=torch.float64), torch.zeros(1, 1, keys, keys, dtype=torch.float64)
    return attend(q, k, torch.eye(keys, dtype=torch.float64)[None, None], mask)[0, 0].numpy()


def numbers() -> dict[str, Any]:
    """Return the weights that each kind of mask leaves where all scores are equal; each row sums to 1."""
    return {title: mask_weights(mask, len(rows), len(columns)) for title, _, mask, rows, columns in _KINDS}


def draw(**weights: Any) -> Figure:
    """Draw what masks leave of equal weights, three in a row."""
    figure, found = panels(len(_KINDS), 3, width=11, height=4.1)
    for axes, (title, where, _, rows, columns) in zip(found, _KINDS, strict=True):
        values = weights[title]
        texts = np.array([str(Fraction(each).limit_denominator(64)) for each in values.ravel()]).reshape(values.shape)
        shown = np.where(values > 0, values, -np.inf)
        draw_cells(axes, shown, colours(np.ones((1, 1))), texts=texts, rows=rows, columns=columns, letters=9)
        label(axes, title, note=where)
        axes.set_anchor("N")
    figure.supxlabel("key: the token that is looked at", fontsize=10)
    figure.supylabel("query: the token that asks", fontsize=10)
    return figure


_LAYERS, _WINDOW = 3, 4


def window_numbers(*, length: int = 12) -> dict[str, Any]:
    """Return the layer in which each token ``[length, length]`` first learns of each other one, 0 where in none."""
    sees = mask_weights(Mask(causal=True, window=_WINDOW), length, length) > 0
    reach, first = sees, sees.astype(float)
    for layer in range(2, _LAYERS + 1):
        reach = reach @ sees
        first[reach & (first == 0)] = layer
    return {"first": first}


def draw_windows(first: Any) -> Figure:
    """Draw what one layer sees, and beside it in which layer a token is first heard of."""
    figure = new_figure(11, 5)
    names = [str(token) for token in range(len(first))]
    for axes, last in zip(figure.subplots(1, 2, sharey=True), (1, _LAYERS), strict=True):
        shown = np.where((first > 0) & (first <= last), first, -np.inf)
        texts = np.array([[f"{value:g}" if value > 0 else "" for value in row] for row in shown])
        draw_cells(axes, shown, colours(np.array([[0.0, _LAYERS]])), texts=texts, rows=names, columns=names, letters=9)
        axes.tick_params(axis="x", rotation=0)
        several = f"The first of {_LAYERS} such layers that hears of a token"
        label(axes, several if last > 1 else f"One layer with a window of {_WINDOW}", "key, token", "query, token")
    return figure


register_figure("masks", numbers, draw)
register_figure("windows", window_numbers, draw_windows, limits={"length": (2, 24)})
