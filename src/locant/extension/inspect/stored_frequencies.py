"""Frequencies of rotary positions that a checkpoint stores beside its weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.rotary_configs.case import Stored

if TYPE_CHECKING:
    from torch import Tensor

_MOST_FILES = 1000
_MOST_PAIRS = 16_384
_FLOAT32_ERROR = 1e-5  # relative; frequencies that were computed in float32 are not so wrong
_ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-10}


def stored_frequencies(folder: Path, configs: Iterable[RotaryConfig]) -> Iterator[Stored]:
    """Yield the frequencies (``*inv_freq``) in the safetensors files of a folder that are not those of a configuration.

    Only the heads of the files and these tensors are read; a file that is damaged is left out.

    Args:
        folder: Where the files are.
        configs: The configurations of the model.
    """
    from safetensors import SafetensorError

    # Checkpoints of position interpolation hold the frequencies from before it.
    stated = [each for config in configs for each in (config, replace(config, scaling=Unscaled(), max_length=None))]
    known: dict[bytes, tuple[str, int, Tensor]] = {}
    for path in sorted(folder.glob("*.safetensors"))[:_MOST_FILES]:
        try:
            for name, tensor in _frequencies_in(path):
                key = f"{tensor.dtype}".encode() + tensor.double().numpy().tobytes()
                first, count, _ = known.get(key, (f"{name} in {path.name}", 0, tensor))
                known[key] = (first, count + 1, tensor)
        except (SafetensorError, OSError):
            continue
    for name, count, tensor in known.values():
        where = name if count == 1 else f"{name} and {count - 1} others with the same numbers"
        yield from _compared(tensor, where, stated)


def _frequencies_in(path: Path) -> Iterator[tuple[str, Tensor]]:
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:  # needs no torch, whose import takes seconds
        names = [name for name in file.keys() if name.rpartition(".")[2].endswith("inv_freq")]  # noqa: SIM118
    if not names:
        return
    with safe_open(path, framework="pt") as file:
        for name in names:
            shape = file.get_slice(name).get_shape()
            if len(shape) == 1 and 0 < shape[0] <= _MOST_PAIRS:
                tensor = file.get_tensor(name)
                if tensor.is_floating_point():
                    yield name, tensor


def _compared(tensor: Tensor, where: str, stated: Iterable[RotaryConfig]) -> Iterator[Stored]:
    from locant.rotary_configs.identify import identify

    found, stored = identify(tensor), tensor.tolist()
    rounded = found.stored_as if found.stored_as in _ROUNDING else None
    best = Stored(where, str(found))
    for config in stated:
        exact = [float(each) for each in config.frequencies()]
        if len(exact) == len(stored):
            pairs = list(zip(stored, exact, strict=True))
            error = max(abs(own - other) / (other or 1) for own, other in pairs)
            if error < best.error:
                best = replace(best, error=error, turned=max(abs(own - other) for own, other in pairs))
    if best.error > _ROUNDING.get(rounded or "", _FLOAT32_ERROR):
        yield replace(best, rounded_to=None)
    elif best.error > _FLOAT32_ERROR:
        yield replace(best, rounded_to=rounded)
