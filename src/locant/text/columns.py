"""Columns of numbers on disk that grow block by block; after a kill the next process goes on with whole blocks."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
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
    """Flat files ``NAME.bin`` of numbers that grow together, used in a ``with`` block.

    Args:
        folder: Made again unless it holds a beginning of the same.
        columns: Type of the numbers of each column, by name.
        made_from: Plain data that says what the columns are of: only what was made from the same is gone on with.

    Attributes:
        state: What was given with the last mark; None where there is nothing yet.

    Raises:
        CheckpointError: The disk is full or not writable.
    """

    def __init__(self, folder: Path, columns: Mapping[str, npt.DTypeLike], made_from: Any) -> None:
        self._folder, self._made_from, self._marked = folder, made_from, time.monotonic()
        self._types = {name: np.dtype(kind) for name, kind in columns.items()}
        paths = {name: folder / f"{name}.bin" for name in columns}
        self.state, sizes = None, dict.fromkeys(columns, 0)
        with suppress(CheckpointError, OSError, KeyError, TypeError):
            mark = read_json(folder / _MARK)
            whole = all(path.stat().st_size >= mark["sizes"][name] for name, path in paths.items())
            if whole and mark["made_from"] == made_from:
                self.state, sizes = mark["state"], mark["sizes"]
        self._stack = ExitStack()
        with readable_errors(folder):
            if self.state is None:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            self._files = {name: self._stack.enter_context(path.open("ab")) for name, path in paths.items()}
            for name, file in self._files.items():
                file.truncate(sizes[name])
                file.seek(0, os.SEEK_END)

    def append(self, name: str, values: npt.NDArray[Any]) -> None:
        """Append numbers to a column."""
        with readable_errors(self._folder):
            self._files[name].write(np.ascontiguousarray(values, self._types[name]).data)

    def size(self, name: str) -> int:
        """Return how many numbers a column has."""
        return self._files[name].tell() // self._types[name].itemsize

    def mark(self, state: Any, *, now: bool = False) -> None:
        """Note, every few seconds or now, that all columns are whole up to here, and plain data to go on from."""
        if not now and time.monotonic() - self._marked < _SECONDS:
            return
        with readable_errors(self._folder):
            for file in self._files.values():
                file.flush()
                os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self._files.items()}
        write_json(self._folder / _MARK, {"made_from": self._made_from, "sizes": sizes, "state": state})
        self._marked = time.monotonic()

    def finish(self) -> None:
        """Close the files for good: the folder holds nothing but them then."""
        self.__exit__()
        with readable_errors(self._folder):
            (self._folder / _MARK).unlink(missing_ok=True)

    def __enter__(self) -> GrowingColumns:
        return self

    def __exit__(self, *_: object) -> None:
        with readable_errors(self._folder):
            self._stack.close()
