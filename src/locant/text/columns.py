"""Numbers on disk: columns that grow block by block, and are read with a checksum for each block of bytes.

A kill leaves whole blocks of what grows. Damage is noticed before it is trained on, and a cache of many gigabytes is
not read twice for that.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError
from locant.files import read_json, readable_errors, write_json

_MARK = "mark.json"
_SECONDS = 3.0
"""Time between marks; what came after the last one is made again after a kill."""
_BLOCK = 1 << 16
"""Bytes that have one checksum."""


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
        """Close the files for good: the folder holds nothing but them and their checksums then."""
        self.__exit__()
        with readable_errors(self._folder):
            (self._folder / _MARK).unlink(missing_ok=True)
            for path in self._folder.glob("*.bin"):
                if path.stat().st_size:
                    write_checksums(path, np.memmap(path, np.uint8, "r"))

    def __enter__(self) -> GrowingColumns:
        return self

    def __exit__(self, *_: object) -> None:
        with readable_errors(self._folder):
            self._stack.close()


class CheckedNumbers:
    """An array on disk, [N, ...], read by indexing; a block is compared with its checksum when it is first read.

    Args:
        path: Its file; beside it may be what :func:`write_checksums` wrote. Earlier versions wrote none.
        numbers: The array, mapped.

    Raises:
        CheckpointError: There are not as many checksums as blocks; on reading, a block is not what was written.
    """

    def __init__(self, path: Path, numbers: npt.NDArray[Any]) -> None:
        self._path, self._numbers = path, numbers
        self._bytes = numbers.reshape(-1).view(np.uint8)
        self._row = numbers.itemsize * int(np.prod(numbers.shape[1:]))
        blocks, sums = -(-len(self._bytes) // _BLOCK), _beside(path)
        self._sums = np.fromfile(sums, np.uint32) if sums.exists() else np.zeros(blocks, np.uint32)
        self._checked = np.full(blocks, not sums.exists())
        if len(self._sums) != blocks:
            raise self._damage()

    @classmethod
    def open(cls, path: Path, dtype: npt.DTypeLike, count: int) -> CheckedNumbers:
        """Map a flat file of that many numbers into memory.

        Raises:
            CheckpointError: The file is missing or has another size.
        """
        expected = count * np.dtype(dtype).itemsize
        try:
            size = path.stat().st_size
        except OSError as error:
            raise CheckpointError(f"The token cache file {path} cannot be read: {error.strerror}.") from None
        if size != expected:
            raise CheckpointError(f"The token cache file {path} is damaged: {size} bytes, not {expected}.")
        # An empty file cannot be mapped.
        return cls(path, np.memmap(path, dtype=dtype, mode="r", shape=(count,)) if count else np.zeros(0, dtype))

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: int | slice | npt.NDArray[np.integer[Any]]) -> Any:
        if isinstance(place, slice):
            start, end, _ = place.indices(len(self))
            blocks = np.arange(start * self._row // _BLOCK, -(-end * self._row // _BLOCK))
        else:
            blocks = np.atleast_1d(np.asarray(place, np.int64)) % max(1, len(self)) * self._row // _BLOCK
        for block in np.unique(blocks[~self._checked[blocks]]).tolist():
            if crc32(self._bytes[block * _BLOCK : (block + 1) * _BLOCK].data) != self._sums[block]:
                raise self._damage()
            self._checked[block] = True
        return self._numbers[place]

    def _damage(self) -> CheckpointError:
        return CheckpointError(
            f"The file {self._path} is damaged: it is not what was written. Delete the folder {self._path.parent}, "
            "which is made again when the run goes on."
        )


def write_checksums(path: Path, numbers: npt.NDArray[Any]) -> None:
    """Write the checksum of each block of an array, which has been written to a file, beside that file."""
    content = numbers.reshape(-1).view(np.uint8)
    sums = [crc32(content[start : start + _BLOCK].data) for start in range(0, len(content), _BLOCK)]
    np.array(sums, np.uint32).tofile(_beside(path))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.crc32")
