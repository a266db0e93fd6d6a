"""Columns on disk that grow block by block, and of which a kill leaves whole blocks."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError
from locant.files import read_json, readable_errors, write_json

_MARK = "mark.json"
_SECONDS = 3.0
"""Time between marks; what came after the last one is made again after a kill."""


class GrowingColumns:
    """Flat files of numbers that grow together, used in a ``with`` block.

    Args:
        folder: Of the files ``NAME.bin``; made anew unless it holds a beginning of the same.
        columns: Type of the numbers of each column, by name.
        made_from: Plain data that says what the columns are of: only what was made from the same is gone on with.

    Attributes:
        state: What was given with the last mark; None where there is nothing yet.

    Raises:
        CheckpointError: The disk is full or not writable.
    """

    def __init__(self, folder: Path, columns: Mapping[str, npt.DTypeLike], made_from: Any) -> None:
        self.folder = folder
        self._made_from = made_from
        self._types = {name: np.dtype(kind) for name, kind in columns.items()}
        sizes, self.state = self._beginning()
        self._stack = ExitStack()
        with readable_errors(folder):
            if self.state is None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            self._files = {
                name: self._stack.enter_context(self._path(name).open("r+b" if self.state is not None else "w+b"))
                for name in columns
            }
            for name, file in self._files.items():
                file.truncate(sizes.get(name, 0))
                file.seek(0, os.SEEK_END)
        self._marked = time.monotonic()

    def _beginning(self) -> tuple[dict[str, int], Any]:
        """Return the sizes of what is there of these columns, and the state that goes with them."""
        try:
            mark = read_json(self.folder / _MARK)
            if mark["made_from"] == self._made_from and mark["sizes"].keys() == self._types.keys():
                sizes: dict[str, int] = mark["sizes"]
                if all(self._path(name).stat().st_size >= size for name, size in sizes.items()):
                    return sizes, mark["state"]
        except (CheckpointError, OSError, KeyError, TypeError):
            pass
        return {}, None

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.bin"

    def append(self, name: str, values: npt.NDArray[Any]) -> None:
        """Append numbers to a column."""
        with readable_errors(self.folder):
            self._files[name].write(np.ascontiguousarray(values, self._types[name]).data)

    def mark(self, state: Any, *, now: bool = False) -> None:
        """Note that all columns are whole up to here; on disk every few seconds, or now.

        Args:
            state: Plain data, from which the work can go on.
            now: Whether it has to be on disk on return.
        """
        if not now and time.monotonic() - self._marked < _SECONDS:
            return
        with readable_errors(self.folder):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        write_json(self.folder / _MARK, {"made_from": self._made_from, "sizes": sizes, "state": state})
        self._marked = time.monotonic()

    def close(self) -> None:
        """Close the files."""
        with readable_errors(self.folder):
            self._stack.close()

    def finish(self) -> None:
        """Close the files for good: the folder holds nothing but them then."""
        self.close()
        with readable_errors(self.folder):
            (self.folder / _MARK).unlink(missing_ok=True)

    def size(self, name: str) -> int:
        """Return how many numbers a column has."""
        return self._files[name].tell() // self._types[name].itemsize

    def __enter__(self) -> GrowingColumns:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
