"""Batches: sentences of similar length together, up to a budget of tokens, the same in every run with the same seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from locant.errors import ConfigError
from locant.settings import Settings
from locant.text.cache import Column, TokenCache
from locant.text.epochs import StagePlace, TrainingEpochs
from locant.text.links import TokenLinks
from locant.text.tokenizer import EOS, PAD

T = TypeVar("T")


def prefetch(
    items: Iterable[T], depth: int = 4, interrupt: Callable[[], None] = lambda: None
) -> Generator[T, None, None]:
    """Yield the items of an iterable that a background thread reads ahead.

    An exception in the iterable is raised here, after the items before it. When the consumer stops early (``close``,
    ``break`` followed by garbage collection, an exception), the thread ends.

    Args:
        items: Read in the background thread only.
        depth: How many items may wait.
        interrupt: Called when the consumer stops early; ends what the iterable waits for, which may never come.
    """
    iterator, end, reader = iter(items), object(), ThreadPoolExecutor(1, "locant-prefetch")
    try:
        ahead = deque(reader.submit(next, iterator, end) for _ in range(depth))
        while (item := ahead.popleft().result()) is not end:
            ahead.append(reader.submit(next, iterator, end))
            yield cast(T, item)
    finally:
        interrupt()
        reader.shutdown(cancel_futures=True)
        # Not when it happens to be forgotten, which may be after another stream began.
        if isinstance(items, Generator):
            items.close()


Lengths = npt.NDArray[np.integer[Any]]
Indices = npt.NDArray[np.int64]


class BatchSettings(Settings):
    """How sentence pairs are grouped.

    Attributes:
        tokens: The most tokens of a batch on either side, padding and EOS included: rows times columns.
        max_sentences: The most pairs of a batch, or None for as many as fit.
        pool: How many pairs, drawn at random, are sorted by length together; the larger, the less padding and the
            less random the batches. A corpus that is not larger is sorted as a whole.
    """

    tokens: int = Field(default=4096, ge=1)
    max_sentences: int | None = Field(default=None, ge=1)
    pool: int = Field(default=1_000_000, ge=1)


@dataclass(frozen=True)
class Batch:
    """B sentence pairs, padded on the right with ``PAD``; on one device.

    Attributes:
        source: Source ids followed by ``EOS``, with language tokens where the model has some; [B, S] int64.
        source_lengths: Without padding, with EOS; [B] int64.
        target_input: What the decoder reads, ``BOS`` (or what starts the decoder of a model with language tokens)
            followed by the target ids; [B, T] int64.
        target_output: What it should predict, the target ids followed by ``EOS``; [B, T] int64.
        target_lengths: Without padding, of input and output alike; [B] int64.
        source_tokens: The sum of ``source_lengths``.
        target_tokens: The sum of ``target_lengths``.
        links: Where the text has been aligned, the tokens that belong together, [N, 3] int64: row, column of the target
            token in ``target_input`` and column of the source token in ``source``.
    """

    source: torch.Tensor
    source_lengths: torch.Tensor
    target_input: torch.Tensor
    target_output: torch.Tensor
    target_lengths: torch.Tensor
    source_tokens: int
    target_tokens: int
    links: torch.Tensor | None = None

    def __len__(self) -> int:
        return self.source.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on a device."""
        moved: dict[str, Any] = {
            field.name: value.to(device)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), torch.Tensor)
        }
        return replace(self, **moved)


def plan_batches(
    source_lengths: Lengths, target_lengths: Lengths, settings: BatchSettings, *, seed: int, epoch: int
) -> Iterator[Indices]:
    """Group pairs into batches of similar length, in random order.

    Pairs are drawn at random into pools, which are planned one after the other; beside a pool the plan holds four bytes
    for each pair. The pairs of a pool are sorted by target length and divided into slabs; each slab is sorted by source
    length (upwards and downwards in turn, so that neighbours stay alike where slabs meet), pairs of equal lengths in
    random order. With about as many slabs as batches in each, neither side carries much padding. The sorted pairs are
    cut where the budget is full, and the batches of the pool are shuffled.

    Args:
        source_lengths: Tokens of each source sentence without EOS; [N].
        target_lengths: The same for the targets; [N].
        settings: The budget.
        seed: Any non-negative integer.
        epoch: Counted from 0; each epoch has its own order.

    Yields:
        The indices of each batch; every index from 0 to N - 1 occurs exactly once.

    Raises:
        ConfigError: A single pair exceeds the budget.
    """
    rng, most = np.random.default_rng([seed, epoch]), settings.max_sentences or settings.tokens
    count = len(source_lengths)
    longest = int(max(source_lengths.max(initial=0), target_lengths.max(initial=0))) + 1
    if longest > settings.tokens:
        raise ConfigError(
            f"The batch budget is {settings.tokens} tokens, but the longest sentence alone has {longest}. "
            "Raise the number of tokens of a batch, or drop long sentences with a smaller limit."
        )
    shuffled = np.arange(count, dtype=np.uint32 if count < 1 << 32 else np.int64)
    rng.shuffle(shuffled)
    for start in range(0, count, settings.pool):
        pool = shuffled[start : start + settings.pool].astype(np.int64)
        source, target = (lengths[pool].astype(np.int64) + 1 for lengths in (source_lengths, target_lengths))
        order = np.lexsort((source, target))
        cells = np.cumsum(np.maximum(source, target)[order])
        # The square root gives slabs of as many batches as there are slabs; half as many again measured best.
        slabs = max(1, round(1.5 * float(cells[-1] / settings.tokens) ** 0.5))
        slab = (cells - 1) * slabs // cells[-1]
        zigzag = np.where(slab % 2, -source[order], source[order])
        order = order[np.lexsort((target[order], zigzag, slab))]
        lengths, place, batches = np.maximum(source, target)[order], 0, []
        while place < len(order):
            columns = lengths[place : place + min(most, settings.tokens // int(lengths[place]))]
            filled = np.maximum.accumulate(columns) * np.arange(1, len(columns) + 1)
            # Cells grow with every row, so those that fit come first; one row always does.
            rows = int(np.searchsorted(filled, settings.tokens, side="right"))
            batches.append(pool[order[place : place + rows]])
            place += rows
        for index in rng.permutation(len(batches)):
            yield batches[index]


def summarize_plan(
    source_lengths: Lengths, target_lengths: Lengths, settings: BatchSettings, *, seed: int, epoch: int
) -> tuple[int, tuple[float, float]]:
    """Return how many batches :func:`plan_batches` gives, and their :func:`padding_waste`.

    Both are estimated from the first pool where there are several.
    """
    plan: list[Indices] = []
    rows = 0
    for batch in plan_batches(source_lengths, target_lengths, settings, seed=seed, epoch=epoch):
        plan.append(batch)
        rows += len(batch)
        if rows == settings.pool:
            break
    batches = round(len(plan) * len(source_lengths) / max(1, rows))
    return batches, padding_waste(plan, source_lengths, target_lengths)


def padding_waste(plan: list[Indices], source_lengths: Lengths, target_lengths: Lengths) -> tuple[float, float]:
    """Return the share of padding among all cells of the batches (0 to 1), for the source and the target side."""

    def waste(lengths: Lengths) -> float:
        used = sum(int(lengths[batch].sum()) + len(batch) for batch in plan)
        cells = sum((int(lengths[batch].max()) + 1) * len(batch) for batch in plan)
        return 1 - used / cells

    return waste(source_lengths), waste(target_lengths)


def decoder_input(target_output: Indices, start: int) -> Indices:
    """Return what the decoder reads in training: the right target, one token later (teacher forcing).

    Args:
        target_output: Target ids, each row closed by ``EOS`` and padded with ``PAD``; [B, T] int64.
        start: The id that it reads first.

    Example:
        >>> decoder_input(np.array([[8, 9, EOS, PAD]]), 2).tolist()
        [[2, 8, 9, 0]]
    """
    target_input = np.full_like(target_output, start)
    read = target_input[:, 1:]
    read[...] = target_output[:, :-1]
    read[read == EOS] = PAD  # No other EOS: encoded text never contains the special ids.
    return target_input


def collate(cache: TokenCache, indices: Indices, links: TokenLinks | None = None) -> Batch:
    """Build the batch of some pairs of a text, or of a selection of them, with the links of the whole text.

    No pairs give tensors without rows.
    """
    source, source_lengths = _padded(cache.source, indices)
    target, target_lengths = _padded(cache.target, indices)
    return Batch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target_input=torch.from_numpy(decoder_input(target, cache.decoder_start)),
        target_output=torch.from_numpy(target),
        target_lengths=torch.from_numpy(target_lengths),
        source_tokens=int(source_lengths.sum()),
        target_tokens=int(target_lengths.sum()),
        # The decoder reads something before the first token.
        links=None if links is None else torch.from_numpy(links.of(cache.whole_rows(indices)) + np.array([0, 1, 0])),
    )


class BatchStream:
    """An endless stream of batches, epoch after epoch, that can start anywhere.

    The stream depends on the text, the settings and the seed alone, so a resumed run sees exactly the batches that an
    uninterrupted one would have seen. With several processes every batch is dealt out row by row: together they see
    the same batches as a single process would. A batch with fewer rows than processes leaves some of them a batch
    without rows.

    Args:
        epochs: The tokens of each epoch.
        settings: The size of the batches (of all processes together).
        seed: Any non-negative integer.
        rank: The number of this process, from 0.
        world_size: The number of processes.
        links: Of the text, where the batches should have them; its tokens are the same in every epoch then.
    """

    def __init__(
        self,
        epochs: TrainingEpochs,
        settings: BatchSettings,
        *,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        links: TokenLinks | None = None,
    ) -> None:
        self._epochs, self._settings, self._seed, self._links = epochs, settings, seed, links
        self._rank, self._world_size = rank, world_size

    def start(
        self, epoch: int = 0, index: int = 0, stage: StagePlace | None = None
    ) -> Generator[tuple[int, int, Batch], None, None]:
        """Yield (epoch, index in the epoch, batch) from a place on, without end.

        After the batch (epoch, index) a run resumes with ``start(epoch, index + 1)``, also where that is the end of
        the epoch.

        Args:
            epoch: Counted from 0, over all stages.
            index: Of the first batch in that epoch.
            stage: Of the corpus, where it has several; all epochs from here on are of it.
        """
        self._epochs.open()
        return self._batches(epoch, index, stage or StagePlace())

    def interrupt(self) -> None:
        """End what a stream waits for, in whatever thread it is read; it ends with an error then."""
        self._epochs.interrupt()

    def _batches(self, epoch: int, index: int, stage: StagePlace) -> Generator[tuple[int, int, Batch], None, None]:
        while True:
            cache = self._epochs(epoch, stage)
            lengths = cache.source.lengths, cache.target.lengths
            plan = plan_batches(*lengths, self._settings, seed=self._seed, epoch=epoch)
            for number, rows in enumerate(islice(plan, index, None), start=index):
                yield epoch, number, collate(cache, rows[self._rank :: self._world_size], self._links)
            epoch, index = epoch + 1, 0
            del cache, lengths, plan  # before those of the next epoch are made


def _padded(column: Column, indices: Indices) -> tuple[Indices, Indices]:
    """Return the ids of some sentences, each followed by EOS and padding, [B, L], and their lengths with EOS, [B]."""
    lengths = column.lengths[indices].astype(np.int64)
    padded = np.full((len(indices), int(lengths.max(initial=0)) + 1), PAD, dtype=np.int64)
    rows = np.repeat(np.arange(len(indices)), lengths)
    columns = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    padded[rows, columns] = column.tokens[np.repeat(column.offsets(indices), lengths) + columns]
    padded[np.arange(len(indices)), lengths] = EOS
    return padded, lengths + 1
