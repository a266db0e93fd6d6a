"""Reader for the weights of a CTranslate2 model, ``model.bin``, as float32.

The file is little-endian: the format's version, the kind of model and its revision, variables (name, shape, type,
values), then other names of variables. Source: https://github.com/OpenNMT/CTranslate2, ``model_spec.py`` and
``src/models/model.cc``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from torch import Tensor

from locant.errors import CheckpointError

_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
"""Types of values by their number in the file."""
_WIDTHS = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
_VERSIONS = range(4, 7)
"""Of the format; before 4 it did not say the types."""


@dataclass
class CTranslate2Weights:
    """The content of ``model.bin``.

    Attributes:
        kind: What CTranslate2 calls this kind of model.
        version: Of the format.
        revision: Of the names of the variables.
        variables: Values by name, float32, but attributes (scalars and texts) as they are; those with several names
            are there under each. Weights of int8 and int16 are multiplied out.
        quantized: The types among the weights that hold less than float32.
    """

    kind: str
    version: int
    revision: int
    variables: dict[str, Tensor]
    quantized: set[str] = field(default_factory=set)


def read_weights(content: bytes, what: str) -> CTranslate2Weights:
    """Return what a ``model.bin`` holds.

    Args:
        content: Of the file.
        what: Its name in messages.

    Raises:
        CheckpointError: It is damaged, or of a version that is not known.
    """
    reader = _Reader(content, what)
    version = reader.number("I")
    if version not in _VERSIONS:
        raise CheckpointError(
            f"{what} has version {version} of CTranslate2's format; versions {_VERSIONS[0]} to {_VERSIONS[-1]} are "
            "read. Convert the model again with a newer CTranslate2."
        )
    kind, revision = reader.text(), reader.number("I")
    stored: dict[str, tuple[str, Tensor]] = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        if name in stored:
            raise CheckpointError(f"{what} is damaged: it holds '{name}' twice.")
        stored[name] = reader.variable(name)
    aliases = {reader.text(): reader.text() for _ in range(reader.number("I"))}
    if reader.left:
        raise CheckpointError(f"{what} is damaged: {reader.left:,} bytes follow its end.")
    found = CTranslate2Weights(kind, version, revision, {})
    for name, (stored_type, tensor) in stored.items():
        if name.endswith(("_scale", "_zero")) and name.rpartition("_")[0] in stored:
            continue
        if name.endswith("weight") and stored_type != "float32":
            found.quantized.add(stored_type)
        if f"{name}_zero" in stored:
            raise CheckpointError(f"{what} holds '{name}' with a shift of its zero (AWQ), which is not read.")
        scale = stored.get(f"{name}_scale")
        found.variables[name] = tensor if scale is None else _multiplied(name, tensor, scale[1], what)
    for alias, name in aliases.items():
        if name not in found.variables:
            raise CheckpointError(f"{what} is damaged: '{alias}' is another name of '{name}', which it does not hold.")
        found.variables[alias] = found.variables[name]
    return found


def _multiplied(name: str, tensor: Tensor, scale: Tensor, what: str) -> Tensor:
    """Return integers as what they stand for: they are the weights times a scale for each row, or for all."""
    rows = scale if scale.ndim == 0 else scale[:, None]
    if tensor.ndim != 2 or scale.ndim > 1 or (scale.ndim and len(scale) != len(tensor)) or not (scale != 0).all():
        raise CheckpointError(f"{what} is damaged: the scales of '{name}' do not fit it.")
    return tensor.float() / rows


class _Reader:
    """Reads the file from its beginning, and nothing behind its end."""

    def __init__(self, content: bytes, what: str) -> None:
        self._content = memoryview(content)
        self._place = 0
        self._what = what

    @property
    def left(self) -> int:
        return len(self._content) - self._place

    def take(self, size: int) -> memoryview:
        if size > self.left:
            raise CheckpointError(f"{self._what} is damaged: it ends too early.")
        self._place += size
        return self._content[self._place - size : self._place]

    def number(self, form: str) -> int:
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0])

    def text(self) -> str:
        raw = bytes(self.take(self.number("H")))
        try:
            return raw.removesuffix(b"\0").decode("utf-8")
        except UnicodeDecodeError:
            raise CheckpointError(f"{self._what} is damaged: the name of a variable is not UTF-8.") from None

    def variable(self, name: str) -> tuple[str, Tensor]:
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind = self.number("B")
        if kind >= len(_TYPES):
            raise CheckpointError(f"{self._what} holds '{name}' in the type {kind}, which is not known.")
        stored, size = _TYPES[kind], self.number("I")
        if size != prod(shape) * _WIDTHS[stored]:
            raise CheckpointError(f"{self._what} is damaged: '{name}' has not the size of its shape.")
        raw = self.take(size)
        if stored == "bfloat16":
            wide = np.frombuffer(raw, dtype="<u2").astype(np.uint32) << 16
            values = wide.view(np.float32)
        else:
            values = np.frombuffer(raw, dtype=np.dtype(stored).newbyteorder("<")).copy()
        tensor = torch.from_numpy(values.astype(values.dtype.newbyteorder("="))).reshape(shape)
        return stored, tensor.float() if stored in ("float16", "bfloat16") else tensor
