"""Epochs of training text: rows drawn from the parts of a corpus by weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from locant.text.cache import TokenCache
from locant.text.pairs import RowNumbers
from locant.text.sampled_epochs import SampledEpochs


def sampling_shares(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> list[float]:
    """Return how much of the drawn text is of each part, 0 to 1.

    Part i has ``n_i`` pairs and weight ``w_i``; its share is proportional to ``w_i * n_i ** (1 / temperature)``.
    With temperature 1 and equal weights all text is seen equally often; with higher temperatures small parts are seen
    more often, with an infinite one shares are as the weights are (Arivazhagan et al. 2019, arXiv:1907.05019).

    Args:
        sizes: The pairs of each part.
        weights: The weight of each part, not negative, not all zero.
        temperature: Above 0; may be infinite.
    """
    drawn = [
        weight * size ** (1 / temperature) if weight and size else 0.0
        for size, weight in zip(sizes, weights, strict=True)
    ]
    return [one / sum(drawn) for one in drawn]


class RowSampler:
    """Draws the rows of each epoch from the parts of a corpus.

    An epoch has as many rows as the parts with a weight have together. A part is read in random order, from one end to
    the other before any of it is read again, over as many epochs as that takes.

    Args:
        sizes: The pairs of each part.
        weights: The weight of each part, see :func:`sampling_shares`.
        temperature: Likewise.
        seed: Any non-negative integer.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], temperature: float, *, seed: int) -> None:
        self.shares = sampling_shares(sizes, weights, temperature)
        self._sizes = sizes
        self._seed = seed
        total = sum(size for size, weight in zip(sizes, weights, strict=True) if weight)
        self._quotas = [share * total for share in self.shares]

    def __call__(self, epoch: int, since: int = 0) -> RowNumbers | None:
        """Return the rows of an epoch in ascending order; None for all rows once.

        Args:
            epoch: Counted from 0.
            since: The epoch with which these weights came to hold; the parts are read from their beginnings then.
        """
        places, whole = [], True
        number = epoch - since
        for size, quota in zip(self._sizes, self._quotas, strict=True):
            start, end = round(number * quota), round((number + 1) * quota)
            places.append((start, end))
            # A zero-shot direction has no rows.
            whole = whole and (not size or (end - start == size and start % size == 0))
        if whole:
            return None
        total = sum(self._sizes)
        count = sum(end - start for start, end in places)
        drawn: RowNumbers = np.empty(count, np.uint32) if total < 1 << 32 else np.empty(count, np.int64)
        first = filled = 0
        for part, (size, (start, end)) in enumerate(zip(self._sizes, places, strict=True)):
            into = drawn[filled : filled + end - start]
            self._read(part, size, start, since, into)
            into += drawn.dtype.type(first)
            first, filled = first + size, filled + end - start
        drawn.sort()
        return drawn

    def _read(self, part: int, size: int, start: int, since: int, into: RowNumbers) -> None:
        """Write the rows of one part into an array: as many as it has room for, from a place in the part on."""
        filled = 0
        while filled < len(into):
            number, place = divmod(start + filled, size)
            count = min(size - place, len(into) - filled)
            rows = np.arange(size, dtype=into.dtype)
            if count < size:
                # Five words: a seed is filled up with zeros to four, where it could equal that of another draw.
                np.random.default_rng([self._seed, number, part, since, 1]).shuffle(rows)
            into[filled : filled + count] = rows[place : place + count]
            filled += count


class StagePlace(NamedTuple):
    """A stage of the corpus, and where it began.

    Attributes:
        number: From 0.
        first_epoch: The first epoch drawn with its weights.
    """

    number: int = 0
    first_epoch: int = 0


_FIRST_STAGE = StagePlace()


class TrainingEpochs:
    """The tokens of each epoch.

    Args:
        cache: All training text.
        samplers: Draw the rows of an epoch, one for each stage.
        sampled: Tokenises them anew; None where the cache's tokens serve for every epoch.
    """

    def __init__(self, cache: TokenCache, samplers: Sequence[RowSampler], sampled: SampledEpochs | None = None) -> None:
        self._cache = cache
        self._samplers = samplers
        self._sampled = sampled

    def drawn(self, epoch: int, stage: StagePlace = _FIRST_STAGE) -> TokenCache:
        """Return the rows of an epoch, counted from 0 over all stages, in their usual segmentation."""
        rows = self._samplers[stage.number](epoch, stage.first_epoch)
        return self._cache if rows is None else self._cache.select(rows)

    def __call__(self, epoch: int, stage: StagePlace = _FIRST_STAGE) -> TokenCache:
        """Return the tokens of an epoch, counted from 0; those of the epoch asked for before may be removed."""
        drawn = self.drawn(epoch, stage)
        if self._sampled is None:
            return drawn
        found = self._sampled(epoch, drawn, stage=stage.number)
        self._sampled.begin(epoch + 1, lambda: self.drawn(epoch + 1, stage), stage=stage.number)
        return found

    def open(self) -> None:
        """Begin to ask for epochs, for the first time or after an interruption."""
        if self._sampled:
            self._sampled.open()

    def interrupt(self) -> None:
        """End what is waited for or done meanwhile: an epoch that is being asked for ends with an error."""
        if self._sampled:
            self._sampled.interrupt()

    def close(self) -> None:
        """End what is done meanwhile for the epoch that comes next."""
        if self._sampled:
            self._sampled.close()
