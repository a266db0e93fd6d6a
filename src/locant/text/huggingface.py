"""Parallel text from the `datasets` library: an identifier on the Hugging Face Hub, or a local folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from locant.errors import DataError, MissingExtraError, nearest
from locant.text.pairs import Pair
from locant.text.readers import field_of


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
