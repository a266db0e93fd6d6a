"""Numbers on disk, mapped into memory, of which each block is compared with its checksum when it is first read.

So damage is noticed before it is trained on, and a cache of many gigabytes is not read twice for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError

_BLOCK = 1 << 16  # bytes


class CheckedNumbers:
    """An array on disk, read by indexing.

    Args:
        path: Its file; beside it may be what :func:`write_checksums` wrote. Earlier versions wrote none.
        numbers: The array, mapped; [N, ...].

    Raises:
        CheckpointError: There are not as many checksums as blocks; on reading, a block is not what was written.
    """

    def __init__(self, path: Path, numbers: npt.NDArray[Any]) -> None:
        self._path, self._numbers = path, numbers
        self._bytes = numbers.reshape(-1).view(np.uint8)
        blocks = -(-len(self._bytes) // _BLOCK)
        sums = _beside(path)
        self._sums = np.fromfile(sums, np.uint32) if sums.exists() else None
        self._checked = np.full(blocks, self._sums is None)
        if self._sums is not None and len(self._sums) != blocks:
            raise self._damage()

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: int | slice | npt.NDArray[np.integer[Any]]) -> Any:
        row = self._numbers.itemsize * int(np.prod(self._numbers.shape[1:]))
        if isinstance(place, slice):
            start, end, _ = place.indices(len(self))
            blocks = np.arange(start * row // _BLOCK, -(-end * row // _BLOCK))
        else:
            blocks = np.atleast_1d(np.asarray(place, np.int64)) % max(1, len(self)) * row // _BLOCK
        new = blocks[~self._checked[blocks]]
        for block in np.unique(new).tolist() if len(new) else ():
            assert self._sums is not None
            if crc32(self._bytes[block * _BLOCK : (block + 1) * _BLOCK].data) != self._sums[block]:
                raise self._damage()
            self._checked[block] = True
        return self._numbers[place]

    def _damage(self) -> CheckpointError:
        return CheckpointError(
            f"The file {self._path} is damaged: it is not what was written. Delete the folder {self._path.parent}, "
            "which is made anew when the run goes on."
        )


def mapped(path: Path, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
    """Map a flat file of so many numbers into memory.

    Raises:
        CheckpointError: The file is missing or has another size.
    """
    dtype = np.dtype(dtype)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"The token cache file {path} cannot be read: {error.strerror}.") from None
    if size != count * dtype.itemsize:
        raise CheckpointError(f"The token cache file {path} is damaged: {size} bytes, not {count * dtype.itemsize}.")
    # An empty file cannot be mapped.
    return np.memmap(path, dtype=dtype, mode="r", shape=(count,)) if count else np.zeros(0, dtype)


def write_checksums(path: Path, numbers: npt.NDArray[Any]) -> None:
    """Write the checksum of each block of an array, which has been written to a file, beside that file."""
    content = numbers.reshape(-1).view(np.uint8)
    sums = [crc32(content[start : start + _BLOCK].data) for start in range(0, len(content), _BLOCK)]
    np.array(sums, np.uint32).tofile(_beside(path))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.crc32")
