"""Tensors in safetensors files, which are copied with the rows of some of them in another order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np

from locant.errors import CheckpointError, UsageError
from locant.extension.layouts.rows import RotatedRows
from locant.parsing import parse_json
from locant.positions.rotary.config import RotaryLayout

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Sizes of the numbers whose rows are numbers in the same scale; those of quantized weights are not."""
_AT_ONCE = 1 << 24
_LONGEST_HEADER = 100_000_000  # of safetensors itself


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file.

    Attributes:
        file: The file.
        dtype: As safetensors names it.
        shape: Its shape.
        start: Where it begins in the file, in bytes.
        stop: Where it ends.
    """

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def stored_tensors(files: Iterable[Path]) -> dict[str, StoredTensor]:
    """Return the tensors in files by name.

    Raises:
        UsageError: A file is damaged, or two have a tensor of one name.
    """
    found: dict[str, StoredTensor] = {}
    for file in files:
        for name, tensor in _tensors_of(file).items():
            if name in found:
                raise UsageError(f"{file} and {found[name].file.name} both have the tensor '{name}'.")
            found[name] = tensor
    return found


def _tensors_of(file: Path) -> dict[str, StoredTensor]:
    size = file.stat().st_size
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
            raise _damaged(file)
        raw = opened.read(length)
    try:
        header: dict[str, Any] = parse_json(raw)
        tensors = {
            name: StoredTensor(
                file,
                str(about["dtype"]),
                tuple(int(each) for each in about["shape"]),
                8 + length + int(about["data_offsets"][0]),
                8 + length + int(about["data_offsets"][1]),
            )
            for name, about in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise _damaged(file) from error
    for tensor in tensors.values():
        held = _BYTES.get(tensor.dtype, 0) * math.prod(tensor.shape)
        if not 8 + length <= tensor.start <= tensor.stop <= size or (held and held != tensor.stop - tensor.start):
            raise _damaged(file)
    return tensors


def _damaged(file: Path) -> UsageError:
    return UsageError(f"{file} is no whole safetensors file. Copy or download it again.")


def check_rows(name: str, tensor: StoredTensor, rows: RotatedRows, shape: tuple[int, ...]) -> None:
    """Check that a tensor in a file is the one whose rows are known.

    Args:
        name: Its name.
        tensor: Where it is.
        rows: Its rows.
        shape: Of the class's tensor.

    Raises:
        UsageError: It holds something else than plain numbers, or has another shape.
    """
    if tensor.dtype not in _BYTES:
        raise UsageError(
            f"'{name}' in {tensor.file.name} holds {tensor.dtype} numbers, so the weights are quantized. Convert the "
            "weights that they were made of, then quantize those."
        )
    if len(tensor.shape) != len(shape) or tensor.shape[rows.axis] != rows.size:
        raise UsageError(
            f"'{name}' in {tensor.file.name} has the shape {list(tensor.shape)}; by config.json, axis {rows.axis} "
            f"should have {rows.size} rows."
        )


def copy_converted(
    source: Path,
    target: Path,
    tensors: Mapping[str, StoredTensor],
    rows: Mapping[str, RotatedRows],
    layout: RotaryLayout,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> None:
    """Copy a file, with the rows of some tensors in another layout; all other bytes stay as they are.

    One tensor is held in memory at a time.

    Args:
        source: A safetensors file.
        target: Where to; should be a temporary name.
        tensors: The tensors in it, by name.
        rows: The rows that are converted, by the same names.
        layout: The layout that they shall have.
        on_bytes: Called with how many bytes were written since.

    Raises:
        CheckpointError: The file ended early.
        OSError: The disk is full or not writable.
    """
    converted = sorted((tensors[name].start, name) for name in rows if name in tensors)
    with source.open("rb") as reading, target.open("wb") as writing:
        for start, name in converted:
            _copy(reading, writing, start - reading.tell(), on_bytes)
            writing.write(_converted(reading, tensors[name], rows[name], layout))
            on_bytes(tensors[name].stop - start)
        _copy(reading, writing, source.stat().st_size - reading.tell(), on_bytes)


def _copy(reading: BufferedReader, writing: IO[bytes], count: int, on_bytes: Callable[[int], None]) -> None:
    while count > 0:
        part = reading.read(min(count, _AT_ONCE))
        if not part:
            raise CheckpointError(f"{reading.name} became shorter while it was read.")
        writing.write(part)
        count -= len(part)
        on_bytes(len(part))


def _converted(reading: BufferedReader, tensor: StoredTensor, rows: RotatedRows, layout: RotaryLayout) -> memoryview:
    numbers = np.empty(tensor.stop - tensor.start, dtype=np.uint8)
    if reading.readinto(numbers.data) != numbers.size:
        raise CheckpointError(f"{reading.name} became shorter while it was read.")
    outer, inner = math.prod(tensor.shape[: rows.axis]), math.prod(tensor.shape[rows.axis + 1 :])
    blocks = numbers.reshape(outer, rows.size, inner * _BYTES[tensor.dtype])
    order = rows.order(layout)
    for start in rows.starts:
        block = slice(start, start + rows.count)
        blocks[:, block] = blocks[:, block][:, order]
    return numbers.data
