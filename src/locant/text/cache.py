"""Tokenised text on disk: written once, then mapped into memory, so that ten million pairs need little of it.

A cache is a folder with, for each side, the token ids of all sentences one after the other (``*.tokens.bin``, uint16
or uint32) and the places where sentences begin (``*.offsets.bin``, int64, one more than there are sentences). The pairs
of the parts of a corpus follow one another, and ``cache.json`` says how many each part has. With
subword sampling it holds the text as well (``*.text.bin``, UTF-8, with offsets), from which each epoch is tokenised
anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError, DataError
from locant.files import read_json, replacing_folder, write_json
from locant.text.pairs import Pair
from locant.text.tokenizer import PLAIN, Prefixes, TokenizerPair

# Changing it changes what subword sampling draws: a chunk is sampled with one seed.
_CHUNK = 8192

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Rows = npt.NDArray[np.int64]


class TextPart(NamedTuple):
    """Text of one part of a corpus.

    Attributes:
        pairs: Sentence pairs, streamed.
        prefixes: What stands before the tokens of a sentence, as :meth:`TokenizerPair.prefixes` says.
    """

    pairs: Iterable[Pair]
    prefixes: Prefixes = PLAIN


class CachePart(NamedTuple):
    """Rows of one part of a corpus in a cache.

    Attributes:
        pairs: How many there are.
        dropped: How many pairs were left out because a side had too many tokens.
        prefixes: What stands before the tokens of each sentence. The rows hold it but for the id that the decoder
            reads first.
    """

    pairs: int
    dropped: int
    prefixes: Prefixes


class Chunk(NamedTuple):
    """Some pairs of one part with the ids of their source and target sentences."""

    part: int
    pairs: list[Pair]
    sources: list[list[int]]
    targets: list[list[int]]


@dataclass(frozen=True)
class Column:
    """One side of a cache: sentence ``i`` is ``tokens[offsets[i] : offsets[i] + lengths[i]]``.

    Attributes:
        tokens: All ids, [N] uint16 or uint32, mapped from disk.
        offsets: Where each sentence begins; [pairs] int64.
        lengths: The number of ids of each sentence, without BOS and EOS; [pairs] int32.
    """

    tokens: Tokens
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]

    @classmethod
    def open(cls, folder: Path, name: str, dtype: str, count: int) -> Column:
        """Map one side of a cache from disk."""
        offsets = _map(folder / f"{name}.offsets.bin", np.dtype(np.int64), count + 1)
        tokens: Tokens = _map(folder / f"{name}.tokens.bin", np.dtype(dtype), int(offsets[-1]))
        return cls(tokens, offsets[:-1], np.diff(offsets).astype(np.int32))

    def __getitem__(self, index: int) -> Tokens:
        return self.tokens[self.offsets[index] : self.offsets[index] + self.lengths[index]]

    def select(self, rows: Rows) -> Column:
        """Return some of the sentences, each as often as it is named."""
        return Column(self.tokens, self.offsets[rows], self.lengths[rows])


class TokenCache:
    """A tokenised parallel text, mapped from disk; language tokens stand in their places in its rows.

    Args:
        folder: What :func:`write_cache` wrote.

    Attributes:
        folder: The same.
        source: The source side.
        target: The target side.
        parts: The rows of the parts of the corpus, which follow one another.
        max_tokens: The most tokens a side may have, EOS included.

    Raises:
        CheckpointError: The folder is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        about = read_json(folder / "cache.json")
        self._count: int = about["pairs"]
        self.max_tokens: int = about["max_tokens"]
        self.parts = tuple(
            CachePart(part["pairs"], part["dropped"], Prefixes(**part["prefixes"]) if "prefixes" in part else PLAIN)
            for part in about.get("parts", [about])  # earlier versions wrote caches of a single part
        )
        self.source = Column.open(folder, "source", about["source_dtype"], self._count)
        self.target = Column.open(folder, "target", about["target_dtype"], self._count)
        self._rows: Rows | None = None

    def __len__(self) -> int:
        return len(self.source.lengths)

    def select(self, rows: Rows) -> TokenCache:
        """Return some of the pairs, each as often as it is named, without copying their tokens.

        Args:
            rows: Indices of pairs in ascending order, so that parts stay together; [M] int64.
        """
        selected = copy(self)
        selected.source, selected.target = self.source.select(rows), self.target.select(rows)
        bounds = np.searchsorted(rows, np.cumsum([0, *(part.pairs for part in self.parts)]))
        selected.parts = tuple(
            part._replace(pairs=int(count)) for part, count in zip(self.parts, np.diff(bounds), strict=True)
        )
        selected._rows = rows if self._rows is None else self._rows[rows]
        return selected

    @property
    def dropped(self) -> int:
        """How many pairs were left out because a side had too many tokens."""
        return sum(part.dropped for part in self.parts)

    @property
    def decoder_start(self) -> int:
        """The id that the decoder reads first."""
        return self.parts[0].prefixes.target[0]

    def pairs(self) -> Iterator[Pair]:
        """Yield the text of the pairs; only of a cache written with ``keep_text``."""
        columns = []
        for side in ("source", "target"):
            offsets = _map(self.folder / f"{side}.text.offsets.bin", np.dtype(np.int64), self._count + 1)
            columns.append((offsets, _map(self.folder / f"{side}.text.bin", np.dtype(np.uint8), int(offsets[-1]))))
        for number in range(self._count) if self._rows is None else self._rows.tolist():
            source, target = (bytes(text[offsets[number] : offsets[number + 1]]) for offsets, text in columns)
            yield source.decode("utf-8"), target.decode("utf-8")


def write_cache(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    keep_text: bool = False,
    prefixes: Prefixes = PLAIN,
) -> TokenCache:
    """Tokenise the pairs of a corpus of one part into a new cache; see :func:`write_parts`."""
    parts = [TextPart(pairs, prefixes)]
    return write_parts(parts, tokenizers, folder, max_tokens=max_tokens, keep_text=keep_text)


def write_parts(
    parts: Sequence[TextPart], tokenizers: TokenizerPair, folder: Path, *, max_tokens: int, keep_text: bool = False
) -> TokenCache:
    """Tokenise the parts of a corpus into a new cache; one that is already there is replaced.

    Args:
        parts: One or more.
        tokenizers: For both languages.
        folder: Where the cache goes; it appears only when it is complete.
        max_tokens: The most tokens a side may have, EOS and language tokens included; longer pairs are dropped and
            counted.
        keep_text: Store the text too, for :class:`SampledEpochs`.

    Raises:
        DataError: No pair is left.
        CheckpointError: The disk is full or not writable.
    """

    def encoded() -> Iterator[Chunk]:
        for part, (text, prefixes) in enumerate(parts):
            for chunk in chunks(text):
                sources = tokenizers.source.encode([source for source, _ in chunk])
                targets = tokenizers.target.encode([target for _, target in chunk])
                yield Chunk(part, chunk, after(prefixes.source, sources), after(prefixes.target[1:], targets))

    prefixes = [part.prefixes for part in parts]
    return write_chunks(encoded(), prefixes, tokenizers, folder, max_tokens=max_tokens, keep_text=keep_text)


def write_chunks(
    encoded: Iterable[Chunk],
    prefixes: list[Prefixes],
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    keep_text: bool,
) -> TokenCache:
    """Write chunks, which come part by part, into a new cache."""
    dtypes = [np.uint16 if side.vocab_size <= 1 << 16 else np.uint32 for side in (tokenizers.source, tokenizers.target)]
    counts, dropped = [0] * len(prefixes), [0] * len(prefixes)
    shutil.rmtree(folder, ignore_errors=True)
    with replacing_folder(folder) as temporary:
        with ExitStack() as stack:

            def writer(name: str, dtype: type[np.generic]) -> _Writer:
                return stack.enter_context(_Writer(temporary, name, dtype))

            ids = [writer("source.tokens", dtypes[0]), writer("target.tokens", dtypes[1])]
            text = [writer("source.text", np.uint8), writer("target.text", np.uint8)] if keep_text else []
            for part, pairs, sources, targets in encoded:
                kept = [
                    index
                    for index, (source, target) in enumerate(zip(sources, targets, strict=True))
                    if max(len(source), len(target)) < max_tokens
                ]
                counts[part] += len(kept)
                dropped[part] += len(pairs) - len(kept)
                for column, sentences in zip(ids, (sources, targets), strict=True):
                    column.append([sentences[index] for index in kept])
                for side, column in enumerate(text):
                    column.append([pairs[index][side].encode("utf-8") for index in kept])
        if not sum(counts):
            raise DataError(
                f"All {sum(dropped)} pairs have {max_tokens} tokens or more on a side, so nothing is left. "
                "Allow more tokens, or use a larger vocabulary."
            )
        parts = zip(counts, dropped, prefixes, strict=True)
        about = {
            "pairs": sum(counts),
            "parts": [{"pairs": count, "dropped": lost, "prefixes": before._asdict()} for count, lost, before in parts],
            "max_tokens": max_tokens,
            "source_dtype": np.dtype(dtypes[0]).name,
            "target_dtype": np.dtype(dtypes[1]).name,
        }
        write_json(temporary / "cache.json", about)
    return TokenCache(folder)


def after(prefix: list[int], sentences: list[list[int]]) -> list[list[int]]:
    """Return sentences with a prefix before each."""
    return [prefix + ids for ids in sentences] if prefix else sentences


class _Writer:
    """Appends sequences to a flat file and the places where they begin to another."""

    def __init__(self, folder: Path, name: str, dtype: type[np.generic]) -> None:
        self._dtype = dtype
        self._values = (folder / f"{name}.bin").open("wb")
        self._offsets = (folder / f"{name.removesuffix('.tokens')}.offsets.bin").open("wb")
        self._end = 0
        np.zeros(1, dtype=np.int64).tofile(self._offsets)

    def append(self, sequences: list[list[int]] | list[bytes]) -> None:
        lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        flat = np.fromiter(chain.from_iterable(sequences), self._dtype, int(lengths.sum()))
        flat.tofile(self._values)
        (self._end + np.cumsum(lengths)).tofile(self._offsets)
        self._end += len(flat)

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self._values.close()
        self._offsets.close()


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield pairs by the thousands, which are tokenised together."""
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


def _map(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"The token cache file {path} cannot be read: {error.strerror}.") from None
    if size != count * dtype.itemsize:
        raise CheckpointError(f"The token cache file {path} is damaged: {size} bytes, not {count * dtype.itemsize}.")
    # An empty file cannot be mapped.
    return np.memmap(path, dtype=dtype, mode="r", shape=(count,)) if count else np.zeros(0, dtype)
