"""Records of an evaluation: one small file a measurement, so that nothing is measured twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError
from locant.files import read_json, write_json

_SAMPLES, _SAMPLE_BYTES = 256, 4096


def fingerprint(data: object) -> str:
    """Return a short name for anything that JSON can say."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


def weights_fingerprint(path: Path) -> dict[str, str]:
    """Return a fingerprint of every file that holds a model's weights, by its name.

    Size and samples at even distances tell apart files that were trained differently, without reading them whole.

    Args:
        path: A GGUF file, or a folder with safetensors or its config.json.
    """
    folder = path if path.is_dir() else path.parent
    files = [path] if path.suffix == ".gguf" else sorted(folder.glob("*.safetensors"))
    return {file.name: _sampled(file) for file in files}


def _sampled(path: Path) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for index in range(_SAMPLES):
            file.seek(max(size - _SAMPLE_BYTES, 0) * index // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:12]


class Records:
    """Measurements in a folder, each written whole or not at all.

    Args:
        folder: Where to keep them; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, model: str, name: str) -> dict[str, Any] | None:
        """Return a measurement, or ``None`` where it has not been taken.

        Raises:
            CheckpointError: Its file is damaged.
        """
        path = self._path(model, name)
        if not path.is_file():
            return None
        record = read_json(path)
        if not isinstance(record, dict):
            raise CheckpointError(f"The file {path} holds no measurement. Remove it; it will be measured again.")
        return record

    def put(self, model: str, name: str, record: Mapping[str, Any]) -> None:
        """Keep a measurement.

        Raises:
            CheckpointError: The disk is full or not writable.
        """
        write_json(self._path(model, name), record)

    def _path(self, model: str, name: str) -> Path:
        return self.folder / model / f"{name}.json"
