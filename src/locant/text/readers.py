"""Readers of text: lines of files (plain or gzipped), tab-separated columns, JSON lines."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from locant.errors import DataError, nearest
from locant.parsing import parse_json
from locant.text.pairs import Pair

LONGEST_LINE = 64 << 20
"""Bytes of the longest line that is read."""


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacked when its name ends in ``.gz``.

    Raises:
        DataError: The file is missing or unreadable, also where that shows while it is read.
    """
    with (
        reading(path),
        cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb") as file,
    ):
        yield file


@contextmanager
def reading(path: Path) -> Iterator[None]:
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
    """Yield the lines of a UTF-8 file (gzipped when the name ends in ``.gz``); see :func:`decode_lines`.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8, or a line is too long (with its number).
    """
    with open_bytes(path) as file:
        yield from decode_lines(_bounded(file, str(path)), str(path))


def _bounded(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file that are no longer than any of use."""
    number = 1
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise too_long(name, number)
        if number == 1:
            require_line_feeds(line, name)
        yield line
        number += 1


def too_long(name: str, number: int) -> DataError:
    """Return what is said of a line that is too long."""
    return DataError(f"{name}, line {number}: the line has more than {LONGEST_LINE:,} bytes, so this is no text.")


def require_line_feeds(start: bytes, name: str) -> None:
    r"""Raise DataError where a file ends its lines with ``\r`` alone, which would make one line of all of it.

    Args:
        start: The first line of the file or more.
        name: Of the file.
    """
    if b"\n" not in start and b"\r" in start.rstrip(b"\r"):
        raise DataError(
            f"{name} has no line feeds, but carriage returns, so all of it would be one line. End its lines with line "
            "feeds: tr '\\r' '\\n' < OLD > NEW."
        )


def decode_lines(file: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    r"""Yield UTF-8 lines without their line ends, as they come.

    Lines end at ``\n`` or ``\r\n`` only; other Unicode separators belong to the text.

    Args:
        file: Lines of bytes.
        name: What they come from, for messages.
        first: The number of the first of them.

    Raises:
        DataError: A line is not UTF-8.
    """
    for number, line in enumerate(file, start=first):
        yield decode_line(line, name, number)


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


def tsv_pairs(
    lines: Iterable[str], name: str, source_column: int, target_column: int, header: bool, *, first: int = 1
) -> Iterator[Pair]:
    """Yield two columns (numbered from 1) of tab-separated lines; quotation marks have no special meaning.

    Args:
        lines: Without their line ends.
        name: Of the file, for messages.
        source_column: The column of the source text.
        target_column: The column of the target text.
        header: Whether the first line of the file is none of text.
        first: The number of the first of the lines.

    Raises:
        DataError: A line has too few columns.
    """
    needed = max(source_column, target_column)
    for number, line in enumerate(lines, start=first):
        if header and number == 1:
            continue
        columns = line.split("\t")
        if len(columns) < needed:
            raise DataError(
                f"{name}, line {number}: found {len(columns)} tab-separated column(s), but column {needed} is needed."
            )
        yield columns[source_column - 1], columns[target_column - 1]


def jsonl_pairs(
    lines: Iterable[str], name: str, source_field: str, target_field: str, *, first: int = 1
) -> Iterator[Pair]:
    """Yield two fields of lines that hold a JSON object each; blank lines are skipped.

    Args:
        lines: Without their line ends.
        name: Of the file, for messages.
        source_field: The field of the source text.
        target_field: The field of the target text.
        first: The number of the first of the lines.

    Raises:
        DataError: A line is not a JSON object, or a field is missing or not text.
    """
    for number, line in enumerate(lines, start=first):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = parse_json(line)
        except ValueError as error:
            raise DataError(f"{where}: this is not JSON ({error}). Each line must be one JSON object.") from None
        yield field_of(row, source_field, where), field_of(row, target_field, where)


def field_of(row: Any, field: str, where: str) -> str:
    """Return the text under a dotted field name such as ``translation.en``.

    Raises:
        DataError: The field is missing or does not hold text.
    """
    value = row
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            known = _fields(row)
            raise DataError(
                f"{where}: there is no field '{field}'.{nearest(field, known)} "
                f"Fields found: {', '.join(known) or 'none'}."
            )
        value = value[part]
    if not isinstance(value, str):
        raise DataError(f"{where}: the field '{field}' holds {type(value).__name__}, not text.")
    return value


def _fields(row: Any, prefix: str = "") -> list[str]:
    if not isinstance(row, Mapping):
        return [prefix.removesuffix(".")] if prefix else []
    return [name for key, value in row.items() for name in _fields(value, f"{prefix}{key}.")]
