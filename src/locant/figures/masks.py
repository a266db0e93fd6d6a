"""Masks: which keys each query may see in encoder and decoder, between the two, and in rows of several texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from locant.figures.cells import draw_cells
from locant.figures.drawing import FAINT, FigureData, Numbers, colours, drawing, new_figure, settle
from locant.figures.registry import Caption, register_figure
from locant.positions import Mask, attend


@dataclass(frozen=True)
class MaskedWeights:
    """What a mask leaves of the attention weights where all scores are equal.

    Attributes:
        title: Which mask.
        where: Where it is used, in a line.
        weights: ``[Q, K]``; each row sums to 1.
        queries: Tokens of the rows.
        keys: Tokens of the columns.
    """

    title: str
    where: str
    weights: Numbers
    queries: Sequence[str]
    keys: Sequence[str]


_SOURCE = ["a", "dog", "runs", "(end)", "(pad)", "(pad)"]
_TARGET = ["(begin)", "ein", "Hund", "rennt"]
_PACKED = ["a", "dog", "(end)", "two", "cats", "(end)"]
_FIRST = 3  # tokens of the first of the packed texts


def mask_weights(mask: Mask, queries: int, keys: int) -> Numbers:
    """Return the attention weights ``[queries, keys]`` of equal scores under a mask, by the attention of the models.

    Attention is linear in the values, so that with the identity matrix in their place it returns the weights.
    """
    q, k = torch.zeros(1, 1, queries, keys, dtype=torch.float64), torch.zeros(1, 1, keys, keys, dtype=torch.float64)
    return attend(q, k, torch.eye(keys, dtype=torch.float64)[None, None], mask)[0, 0].numpy()


def masks_numbers() -> dict[str, Any]:
    """Return the weights that each kind of mask leaves."""
    padding = Mask.from_lengths(torch.tensor([_SOURCE.index("(pad)")]), len(_SOURCE))
    text = torch.arange(len(_PACKED)) >= _FIRST
    same = (text[:, None] == text[None, :])[None, None]
    packed, size = len(_PACKED), len(_TARGET)
    return {
        "kinds": [
            MaskedWeights(
                "Padding",
                "encoder: no query looks at padding",
                mask_weights(padding, len(_SOURCE), len(_SOURCE)),
                _SOURCE,
                _SOURCE,
            ),
            MaskedWeights(
                "Causal",
                "decoder: no query looks ahead",
                mask_weights(Mask(causal=True), size, size),
                _TARGET,
                _TARGET,
            ),
            MaskedWeights(
                "Causal, one new token",
                "translating with a cache: nothing to hide",
                mask_weights(Mask(causal=True), 1, size),
                _TARGET[-1:],
                _TARGET,
            ),
            MaskedWeights(
                "Packed",
                "two texts in one row, kept apart",
                mask_weights(Mask(keys=same), packed, packed),
                _PACKED,
                _PACKED,
            ),
            MaskedWeights(
                "Packed and causal",
                "two texts in one row of a language model",
                mask_weights(Mask(causal=True, keys=same), packed, packed),
                _PACKED,
                _PACKED,
            ),
            MaskedWeights(
                "Cross",
                "decoder to encoder: all of the source but its padding",
                mask_weights(padding, size, len(_SOURCE)),
                _TARGET,
                _SOURCE,
            ),
        ]
    }


def masks(kinds: Sequence[MaskedWeights]) -> FigureData:
    """Draw what masks leave of equal weights, three in a row.

    Args:
        kinds: One panel each.

    Returns:
        The figure, 11 inches wide, and the weights by title.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    rows = -(-len(kinds) // 3)
    with drawing():
        figure = new_figure(11, 4.1 * rows)
        panels = list(figure.subplots(rows, 3, squeeze=False).flat)
        for axes, kind in zip(panels, kinds, strict=False):
            seen = kind.weights > 0
            texts = np.array([_share(weight) for weight in kind.weights.ravel()], dtype=object)
            draw_cells(
                axes,
                np.where(seen, kind.weights, -np.inf),
                colours(np.ones((1, 1))),
                texts=texts.reshape(seen.shape),
                rows=kind.queries,
                columns=kind.keys,
                letters=9,
            )
            axes.set_title(kind.title, pad=22)
            axes.annotate(
                kind.where,
                (0, 1),
                (0, 6),
                xycoords="axes fraction",
                textcoords="offset points",
                fontsize=9,
                color=FAINT,
            )
            axes.set_anchor("N")
        for axes in panels[len(kinds) :]:
            axes.set_axis_off()
        figure.supxlabel("key: the token that is looked at", fontsize=10)
        figure.supylabel("query: the token that asks", fontsize=10)
        settle(figure)
    return FigureData(figure, {kind.title: kind.weights for kind in kinds})


def _share(weight: float) -> str:
    return str(Fraction(weight).limit_denominator(64))


register_figure(
    "masks",
    numbers=masks_numbers,
    draw=masks,
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
