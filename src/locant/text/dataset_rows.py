"""Datasets of the Hugging Face library, read in blocks of rows, which processes parse each for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from locant.errors import DataError, MissingExtraError, nearest
from locant.text.line_blocks import Place
from locant.text.pairs import Pair
from locant.text.readers import field_of

_ROWS = 1 << 13


class RowBlock(NamedTuple):
    """Rows of a dataset that follow one another.

    Attributes:
        name: Of the dataset and its split, for messages.
        first: The number of the first row, from 1.
        columns: What the rows hold, by field.
    """

    name: str
    first: int
    columns: dict[str, list[Any]]


@dataclass(frozen=True)
class RowFields:
    """Two fields of each row; dots descend."""

    source: str
    target: str

    def parse(self, block: RowBlock) -> Iterator[Pair]:
        """Yield the pairs of a block.

        Raises:
            DataError: A field is missing or does not hold text.
        """
        names = list(block.columns)
        for number, values in enumerate(zip(*block.columns.values(), strict=True), start=block.first):
            row = dict(zip(names, values, strict=True))
            where = f"{block.name}, row {number}"
            yield field_of(row, self.source, where), field_of(row, self.target, where)


@dataclass(frozen=True)
class DatasetSplit:
    """One split of a dataset, that is read as :class:`~locant.text.line_blocks.TextFiles` are.

    Attributes:
        name: Of the dataset and its split, for messages.
        format: Which fields are the pairs.
        rows: The fields in question, as the library gives them.
    """

    name: str
    format: RowFields
    rows: Any = field(repr=False)

    def __call__(self) -> Iterator[Pair]:
        """Yield the pairs.

        Raises:
            DataError: A field is missing or does not hold text.
        """
        for block, _ in self.blocks():
            yield from self.format.parse(block)

    def blocks(self, place: Place | None = None) -> Iterator[tuple[RowBlock, Place]]:
        """Yield blocks of rows, each with the place behind it."""
        for start in range((place or Place()).line - 1, len(self.rows), _ROWS):
            end = min(len(self.rows), start + _ROWS)
            yield RowBlock(self.name, start + 1, self.rows[start:end]), Place(0, end + 1, (), end / len(self.rows))

    def size(self) -> int:
        """Return the bytes of the fields in memory."""
        return int(self.rows.data.nbytes)

    def made_from(self) -> dict[str, Any]:
        """Return what the rows are, in plain data that changes with the dataset."""
        return {
            "files": [[[self.name, self.rows._fingerprint, len(self.rows)]]],
            "format": [type(self.format).__name__, asdict(self.format)],
        }


def open_dataset(
    dataset: str,
    *,
    folder: Path,
    config: str | None,
    revision: str | None,
    split: str,
    source_field: str,
    target_field: str,
) -> DatasetSplit:
    """Load one split of a dataset.

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
    return DatasetSplit(f"Dataset '{dataset}', split '{split}'", RowFields(source_field, target_field), selected)
