"""Tokenised text on disk: written once, then mapped into memory, so that ten million pairs need little of it.

A cache is a folder with, for each side, the token ids of all sentences one after the other (``*.tokens.bin``, uint16
or uint32), the places where sentences begin (``*.offsets.bin``, int64, one more than there are sentences) and their
lengths (``*.lengths.bin``, int32). The pairs of the parts of a corpus follow one another, and ``cache.json`` says how
many each part has. With subword sampling it holds the text as well (``*.text.bin``, UTF-8, with offsets), from which
each epoch is tokenised anew.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError, DataError
from locant.files import explaining_damage, publish, read_json, readable_errors, write_json
from locant.text.cleaning import CleanText
from locant.text.encoding import Encoded, Encoder, Lengths, Task, Tokens, id_types
from locant.text.growing import GrowingColumns
from locant.text.pairs import Pair, ParallelText, RowNumbers, Rows, memory_blocks
from locant.text.tokenizer import PLAIN, Prefixes, TokenizerPair
from locant.text.workers import in_order

# Changing it changes what subword sampling draws: a chunk is sampled with one seed.
_CHUNK = 8192

_TAKEN = 1 << 16
_SIDES = ("source", "target")


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


@dataclass(frozen=True)
class Column:
    """One side of a cache, or of some of its rows.

    Attributes:
        tokens: All ids, [N] uint16 or uint32, mapped from disk.
        all_offsets: Where each sentence of the cache begins in them, mapped from disk; int64.
        lengths: The number of ids of each sentence, without BOS and EOS; [pairs] int32.
        path: The file of the ids.
        vocabulary: How many ids there are; None where that is not known.
        rows: Which sentences of the cache these are; None for all.
    """

    tokens: Tokens
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
        offsets = _map(folder / f"{name}.offsets.bin", np.dtype(np.int64), count + 1)
        path, known = folder / f"{name}.tokens.bin", folder / f"{name}.lengths.bin"
        tokens: Tokens = _map(path, dtype, int(offsets[-1]))
        # Earlier versions left the lengths to be computed.
        lengths = _map(known, np.dtype(np.int32), count) if known.exists() else np.diff(offsets).astype(np.int32)
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
        return self.tokens[start : start + self.lengths[index]]

    def between(self, start: int, end: int) -> tuple[Tokens, Lengths]:
        """Return the ids and the lengths of sentences that follow one another; not of a selection."""
        ends = np.array([self.offsets(row) if row < len(self.lengths) else len(self.tokens) for row in (start, end)])
        return self.tokens[ends[0] : ends[1]], self.lengths[start:end]

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
            kinds = [np.dtype({"uint16": np.uint16, "uint32": np.uint32}[about[f"{side}_dtype"]]) for side in _SIDES]
            if sum(part.pairs for part in self.parts) != self._count:
                raise ValueError("its parts do not have as many pairs as it has")
            # Earlier versions did not say how many ids there are.
            sizes = [_natural(about[key]) if (key := f"{side}_vocabulary") in about else None for side in _SIDES]
        self.source = Column.open(folder, "source", kinds[0], self._count, sizes[0])
        self.target = Column.open(folder, "target", kinds[1], self._count, sizes[1])
        self._rows: RowNumbers | None = None

    def __len__(self) -> int:
        return len(self.source.lengths)

    def select(self, rows: RowNumbers) -> TokenCache:
        """Return some of the pairs, each as often as it is named, without copying their tokens.

        Args:
            rows: Indices of pairs in ascending order, so that parts stay together; [M].
        """
        selected = copy(self)
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
    def _texts(self) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:
        columns = []
        for side in _SIDES:
            offsets = _map(self.folder / f"{side}.text.offsets.bin", np.dtype(np.int64), self._count + 1)
            columns.append((offsets, _map(self.folder / f"{side}.text.bin", np.dtype(np.uint8), int(offsets[-1]))))
        return columns


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
    parts: Sequence[TextPart],
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    keep_text: bool = False,
    processes: int = 1,
    made_from: Any = None,
    progress: Callable[[float], None] = lambda share: None,
) -> TokenCache:
    """Tokenise the parts of a corpus into a new cache; one that is already there is replaced.

    The cache is the same whatever the number of processes.

    Args:
        parts: One or more.
        tokenizers: For both languages.
        folder: Where the cache goes; it appears only when it is complete.
        max_tokens: The most tokens a side may have, EOS and language tokens included; longer pairs are dropped and
            counted.
        keep_text: Store the text too, for :class:`SampledEpochs`.
        processes: How many tokenise at once.
        made_from: Plain data that says what all this is. Where it is given, what a killed process has done of the same
            is gone on with.
        progress: Is told how much is done, 0 to 1.

    Raises:
        DataError: No pair is left.
        CheckpointError: The disk is full or not writable.
    """
    prefixes = [part.prefixes for part in parts]
    encoder = Encoder(tokenizers, prefixes, max_tokens, keep_text)
    total = max(1, sum(len(text) for text, _ in parts if isinstance(text, Sized)))
    with CacheWriter(folder, encoder, made_from) as writer:
        waiting = islice(_tasks(parts), writer.blocks, None)
        for encoded in in_order(encoder, waiting, processes):
            writer.append(encoded)
            progress(min(1.0, writer.seen / total))
        writer.finish()
    return TokenCache(folder)


def _tasks(parts: Sequence[TextPart]) -> Iterator[Task]:
    for number, (text, _) in enumerate(parts):
        if isinstance(text, CleanText):
            for block, rows in text.blocks():
                yield Task(number, block, None if len(rows) == len(block) else rows)
        else:
            blocks = text.blocks() if isinstance(text, ParallelText) else memory_blocks(text)
            for block in blocks:
                yield Task(number, block)


class CacheWriter:
    """Writes encoded blocks, which come part by part, into a new cache; used in a ``with`` block.

    Args:
        folder: Where the cache goes; one that is there is removed at once.
        encoder: What encodes.
        made_from: As for :func:`write_parts`.

    Attributes:
        blocks: How many blocks are written, a killed process's included.
    """

    def __init__(self, folder: Path, encoder: Encoder, made_from: Any = None) -> None:
        self._folder, self._encoder, self._resumable = folder, encoder, made_from is not None
        name = f".{folder.name}" if self._resumable else f".{folder.name}-{secrets.token_hex(8)}"
        self._partial = folder.with_name(f"{name}.partial")
        kinds = dict(zip(_SIDES, id_types(encoder.tokenizers), strict=True))
        columns: dict[str, npt.DTypeLike] = {}
        for side in _SIDES:
            columns |= {f"{side}.tokens": kinds[side], f"{side}.offsets": np.int64, f"{side}.lengths": np.int32}
            if encoder.keep_text:
                columns |= {f"{side}.text": np.uint8, f"{side}.text.offsets": np.int64}
        self._about = {
            "max_tokens": encoder.max_tokens,
            **{f"{side}_dtype": np.dtype(kind).name for side, kind in kinds.items()},
            "source_vocabulary": encoder.tokenizers.source.vocab_size,
            "target_vocabulary": encoder.tokenizers.target.vocab_size,
        }
        shutil.rmtree(folder, ignore_errors=True)
        self._columns = GrowingColumns(self._partial, columns, [made_from, self._about, encoder.keep_text])
        parts = len(encoder.prefixes)
        state = self._columns.state or [0, [0] * parts, [0] * parts]
        self.blocks, self._counts, self._dropped = state
        if not self._columns.state:
            for name in columns:
                if name.endswith("offsets"):
                    self._columns.append(name, np.zeros(1, dtype=np.int64))

    @property
    def seen(self) -> int:
        """How many pairs the blocks had."""
        return sum(self._counts) + sum(self._dropped)

    def append(self, encoded: Encoded) -> None:
        """Write a block."""
        for number, side in enumerate(_SIDES):
            self._append(f"{side}.tokens", f"{side}.offsets", encoded.ids[number], encoded.lengths[number])
            self._columns.append(f"{side}.lengths", encoded.lengths[number])
            if encoded.texts:
                name = f"{side}.text"
                self._append(name, f"{name}.offsets", encoded.texts[number], encoded.text_lengths[number])
        self._counts[encoded.part] += len(encoded.lengths[0])
        self._dropped[encoded.part] += encoded.dropped
        self.blocks += 1
        if self._resumable:
            self._columns.mark([self.blocks, self._counts, self._dropped])

    def _append(self, name: str, offsets: str, values: npt.NDArray[Any], lengths: npt.NDArray[np.int32]) -> None:
        end = self._columns.size(name)
        self._columns.append(offsets, end + np.cumsum(lengths, dtype=np.int64))
        self._columns.append(name, values)

    def append_cache(self, cache: TokenCache) -> None:
        """Write all rows of another cache, each behind those of its part."""
        first = 0
        for number, part in enumerate(cache.parts):
            source, target = (side.between(first, first + part.pairs) for side in (cache.source, cache.target))
            self.append(Encoded(number, part.dropped, (source[0], target[0]), (source[1], target[1])))
            first += part.pairs

    def finish(self, *, may_be_empty: bool = False) -> None:
        """Give the cache its name.

        Args:
            may_be_empty: Whether it may be without pairs.

        Raises:
            DataError: No pair is left.
        """
        if not sum(self._counts) and not may_be_empty:
            raise DataError(
                f"All {sum(self._dropped)} pairs have {self._encoder.max_tokens} tokens or more on a side, so nothing "
                "is left. Allow more tokens, or use a larger vocabulary."
            )
        self._columns.finish()
        parts = zip(self._counts, self._dropped, self._encoder.prefixes, strict=True)
        about = {
            "pairs": sum(self._counts),
            "parts": [{"pairs": count, "dropped": lost, "prefixes": before._asdict()} for count, lost, before in parts],
            **self._about,
        }
        write_json(self._partial / "cache.json", about)
        with readable_errors(self._folder):
            publish(self._partial, self._folder)

    def __enter__(self) -> CacheWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._columns.close()
        # What is wrong with the text stays wrong; anything else may be mended.
        if kind is not None and (not self._resumable or issubclass(kind, DataError)):
            shutil.rmtree(self._partial, ignore_errors=True)


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
    source, target = ([_natural(each) for each in about[side]] for side in _SIDES)
    if not target:
        raise ValueError("the decoder reads nothing first")
    return Prefixes(source, target)


def _natural(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of things")
    return value


def _map(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"The token cache file {path} cannot be read: {error.strerror}.") from None
    if size != count * dtype.itemsize:
        raise CheckpointError(f"The token cache file {path} is damaged: {size} bytes, not {count * dtype.itemsize}.")
    # An empty file cannot be mapped.
    return np.memmap(path, dtype=dtype, mode="r", shape=(count,)) if count else np.zeros(0, dtype)
