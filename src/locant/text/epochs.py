"""Epochs of training text: rows drawn from the parts of a corpus by weight, and tokenised anew where that is wanted."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from locant.text.cache import CacheWriter, TokenCache, chunks
from locant.text.encoding import Encoded, Encoder
from locant.text.noise import NoiseSettings, add_noise
from locant.text.pairs import Rows
from locant.text.tokenizer import TokenizerPair


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

    def __call__(self, epoch: int, since: int = 0) -> Rows | None:
        """Return the rows of an epoch in ascending order; None for all rows once.

        Args:
            epoch: Counted from 0.
            since: The epoch with which these weights came to hold; the parts are read from their beginnings then.
        """
        drawn, first, whole = [], 0, True
        number = epoch - since
        for part, (size, quota) in enumerate(zip(self._sizes, self._quotas, strict=True)):
            if not size:  # a zero-shot direction
                continue
            start, end = round(number * quota), round((number + 1) * quota)
            whole = whole and end - start == size and start % size == 0
            drawn.append(first + self._read(part, size, start, end, since))
            first += size
        return None if whole else np.sort(np.concatenate(drawn))

    def _read(self, part: int, size: int, start: int, end: int, since: int) -> Rows:
        """Return the rows of one part that are read from one place to another."""
        found = [np.zeros(0, dtype=np.int64)]
        while start < end:
            number, place = divmod(start, size)
            stop = min(size, place + end - start)
            if stop - place == size:
                found.append(np.arange(size))
            else:
                # Five words: a seed is filled up with zeros to four, where it could equal that of another draw.
                order = np.random.default_rng([self._seed, number, part, since, 1]).permutation(size)
                found.append(order[place:stop])
            start += stop - place
        return np.concatenate(found)


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
        return drawn if self._sampled is None else self._sampled(epoch, drawn)


class SampledEpochs:
    """Tokenises the training text anew for each epoch: random segmentations (subword regularisation), noise in sources.

    The tokens of an epoch depend on the seed and the epoch alone, so a resumed run sees the same ones. A sentence
    that would then exceed the cache's ``max_tokens`` keeps its usual tokens.

    Args:
        cache: The usual segmentations, written with ``keep_text``.
        tokenizers: The tokenizers with which it was written.
        alpha: ``TokenizerSettings.sampling``; 0 segments as usual.
        seed: Any non-negative integer.
        noise: Of the sources of each part, or None; by default none has any.
    """

    def __init__(
        self,
        cache: TokenCache,
        tokenizers: TokenizerPair,
        *,
        alpha: float,
        seed: int,
        noise: Sequence[NoiseSettings | None] = (),
    ) -> None:
        self._cache = cache
        self._tokenizers = tokenizers
        self._alpha = alpha
        self._seed = seed
        self._noise = noise or [None] * len(cache.parts)
        # One folder a process; it vanishes with the object.
        self._folder = tempfile.TemporaryDirectory(prefix="sampled-", dir=cache.folder.parent)

    def __call__(self, epoch: int, drawn: TokenCache | None = None) -> TokenCache:
        """Return the tokens of an epoch; those of the epoch asked for before are removed.

        Args:
            epoch: Counted from 0.
            drawn: The rows of the cache that the epoch has; by default all.
        """
        cache = self._cache if drawn is None else drawn
        root = Path(self._folder.name)
        earlier = list(root.iterdir())
        folder = root / str(epoch)
        with CacheWriter(folder, self._encoder(cache)) as writer:
            for encoded in self._sampled(epoch, cache):
                writer.append(encoded)
            writer.finish()
        sampled = TokenCache(folder)
        for old in earlier:
            if old != sampled.folder:
                shutil.rmtree(old, ignore_errors=True)
        return sampled

    def _encoder(self, cache: TokenCache) -> Encoder:
        return Encoder(self._tokenizers, [part.prefixes for part in cache.parts], cache.max_tokens)

    def _sampled(self, epoch: int, cache: TokenCache) -> Iterator[Encoded]:
        encoder = self._encoder(cache)
        pairs, number, first = cache.pairs(), 0, 0
        for part, (rows, noise) in enumerate(zip(cache.parts, self._noise, strict=True)):
            for chunk in chunks(islice(pairs, rows.pairs)):
                sources, targets = [source for source, _ in chunk], [target for _, target in chunk]
                # Of the chunk's seeds, 0 and 1 sample the sides.
                noisy = add_noise(sources, noise, [self._seed, epoch, number, 2]) if noise else sources
                changed = [text != usual for text, usual in zip(noisy, sources, strict=True)]
                columns = []
                for side, (texts, before) in enumerate(
                    ((noisy, rows.prefixes.source), (targets, rows.prefixes.target[1:]))
                ):
                    usual = (cache.source, cache.target)[side]
                    own = self._segmented(texts, epoch, number, changed if side == 0 else None, side=side)
                    columns.append(
                        [
                            before + ids
                            if ids is not None and len(before) + len(ids) < cache.max_tokens
                            else usual[index].tolist()
                            for index, ids in enumerate(own, start=first)
                        ]
                    )
                yield encoder.packed(part, chunk, *columns)
                number, first = number + 1, first + len(chunk)

    def _segmented(
        self, texts: list[str], epoch: int, number: int, changed: list[bool] | None, *, side: int
    ) -> Sequence[list[int] | None]:
        """Return the tokens of one side of chunk ``number``; None where they are the usual ones.

        Args:
            texts: The sentences.
            epoch: Counted from 0.
            number: Of the chunk.
            changed: Which sentences are not those of the cache; None for none.
            side: 0 for the source, 1 for the target.
        """
        tokenizer = (self._tokenizers.source, self._tokenizers.target)[side]
        if self._alpha:
            seed = int(np.random.SeedSequence([self._seed, epoch, number, side]).generate_state(1)[0])
            return tokenizer.encode_sampled(texts, alpha=self._alpha, seed=seed)
        if changed is None:
            return [None] * len(texts)
        encoded = iter(tokenizer.encode(list(compress(texts, changed))))
        return [next(encoded) if one else None for one in changed]
