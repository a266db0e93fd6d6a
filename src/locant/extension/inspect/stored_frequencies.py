"""Frequencies of rotary positions that a checkpoint stores beside its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.fields import Finding

if TYPE_CHECKING:
    from torch import Tensor

_MOST_FILES = 1000
_MOST_PAIRS = 16_384
# Frequencies that were computed in float32 differ by less than this from the exact ones, relatively.
_FLOAT32_ERROR = 1e-5
_COARSE_ERROR = {"bfloat16": 2.0**-8, "float16": 2.0**-10}


def stored_findings(folder: Path, configs: Mapping[str, RotaryConfig]) -> Iterator[Finding]:
    """Yield what is wrong with the frequencies (``*inv_freq``) in the safetensors files of a folder.

    Args:
        folder: Where the files are; only their heads and these tensors are read.
        configs: The configurations, by layer type.
    """
    from safetensors import SafetensorError

    groups: dict[bytes, tuple[str, int, Tensor]] = {}
    for path in sorted(folder.glob("*.safetensors"))[:_MOST_FILES]:
        if not path.is_file():
            continue
        try:
            for name, tensor in _frequencies_in(path):
                key = f"{tensor.dtype}".encode() + tensor.double().numpy().tobytes()
                first, count, _ = groups.get(key, (f"{name} in {path.name}", 0, tensor))
                groups[key] = (first, count + 1, tensor)
        except (SafetensorError, OSError) as error:
            yield Finding("warning", f"{path.name} cannot be read: {error}.", "Download or copy the file again.")
    for name, count, tensor in groups.values():
        where = name if count == 1 else f"{name} and {count - 1} others with the same numbers"
        found = _compare(tensor, where, configs)
        if found is not None:
            yield found


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


def _compare(tensor: Tensor, where: str, configs: Mapping[str, RotaryConfig]) -> Finding | None:
    from locant.rotary_configs.identify.identify import identify

    found = identify(tensor)
    coarse = found.stored_as if found.stored_as in _COARSE_ERROR else ""
    precision = _COARSE_ERROR.get(coarse, _FLOAT32_ERROR)
    # Checkpoints of position interpolation hold the frequencies from before it.
    stated = [*configs.values(), *(replace(config, scaling=Unscaled(), max_length=None) for config in configs.values())]
    errors = [(_error(tensor, config), config) for config in stated if len(config.frequencies()) == len(tensor)]
    error, config = min(errors, key=lambda pair: pair[0], default=(float("inf"), None))
    if config is None or error > precision:
        return Finding(
            "error",
            f"{where} holds other frequencies than the configuration says. {found}",
            "Find out which the model was trained with. transformers computes them from the configuration and passes "
            "over the stored ones; other engines may take those.",
        )
    if not coarse or error <= _FLOAT32_ERROR:
        return None
    turned = _worst_angle(tensor, config)
    length = max((each.max_length or 0) for each in configs.values()) or 4096
    return Finding(
        "warning",
        f"{where} holds frequencies rounded to {coarse}, wrong by up to {error:.1e} relatively: at position {length} a "
        f"pair is turned by up to {turned * length:.2g} radians too far or too little.",
        "Compute them from the configuration, in float32 or better, and remove the tensor from the checkpoint.",
    )


def _exact(config: RotaryConfig) -> list[float]:
    return [float(frequency) for frequency in config.frequencies()]


def _error(tensor: Tensor, config: RotaryConfig) -> float:
    """Return the largest relative difference from the frequencies of a configuration."""
    pairs = zip(tensor.tolist(), _exact(config), strict=True)
    return max(abs(stored - exact) / exact if exact else abs(stored) for stored, exact in pairs)


def _worst_angle(tensor: Tensor, config: RotaryConfig) -> float:
    """Return the largest difference in radians a token."""
    return max(abs(stored - exact) for stored, exact in zip(tensor.tolist(), _exact(config), strict=True))
