"""Readers of text: lines of files (plain or gzipped), tab-separated columns, JSON lines, and rows of datasets.

Files are read in blocks of whole lines, which processes decode and parse each for itself.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from locant.errors import DataError, nearest
from locant.lazy import require_package
from locant.parsing import parse_json
from locant.text.pairs import MemoryBlock, Pair

if TYPE_CHECKING:
    from locant.text.corpus_settings import HuggingFaceCorpus

LONGEST_LINE = 64 << 20
"""Bytes of the longest line that is read."""
_LINES = 1 << 13
"""Lines, or rows of a dataset, that make a block."""


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacked when its name ends in ``.gz``.

    Raises:
        DataError: The file is missing or unreadable, also where that shows while it is read.
    """
    with _reading(path), path.open("rb") if path.suffix != ".gz" else io.BufferedReader(gzip.open(path)) as file:
        yield file


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what the system says while a file is read into a DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"The file {path} does not exist.") from None
    except gzip.BadGzipFile:
        raise DataError(
            f"The file {path} is damaged, or not gzipped, as its name says. Name it without .gz if it is plain text."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise DataError(f"The file {path} cannot be read: {said.rstrip('.')}.") from None


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file (gzipped when the name ends in ``.gz``) without their line ends, as they come.

    Lines end at ``\n`` or ``\r\n`` only; other Unicode separators belong to the text.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8, or a line is too long (with its number).
    """
    for block in _blocks((path,), partial(parallel_lines)):
        yield from block.lines()


def require_line_feeds(start: bytes, name: str) -> None:
    r"""Raise DataError where a file, given its start, ends its lines with ``\r`` alone: all were one line."""
    if b"\n" not in start and b"\r" in start.rstrip(b"\r"):
        raise DataError(
            f"{name} has no line feeds, but carriage returns, so all of it would be one line. End its lines with line "
            "feeds: tr '\\r' '\\n' < OLD > NEW."
        )


def decode_line(line: bytes, name: str, number: int) -> str:
    """Return a line of UTF-8 without its line end, and the first one without a byte order mark.

    Raises:
        DataError: It is not UTF-8.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise DataError(f"{name} is written in UTF-16. Convert the text to UTF-8.") from None
        raise DataError(
            f"{name}, line {number}: byte {error.start + 1} of the line is not valid UTF-8. "
            "Convert the text to UTF-8, or remove the line."
        ) from None
    text = text.removesuffix("\n").removesuffix("\r")
    return text.removeprefix("\ufeff") if number == 1 else text


class LineBlock(NamedTuple):
    """Whole lines of a file, or as many of each of two files, and the number of the first, from 1."""

    names: tuple[str, ...]
    first: int
    data: tuple[bytes, ...]
    format: LineFormat

    def read(self) -> list[Pair]:
        """Return the pairs.

        Raises:
            DataError: The lines are not UTF-8, or without the expected columns or fields.
        """
        return list(self.format(self))

    def lines(self, file: int = 0) -> list[str]:
        """Return the lines of one file.

        Raises:
            DataError: A line is not UTF-8.
        """
        try:
            text = self.data[file].decode("utf-8")
        except UnicodeDecodeError:
            lines = self.data[file].split(b"\n")
            return [decode_line(line, self.names[file], number) for number, line in enumerate(lines, self.first)]
        found = text.removesuffix("\n").split("\n")
        if "\r" in text:
            found = [line.removesuffix("\r") for line in found]
        if self.first == 1:
            found[0] = found[0].removeprefix("\ufeff")
        return found


LineFormat = partial[Iterable[Pair]]
"""A function that makes sentence pairs of a block of lines, with all arguments but the block."""


def parallel_lines(block: LineBlock) -> Iterable[Pair]:
    """Return the pairs of two files, line by line translations."""
    return zip(block.lines(0), block.lines(1), strict=True)


def columns(source: int, target: int, header: bool, block: LineBlock) -> Iterable[Pair]:
    """Yield two columns, numbered from 1, of tab-separated lines; quotation marks have no special meaning."""
    needed = max(source, target)
    for number, line in enumerate(block.lines(), start=block.first):
        if header and number == 1:
            continue
        found = line.split("\t")
        if len(found) < needed:
            raise DataError(
                f"{block.names[0]}, line {number}: found {len(found)} tab-separated column(s), but column {needed} is "
                "needed."
            )
        yield found[source - 1], found[target - 1]


def json_fields(source: str, target: str, block: LineBlock) -> Iterable[Pair]:
    """Yield two fields of one JSON object a line; dots descend. Blank lines are skipped."""
    for number, line in enumerate(block.lines(), start=block.first):
        if not line.strip():
            continue
        where = f"{block.names[0]}, line {number}"
        try:
            row = parse_json(line)
        except ValueError as error:
            raise DataError(f"{where}: this is not JSON ({error}). Each line must be one JSON object.") from None
        yield _field_of(row, source, where), _field_of(row, target, where)


def _field_of(row: Any, name: str, where: str) -> str:
    """Return the text under a dotted field name such as ``translation.en``."""
    value = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = _fields(row)
            raise DataError(
                f"{where}: there is no field '{name}'.{nearest(name, known)} "
                f"Fields found: {', '.join(known) or 'none'}."
            )
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"{where}: the field '{name}' holds {type(value).__name__}, not text.")
    return value


def _fields(row: Any, prefix: str = "") -> list[str]:
    if not isinstance(row, Mapping):
        return [prefix.removesuffix(".")] if prefix else []
    return [name for key, value in row.items() for name in _fields(value, f"{prefix}{key}.")]


@dataclass(frozen=True)
class TextFiles:
    """Text files of one split, that follow one another: one or two each time, which are read side by side."""

    paths: tuple[tuple[Path, ...], ...]
    format: LineFormat

    def blocks(self) -> Iterator[LineBlock]:
        """Yield blocks of lines.

        Raises:
            DataError: A file is missing or damaged, or two parallel files have different numbers of lines.
        """
        for paths in self.paths:
            yield from _blocks(paths, self.format)

    def text_size(self) -> int:
        """Return the bytes of the text, where files are compressed about as many as they will have."""
        return sum(_version(path)[0] * (4 if path.suffix == ".gz" else 1) for paths in self.paths for path in paths)

    def made_from(self) -> dict[str, Any]:
        """Return which files these are, in plain data that changes when one of them is written."""
        found = [[[str(path.absolute()), *_version(path)] for path in paths] for paths in self.paths]
        return {"files": found, "format": [self.format.func.__name__, *self.format.args]}


def read_files(sources: Sequence[Path], targets: Sequence[Path]) -> Iterator[Pair]:
    """Yield the pairs of files whose lines correspond one to one; several files a side follow one another.

    Raises:
        DataError: A file cannot be read, or two corresponding files have different numbers of lines.
    """
    for block in TextFiles(tuple(zip(sources, targets, strict=True)), partial(parallel_lines)).blocks():
        yield from block.read()


def _blocks(paths: Sequence[Path], format: LineFormat) -> Iterator[LineBlock]:
    """Yield blocks of files that are read side by side."""
    names, first = tuple(map(str, paths)), 1
    with ExitStack() as stack:
        files = [stack.enter_context(open_bytes(path)) for path in paths]
        while True:
            sides: list[list[bytes]] = []
            for path, file in zip(paths, files, strict=True):
                with _reading(path):
                    sides.append(list(islice(iter(partial(file.readline, LONGEST_LINE + 1), b""), _LINES)))
                for number, line in enumerate(sides[-1], start=first):
                    if len(line) > LONGEST_LINE:
                        raise DataError(
                            f"{path}, line {number}: the line has more than {LONGEST_LINE:,} bytes, so this is no text."
                        )
                if first == 1:
                    require_line_feeds(b"".join(sides[-1]), str(path))
            if len({len(side) for side in sides}) > 1:
                counts = [first - 1 + len(side) + sum(1 for _ in file) for side, file in zip(sides, files, strict=True)]
                raise DataError(
                    f"{names[0]} has {counts[0]} lines but {names[1]} has {counts[1]}. "
                    "Parallel files need one translation on each line, so the same number of lines."
                )
            if not sides[0]:
                return
            yield LineBlock(names, first, tuple(map(b"".join, sides)), format)
            first += len(sides[0])


def _version(path: Path) -> tuple[int, int]:
    """Return the size of a file and when it was written; zeros where there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    return 0, 0


@dataclass(frozen=True)
class DatasetSplit:
    """The rows of one split of a dataset, read as :class:`TextFiles` are; ``name`` is for messages."""

    name: str
    fields: tuple[str, str]
    rows: Any = field(repr=False)

    def blocks(self) -> Iterator[MemoryBlock]:
        """Yield blocks of rows.

        Raises:
            DataError: A field is missing or does not hold text.
        """
        for start in range(0, len(self.rows), _LINES):
            columns, pairs = self.rows[start : start + _LINES], []
            for number, values in enumerate(zip(*columns.values(), strict=True), start=start + 1):
                row, where = dict(zip(columns, values, strict=True)), f"{self.name}, row {number}"
                source, target = (_field_of(row, name, where) for name in self.fields)
                pairs.append((source, target))
            yield MemoryBlock(pairs)

    def text_size(self) -> int:
        """Return the bytes of the rows in memory."""
        return int(self.rows.data.nbytes)

    def made_from(self) -> dict[str, Any]:
        """Return what the rows are, in plain data that changes with the dataset."""
        return {"files": [[[self.name, self.rows._fingerprint, len(self.rows)]]], "format": list(self.fields)}


def open_dataset(settings: HuggingFaceCorpus, split: str) -> DatasetSplit:
    """Load one split of a dataset, such as ``train``; slices such as ``train[:10000]`` work too.

    Raises:
        MissingExtraError: The package `datasets` is not installed.
        DataError: The dataset, configuration or split does not exist or cannot be fetched.
    """
    datasets = require_package("datasets", "A corpus of kind 'huggingface'")
    name, local = settings.dataset, settings.folder.expanduser() / Path(settings.dataset).expanduser()
    try:
        loaded = datasets.load_dataset(
            str(local) if local.is_dir() else name, settings.config, split=split, revision=settings.revision
        )
    # The library and the network code below it raise errors of many unrelated classes.
    except Exception as error:
        raise DataError(f"The dataset '{name}' (split '{split}') cannot be loaded: {error}") from error
    return DatasetSplit(f"Dataset '{name}', split '{split}'", (settings.source_field, settings.target_field), loaded)
