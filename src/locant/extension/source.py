"""Finding and reading the file that holds a model's rotary configuration; nothing of the model is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from locant.errors import UsageError
from locant.extension.gguf_file import MAGIC, read_gguf_file

_CONFIG = "config.json"
_LARGEST_CONFIG = 10_000_000
_MOST_ENTRIES = 2000
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class Source:
    """What a file says, before anybody reads a meaning into it.

    Attributes:
        path: The file.
        kind: Its dialect.
        content: The object in config.json, or the metadata of a GGUF file.
        tensors: A GGUF file's tensors of rotary factors, float32, by name.
    """

    path: Path
    kind: Literal["huggingface", "gguf"]
    content: Mapping[str, Any]
    tensors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def load_source(model: Path) -> Source:
    """Read a model's configuration.

    Args:
        model: A folder with config.json, a config.json, or a GGUF file.

    Raises:
        UsageError: There is nothing there, or something that cannot be read as one of these.
    """
    try:
        path = _file_of(model)
        with path.open("rb") as file:
            start = file.read(4)
        if start == MAGIC:
            return Source(path, "gguf", *read_gguf_file(path))
        if start.startswith(_PICKLE_STARTS) or path.suffix.lower() in _PICKLE_SUFFIXES:
            raise UsageError(
                f"{path} looks like a pickle checkpoint, which can execute code when it is opened and holds no "
                f"configuration. Give the folder with the model's {_CONFIG}, or a GGUF file."
            )
        if path.suffix.lower() == ".safetensors":
            raise UsageError(f"{path} holds weights alone. Give its folder, with the model's {_CONFIG}.")
        if path.suffix.lower() == ".gguf":
            raise UsageError(f"{path} is no GGUF file: it does not begin with the letters GGUF. Download it again.")
        return Source(path, "huggingface", _read_object(path))
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{model} cannot be read: {error}.") from error


def _file_of(model: Path) -> Path:
    if model.is_dir():
        if not (model / _CONFIG).is_file():
            raise UsageError(
                f"The folder {model} holds no {_CONFIG}. Give a model's folder, or a GGUF file by its name."
            )
        return model / _CONFIG
    if not model.exists():
        raise UsageError(
            f"There is no {model}. Give a local folder with a {_CONFIG}, that file itself, or a GGUF file; nothing is "
            "downloaded."
        )
    if not model.is_file():
        raise UsageError(f"{model} is neither a file nor a folder.")
    return model


def _read_object(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as file:
        raw = file.read(_LARGEST_CONFIG + 1)
    if len(raw) > _LARGEST_CONFIG:
        raise UsageError(
            f"{path} is larger than {_LARGEST_CONFIG // 1_000_000} MB; no model's configuration is. Give its {_CONFIG}."
        )
    try:
        content = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}. Copy the file again.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold a JSON object; it holds a {type(content).__name__}.")
    groups = [content, *(value for value in content.values() if isinstance(value, dict))]
    if max(map(len, groups)) > _MOST_ENTRIES:
        raise UsageError(f"{path} has a group of more than {_MOST_ENTRIES} entries; no model's configuration has.")
    return content
