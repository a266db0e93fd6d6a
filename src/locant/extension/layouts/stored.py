"""Tensors in safetensors files, which of them become rotated features, and their rows in another order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from locant.errors import UsageError
from locant.extension.layouts.rows import RotatedRows
from locant.parsing import parse_json
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotation import layout_order

if TYPE_CHECKING:
    from torch import nn

_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Sizes of the numbers whose rows are numbers in the same scale; those of quantized weights are not."""


class StoredTensor(NamedTuple):
    """A tensor in a file: its type as safetensors names it, its shape, and at which byte it begins."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int


def stored_tensors(files: Iterable[Path]) -> dict[str, StoredTensor]:
    """Return the tensors in files by name.

    Raises:
        UsageError: A file is damaged, or two have a tensor of one name.
    """
    from safetensors import SafetensorError, safe_open

    found: dict[str, StoredTensor] = {}
    for file in files:
        try:
            with safe_open(file, framework="np"):  # which checks names, sizes and places
                pass
        except (SafetensorError, OSError) as error:
            raise UsageError(f"{file} is no whole safetensors file. Copy or download it again.") from error
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            header: dict[str, Any] = parse_json(opened.read(size))
        for name, about in header.items():
            if name in found:
                raise UsageError(f"{file} and {found[name].file.name} both have the tensor '{name}'.")
            if name != "__metadata__":
                start = 8 + size + about["data_offsets"][0]
                found[name] = StoredTensor(file, about["dtype"], tuple(about["shape"]), start)
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


def permute_rows(
    file: Path, tensor: StoredTensor, rows: RotatedRows, source: RotaryLayout, target: RotaryLayout
) -> None:
    """Bring the rows of a tensor from one layout into another, in a copy of the file that it is stored in.

    Raises:
        OSError: The copy is not writable.
    """
    shape = math.prod(tensor.shape[: rows.axis]), rows.size, math.prod(tensor.shape[rows.axis + 1 :])
    numbers = np.fromfile(file, f"V{_BYTES[tensor.dtype]}", math.prod(shape), offset=tensor.start)
    blocks, order = numbers.reshape(shape), layout_order(rows.count, source=source, target=target).numpy()
    for first in rows.starts:
        blocks[:, first : first + rows.count] = blocks[:, first + order]
    with file.open("r+b") as opened:
        opened.seek(tensor.start)
        opened.write(numbers.data)
