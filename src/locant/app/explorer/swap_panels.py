"""Panels of what a stack's numbers do when two words of its sentence change places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from locant.analysis.stack_trace import StackTrace
from locant.app.explorer.panels import Matrix
from locant.app.explorer.shown_models import StackInput
from locant.figures.drawing import Numbers

_ROUNDING = 1e-5  # below which a difference is that of sums in another order


def swapped_places(given: StackInput, swap: tuple[int, int] | None) -> list[int]:
    """Return for every place of the swapped sentence the place in the sentence of the token that stands there.

    Args:
        given: The sentence.
        swap: The words that change places, counted from 1; ``None`` leaves them.
    """
    places = list(range(len(given.tokens)))
    if swap is None or swap[0] == swap[1]:
        return places
    left, right = (list(given.groups[word - 1]) for word in sorted(swap))
    between = places[left[-1] + 1 : right[0]]
    return [*places[: left[0]], *right, *between, *left, *places[right[-1] + 1 :]]


def change_by_word(given: StackInput, swap: tuple[int, int], before: StackTrace, after: StackTrace) -> Matrix:
    """Return how much the state of every token differs after a swap, layer by layer."""
    values = _changes(given, swap, before.states, after.states)
    return Matrix(
        f"What swapping {_names(given, swap)} changes",
        "How far the vector of every word moves, as a share of its length, wherever the word stands afterwards. "
        + _verdict(values, given, swap),
        values,
        "change",
        "after",
        "word",
        rows=_stages(len(values)),
        columns=given.tokens,
    )


def change_by_scheme(given: StackInput, swap: tuple[int, int], found: Mapping[str, Sequence[Tensor]]) -> Matrix:
    """Return the same for several schemes, mean of all words.

    Args:
        given: The sentence.
        swap: The words that change places.
        found: By scheme the states at every stage, before and after the swap, each ``[2, L, E]``.
    """
    means = {}
    for scheme, states in found.items():
        before, after = zip(*states, strict=True)
        means[scheme] = _changes(given, swap, before, after).mean(1)[1:]
    still = [scheme for scheme, values in means.items() if not values.any()]
    nothing = f"Nothing changes for {', '.join(still)}. " if still else ""
    return Matrix(
        f"Swapping {_names(given, swap)}, with every scheme",
        f"Mean change of all words. {nothing}Schemes other than the model's own have their initial values; what a "
        "scheme cannot take (an odd number of features to be turned in pairs, for one) is left out.",
        np.stack(list(means.values())),
        "change",
        "scheme",
        "after",
        rows=list(means),
        columns=_stages(len(next(iter(found.values()))))[1:],
    )


def change_of_weights(
    given: StackInput, swap: tuple[int, int], layer: int, head: int, before: Tensor, after: Tensor
) -> Matrix:
    """Return the weights ``[L, L]`` of one head after the swap minus those before, every word where it stood before."""
    home = _home(given, swap, len(before))
    values = _rounded((after[home][:, home] - before).double().numpy())
    tokens = [*given.tokens, *["(pad)"] * (len(before) - len(given.tokens))]
    same = "Every word looks at the same words as before." if not values.any() else "Blue is more, orange is less."
    return Matrix(
        f"Whom each word looks at: the change, layer {layer}, head {head}",
        f"Weights after swapping {_names(given, swap)} minus those before, word by word. {same}",
        values,
        "change of weight",
        "from",
        "to",
        rows=tokens,
        columns=tokens,
    )


def _home(given: StackInput, swap: tuple[int, int], length: int) -> Tensor:
    """Return where each token of the sentence stands in the swapped one, ``[L]``; padding stays."""
    places = torch.tensor(swapped_places(given, swap))
    return torch.cat((places.argsort(), torch.arange(len(places), length)))


def _changes(given: StackInput, swap: tuple[int, int], before: Sequence[Tensor], after: Sequence[Tensor]) -> Numbers:
    """Return ``|after - before| / |before|`` of every token at every stage, ``[stages, tokens]``."""
    home, length = _home(given, swap, len(given.tokens)), len(given.tokens)
    rows = []
    for one, other in zip(before, after, strict=True):
        here, there = one[:length].double(), other[home].double()
        rows.append((there - here).norm(dim=1) / here.norm(dim=1).clamp(min=1e-12))
    return _rounded(torch.stack(rows).numpy())


def _rounded(values: Numbers) -> Numbers:
    return np.where(np.abs(values) < _ROUNDING, 0.0, values)


def _stages(count: int) -> list[str]:
    return ["word", "told position", *(f"layer {number}" for number in range(1, count - 1))]


def _names(given: StackInput, swap: tuple[int, int]) -> str:
    return " and ".join(f"“{given.word(number)}”" for number in swap)


def _verdict(values: Numbers, given: StackInput, swap: tuple[int, int]) -> str:
    if swap[0] == swap[1]:
        return "The two are the same word: choose another."
    if not values.any():
        return (
            "Nothing changes at all: this stack does not know where its words stand, so the sentence is a bag of words."
        )
    moved = {place for word in swap for place in given.groups[word - 1]}
    others = [row for place, row in enumerate(values.T) if place not in moved]
    if any(row.any() for row in others):
        return "Words that stay where they are change as well, because they look at those that have moved."
    return "Words that stay where they are do not change."
