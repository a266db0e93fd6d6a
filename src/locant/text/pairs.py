"""Parallel text: (source, target) sentence pairs in blocks, which any process can read, as often as needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from locant.errors import DataError
from locant.files import explaining_damage, read_json, sealed, write_json
from locant.text.facts import Facts, encoded, facts_of, turned_facts

Pair = tuple[str, str]
Rows = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.integer[Any]]
"""Rows of a text of any number of pairs, in as few bytes as they take."""

_BLOCK = 8192
_CHANGED = "The text of the corpus was changed while it was being read. Begin again."


class Block(Protocol):
    """Pairs of a text that follow one another; it can be handed to another process, which reads them."""

    def read(self) -> list[Pair]:
        """Return the pairs."""


class MemoryBlock(NamedTuple):
    """A block whose pairs are in memory."""

    pairs: list[Pair]

    def read(self) -> list[Pair]:
        """Return the pairs."""
        return self.pairs


class ChangedBlock(NamedTuple):
    """Some pairs of a block, or all of them with source and target exchanged.

    Attributes:
        block: The block.
        rows: Which of its pairs, in ascending order; None for all.
        is_turned: Whether sides are exchanged.
    """

    block: Block
    rows: Rows | None = None
    is_turned: bool = False

    def read(self) -> list[Pair]:
        """Return the pairs.

        Raises:
            DataError: The block is no longer what it was.
        """
        pairs = self.block.read()
        if self.rows is not None:
            if len(self.rows) and self.rows[-1] >= len(pairs):
                raise DataError(_CHANGED)
            pairs = [pairs[row] for row in self.rows.tolist()]
        return [(target, source) for source, target in pairs] if self.is_turned else pairs


def memory_blocks(pairs: Iterable[Pair]) -> Iterator[Block]:
    """Yield pairs in blocks of some thousands."""
    iterator = iter(pairs)
    while block := list(islice(iterator, _BLOCK)):
        yield MemoryBlock(block)


@dataclass(frozen=True)
class ParallelText:
    """A counted stream of sentence pairs; every ``iter()`` reads it again from the start.

    Nothing is held in memory but a block, unless the blocks themselves are there.

    Attributes:
        open_blocks: Returns a fresh iterator over blocks of the pairs.
        sizes: How many pairs each block has.
        digest: A hash of the text; two streams with the same digest hold the same pairs in the same order.
        open_facts: Returns the facts of each block, where they are known; else they are found anew.
        folder: Where something may be kept that is found of the text; None for nowhere.
    """

    open_blocks: Callable[[], Iterator[Block]] = field(repr=False)
    sizes: Sequence[int] = field(repr=False)
    digest: str
    open_facts: Callable[[], Iterator[Facts]] | None = field(default=None, repr=False)
    folder: Path | None = None

    def __iter__(self) -> Iterator[Pair]:
        return chain.from_iterable(block.read() for block in self.open_blocks())

    def __len__(self) -> int:
        return sum(self.sizes)

    def blocks(self) -> Iterator[tuple[Block, int]]:
        """Yield the blocks, each with the number of its pairs.

        Raises:
            DataError: The text is no longer what it was.
        """
        for block, size in zip_longest(self.open_blocks(), self.sizes):
            if block is None or size is None:
                raise DataError(_CHANGED)
            yield block, size

    def facts(self) -> Iterator[Facts]:
        """Yield the facts of each block.

        Raises:
            DataError: The text is no longer what it was.
        """
        found = self.open_facts() if self.open_facts else (facts_of(block.read()) for block in self.open_blocks())
        for facts, size in zip_longest(found, self.sizes):
            if facts is None or len(facts) != size:
                raise DataError(_CHANGED)
            yield facts

    def select(self, keep: npt.NDArray[np.bool_], digest: str) -> ParallelText:
        """Return a stream of some of the pairs.

        Args:
            keep: Which; [n].
            digest: Of what is left.
        """
        shares = np.split(keep, np.cumsum(self.sizes)[:-1]) if self.sizes else []

        def blocks() -> Iterator[Block]:
            for (block, _), kept in zip(self.blocks(), shares, strict=True):
                yield ChangedBlock(block, np.flatnonzero(kept))

        def facts() -> Iterator[Facts]:
            return (found[kept] for found, kept in zip(self.facts(), shares, strict=True))

        return ParallelText(blocks, [int(kept.sum()) for kept in shares], digest, facts, self.folder)


def survey(open_blocks: Callable[[], Iterator[Block]]) -> ParallelText:
    """Read a text once, so that every mistake in it surfaces now, and return it with its sizes and digest.

    Raises:
        DataError: Whatever is wrong in the files behind the blocks.
    """
    sizes, digest = [], hashlib.sha256()
    for block in open_blocks():
        pairs = block.read()
        sizes.append(len(pairs))
        digest.update(b"\n".join([*encoded(pairs), b""]))
    return ParallelText(open_blocks, sizes, digest.hexdigest())


def hold_out(text: ParallelText, size: int) -> tuple[ParallelText, ParallelText]:
    """Split ``size`` pairs off a stream.

    The pairs with the smallest hashes are chosen: the choice depends on the text alone, needs no random numbers,
    and every copy of a chosen pair leaves the training text with it.

    Returns:
        The remaining pairs (streamed) and the held-out pairs (in memory, each once, in the order of the text).

    Raises:
        CheckpointError: What was kept of an earlier choice is damaged.
    """
    path = text.folder / f"held-out-{size}.json" if text.folder else None
    keep = np.ones(len(text), dtype=bool)
    if path and path.exists():
        kept = read_json(path)
        with explaining_damage(path):
            held = [(str(source), str(target)) for source, target in kept["pairs"]]
            keep[np.array(kept["rows"], dtype=np.int64)] = False
    else:
        smallest = np.zeros(0, dtype=np.uint64)
        hashes = []  # 8 bytes a pair
        for facts in text.facts():
            hashes.append(facts["pair"].copy())
            smallest = np.unique(np.concatenate((smallest, hashes[-1])))[:size]
        chosen: dict[Pair, None] = {}
        places, start = [np.zeros(0, dtype=np.int64)], 0
        for (block, count), found in zip(text.blocks(), hashes, strict=True):
            inside = np.flatnonzero(among(found, smallest))
            if len(inside):
                chosen.update(dict.fromkeys(ChangedBlock(block, inside).read()))
                places.append(inside + start)
            start += count
        keep[np.concatenate(places)], held = False, list(chosen)
        if path:
            write_json(path, sealed({"rows": np.flatnonzero(~keep).tolist(), "pairs": held}))
    return text.select(keep, f"{text.digest}-{size}"), in_memory(held)


def among(values: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values occur in a sorted array."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[places] == values
    return found


def count_different(text: ParallelText) -> int:
    """Return how many pairs of a text are different, in 8 bytes of memory for each pair."""
    return len(np.unique(np.concatenate([np.zeros(0, np.uint64), *(facts["pair"] for facts in text.facts())])))


def in_memory(pairs: Iterable[Pair]) -> ParallelText:
    """Return a stream over pairs that are kept in a list; for small texts."""
    kept = list(memory_blocks(pairs))
    return survey(lambda: iter(kept))


def concatenated(texts: Sequence[ParallelText]) -> ParallelText:
    """Return one stream over several texts, one after the other; a single text is returned as it is."""
    if len(texts) == 1:
        return texts[0]
    return ParallelText(
        lambda: chain.from_iterable(text.open_blocks() for text in texts),
        [size for text in texts for size in text.sizes],
        hashlib.sha256("+".join(text.digest for text in texts).encode()).hexdigest(),
        lambda: chain.from_iterable(text.facts() for text in texts),
    )


def turned(text: ParallelText) -> ParallelText:
    """Return a stream of the same pairs with source and target exchanged."""
    return replace(
        text,
        open_blocks=lambda: (ChangedBlock(block, is_turned=True) for block in text.open_blocks()),
        digest=f"{text.digest}-turned",
        open_facts=lambda: map(turned_facts, text.facts()),
    )
