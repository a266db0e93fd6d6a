"""Parallel text: (source, target) sentence pairs in blocks, and the facts by which they are cleaned and held out.

A block can be read by any process, as often as needed; nothing else of a text has to be in memory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from locant.errors import DataError
from locant.files import explaining_damage, read_json, sealed, write_json

Pair = tuple[str, str]
Rows = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.integer[Any]]
"""Rows of a text of any number of pairs, in as few bytes as they take."""

_BLOCK = 8192
_CHANGED = "The text of the corpus was changed while it was being read. Begin again."

# Scripts written without spaces (Thai, Lao, Burmese, Khmer, kana, Han): each character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_FIRST_BYTE = 0xE0
"""All of these are from U+0800 on, of which the first byte is at least this."""

FACTS = np.dtype([("pair", "<u8"), ("stripped", "<u8"), ("words", "<u4", 2), ("folded", "<u4", 2)])
"""Of a pair: 64-bit hash; the same without white space around its sides; number of words of source and of target;
CRC-32 of both, as :func:`folded` writes them."""
Facts = npt.NDArray[np.void]
"""Of n pairs; [n] of ``FACTS``."""


def split_words(text: str) -> list[str]:
    """Return the words; each character of a script without spaces is one."""
    return _WORD.findall(text)


def folded(sentence: str) -> str:
    """Return a sentence without differences of case and white space."""
    return " ".join(sentence.split()).casefold()


def utf8(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts as bytes, lone surrogates too."""
    return (text.encode("utf-8", "surrogatepass") for text in texts)


def hashes(texts: Iterable[bytes]) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each text, the same in every process and on every machine."""
    return np.frombuffer(b"".join([blake2b(text, digest_size=8).digest() for text in texts]), dtype="<u8")


def encoded(pairs: Sequence[Pair]) -> list[bytes]:
    """Return all sentences in UTF-8, source and target in turns."""
    sentences = list(chain.from_iterable(pairs))
    found = "\n".join(sentences).encode("utf-8", "surrogatepass").split(b"\n")
    # One call for all, but where a sentence has several lines.
    return found if len(found) == len(sentences) else list(utf8(sentences))


def facts_of(pairs: Sequence[Pair], data: Sequence[bytes] | None = None) -> Facts:
    """Return the facts of some pairs; ``data`` is what :func:`encoded` makes of them, where that is known."""
    data = encoded(pairs) if data is None else data
    sentences = list(chain.from_iterable(pairs))
    lines = "".join([" ".join(sentence.split()) + "\n" for sentence in sentences])
    letters = np.frombuffer(lines.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    spaces = np.searchsorted(np.flatnonzero(letters == ord(" ")), ends)
    words = np.diff(spaces, prepend=0) + (np.diff(ends, prepend=-1) > 1)
    for row in np.unique(np.searchsorted(ends, np.flatnonzero(letters >= _FIRST_BYTE))).tolist():
        if _UNSPACED_CHARACTER.search(sentences[row]):
            words[row] = len(split_words(sentences[row]))
    found = np.empty(len(pairs), FACTS)
    found["words"] = words.reshape(-1, 2)
    plain = lines.casefold().encode("utf-8", "surrogatepass").split(b"\n")
    found["folded"] = np.fromiter(map(crc32, plain), np.uint32, len(sentences)).reshape(-1, 2)
    found["pair"] = found["stripped"] = hashes(map(b"\n".join, zip(data[::2], data[1::2], strict=True)))
    bare = [(source.strip(), target.strip()) for source, target in pairs]
    rows = [row for row, (pair, other) in enumerate(zip(pairs, bare, strict=True)) if pair != other]
    found["stripped"][rows] = hashes(utf8("\n".join(bare[row]) for row in rows))
    return found


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
    """Some pairs of a block, in ascending order, or all; with source and target exchanged where it is turned."""

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

    Attributes:
        open_blocks: Returns a fresh iterator over blocks of the pairs.
        sizes: How many pairs each block has.
        digest: A hash of the text; two streams with the same digest hold the same pairs in the same order.
        open_facts: Returns the facts of each block.
        folder: Where something may be kept that is found of the text; None for nowhere.
    """

    open_blocks: Callable[[], Iterator[Block]] = field(repr=False)
    sizes: Sequence[int] = field(repr=False)
    digest: str
    open_facts: Callable[[], Iterator[Facts]] = field(repr=False)
    folder: Path | None = None

    def __iter__(self) -> Iterator[Pair]:
        return chain.from_iterable(block.read() for block in self.open_blocks())

    def __len__(self) -> int:
        return sum(self.sizes)

    def blocks(self) -> Iterator[tuple[Block, Facts]]:
        """Yield the blocks, each with the facts of its pairs.

        Raises:
            DataError: The text is no longer what it was.
        """
        for block, facts, size in zip_longest(self.open_blocks(), self.open_facts(), self.sizes):
            if block is None or facts is None or len(facts) != size:
                raise DataError(_CHANGED)
            yield block, facts

    def telling(self, tell: Callable[[float], None], readings: int = 1) -> ParallelText:
        """Return the same stream, which tells after each block how much of that many readings is done, 0 to 1."""
        seen, whole = 0, max(1, readings * len(self))

        def blocks() -> Iterator[Block]:
            nonlocal seen
            for number, block in enumerate(self.open_blocks()):
                yield block
                seen += self.sizes[number] if number < len(self.sizes) else 0
                tell(min(1.0, seen / whole))

        return replace(self, open_blocks=blocks)

    def select(self, keep: npt.NDArray[np.bool_], digest: str) -> ParallelText:
        """Return a stream of some of the pairs: those that ``keep`` tells, [n], of which ``digest`` is the hash."""
        shares = np.split(keep, np.cumsum(self.sizes)[:-1]) if self.sizes else []

        def blocks() -> Iterator[Block]:
            for block, kept in zip_longest(self.open_blocks(), shares):
                if block is None or kept is None:
                    raise DataError(_CHANGED)
                yield ChangedBlock(block, np.flatnonzero(kept))

        def facts() -> Iterator[Facts]:
            return (found[kept] for found, kept in zip(self.open_facts(), shares, strict=False))

        return ParallelText(blocks, [int(kept.sum()) for kept in shares], digest, facts, self.folder)


def survey(open_blocks: Callable[[], Iterator[Block]]) -> ParallelText:
    """Read a text once, so that every mistake in it surfaces now, and return it with its sizes and digest.

    Its facts are found when they are first asked for, and kept.

    Raises:
        DataError: Whatever is wrong in the files behind the blocks.
    """
    sizes, digest, known = [], hashlib.sha256(), list[Facts]()
    for block in open_blocks():
        pairs = block.read()
        sizes.append(len(pairs))
        digest.update(b"\n".join([*encoded(pairs), b""]))

    def facts() -> Iterator[Facts]:
        if len(known) < len(sizes):
            known[:] = [facts_of(block.read()) for block in open_blocks()]
        return iter(known)

    return ParallelText(open_blocks, sizes, digest.hexdigest(), facts)


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
        for facts in text.open_facts():
            smallest = np.unique(np.concatenate((smallest, facts["pair"])))[:size]
        found: list[Pair] = []
        start = 0
        for block, facts in text.blocks():
            inside = np.flatnonzero(among(facts["pair"], smallest))
            if len(inside):
                found += ChangedBlock(block, inside).read()
                keep[inside + start] = False
            start += len(facts)
        held = list(dict.fromkeys(found))
        if path:
            write_json(path, sealed({"rows": np.flatnonzero(~keep).tolist(), "pairs": held}))
    return text.select(keep, f"{text.digest}-{size}"), in_memory(held)


def among(values: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values occur in a sorted array."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values
    return found


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
        lambda: chain.from_iterable(text.open_facts() for text in texts),
    )


def turned(text: ParallelText) -> ParallelText:
    """Return a stream of the same pairs with source and target exchanged; equal pairs still have equal hashes."""

    def facts() -> Iterator[Facts]:
        for found in map(np.copy, text.open_facts()):
            for name in ("words", "folded"):
                found[name] = found[name][:, ::-1].copy()
            yield found

    return replace(
        text,
        open_blocks=lambda: (ChangedBlock(block, is_turned=True) for block in text.open_blocks()),
        digest=f"{text.digest}-turned",
        open_facts=facts,
    )
