"""Epochs of training text: rows drawn from the parts of a corpus by weight, and tokenised anew where that is wanted.

Random segmentations (subword regularisation) and noise in sources make each epoch another one.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from locant.errors import TrainingError
from locant.text.cache import CacheWriter, TokenCache, chunk_bounds
from locant.text.encoding import Encoded, Encoder, flat_ids
from locant.text.noise import NoiseSettings, add_noise
from locant.text.pairs import RowNumbers, Rows
from locant.text.tokenizer_pair import TokenizerPair
from locant.text.workers import in_order, usable_processes

_SEVERAL_PROCESSES = 100_000
"""Pairs of an epoch from which other processes are started."""


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


class _Chunk(NamedTuple):
    """Pairs that are sampled with one seed.

    Attributes:
        number: In the epoch, from 0.
        part: Of the corpus.
        rows: In the whole cache.
    """

    number: int
    part: int
    rows: Rows


class SampledEpochs:
    """Tokenises the training text anew for each epoch: random segmentations (subword regularisation), noise in sources.

    The tokens of an epoch depend on the seed and the epoch alone, so a resumed run sees the same ones, whatever the
    number of processes. A sentence that would then exceed the cache's ``max_tokens`` keeps its usual tokens. One
    process of a training on each machine tokenises an epoch beside the cache, and all read it; of a large text, the
    next one while they train on the one before.

    Args:
        cache: The usual segmentations, written with ``keep_text``.
        tokenizers: The tokenizers with which it was written.
        alpha: ``TokenizerSettings.sampling``; 0 segments as usual.
        seed: Any non-negative integer.
        noise: Of the sources of each part, or None; by default none has any.
        shared_by: The number of a machine in the training, of this process on the machine, and how many processes it
            has, which ask for the same epochs in the same order.
        processes: How many others this one lets tokenise at once; by default as many as there are cores for it.
    """

    def __init__(
        self,
        cache: TokenCache,
        tokenizers: TokenizerPair,
        *,
        alpha: float,
        seed: int,
        noise: Sequence[NoiseSettings | None] = (),
        shared_by: tuple[int, int, int] = (0, 0, 1),
        processes: int | None = None,
    ) -> None:
        self._cache = cache
        self._tokenizers = tokenizers
        self._noise = list(noise) or [None] * len(cache.parts)
        self._alpha, self._seed = alpha, seed
        node, self._rank, self._world_size = shared_by
        self._processes = processes
        self._ahead: threading.Thread | None = None
        self._stopped = threading.Event()
        parent = cache.folder.parent
        if self._world_size == 1:
            # One folder a process; it vanishes with the object.
            self._own = tempfile.TemporaryDirectory(prefix="sampled-", dir=parent)
            self._folder = Path(self._own.name)
        else:
            self._folder = parent / f"sampled-{node}"
            self._folder.mkdir(exist_ok=True)
            if self._rank == 0:
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def __call__(self, epoch: int, drawn: TokenCache | None = None, *, stage: int = 0) -> TokenCache:
        """Return the tokens of an epoch; those of epochs before the one asked for last are removed.

        Args:
            epoch: Counted from 0.
            drawn: The rows of the cache that the epoch has; by default all.
            stage: Of the corpus, which decides what is drawn.

        Raises:
            TrainingError: The training was interrupted.
        """
        ahead, self._ahead = self._ahead, None
        if ahead:
            ahead.join()
        earlier = list(self._folder.iterdir())
        folder = self._place(epoch, stage)
        if self._rank == 0 and not folder.exists():
            self._write(folder, self._cache if drawn is None else drawn, epoch)
        while not folder.exists():
            if self._stopped.is_set():
                raise TrainingError("The training has ended.")
            time.sleep(0.05)
        sampled = TokenCache(folder)
        for old in earlier if self._rank == 0 else ():
            # Another process may open the epoch before this one only now.
            if old != folder and (self._world_size == 1 or int(old.name.strip(".").split(".")[0]) < epoch - 1):
                shutil.rmtree(old, ignore_errors=True)
        return sampled

    def begin(self, epoch: int, draw: Callable[[], TokenCache], *, stage: int = 0) -> None:
        """Tokenise an epoch that will be asked for, meanwhile and in other processes, where it is large.

        Args:
            epoch: Counted from 0.
            draw: Returns the rows of the cache that it has.
            stage: As before.
        """
        if self._rank or self._ahead or len(self._cache) < _SEVERAL_PROCESSES:
            return

        def work() -> None:
            # Whatever goes wrong does so again, and is said, when the epoch is asked for.
            with suppress(Exception):
                self._write(self._place(epoch, stage), draw(), epoch, meanwhile=True)

        self._ahead = threading.Thread(target=work, name="locant-next-epoch", daemon=True)
        self._ahead.start()

    def open(self) -> None:
        """Begin to ask for epochs, for the first time or after an interruption."""
        self._stopped.clear()

    def interrupt(self) -> None:
        """End what is waited for or done meanwhile, without waiting for the end.

        When a training ends, the process that tokenises may have ended before it began an epoch that this one is
        reading ahead for.
        """
        self._stopped.set()

    def close(self) -> None:
        """End what is done meanwhile."""
        self.interrupt()
        if self._ahead:
            self._ahead.join()
        self._ahead = None

    def _place(self, epoch: int, stage: int) -> Path:
        return self._folder / f"{epoch}.{stage}"

    def _write(self, folder: Path, cache: TokenCache, epoch: int, *, meanwhile: bool = False) -> None:
        """Tokenise an epoch into a folder."""
        encoder = Encoder(self._tokenizers, [part.prefixes for part in cache.parts], cache.max_tokens)
        work = _Sampling(self._cache, encoder, self._noise, self._alpha, self._seed, epoch)
        processes = self._processes or (usable_processes() if len(cache) >= _SEVERAL_PROCESSES else 1)
        firsts = np.cumsum([0, *(about.pairs for about in cache.parts)]).tolist()
        bounds = (
            (part, firsts[part] + start, firsts[part] + end)
            for part, about in enumerate(cache.parts)
            for start, end in chunk_bounds(about.pairs)
        )
        chunks = (
            _Chunk(number, part, cache.whole_rows(np.arange(start, end)))
            for number, (part, start, end) in enumerate(bounds)
        )
        with (
            CacheWriter(folder, encoder) as writer,
            closing(in_order(work, chunks, processes, meanwhile=meanwhile)) as results,
        ):
            for encoded in results:
                if self._stopped.is_set():
                    raise TrainingError("The training has ended.")
                writer.append(encoded)
            writer.finish()


@dataclass(frozen=True)
class _Sampling:
    """What is done with a chunk.

    Attributes:
        cache: All of it.
        encoder: Holds tokenizers, prefixes and limits.
        noise: Of the sources of each part, or None.
        alpha: How random segmentations are.
        seed: Of the run.
        epoch: From 0.
    """

    cache: TokenCache
    encoder: Encoder
    noise: Sequence[NoiseSettings | None]
    alpha: float
    seed: int
    epoch: int

    def __call__(self, chunk: _Chunk) -> Encoded:
        pairs = self.cache.texts(chunk.rows)
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        noise = self.noise[chunk.part]
        # Of the chunk's seeds, 0 and 1 sample the sides.
        noisy = add_noise(sources, noise, [self.seed, self.epoch, chunk.number, 2]) if noise else sources
        changed = [text != usual for text, usual in zip(noisy, sources, strict=True)]
        prefixes = self.encoder.prefixes[chunk.part]
        columns = []
        for side, (texts, before) in enumerate(((noisy, prefixes.source), (targets, prefixes.target[1:]))):
            usual = (self.cache.source, self.cache.target)[side]
            tokenizer = (self.encoder.tokenizers.source, self.encoder.tokenizers.target)[side]
            own: Sequence[list[int] | None]
            if self.alpha:
                seed = int(np.random.SeedSequence([self.seed, self.epoch, chunk.number, side]).generate_state(1)[0])
                own = tokenizer.encode_sampled(texts, alpha=self.alpha, seed=seed)
            else:
                anew = changed if side == 0 else [False] * len(texts)
                encoded = iter(tokenizer.encode(list(compress(texts, anew)), threads=1))
                own = [next(encoded) if one else None for one in anew]
            chosen = [
                before + ids
                if ids is not None and len(before) + len(ids) < self.encoder.max_tokens
                else usual[row].tolist()
                for row, ids in zip(chunk.rows.tolist(), own, strict=True)
            ]
            columns.append(flat_ids(chosen))
        return self.encoder.packed(chunk.part, pairs, *columns)


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
