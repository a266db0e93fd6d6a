"""Random segmentations of text into the subwords of a SentencePiece model, from a seed alone.

Kudo, "Subword Regularization" (2018), arXiv:1804.10959, for unigram models; Provilkov et al., "BPE-Dropout" (2020),
arXiv:1910.13267, for BPE. SentencePiece samples too, but what it draws differs from one process to the next, whatever
its seed, so a resumed run would see other text than an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

_SPACE = "▁"
_BLOCK = 4096  # Random numbers are drawn in blocks: one at a time takes many times as long.
_CACHED = 1 << 16
_LONGEST_CACHED = 24
"""Longer words are mostly whole sentences of a language without spaces: large, and they hardly recur."""

Uniform = Callable[[], float]
"""Returns the next random number of [0, 1)."""
Edge = tuple[float, int, int]
"""A last subword of a prefix: the probability of it or one listed before it, the character it begins at, and its id."""


class Sampler:
    """Draws segmentations; no subword reaches over a space, so each word is segmented by itself.

    A word with a character that is not a subword keeps its usual segmentation.

    Args:
        processor: The ``SentencePieceProcessor`` of the model.
        alpha: The smoothing exponent (unigram) or dropout probability (BPE).
        bpe: Whether it is a BPE model.
    """

    def __init__(self, processor: Any, alpha: float, *, bpe: bool) -> None:
        self.alpha = alpha
        self._processor, self._segment = processor, self._merged if bpe else self._drawn
        others = processor.is_control, processor.is_unknown, processor.is_byte, processor.is_unused
        size = processor.get_piece_size()
        # Those that spell text.
        self._ids = {processor.id_to_piece(one): one for one in range(size) if not any(is_it(one) for is_it in others)}
        self._subwords = {index: subword for subword, index in self._ids.items()}
        self._scores = {index: processor.get_score(index) for index in self._subwords}
        self._longest = max(map(len, self._ids), default=0)
        self._known_lattice, self._known_merges = lru_cache(_CACHED)(self._lattice), lru_cache(_CACHED)(self._merges)

    def sample(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        """Return token ids of one segmentation of each text, which must be normalised, from any non-negative seed."""
        uniform = _uniforms(seed).__next__
        sampled = []
        for text in texts:
            ids: list[int] = []
            # As SentencePiece reads text: a space is "▁", so is a "▁", and at the end of the text neither counts.
            stripped = text.replace(" ", _SPACE).rstrip(_SPACE)
            for word in stripped.split(_SPACE) if stripped else ():
                spelled = all(character in self._ids for character in _SPACE + word)
                # SentencePiece puts the "▁" back.
                ids += self._segment(_SPACE + word, uniform) if spelled else self._processor.encode(word)
            sampled.append(ids)
        return sampled

    def _drawn(self, word: str, uniform: Uniform) -> list[int]:
        """Draw a segmentation with probability proportional to the product of its subwords' ``exp(alpha * score)``.

        Kudo (2018), section 3.3, with all segmentations as candidates (l = ∞): probabilities are summed forwards
        through the lattice of subwords, then subwords are drawn backwards from the end of the word.
        """
        lattice = (self._known_lattice if len(word) <= _LONGEST_CACHED else self._lattice)(word)
        ids = []
        end = len(word)
        while end:
            edges = lattice[end]
            start, index = edges[-1][1:]
            if len(edges) > 1:
                drawn = uniform()
                for probability, begin, candidate in edges:
                    if drawn < probability:
                        start, index = begin, candidate
                        break
            ids.append(index)
            end = start
        ids.reverse()
        return ids

    def _lattice(self, word: str) -> list[list[Edge]]:
        """Return the possible last subwords of each prefix of a word."""
        totals = [0.0]  # The logarithm of the summed weight of all segmentations of each prefix.
        lattice: list[list[Edge]] = [[]]
        for end in range(1, len(word) + 1):
            found = [
                (totals[start] + self.alpha * self._scores[self._ids[piece]], start, self._ids[piece])
                for start in range(max(0, end - self._longest), end)
                if (piece := word[start:end]) in self._ids
            ]
            largest = max(weight for weight, _, _ in found)
            total = largest + math.log(sum(math.exp(weight - largest) for weight, _, _ in found))
            cumulative = 0.0
            edges = []
            for weight, start, index in found:
                cumulative += math.exp(weight - total)
                edges.append((cumulative, start, index))
            totals.append(total)
            lattice.append(edges)
        return lattice

    def _merged(self, word: str, uniform: Uniform) -> Sequence[int]:
        """Merge symbols as BPE does, but drop each possible merge with probability ``alpha`` at each step.

        Provilkov et al. (2020), Algorithm 1: the best merge that is left is applied, until a step leaves none.
        """
        state = tuple([self._ids[character] for character in word])
        while True:
            # To drop every merge independently and take the best left is to take the first, in order, not dropped.
            for place, index in (self._known_merges if len(state) <= _LONGEST_CACHED else self._merges)(state):
                if uniform() >= self.alpha:
                    state = (*state[:place], index, *state[place + 2 :])
                    break
            else:
                return state

    def _merges(self, state: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the possible merges, the best first: the place of the left symbol, and the id of the merged one."""
        subwords = [self._subwords[index] for index in state]
        merges = [
            (place, self._ids[merged])
            for place in range(len(subwords) - 1)
            if (merged := subwords[place] + subwords[place + 1]) in self._ids
        ]
        # Of equal merges the leftmost stays first.
        return sorted(merges, key=lambda merge: -self._scores[merge[1]])


def _uniforms(seed: int) -> Iterator[float]:
    generator = np.random.default_rng(seed)
    while True:
        yield from generator.random(_BLOCK).tolist()
