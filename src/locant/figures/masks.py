"""Masks: which keys each query may see in encoder and decoder, between the two, and in rows of several texts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.figures.drawing import Numbers, colours, draw_cells, label, panels
from locant.figures.registry import Caption, register_figure
from locant.positions import Mask, attend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SOURCE = ["a", "dog", "runs", "(end)", "(pad)", "(pad)"]
_TARGET = ["(begin)", "ein", "Hund", "rennt"]
_PACKED = ["a", "dog", "(end)", "two", "cats", "(end)"]
_FIRST = 3  # tokens of the first of the packed texts


_KINDS = (  # title, where it is used, tokens of the rows and of the columns
    ("Padding", "encoder: no query looks at padding", _SOURCE, _SOURCE),
    ("Causal", "decoder: no query looks ahead", _TARGET, _TARGET),
    ("Causal, one new token", "translating with a cache: nothing to hide", _TARGET[-1:], _TARGET),
    ("Packed", "two texts in one row, kept apart", _PACKED, _PACKED),
    ("Packed and causal", "two texts in one row of a language model", _PACKED, _PACKED),
    ("Cross", "decoder to encoder: all but padding", _TARGET, _SOURCE),
)


def mask_weights(mask: Mask, queries: int, keys: int) -> Numbers:
    """Return the attention weights ``[queries, keys]`` of equal scores under a mask, by the attention of the models.

    Attention is linear in the values, so that with the identity matrix in their place it returns the weights.
    """
    q, k = torch.zeros(1, 1, queries, keys, dtype=torch.float64), torch.zeros(1, 1, keys, keys, dtype=torch.float64)
    return attend(q, k, torch.eye(keys, dtype=torch.float64)[None, None], mask)[0, 0].numpy()


def numbers() -> dict[str, Any]:
    """Return the weights that each kind of mask leaves where all scores are equal; each row sums to 1."""
    padding = Mask.from_lengths(torch.tensor([_SOURCE.index("(pad)")]), len(_SOURCE))
    text = torch.arange(len(_PACKED)) >= _FIRST
    same = (text[:, None] == text[None, :])[None, None]
    causal = Mask(causal=True)
    masks = (padding, causal, causal, Mask(keys=same), Mask(causal=True, keys=same), padding)
    return {
        title: mask_weights(mask, len(rows), len(columns))
        for mask, (title, _, rows, columns) in zip(masks, _KINDS, strict=True)
    }


def draw(**weights: Any) -> Figure:
    """Draw what masks leave of equal weights, three in a row."""
    figure, found = panels(len(_KINDS), 3, width=11, height=4.1)
    for axes, (title, where, rows, columns) in zip(found, _KINDS, strict=True):
        values = weights[title]
        texts = np.array([str(Fraction(each).limit_denominator(64)) for each in values.ravel()]).reshape(values.shape)
        shown = np.where(values > 0, values, -np.inf)
        draw_cells(axes, shown, colours(np.ones((1, 1))), texts=texts, rows=rows, columns=columns, letters=9)
        label(axes, title, note=where)
        axes.set_anchor("N")
    figure.supxlabel("key: the token that is looked at", fontsize=10)
    figure.supylabel("query: the token that asks", fontsize=10)
    return figure


register_figure(
    "masks",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "Who may look at whom",
        "A mask sets the score of a pair to minus infinity before the softmax, so that its weight is exactly 0 and the "
        "others share 1. All scores are equal here, so that the weights show the mask alone: grey cells are hidden, "
        "and a row with n visible keys gives each of them 1/n.",
        "A&nbsp;= softmax( Q&thinsp;K<sup>T</sup>&thinsp;/&thinsp;√d<sub>k</sub> + M ), &nbsp; "
        "M<sub>ij</sub>&nbsp;= 0 where query i may see key j, else &minus;∞",
        (
            "Rows of padding are computed too; nobody reads their results.",
            "The causal mask matters in training, where all tokens of a text are computed at once. When one new token "
            "is computed from cached keys, everything there is lies before it, and the mask hides nothing; a pass over "
            "a whole text, and padding, need it then as well.",
            "Texts packed into one row save padding. Each has positions from 0 on, and the mask keeps them apart.",
        ),
    ),
)
