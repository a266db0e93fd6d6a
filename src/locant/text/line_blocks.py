"""Text files in blocks of whole lines, which processes decode and parse each for itself."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from locant.errors import DataError
from locant.text.pairs import Pair
from locant.text.readers import (
    LONGEST_LINE,
    decode_lines,
    jsonl_pairs,
    open_bytes,
    reading,
    require_line_feeds,
    too_long,
    tsv_pairs,
)

_LINES = 1 << 14
_BYTES = 1 << 20
"""Of a block, at most so many lines, and about so many bytes of a file."""


class LineBlock(NamedTuple):
    """Whole lines of a file, or as many of each of two files.

    Attributes:
        names: Of the files, for messages.
        first: The number of the first line, from 1.
        data: The bytes of each file.
    """

    names: tuple[str, ...]
    first: int
    data: tuple[bytes, ...]

    def lines(self, file: int = 0) -> list[str]:
        """Return the lines of one file, as :func:`~locant.text.readers.decode_lines` yields them.

        Raises:
            DataError: A line is not UTF-8.
        """
        try:
            text = self.data[file].decode("utf-8")
        except UnicodeDecodeError:
            return list(decode_lines(io.BytesIO(self.data[file]), self.names[file], self.first))
        found = text.split("\n")
        if not found[-1]:
            found.pop()
        if "\r" in text:
            found = [line.removesuffix("\r") for line in found]
        if self.first == 1 and found:
            found[0] = found[0].removeprefix("\ufeff")
        return found


class LineFormat(Protocol):
    """How lines say sentence pairs; a dataclass."""

    def parse(self, block: LineBlock) -> Iterable[Pair]:
        """Return the pairs of a block."""


@dataclass(frozen=True)
class ParallelLines:
    """Two files, line by line translations."""

    def parse(self, block: LineBlock) -> Iterable[Pair]:
        """Return the pairs of a block."""
        return zip(block.lines(0), block.lines(1), strict=True)


@dataclass(frozen=True)
class Columns:
    """Two columns, numbered from 1, of tab-separated files."""

    source: int
    target: int
    header: bool

    def parse(self, block: LineBlock) -> Iterable[Pair]:
        """Return the pairs of a block."""
        return tsv_pairs(block.lines(), block.names[0], self.source, self.target, self.header, first=block.first)


@dataclass(frozen=True)
class JsonFields:
    """Two fields of one JSON object a line; dots descend."""

    source: str
    target: str

    def parse(self, block: LineBlock) -> Iterable[Pair]:
        """Return the pairs of a block."""
        return jsonl_pairs(block.lines(), block.names[0], self.source, self.target, first=block.first)


class Place(NamedTuple):
    """Where reading goes on.

    Attributes:
        file: How many files have been read to their end.
        line: The number of the next line, from 1.
        offsets: Bytes read of the file, or of each of two, decompressed.
        share: How much of all text has been read, 0 to 1.
    """

    file: int = 0
    line: int = 1
    offsets: tuple[int, ...] = ()
    share: float = 0.0


@dataclass(frozen=True)
class TextFiles:
    """Text files of one split, that follow one another.

    Attributes:
        paths: Files that are read side by side, one or two of them, in their order.
        format: How their lines say pairs.
    """

    paths: tuple[tuple[Path, ...], ...]
    format: LineFormat

    def __call__(self) -> Iterator[Pair]:
        """Yield the pairs.

        Raises:
            DataError: A file is missing, damaged, not UTF-8 or without the expected columns or fields, or two parallel
                files have different numbers of lines.
        """
        for block, _ in self.blocks():
            yield from self.format.parse(block)

    def blocks(self, place: Place | None = None) -> Iterator[tuple[LineBlock, Place]]:
        """Yield blocks of lines, each with the place behind it; errors of reading are those of ``__call__``."""
        place = place or Place()
        sizes = [sum(map(_size, paths)) for paths in self.paths]
        before, total = sum(sizes[: place.file]), max(1, sum(sizes))
        for number, paths in enumerate(self.paths[place.file :], start=place.file):
            first, offsets = (place.line, place.offsets) if number == place.file else (1, ())
            for block, behind, read in _cut(paths, first, offsets or (0,) * len(paths)):
                line = block.first + behind.lines
                yield block, Place(number, line, behind.offsets, (before + read) / total)
            before += sizes[number]

    def size(self) -> int:
        """Return the bytes of all files, where they are compressed about as many as they will have."""
        return sum(_size(path) * (4 if path.suffix == ".gz" else 1) for paths in self.paths for path in paths)

    def made_from(self) -> dict[str, Any]:
        """Return which files these are, in plain data that changes when one of them is written."""
        found = [[[str(path.absolute()), *_version(path)] for path in paths] for paths in self.paths]
        return {"files": found, "format": [type(self.format).__name__, asdict(self.format)]}  # type: ignore[call-overload]


def read_files(sources: Sequence[Path], targets: Sequence[Path]) -> Iterator[Pair]:
    """Yield the pairs of files whose lines correspond one to one; several files a side follow one another.

    Raises:
        DataError: A file cannot be read, or two corresponding files have different numbers of lines.
    """
    return TextFiles(tuple(zip(sources, targets, strict=True)), ParallelLines())()


class _Behind(NamedTuple):
    lines: int
    offsets: tuple[int, ...]


def _cut(paths: Sequence[Path], first: int, offsets: Sequence[int]) -> Iterator[tuple[LineBlock, _Behind, int]]:
    """Yield blocks of files that are read side by side, how far they go, and the bytes read of the files on disk."""
    names = tuple(map(str, paths))
    with ExitStack() as stack:
        files = [stack.enter_context(_Lines(path, offset, first)) for path, offset in zip(paths, offsets, strict=True)]
        while True:
            found = min(min(file.fill() for file in files), _LINES)
            if not found:
                break
            data = tuple(file.take(found) for file in files)
            if first == 1:
                for name, start in zip(names, data, strict=True):
                    require_line_feeds(start, name)
            behind = _Behind(found, tuple(file.offset for file in files))
            yield LineBlock(names, first, data), behind, sum(file.read_on_disk() for file in files)
            first += found
        left = [file.remaining() for file in files]
    if any(left):
        counts = [first - 1 + count for count in left]
        raise DataError(
            f"{names[0]} has {counts[0]} lines but {names[1]} has {counts[1]}. "
            "Parallel files need one translation on each line, so the same number of lines."
        )


class _Lines:
    """A file that is read by whole lines, many at a time."""

    def __init__(self, path: Path, offset: int, line: int) -> None:
        self._path, self._line = path, line
        self._stack = ExitStack()
        self.offset = offset
        self._buffer = b""
        self._ends: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._ended = False

    def __enter__(self) -> _Lines:
        self._file: IO[bytes] = self._stack.enter_context(open_bytes(self._path))
        if self.offset:
            with reading(self._path):
                self._file.seek(self.offset)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def fill(self) -> int:
        """Read a block's bytes, or as many as a line takes, and return how many lines are there."""
        if len(self._ends) >= _LINES:
            return len(self._ends)
        with reading(self._path):
            while not self._ended and (len(self._buffer) < _BYTES or not len(self._ends)):
                if len(self._buffer) > LONGEST_LINE:
                    raise too_long(str(self._path), self._line)
                more = self._file.read(_BYTES)
                self._ended = not more
                ends = np.flatnonzero(np.frombuffer(more, dtype=np.uint8) == ord("\n")) + len(self._buffer) + 1
                self._ends = np.concatenate((self._ends, ends))
                self._buffer += more
        if self._ended and len(self._buffer) > (int(self._ends[-1]) if len(self._ends) else 0):
            self._ends = np.append(self._ends, len(self._buffer))  # the last line lacks its end
        return len(self._ends)

    def take(self, lines: int) -> bytes:
        """Return so many lines, which are there."""
        end = int(self._ends[lines - 1])
        data, self._buffer = self._buffer[:end], self._buffer[end:]
        self._ends = self._ends[lines:] - end
        self.offset += end
        self._line += lines
        return data

    def remaining(self) -> int:
        """Return how many lines there are from here to the end of the file."""
        count = 0
        while found := self.fill():
            self.take(found)
            count += found
        return count

    def read_on_disk(self) -> int:
        """Return how many bytes of the file on disk have been read, those that wait included."""
        raw = self._file.fileobj if isinstance(self._file, gzip.GzipFile) else None
        return self.offset if raw is None else int(cast(Any, raw).tell())


def _size(path: Path) -> int:
    return _version(path)[0]


def _version(path: Path) -> tuple[int, int]:
    """Return the size of a file and when it was written; zeros where there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
