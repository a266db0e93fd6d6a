"""Epochs that are tokenised anew: random segmentations (subword regularisation), noise in sources."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
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
from locant.text.pairs import Pair, Rows
from locant.text.tokenizer_pair import TokenizerPair
from locant.text.workers import in_order, usable_processes

_SEVERAL_PROCESSES = 100_000
"""Pairs of an epoch from which other processes are started."""
_PATIENCE = 4 * 3600.0
"""Seconds after which an epoch that another process tokenises is given up."""


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
            TrainingError: The process that tokenises has not done so, or the training was interrupted.
        """
        ahead, self._ahead = self._ahead, None
        if ahead:
            ahead.join()
        earlier = list(self._folder.iterdir())
        folder = self._place(epoch, stage)
        if self._rank == 0 and not folder.exists():
            self._write(folder, self._cache if drawn is None else drawn, epoch)
        until = time.monotonic() + _PATIENCE
        while not folder.exists():
            if self._stopped.is_set():
                raise TrainingError("The training has ended.")
            if time.monotonic() > until:
                raise TrainingError(
                    f"Another process of the training has not tokenised an epoch: {folder} is missing. All processes "
                    "of a machine must see the folder of the run."
                )
            time.sleep(0.05)
        sampled = TokenCache(folder)
        for old in earlier if self._rank == 0 else ():
            # Another process may open the epoch before this one only now.
            if old != folder and (self._world_size == 1 or _epoch_of(old) < epoch - 1):
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
        large = len(cache) >= _SEVERAL_PROCESSES
        processes = self._processes or (usable_processes() if large else 1)
        with (
            CacheWriter(folder, encoder) as writer,
            closing(in_order(work, _chunks(cache), processes, meanwhile=meanwhile)) as results,
        ):
            for encoded in results:
                if self._stopped.is_set():
                    raise TrainingError("The training has ended.")
                writer.append(encoded)
            writer.finish()


def _chunks(cache: TokenCache) -> Iterator[_Chunk]:
    number, first = 0, 0
    for part, about in enumerate(cache.parts):
        for start, end in chunk_bounds(about.pairs):
            yield _Chunk(number, part, cache.whole_rows(np.arange(first + start, first + end)))
            number += 1
        first += about.pairs


def _epoch_of(folder: Path) -> int:
    """Return the number of the epoch of which a folder is, or a beginning of one."""
    found = re.match(r"\.?(\d+)", folder.name)
    assert found is not None
    return int(found[1])


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
        pairs: list[Pair] = self.cache.texts(chunk.rows)
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        noise = self.noise[chunk.part]
        # Of the chunk's seeds, 0 and 1 sample the sides.
        noisy = add_noise(sources, noise, [self.seed, self.epoch, chunk.number, 2]) if noise else sources
        changed = [text != usual for text, usual in zip(noisy, sources, strict=True)]
        prefixes = self.encoder.prefixes[chunk.part]
        columns = []
        for side, (texts, before) in enumerate(((noisy, prefixes.source), (targets, prefixes.target[1:]))):
            usual = (self.cache.source, self.cache.target)[side]
            own = self._segmented(texts, chunk.number, changed if side == 0 else None, side=side)
            chosen = [
                before + ids
                if ids is not None and len(before) + len(ids) < self.encoder.max_tokens
                else usual[row].tolist()
                for row, ids in zip(chunk.rows.tolist(), own, strict=True)
            ]
            columns.append(flat_ids(chosen))
        return self.encoder.packed(chunk.part, pairs, *columns)

    def _segmented(
        self, texts: list[str], number: int, changed: list[bool] | None, *, side: int
    ) -> Sequence[list[int] | None]:
        """Return the tokens of one side of chunk ``number``; None where they are the usual ones.

        Args:
            texts: The sentences.
            number: Of the chunk.
            changed: Which sentences are not those of the cache; None for none.
            side: 0 for the source, 1 for the target.
        """
        tokenizer = (self.encoder.tokenizers.source, self.encoder.tokenizers.target)[side]
        if self.alpha:
            seed = int(np.random.SeedSequence([self.seed, self.epoch, number, side]).generate_state(1)[0])
            return tokenizer.encode_sampled(texts, alpha=self.alpha, seed=seed)
        if changed is None:
            return [None] * len(texts)
        encoded = iter(tokenizer.encode(list(compress(texts, changed)), threads=1))
        return [next(encoded) if one else None for one in changed]
