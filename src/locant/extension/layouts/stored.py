"""Tensors in safetensors files, which of them become rotated features, and copies with their rows in another order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from locant.errors import CheckpointError, UsageError
from locant.extension.asked.rows import RotatedRows
from locant.parsing import parse_json
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotation import layout_order

if TYPE_CHECKING:
    from torch import nn

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
        size = file.stat().st_size
        with file.open("rb") as opened:
            first = 8 + int.from_bytes(opened.read(8), "little")
            raw = opened.read(first - 8) if first <= min(size, _LONGEST_HEADER) else b""
        try:
            header: dict[str, Any] = parse_json(raw)
            header.pop("__metadata__", None)
            for name, about in header.items():
                start, stop = (first + int(each) for each in about["data_offsets"])
                tensor = StoredTensor(file, str(about["dtype"]), tuple(map(int, about["shape"])), start, stop)
                held = _BYTES.get(tensor.dtype, 0) * math.prod(tensor.shape)
                if not first <= start <= stop <= size or (held and held != stop - start):
                    raise ValueError
                if name in found:
                    raise UsageError(f"{file} and {found[name].file.name} both have the tensor '{name}'.")
                found[name] = tensor
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{file} is no whole safetensors file. Copy or download it again.") from error
    return found


def rows_in_files(
    model: nn.Module, rows: Mapping[str, RotatedRows], stored: Mapping[str, StoredTensor]
) -> dict[str, RotatedRows]:
    """Return the rows of the tensors in files, by the names that these have there.

    Names are translated as transformers does when it loads a checkpoint. Tensors of further layers, which the class
    ignores (those that predict more tokens, say), are taken as well where they are named and shaped alike.

    Raises:
        UsageError: A tensor is not there, is of another shape, quantized, or taken apart while it is loaded.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    conversions: list[Any] = get_model_conversion_mapping(model)  # type: ignore[arg-type]
    renamings = [each for each in conversions if isinstance(each, WeightRenaming)]
    converters = [each for each in conversions if isinstance(each, WeightConverter)]
    prefix = str(getattr(model, "base_model_prefix", ""))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    loaded: dict[str, str] = {}
    for name in stored:
        parameter, converter = rename_source_key(name, renamings, converters, prefix, dict(parameters))
        if converter is None and (name == parameter or parameter not in loaded):
            loaded[parameter] = name
    found: dict[str, RotatedRows] = {}
    for parameter, each in rows.items():
        if parameter not in loaded:
            raise UsageError(f"The files have no tensor that {type(model).__name__} takes as it is for '{parameter}'.")
        name = loaded[parameter]
        tensor = stored[name]
        if tensor.dtype not in _BYTES:
            raise UsageError(f"'{name}' holds quantized numbers, {tensor.dtype}. Convert those that they were made of.")
        if len(tensor.shape) != parameters[parameter].ndim or tensor.shape[each.axis] != each.size:
            raise UsageError(
                f"'{name}' has the shape {list(tensor.shape)}; by config.json it should have {each.size} rows."
            )
        found[name] = each
    numbered = {name: re.search(r"\d+", name) for name in stored}
    index = {name: int(each[0]) if each else -1 for name, each in numbered.items()}
    alike = {(re.sub(r"\d+", "*", name), stored[name].shape): each for name, each in found.items()}
    last = max(index[name] for name in found)
    further = {
        name: alike.get((re.sub(r"\d+", "*", name), stored[name].shape)) for name in stored if index[name] > last
    }
    return found | {name: each for name, each in further.items() if each is not None}


def copy_converted(
    source: Path,
    target: Path,
    tensors: Mapping[str, StoredTensor],
    rows: Mapping[str, RotatedRows],
    layouts: tuple[RotaryLayout, RotaryLayout],
    on_bytes: Callable[[int], None] = lambda count: None,
) -> None:
    """Copy a safetensors file, with the rows of some tensors in another layout; all other bytes stay as they are.

    One tensor is in memory at a time. ``layouts`` are the one that they have, and the one that they shall have;
    ``on_bytes`` is called with how many bytes were written since.

    Raises:
        CheckpointError: The file ended early.
        OSError: The disk is full or not writable.
    """
    converted = sorted((tensors[name].start, name) for name in rows if name in tensors)
    with source.open("rb") as reading, target.open("wb") as writing:

        def copy(size: int) -> None:
            while size > 0:
                part = _read(reading, min(size, _AT_ONCE))
                writing.write(part)
                size -= len(part)
                on_bytes(len(part))

        for start, name in converted:
            copy(start - reading.tell())
            tensor, each = tensors[name], rows[name]
            numbers = _read(reading, tensor.stop - start)
            outer, inner = math.prod(tensor.shape[: each.axis]), math.prod(tensor.shape[each.axis + 1 :])
            blocks = numbers.reshape(outer, each.size, inner * _BYTES[tensor.dtype])
            order = layout_order(each.count, source=layouts[0], target=layouts[1]).numpy()
            for first in each.starts:
                blocks[:, first : first + each.count] = blocks[:, first + order]
            writing.write(numbers)
            on_bytes(len(numbers))
            del numbers, blocks
        copy(source.stat().st_size - reading.tell())


def _read(file: BufferedReader, size: int) -> Any:
    numbers = np.empty(size, dtype=np.uint8)
    if file.readinto(numbers.data) != size:
        raise CheckpointError(f"{file.name} became shorter while it was read.")
    return numbers
