"""Hypotheses: the beams of the sentences of a search, what they are ranked by, and when a sentence is finished.

Notation: N sentences, K beam, M candidates for the next token of each hypothesis, T target tokens.

All is in NumPy arrays, whose operations on so few numbers cost a fraction of PyTorch's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from locant.errors import LocantError
from locant.text.tokenizer import EOS

Array = NDArray[Any]

NOT_A_NUMBER = (
    "The model's output is not a number, so it cannot translate: its weights are damaged, or its training diverged."
)

# Tokens for which there is room at first; then twice as many, and so on.
_ROOM = 16


@dataclass(frozen=True)
class Hypothesis:
    """An output of the model.

    Attributes:
        tokens: Target ids, without BOS and EOS.
        score: ``log_probability`` divided by the length penalty; what hypotheses are compared by.
        log_probability: Log-probability (natural) of the tokens and of EOS, if the model wrote it.
    """

    tokens: list[int]
    score: float
    log_probability: float


@overload
def length_penalty(length: int, alpha: float) -> float: ...
@overload
def length_penalty(length: Tensor, alpha: float) -> Tensor: ...
@overload
def length_penalty(length: Array, alpha: float | Array) -> Array: ...
def length_penalty(length: int | Tensor | Array, alpha: float | Array) -> Any:
    """Return ``((5 + |Y|) / 6)^alpha`` (Wu et al. 2016, equation 14).

    Args:
        length: ``|Y|``, the number of tokens that were scored, EOS included.
        alpha: Exponent; 0 leaves log-probabilities as they are.
    """
    return ((5 + length) / 6) ** alpha


def hypothesis_of(tokens: list[int], total: float, limit: int, alpha: float) -> Hypothesis:
    """Return the hypothesis of what was written.

    Args:
        tokens: Target ids; those from the first EOS on are no part of the hypothesis.
        total: Log-probability (natural) of the tokens up to EOS.
        limit: Most tokens that might have been written, EOS included.
        alpha: Exponent of the length penalty.

    Raises:
        LocantError: The log-probability is not a finite number.
    """
    if not math.isfinite(total):
        raise LocantError(NOT_A_NUMBER)
    length = next((place for place, token in enumerate(tokens) if token == EOS), len(tokens))
    return Hypothesis(tokens[:length], total / length_penalty(min(length + 1, limit), alpha), total)


class Beams:
    """The hypotheses of any number of sentences, each with a beam of the same width.

    At every step a beam keeps its most probable continuations. A hypothesis that ends leaves the beam, which is then
    one narrower (Sutskever et al. 2014, section 3.2), so that a beam of 1 is greedy search. One that reaches its
    greatest length without EOS is closed as it is. A sentence is done when no partial hypothesis left in its beam can
    still beat its ``n_best``-th best one: log-probabilities only fall, so the score of a partial hypothesis cannot
    exceed its present log-probability divided by the length penalty of the greatest length.

    Sentences may come and go at any step, and each has a greatest length, a length penalty and a number of hypotheses
    of its own.

    Args:
        beam: Hypotheses kept for each sentence, K.
    """

    def __init__(self, beam: int) -> None:
        self._beam, self._places = beam, np.arange(beam)
        self._sentences: Array = np.empty(0, _sentence(beam))
        self._tokens = np.empty((0, beam, _ROOM), np.int32)
        # Tokens and log-probability of the hypotheses of each sentence that have ended, in the order in which they did.
        self._ended: list[list[tuple[list[int], float]]] = []

    @property
    def last(self) -> Array:
        """The last token of each hypothesis, int64 ``[N, K]``; of no meaning where there is none."""
        return self._sentences["last"]

    @property
    def open(self) -> Array:
        """Whether there is a partial hypothesis, boolean ``[N, K]``."""
        return self._sentences["total"] != -np.inf

    @property
    def done(self) -> Array:
        """Whether nothing can change the best hypotheses of a sentence any more, boolean ``[N]``."""
        return self._sentences["done"]

    def join(self, last: Array | int, limits: Array, alphas: Array | float, n_best: Array | int) -> None:
        """Append sentences whose decoder has read all of its prefix but the last token.

        Args:
            last: The last token of the prefix, for each sentence or for all.
            limits: Most target tokens of each, EOS included, at least 1.
            alphas: Exponents of the length penalty, for each or for all.
            n_best: Hypotheses wanted, at most the beam, for each or for all.
        """
        new: Array = np.zeros(len(limits), self._sentences.dtype)
        # A place without a hypothesis has the log-probability -inf; at first all places but one, because beams that
        # begin alike would stay alike.
        new["total"], new["score"], new["bar"] = -np.inf, -np.inf, -np.inf
        new["total"][:, 0] = 0
        new["last"] = np.reshape(last, (-1, 1))
        new["limit"], new["alpha"], new["n_best"] = limits, alphas, n_best
        new["penalty"] = length_penalty(new["limit"], new["alpha"])
        self._sentences = np.concatenate((self._sentences, new))
        shape = (len(new), *self._tokens.shape[1:])
        self._tokens = np.concatenate((self._tokens, np.empty(shape, np.int32)))
        self._ended += [[] for _ in range(len(new))]

    def keep(self, kept: Array) -> None:
        """Keep some sentences, boolean ``[N]``, in their order."""
        self._sentences, self._tokens = self._sentences[kept], self._tokens[kept]
        self._ended = [ended for ended, stays in zip(self._ended, kept.tolist(), strict=True) if stays]

    def advance(self, gains: Array, candidates: Array) -> Array:
        """Take a step in all sentences.

        Args:
            gains: Log-probabilities of the candidates for the next token of each hypothesis, float32 ``[N, K, M]``,
                largest first; those where there is no hypothesis count for nothing.
            candidates: Their ids, int64 ``[N, K, M]``.

        Returns:
            The place in its sentence's beam that each hypothesis goes on from, int64 ``[N, K]``.
        """
        of = self._sentences
        count, first = len(of), np.arange(len(of))
        if of["length"].max() == self._tokens.shape[2]:
            self._tokens = np.concatenate((self._tokens, np.empty_like(self._tokens)), axis=2)
        continued = (of["total"][:, :, None] + gains).reshape(count, -1)
        picks = largest(continued, self._beam)
        parents = picks // gains.shape[2]
        # Places in all candidates of all sentences.
        picks += first[:, None] * continued.shape[1]
        totals, last = continued.take(picks), candidates.take(picks)
        totals[self._places >= (self._beam - of["ended"])[:, None]] = -np.inf
        self._tokens = self._tokens[first[:, None], parents]
        self._tokens[first, :, of["length"]] = last
        of["length"] += 1
        at_limit = of["limit"] <= of["length"]
        closing = ((last == EOS) | at_limit[:, None]) & (totals > -np.inf)
        if closing.any():
            self._close(closing, totals)
            totals[closing] = -np.inf
        # At its limit a sentence is done even where its log-probabilities are not numbers.
        done = (totals.max(1) / of["penalty"] <= of["bar"]) | at_limit
        totals[done] = -np.inf
        of["total"], of["last"], of["done"] = totals, last, done
        return parents

    def _close(self, closing: Array, totals: Array) -> None:
        of = self._sentences
        owners, places = closing.nonzero()
        slots = (of["ended"][:, None] + closing.cumsum(1) - 1)[closing]
        ending = totals[closing]
        penalties = length_penalty(of["length"][owners], of["alpha"][owners])
        of["score"][owners, slots] = ending / penalties.astype(np.float32)
        of["ended"] += closing.sum(1)
        of["bar"] = np.sort(of["score"], axis=1)[np.arange(len(of)), self._beam - of["n_best"]]
        texts, lengths = self._tokens[owners, places].tolist(), of["length"][owners].tolist()
        for owner, tokens, length, total in zip(owners.tolist(), texts, lengths, ending.tolist(), strict=True):
            self._ended[owner].append((tokens[:length], total))

    def hypotheses(self, number: int) -> list[Hypothesis]:
        """Return the hypotheses of a sentence that is done, best first; fewer than wanted only when no more exist.

        Raises:
            LocantError: The model's output is not a number.
        """
        of, ended = self._sentences[number], self._ended[number]
        if not ended:  # Only what is not a number never ends.
            raise LocantError(NOT_A_NUMBER)
        limit, alpha = int(of["limit"]), float(of["alpha"])
        order = largest(of["score"][None], int(of["n_best"]))[0, : len(ended)]
        return [
            hypothesis_of(tokens, total, limit, alpha) for tokens, total in (ended[slot] for slot in order.tolist())
        ]


def _sentence(beam: int) -> np.dtype[Any]:
    """Return what is known of a sentence and, K times, of each place in its beam."""
    return np.dtype(
        [
            ("last", np.int64, (beam,)),
            ("total", np.float32, (beam,)),  # log-probability of each partial hypothesis
            ("score", np.float32, (beam,)),  # of each hypothesis that has ended
            ("bar", np.float32),  # the score that a partial hypothesis must beat
            ("penalty", np.float32),  # length penalty of the greatest length
            ("alpha", np.float64),
            ("limit", np.int64),
            ("length", np.int64),
            ("n_best", np.int64),
            ("ended", np.int64),
            ("done", np.bool_),
        ],
        align=True,
    )


def largest(x: Array, k: int) -> Array:
    """Return the columns of the ``k`` largest of each row of ``x``, largest first; of equal ones the first.

    What is not a number counts as larger than any.
    """
    return x.shape[1] - 1 - x[:, ::-1].argsort(axis=1, kind="stable")[:, : -k - 1 : -1]
