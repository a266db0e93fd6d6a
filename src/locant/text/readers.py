"""Readers of text: lines of files (plain or gzipped), tab-separated columns, JSON lines, Hugging Face datasets."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from locant.errors import DataError, MissingExtraError, nearest
from locant.parsing import parse_json
from locant.text.pairs import Pair


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
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"The file {path} cannot be read: {error}") from None


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file (gzipped when the name ends in ``.gz``); see :func:`decode_lines`.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8 (with the line number).
    """
    with open_bytes(path) as file:
        yield from decode_lines(file, str(path))


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


def dataset_pairs(
    dataset: str,
    *,
    folder: Path,
    config: str | None,
    revision: str | None,
    split: str,
    source_field: str,
    target_field: str,
) -> Callable[[], Iterator[Pair]]:
    """Load one split and return a function that opens a stream over its pairs.

    Args:
        dataset: A folder (absolute, or relative to ``folder``) or an identifier such as ``wmt/wmt14``.
        folder: Where relative folders start.
        config: The configuration of the dataset, such as ``de-en``.
        revision: The branch, tag or commit of the dataset on the Hub.
        split: The name of the split, such as ``train``; slices such as ``train[:10000]`` work too.
        source_field: The field of the source text; dots descend, as in ``translation.de``.
        target_field: The field of the target text.

    Raises:
        MissingExtraError: The package `datasets` is not installed.
        DataError: The dataset, configuration, split or field does not exist or cannot be fetched.
    """
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("A corpus of kind 'huggingface'", "datasets", "datasets") from None
    local = folder / Path(dataset).expanduser()
    try:
        loaded = datasets.load_dataset(
            str(local) if local.is_dir() else dataset, config, split=split, revision=revision
        )
    # The library and the network code below it raise errors of many unrelated classes.
    except Exception as error:
        raise DataError(f"The dataset '{dataset}' (split '{split}') cannot be loaded: {error}") from error

    columns = {source_field.split(".")[0], target_field.split(".")[0]}
    for column in sorted(columns - set(loaded.column_names)):
        raise DataError(
            f"The dataset '{dataset}' has no field '{column}'.{nearest(column, loaded.column_names)} "
            f"Fields found: {', '.join(loaded.column_names)}."
        )
    selected = loaded.select_columns(sorted(columns))

    def open_pairs() -> Iterator[Pair]:
        for number, row in enumerate(selected, start=1):
            where = f"Dataset '{dataset}', split '{split}', row {number}"
            yield field_of(row, source_field, where), field_of(row, target_field, where)

    return open_pairs
