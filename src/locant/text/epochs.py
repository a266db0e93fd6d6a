"""Epochs of training text: rows drawn from the parts of a corpus by weight, and tokenised again where that is wanted.

Random segmentations (subword regularisation) and noise in sources make each epoch another one.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from locant.errors import TrainingError
from locant.text.cache import Encoded, Encoder, TokenCache, write_cache
from locant.text.noise import NoiseSettings, add_noise
from locant.text.pairs import RowNumbers, Rows
from locant.text.tokenizer import UNK
from locant.text.tokenizer_pair import TokenizerPair
from locant.text.workers import SEVERAL_PROCESSES, usable_processes

# Changing it changes what subword sampling draws: a chunk is sampled with one seed.
_CHUNK = 8192
_SMALL = 1 << 16
"""Rows below which an epoch may be a batch or two, so that a process that reads ahead is several epochs ahead."""


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
        self._sizes, self._seed = sizes, seed
        total = sum(size for size, weight in zip(sizes, weights, strict=True) if weight)
        self._quotas = [share * total for share in sampling_shares(sizes, weights, temperature)]

    def __call__(self, epoch: int, since: int = 0) -> RowNumbers | None:
        """Return the rows of an epoch in ascending order; None for all rows once.

        Args:
            epoch: Counted from 0.
            since: The epoch with which these weights came to hold; the parts are read from their beginnings then.
        """
        number = epoch - since
        places = [(round(number * quota), round((number + 1) * quota)) for quota in self._quotas]
        of_parts = list(zip(self._sizes, places, strict=True))
        # A zero-shot direction has no rows.
        if all(not size or (end - start == size and start % size == 0) for size, (start, end) in of_parts):
            return None
        count = sum(end - start for start, end in places)
        drawn: RowNumbers = np.empty(count, np.uint32 if sum(self._sizes) < 1 << 32 else np.int64)
        first = filled = 0
        for part, (size, (start, end)) in enumerate(of_parts):
            while start < end:
                turn, place = divmod(start, size)
                count = min(size - place, end - start)
                rows = np.arange(first, first + size, dtype=drawn.dtype)
                if count < size:
                    # Five words: a seed is filled up with zeros to four, where it could equal that of another draw.
                    np.random.default_rng([self._seed, turn, part, since, 1]).shuffle(rows)
                drawn[filled : filled + count] = rows[place : place + count]
                filled, start = filled + count, start + count
            first += size
        drawn.sort()
        return drawn


class StagePlace(NamedTuple):
    """A stage of the corpus, from 0, and the first epoch that is drawn with its weights."""

    number: int = 0
    first_epoch: int = 0


_FIRST_STAGE = StagePlace()


class TrainingEpochs:
    """The tokens of each epoch: rows drawn from a cache, tokenised again where sampling or noise is wanted.

    They depend on the seed and the epoch alone, so a resumed run sees the same ones, whatever the number of processes.
    A sentence that would exceed the cache's ``max_tokens`` when it is segmented otherwise keeps its usual tokens; so
    does one with an unknown token, whose text is not in the cache. The first process of a training tokenises an epoch
    beside the cache, and all read it.

    Args:
        cache: All training text in its usual segmentations.
        samplers: Draw the rows of an epoch, one for each stage; by default every epoch has all rows.
        tokenizers: The tokenizers with which it was written, where it is tokenised again.
        alpha: ``TokenizerSettings.sampling``; 0 segments as usual.
        noise: Of the sources of each part, or None; by default none has any.
        seed: Any non-negative integer.
        shared_by: The number of this process in the training, and how many processes it has, which ask for the same
            epochs in ascending order.
    """

    def __init__(
        self,
        cache: TokenCache,
        samplers: Sequence[RowSampler] = (),
        *,
        tokenizers: TokenizerPair | None = None,
        alpha: float = 0.0,
        noise: Sequence[NoiseSettings | None] = (),
        seed: int = 0,
        shared_by: tuple[int, int] = (0, 1),
    ) -> None:
        self.cache, self._samplers = cache, samplers
        self._stopped, self._folder = threading.Event(), None
        if not (alpha or any(noise)):
            return
        assert tokenizers is not None
        rank, processes = shared_by
        self._writes = rank == 0
        self._encoder = partial(
            _SamplingEncoder,
            tokenizers,
            cache.max_tokens,
            [part.prefixes for part in cache.parts],
            cache=cache,
            noise=noise or [None] * len(cache.parts),
            alpha=alpha,
            seed=seed,
        )
        parent = cache.folder.parent
        self._folder = (
            parent / "sampled-together" if processes > 1 else Path(tempfile.mkdtemp(prefix="sampled-", dir=parent))
        )
        self._folder.mkdir(exist_ok=True)
        if self._writes:
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def drawn(self, epoch: int, stage: StagePlace = _FIRST_STAGE) -> TokenCache:
        """Return the rows of an epoch, counted from 0 over all stages, in their usual segmentation."""
        rows = self._samplers[stage.number](epoch, stage.first_epoch) if self._samplers else None
        return self.cache if rows is None else self.cache.select(rows)

    def __call__(self, epoch: int, stage: StagePlace = _FIRST_STAGE) -> TokenCache:
        """Return the tokens of an epoch; of those before it the last one stays, of small ones the last seven.

        Raises:
            TrainingError: The training was interrupted.
        """
        if self._folder is None:
            return self.drawn(epoch, stage)
        folder = self._folder / f"{epoch}.{stage.number}"
        if self._writes and not folder.exists():
            drawn = self.drawn(epoch, stage)
            kept = 2 if len(drawn) >= _SMALL else 8  # another process may open those only now
            for old in self._folder.glob(f"{epoch - kept}.*"):
                shutil.rmtree(old, ignore_errors=True)
            self._write(drawn, epoch, folder)
        while not folder.exists():
            self._check()
            time.sleep(0.05)
        return TokenCache(folder)

    def open(self) -> None:
        """Begin to ask for epochs, for the first time or after an interruption."""
        self._stopped.clear()

    def interrupt(self) -> None:
        """End what is waited for, without waiting for the end.

        When a training ends, the process that tokenises may have ended before it began an epoch that this one is
        reading ahead for.
        """
        self._stopped.set()

    def _check(self, seen: int = 0) -> None:
        if self._stopped.is_set():
            raise TrainingError("The training has ended.")

    def _write(self, drawn: TokenCache, epoch: int, folder: Path) -> None:
        """Tokenise the rows of an epoch into a folder."""
        ends = np.cumsum([part.pairs for part in drawn.parts]).tolist()

        def chunks(start: int, end: int) -> Iterator[Rows]:
            for first in range(start, end, _CHUNK):
                yield drawn.whole_rows(np.arange(first, min(first + _CHUNK, end)))

        parts = list(map(chunks, [0, *ends[:-1]], ends))
        processes = usable_processes() if len(drawn) >= SEVERAL_PROCESSES else 1
        write_cache(parts, self._encoder(epoch=epoch), folder, processes=processes, tell=self._check)


@dataclass(frozen=True, kw_only=True)
class _SamplingEncoder(Encoder):
    """Encodes rows of a whole cache again; those of a block are sampled with one seed."""

    cache: TokenCache
    noise: Sequence[NoiseSettings | None]
    alpha: float
    seed: int
    epoch: int

    def __call__(self, task: tuple[int, int, Rows]) -> Encoded:
        number, part, rows = task
        before = self.prefixes[part]
        sides = (
            (self.cache.source, before.source, self.tokenizers.source),
            (self.cache.target, before.target[1:], self.tokenizers.target),
        )
        columns = []
        for side, (column, prefix, tokenizer) in enumerate(sides):
            usual = [column[row].tolist() for row in rows.tolist()]
            texts = tokenizer.decode(usual)
            # Of the chunk's seeds, 0 and 1 sample the sides.
            if side == 0 and (noise := self.noise[part]):
                texts = add_noise(texts, noise, [self.seed, self.epoch, number, 2])
            if self.alpha:
                seed = int(np.random.SeedSequence([self.seed, self.epoch, number, side]).generate_state(1)[0])
                encoded = tokenizer.encode_sampled(texts, alpha=self.alpha, seed=seed)
            else:
                encoded = tokenizer.encode(texts, threads=1)
            columns.append(
                [
                    ids if UNK in ids or len(prefix) + len(others) >= self.max_tokens else prefix + others
                    for ids, others in zip(usual, encoded, strict=True)
                ]
            )
        return self.packed(part, *columns)
