"""Parallel text: a stream of (source, target) sentence pairs that can be read as often as needed."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Pair = tuple[str, str]
Rows = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.integer[Any]]
"""Rows of a text of any number of pairs, in as few bytes as they take."""

_BLOCK = 8192


class Block(Protocol):
    """Pairs of a text that follow one another; it can be handed to another process."""

    def __len__(self) -> int: ...

    def read(self, rows: Rows | None = None) -> list[Pair]:
        """Return the pairs, or some of them.

        Args:
            rows: Their indices in the block, in ascending order.
        """

    def column(self, name: str) -> npt.NDArray[Any] | None:
        """Return numbers that were found when the text was read, see :mod:`locant.text.store`; None without such."""

    def turned(self) -> Block:
        """Return the same pairs with source and target exchanged."""


@dataclass(frozen=True)
class MemoryBlock:
    """A block whose pairs are in memory."""

    pairs: list[Pair]

    def __len__(self) -> int:
        return len(self.pairs)

    def read(self, rows: Rows | None = None) -> list[Pair]:
        """Return the pairs, or some of them."""
        return self.pairs if rows is None else [self.pairs[row] for row in rows.tolist()]

    def column(self, name: str) -> None:
        """Return None: nothing is known of the pairs."""

    def turned(self) -> MemoryBlock:
        """Return the same pairs with source and target exchanged."""
        return MemoryBlock([(target, source) for source, target in self.pairs])


def memory_blocks(pairs: Iterable[Pair]) -> Iterator[Block]:
    """Yield pairs in blocks of some thousands."""
    iterator = iter(pairs)
    while block := list(islice(iterator, _BLOCK)):
        yield MemoryBlock(block)


@dataclass(frozen=True)
class ParallelText:
    """A counted stream of sentence pairs; every ``iter()`` reads it again from the start.

    Nothing is held in memory unless ``open`` itself returns an iterator over a list.

    Attributes:
        open: Returns a fresh iterator over the (source, target) pairs.
        count: The number of pairs.
        digest: A hash of the text; two streams with the same digest hold the same pairs in the same order.
        open_blocks: Returns a fresh iterator over blocks of the same pairs, where these can be read by themselves.
        release: Removes what is on disk of the text besides its files, which are then read again where it is needed.
    """

    open: Callable[[], Iterator[Pair]] = field(repr=False)
    count: int
    digest: str
    open_blocks: Callable[[], Iterator[Block]] | None = field(default=None, repr=False)
    release: Callable[[], None] | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Pair]:
        return self.open()

    def __len__(self) -> int:
        return self.count

    def blocks(self) -> Iterator[Block]:
        """Yield the pairs in blocks."""
        return self.open_blocks() if self.open_blocks else memory_blocks(self)


def hash64(text: str) -> int:
    """Return a 64-bit hash of a text, the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def hash_pair(pair: Pair) -> int:
    """Return a 64-bit hash of a sentence pair."""
    return hash64(f"{pair[0]}\n{pair[1]}")


def survey(open_pairs: Callable[[], Iterator[Pair]]) -> ParallelText:
    """Read a stream once, so that every mistake in it surfaces now, and return it with its count and digest.

    Raises:
        DataError: Whatever is wrong in the files behind the stream.
    """
    count, digest = 0, hashlib.sha256()
    for source, target in open_pairs():
        count += 1
        digest.update(f"{source}\n{target}\n".encode("utf-8", "surrogatepass"))
    return ParallelText(open_pairs, count, digest.hexdigest())


def hold_out(text: ParallelText, size: int) -> tuple[ParallelText, ParallelText]:
    """Split ``size`` pairs off a stream.

    The pairs with the smallest hashes are chosen: the choice depends on the text alone, needs no random numbers,
    and every copy of a chosen pair leaves the training text with it.

    Returns:
        The remaining pairs (streamed) and the held-out pairs (in memory, each once, in the order of the text).
    """
    chosen = _smallest(map(hash_pair, text), size)
    held: dict[int, Pair] = {}
    removed = 0
    for pair in text:
        key = hash_pair(pair)
        if key in chosen:
            held.setdefault(key, pair)
            removed += 1

    def rest() -> Iterator[Pair]:
        return (pair for pair in text if hash_pair(pair) not in chosen)

    return ParallelText(rest, text.count - removed, f"{text.digest}-{size}"), in_memory(held.values())


def count_different(text: ParallelText) -> int:
    """Return how many pairs of a text are different, in 8 bytes of memory for each pair."""
    return len(np.unique(np.fromiter(map(hash_pair, text), np.uint64, len(text))))


def in_memory(pairs: Iterable[Pair]) -> ParallelText:
    """Return a stream over pairs that are kept in a list; for small texts."""
    kept = list(pairs)
    return survey(lambda: iter(kept))


def concatenated(texts: Sequence[ParallelText]) -> ParallelText:
    """Return one stream over several texts, one after the other; a single text is returned as it is."""
    if len(texts) == 1:
        return texts[0]
    digest = hashlib.sha256("+".join(text.digest for text in texts).encode()).hexdigest()
    return ParallelText(
        lambda: chain.from_iterable(texts),
        sum(map(len, texts)),
        digest,
        lambda: chain.from_iterable(text.blocks() for text in texts),
    )


def turned(text: ParallelText) -> ParallelText:
    """Return a stream of the same pairs with source and target exchanged."""
    return ParallelText(
        lambda: ((target, source) for source, target in text),
        text.count,
        f"{text.digest}-turned",
        lambda: (block.turned() for block in text.blocks()),
        text.release,
    )


def _smallest(values: Iterable[int], size: int) -> set[int]:
    """Return the ``size`` smallest distinct values, holding no more than that many at a time."""
    heap: list[int] = []  # negated, so that the root is the largest value held
    held: set[int] = set()
    for value in values:
        if value in held:
            continue
        if len(heap) < size:
            heapq.heappush(heap, -value)
            held.add(value)
        elif value < -heap[0]:
            held.discard(-heapq.heapreplace(heap, -value))
            held.add(value)
    return held
