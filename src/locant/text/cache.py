"""Tokenised text on disk: written once, then mapped into memory, so that ten million pairs need little of it.

A cache is a folder with, for each side, the token ids of all sentences one after the other (``*.tokens.bin``, uint16
or uint32), the places where sentences begin (``*.offsets.bin``, int64, one more than there are sentences) and their
lengths (``*.lengths.bin``, int32). The pairs of the parts of a corpus follow one another, and ``cache.json`` says how
many each part has. With subword sampling it holds the text as well (``*.text.bin``, UTF-8, with offsets), from which
each epoch is tokenised anew. Tokens and text have checksums (see :mod:`locant.text.checksums`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError
from locant.files import explaining_damage, read_json
from locant.text.checksums import CheckedNumbers, mapped
from locant.text.encoding import Lengths, Tokens
from locant.text.pairs import Pair, RowNumbers, Rows
from locant.text.tokenizer_pair import PLAIN, Prefixes

# Changing it changes what subword sampling draws: a chunk is sampled with one seed.
_CHUNK = 8192

_TAKEN = 1 << 16
SIDES = ("source", "target")


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


@dataclass(frozen=True)
class Column:
    """One side of a cache, or of some of its rows.

    Attributes:
        tokens: All ids, [N] uint16 or uint32, mapped from disk and checked when they are read.
        all_offsets: Where each sentence of the cache begins in them, mapped from disk; int64.
        lengths: The number of ids of each sentence, without BOS and EOS; [pairs] int32.
        path: The file of the ids.
        vocabulary: How many ids there are; None where that is not known.
        rows: Which sentences of the cache these are; None for all.
    """

    tokens: CheckedNumbers
    all_offsets: npt.NDArray[np.int64]
    lengths: Lengths
    path: Path
    vocabulary: int | None = None
    rows: npt.NDArray[np.integer[Any]] | None = None

    def offsets(self, indices: npt.NDArray[np.integer[Any]] | slice | int) -> npt.NDArray[np.int64]:
        """Return where some sentences begin."""
        return self.all_offsets[indices if self.rows is None else self.rows[indices]]

    @classmethod
    def open(cls, folder: Path, name: str, dtype: np.dtype[Any], count: int, vocabulary: int | None) -> Column:
        """Map one side of a cache from disk.

        Raises:
            CheckpointError: A file is missing or damaged; the ids themselves are not looked at.
        """
        offsets = mapped(folder / f"{name}.offsets.bin", np.int64, count + 1)
        path, known = folder / f"{name}.tokens.bin", folder / f"{name}.lengths.bin"
        tokens = CheckedNumbers(path, mapped(path, dtype, int(offsets[-1])))
        # Earlier versions left the lengths to be computed.
        lengths = mapped(known, np.int32, count) if known.exists() else np.diff(offsets).astype(np.int32)
        for start in range(0, count, _TAKEN):
            end = min(count, start + _TAKEN)
            if lengths[start:end].min() < 0 or (np.diff(offsets[start : end + 1]) != lengths[start:end]).any():
                raise CheckpointError(
                    f"The token cache {folder} is damaged: its {name} sentences overlap or have gaps."
                )
        if offsets[0]:
            raise CheckpointError(f"The token cache {folder} is damaged: its {name} sentences begin at {offsets[0]}.")
        return cls(tokens, offsets[:-1], lengths, path, vocabulary)

    def __getitem__(self, index: int) -> Tokens:
        start = int(self.offsets(index))
        ids: Tokens = self.tokens[start : start + int(self.lengths[index])]
        return ids

    def select(self, rows: RowNumbers) -> Column:
        """Return some of the sentences, each as often as it is named."""
        return replace(self, lengths=_taken(self.lengths, rows), rows=rows if self.rows is None else self.rows[rows])


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
        path = folder / "cache.json"
        about = read_json(path)
        with explaining_damage(path):
            self._count = _natural(about["pairs"])
            self.max_tokens = _natural(about["max_tokens"])
            self.parts = tuple(
                CachePart(
                    _natural(part["pairs"]),
                    _natural(part["dropped"]),
                    _prefixes(part["prefixes"]) if "prefixes" in part else PLAIN,
                )
                for part in about.get("parts", [about])  # earlier versions wrote caches of a single part
            )
            kinds = [np.dtype({"uint16": np.uint16, "uint32": np.uint32}[about[f"{side}_dtype"]]) for side in SIDES]
            if sum(part.pairs for part in self.parts) != self._count:
                raise ValueError("its parts do not have as many pairs as it has")
            # Earlier versions did not say how many ids there are.
            sizes = [_natural(about[key]) if (key := f"{side}_vocabulary") in about else None for side in SIDES]
        self.source = Column.open(folder, "source", kinds[0], self._count, sizes[0])
        self.target = Column.open(folder, "target", kinds[1], self._count, sizes[1])
        self._rows: RowNumbers | None = None

    def __len__(self) -> int:
        return len(self.source.lengths)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.folder, self._rows)  # opened anew in another process

    def select(self, rows: RowNumbers) -> TokenCache:
        """Return some of the pairs, each as often as it is named, without copying their tokens.

        Args:
            rows: Indices of pairs in ascending order, so that parts stay together; [M].
        """
        selected = object.__new__(TokenCache)
        selected.__dict__.update(self.__dict__)
        selected.source, selected.target = self.source.select(rows), self.target.select(rows)
        # Of the same type, or all of the rows would be copied to another.
        bounds = np.searchsorted(rows, np.cumsum([0, *(part.pairs for part in self.parts)]).astype(rows.dtype))
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

    def rows(self, start: int, end: int) -> Rows:
        """Return which rows of the whole cache some of these are."""
        return np.arange(start, end) if self._rows is None else self._rows[start:end].astype(np.int64)

    def whole_rows(self, indices: Rows) -> Rows:
        """Return which rows of the whole cache those of some indices are."""
        return indices if self._rows is None else self._rows[indices].astype(np.int64)

    def pairs(self) -> Iterator[Pair]:
        """Yield the text of the pairs; only of a cache written with ``keep_text``."""
        for start, end in chunk_bounds(len(self)):
            yield from self.texts(self.rows(start, end))

    def texts(self, rows: Rows) -> list[Pair]:
        """Return the text of some rows of the whole cache; only of one written with ``keep_text``."""
        found = []
        for offsets, text in self._texts:
            begins, ends = offsets[rows].tolist(), offsets[rows + 1].tolist()
            found.append([bytes(text[begin:end]).decode("utf-8") for begin, end in zip(begins, ends, strict=True)])
        return list(zip(*found, strict=True))

    @cached_property
    def _texts(self) -> list[tuple[CheckedNumbers, CheckedNumbers]]:
        columns = []
        for side in SIDES:
            places, path = self.folder / f"{side}.text.offsets.bin", self.folder / f"{side}.text.bin"
            offsets = CheckedNumbers(places, mapped(places, np.int64, self._count + 1))
            columns.append((offsets, CheckedNumbers(path, mapped(path, np.uint8, int(offsets[-1])))))
        return columns


def _opened(folder: Path, rows: RowNumbers | None) -> TokenCache:
    cache = TokenCache(folder)
    return cache if rows is None else cache.select(rows)


def chunk_bounds(pairs: int) -> Iterator[tuple[int, int]]:
    """Yield where the chunks of so many pairs begin and end, which are sampled together."""
    for start in range(0, pairs, _CHUNK):
        yield start, min(pairs, start + _CHUNK)


def _taken(values: Lengths, rows: RowNumbers) -> Lengths:
    """Return ``values[rows]`` without the copy of all rows that indexing would make."""
    found = np.empty(len(rows), values.dtype)
    for start in range(0, len(rows), _TAKEN):
        found[start : start + _TAKEN] = values[rows[start : start + _TAKEN]]
    return found


def _prefixes(about: Any) -> Prefixes:
    source, target = ([_natural(each) for each in about[side]] for side in SIDES)
    if not target:
        raise ValueError("the decoder reads nothing first")
    return Prefixes(source, target)


def _natural(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of things")
    return value
