"""The files of a model folder that strangers wrote: JSON whose types are checked before use, and weights.

No code of a folder is run, and nothing is taken on before its size is known.
"""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Annotated, Any, Self
from zipfile import ZIP_STORED, BadZipFile, ZipFile, is_zipfile

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

_MOST_NAMES = 4
_SHARD = re.compile(r"\w[\w.-]*\.(safetensors|bin)", re.ASCII)


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
        CheckpointError: None is there, a shard is missing or not in the folder, or a file is damaged or holds more
            than tensors.
        ConfigError: An index does not say which file has which tensor.
    """
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return _read_file(folder / name)
        path = folder / f"{name}.index.json"
        if path.is_file():
            return _read_shards(path, _Index.read(path).weight_map)
    raise CheckpointError(
        f"{folder} holds neither model.safetensors nor pytorch_model.bin, nor an index of shards (.index.json)."
    )


def _read_shards(index: Path, places: dict[str, str]) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        path = index.parent / name
        if not _SHARD.fullmatch(name):
            raise CheckpointError(f"{index} names {name!r}, which is no file of weights in its folder.")
        if not path.is_file():
            raise CheckpointError(f"{index} names {name}, which is not there. Copy all shards of the model.")
        weights |= {key: tensor for key, tensor in _read_file(path).items() if places.get(key) == name}
    missing = sorted(places.keys() - weights.keys())
    if missing:
        raise CheckpointError(f"{places[missing[0]]} lacks '{missing[0]}', which {index} says it holds.")
    return weights


def _read_file(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            weights = load_file(path)
        else:
            _require_safe(path, torch.__version__)
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError, BadZipFile) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"The weights {path} are damaged, or hold more than tensors: {first}") from None
    if not isinstance(weights, dict) or not all(map(_is_plain, weights.items())):
        raise CheckpointError(f"The weights {path} are not tensors by name.")
    numbers = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    expanded = any(
        tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes() for tensor in weights.values()
    )
    # Tied matrices are under up to four names; more is made of nothing, by strides of zero or storages shared.
    if numbers > _MOST_NAMES * path.stat().st_size or expanded:
        raise CheckpointError(
            f"The weights {path} claim {numbers / 1e6:,.0f} MB of numbers, which the file does not hold. Copy it again."
        )
    return weights


def _require_safe(path: Path, version: str) -> None:
    """Check that this torch reads a pickle safely, and that it is no archive that unpacks to more than it is."""
    major, minor = (int(number) for number in version.split(".")[:2])
    if (major, minor) < (2, 10):  # CVE-2026-24747: weights_only can be made to corrupt memory
        raise CheckpointError(
            f"A pickle such as {path} is read safely from torch 2.10 on, and this is torch {version}. Convert the "
            "weights to model.safetensors, or install a newer torch."
        )
    if is_zipfile(path):
        with ZipFile(path) as archive:
            if any(part.compress_type != ZIP_STORED for part in archive.infolist()):
                raise CheckpointError(
                    f"The weights {path} are compressed, as torch.save never writes them. Get them again."
                )


def _is_plain(item: tuple[Any, Any]) -> bool:
    name, tensor = item
    return (
        isinstance(name, str) and isinstance(tensor, Tensor) and tensor.layout == torch.strided and not tensor.is_meta
    )
