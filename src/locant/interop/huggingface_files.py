"""The files of a model folder that strangers wrote: JSON whose types are checked before use, and weights.

No code of a folder is run.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Annotated, Any, Self

import torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from locant.errors import CheckpointError
from locant.files import read_json
from locant.settings import Settings

Row = Annotated[int, Field(strict=True, ge=0)]
"""A row of the embeddings."""


class Foreign(Settings):
    """A JSON file of another program: entries that are read have the right type, others are left alone."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def read(cls, path: Path, *, optional: bool = False) -> Self:
        """Read a file; ``null`` represents an entry's default.

        Args:
            path: The file.
            optional: Whether it may be missing, as if it were empty.

        Raises:
            CheckpointError: It is missing or not JSON.
            ConfigError: An entry is of the wrong type.
        """
        return cls.of({} if optional and not path.is_file() else read_json(path), str(path))

    @classmethod
    def of(cls, data: Any, where: str) -> Self:
        """Parse plain data as :meth:`read` does.

        Raises:
            ConfigError: An entry is of the wrong type.
        """
        if isinstance(data, dict):
            data = {key: value for key, value in data.items() if value is not None}
        return cls.parse(data, where)


class _Rows(Settings):
    rows: dict[str, Row]


def read_rows(path: Path) -> dict[str, int]:
    """Read a file that gives tokens their rows (``vocab.json``, ``added_tokens.json``).

    Raises:
        CheckpointError: It is missing or not JSON.
        ConfigError: It gives something else.
    """
    return _Rows.parse({"rows": read_json(path)}, str(path)).rows


class _Index(Foreign):
    weight_map: dict[str, str]


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read ``model.safetensors`` or ``pytorch_model.bin``, or the shards that an index beside it names.

    Returns:
        Tensors by name, of the types that they are stored in.

    Raises:
        CheckpointError: None is there, or a file is missing or damaged, or holds more than tensors.
        ConfigError: An index does not say which file has which tensor.
    """
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return _read_file(folder / name)
        path = folder / f"{name}.index.json"
        if path.is_file():
            shards = sorted(set(_Index.read(path).weight_map.values()))
            return {key: tensor for shard in shards for key, tensor in _read_file(folder / shard).items()}
    raise CheckpointError(
        f"{folder} holds neither model.safetensors nor pytorch_model.bin, nor an index of shards (.index.json)."
    )


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10):  # CVE-2026-24747: weights_only is not enough
            raise CheckpointError(
                f"A pickle such as {path} is read safely from torch 2.10 on, and this is torch {torch.__version__}. "
                "Convert the weights to model.safetensors, or install a newer torch."
            )
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"The weights {path} are missing, damaged, or more than tensors: {first}") from None
    if not isinstance(weights, dict) or not all(isinstance(one, Tensor) for one in weights.values()):
        raise CheckpointError(f"The weights {path} are not tensors by name.")
    return weights
