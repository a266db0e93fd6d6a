"""Columns of numbers on disk that grow block by block; after a kill the next process goes on with the next block."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError
from locant.files import read_json, readable_errors, write_json

_MADE_FROM, _BLOCKS = "made-from.json", "blocks.bin"


class GrowingColumns:
    """Flat files ``NAME.bin`` of numbers that grow together, used in a ``with`` block.

    Args:
        folder: Made again unless it holds a beginning of the same.
        names: Of the columns.
        notes: How many numbers are noted of each block.
        made_from: Plain data that says what the columns are of: only what was made from the same is gone on with.

    Attributes:
        blocks: What is noted of the blocks that are there.
        ends: The bytes of each column.

    Raises:
        CheckpointError: The disk is full or not writable.
    """

    def __init__(self, folder: Path, names: Sequence[str], notes: int, made_from: Any) -> None:
        self._folder, self._stack = folder, ExitStack()
        paths = [*(folder / f"{name}.bin" for name in names), folder / _BLOCKS]
        width = notes + len(names)
        known = np.zeros((0, width), np.int64)
        with suppress(CheckpointError, OSError):
            if read_json(folder / _MADE_FROM) == made_from:
                rows = np.fromfile(paths[-1], np.int64)
                known = rows[: len(rows) // width * width].reshape(-1, width)
                # A row is written after its block, but a power cut may keep the one without the other.
                known = known[(known[:, notes:] <= [path.stat().st_size for path in paths[:-1]]).all(axis=1)]
        self.blocks: list[list[int]] = known[:, :notes].tolist()
        with readable_errors(folder):
            if not self.blocks:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                write_json(folder / _MADE_FROM, made_from)
            self._files = [self._stack.enter_context(path.open("ab")) for path in paths]
            self.ends: list[int] = known[-1, notes:].tolist() if self.blocks else [0] * len(names)
            for file, end in zip(self._files, [*self.ends, known.nbytes], strict=True):
                file.truncate(end)

    def append(self, notes: Sequence[int], columns: Sequence[npt.NDArray[Any]]) -> None:
        """Append a block: numbers to note, and more of each column."""
        ends = [end + values.nbytes for end, values in zip(self.ends, columns, strict=True)]
        with readable_errors(self._folder):
            row = np.array([*notes, *ends], np.int64)
            for file, values in zip(self._files, [*columns, row], strict=True):
                file.write(np.ascontiguousarray(values).data)
                file.flush()
        self.blocks.append([*notes])
        self.ends = ends

    def finish(self) -> None:
        """Close the files for good: the folder holds nothing but the columns then."""
        self.__exit__()
        with readable_errors(self._folder):
            for name in (_MADE_FROM, _BLOCKS):
                (self._folder / name).unlink(missing_ok=True)

    def __enter__(self) -> GrowingColumns:
        return self

    def __exit__(self, *_: object) -> None:
        with readable_errors(self._folder):
            self._stack.close()
