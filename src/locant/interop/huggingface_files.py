"""Readers for the files of a Marian or M2M-100 folder in Hugging Face's format, without running code from it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar
from zipfile import ZIP_STORED, BadZipFile, ZipFile, is_zipfile

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json
from locant.settings import Settings

_MOST_NAMES = 4
_LAYER = re.compile(r"model\.(?P<stack>encoder|decoder)\.layers\.(?P<number>\d{1,6})\.")


class MarianConfig(Settings):
    """What matters of Marian's ``config.json``, with the defaults of ``transformers``, which leaves them out.

    Attributes:
        model_type: What ``config.json`` calls this kind of model.
        title: Its name in messages.
        norm: Where its layer norms stand, as in Locant's configuration.
        tables: The tensors that hold its sinusoid, where the weights do.
        has_bias: Whether its logits have a bias.
    """

    model_type: ClassVar[str] = "marian"
    title: ClassVar[str] = "Marian"
    norm: ClassVar[Literal["post", "pre"]] = "post"
    tables: ClassVar[tuple[str, ...]] = (
        "model.encoder.embed_positions.weight",
        "model.decoder.embed_positions.weight",
    )
    has_bias: ClassVar[bool] = True

    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    max_position_embeddings: int = 1024
    encoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_layers: int = 12
    decoder_ffn_dim: int = 4096
    decoder_attention_heads: int = 16
    activation_function: str = "gelu"
    d_model: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    decoder_start_token_id: int = 58100
    scale_embedding: bool = False
    pad_token_id: int = 58100
    eos_token_id: int = 0
    share_encoder_decoder_embeddings: bool = True

    @property
    def target_size(self) -> int:
        """Rows of the target embedding; those of the source are ``vocab_size``."""
        own = None if self.share_encoder_decoder_embeddings else self.decoder_vocab_size
        return own or self.vocab_size

    @property
    def position_options(self) -> dict[str, Any]:
        """Options of Locant's sinusoidal scheme."""
        return {"dialect": "concatenated"}


Config = TypeVar("Config", bound=MarianConfig)


def read_model_type(folder: Path) -> str | None:
    """Return what ``config.json`` calls the kind of model.

    Raises:
        CheckpointError: The folder or the file is missing, or it is not JSON.
    """
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder}.")
    data = read_json(folder / "config.json")
    return data.get("model_type") if isinstance(data, dict) else None


def read_config(folder: Path, kind: type[Config]) -> Config:
    """Read ``config.json`` as that of one kind of model.

    Raises:
        CheckpointError: The folder or the file is missing, or it is not JSON.
        ConfigError: It describes another kind of model, or a value is of the wrong type.
    """
    found, path = read_model_type(folder), folder / "config.json"
    if found != kind.model_type:
        raise ConfigError(f"{path} describes a model of type {found!r}, not '{kind.model_type}'.")
    data = read_json(path)
    config = kind.parse({key: data[key] for key in kind.model_fields if key in data}, str(path))
    special = (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id)
    size = min(config.vocab_size, config.target_size)
    if not all(0 <= index < size for index in special):
        raise ConfigError(
            f"{path}: pad_token_id, decoder_start_token_id and eos_token_id must be ids of the vocabulary of "
            f"{size} tokens; got {special}."
        )
    return config


def read_weights(folder: Path, config: MarianConfig) -> dict[str, Tensor]:
    """Read ``model.safetensors`` or, where there is none, ``pytorch_model.bin``, as float32.

    Raises:
        CheckpointError: Neither is there, or the file is damaged or holds more than tensors, or tensors of other
            vocabularies, layers or widths than those of the configuration.
    """
    path = folder / "model.safetensors"
    try:
        if path.is_file():
            weights = load_file(path)
        else:
            path = folder / "pytorch_model.bin"
            if not path.is_file():
                raise CheckpointError(f"{folder} holds neither model.safetensors nor pytorch_model.bin.")
            _require_safe_unpickler(path, torch.__version__)
            _require_stored(path)
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError, BadZipFile) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"The weights {path} are damaged, or hold more than tensors: {first}") from None
    if not isinstance(weights, dict) or not all(map(_is_plain, weights.items())):
        raise CheckpointError(f"The weights {path} are not tensors by name.")
    numbers = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    # Tied matrices stand under up to four names; more is made of nothing, by strides of zero or storages shared.
    if numbers > _MOST_NAMES * path.stat().st_size or any(map(_is_expanded, weights.values())):
        raise CheckpointError(
            f"The weights {path} claim {numbers / 1e6:,.0f} MB of numbers, which the file does not hold. Copy it again."
        )
    _require_sizes(weights, config, folder / "config.json")
    return {name: tensor.float() for name, tensor in weights.items()}


def _require_safe_unpickler(path: Path, version: str) -> None:
    """Raise CheckpointError for a torch whose ``weights_only`` can be made to corrupt memory (CVE-2026-24747)."""
    major, minor = (int(number) for number in version.split(".")[:2])
    if (major, minor) < (2, 10):
        raise CheckpointError(
            f"A pickle such as {path} is read safely from torch 2.10 on, and this is torch {version}. Convert the "
            "weights to model.safetensors, or install a newer torch."
        )


def _require_sizes(weights: Mapping[str, Tensor], config: MarianConfig, path: Path) -> None:
    """Check that the weights have the vocabularies, layers and widths of a configuration, before any is used."""
    stacks = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    found: dict[str, set[int]] = {name: set() for name in stacks}
    for name in weights:
        if layer := _LAYER.match(name):
            found[layer["stack"]].add(int(layer["number"]))
    for stack, layers in stacks.items():
        if layers != len(found[stack]) or layers != max(found[stack], default=-1) + 1:
            raise CheckpointError(f"{path} says {stack}_layers {layers}, but the weights have {len(found[stack])}.")
    longest = max((side for tensor in weights.values() for side in tensor.shape), default=0)
    for key in ("vocab_size", "decoder_vocab_size", "d_model"):
        if (getattr(config, key) or 0) > longest:
            raise CheckpointError(
                f"{path} says {key} {getattr(config, key)}, but no tensor of the weights has more than "
                f"{longest} rows or columns."
            )
    for key, name in (
        ("encoder_ffn_dim", "model.encoder.layers.0.fc1.weight"),
        ("decoder_ffn_dim", "model.decoder.layers.0.fc1.weight"),
    ):
        size, tensor = getattr(config, key), weights.get(name)
        if tensor is not None and (tensor.dim() != 2 or len(tensor) != size):
            raise CheckpointError(f"{path} says {key} {size}, but {name} is {' x '.join(map(str, tensor.shape))}.")


def _require_stored(path: Path) -> None:
    """Check that a pickle of tensors is no archive that unpacks to more than it is, as torch writes none."""
    if is_zipfile(path):
        with ZipFile(path) as archive:
            if any(part.compress_type != ZIP_STORED for part in archive.infolist()):
                raise CheckpointError(
                    f"The weights {path} are compressed, as torch.save never writes them. Get them again."
                )


def _is_plain(item: tuple[object, object]) -> bool:
    name, tensor = item
    return (
        isinstance(name, str) and isinstance(tensor, Tensor) and tensor.layout == torch.strided and not tensor.is_meta
    )


def _is_expanded(tensor: Tensor) -> bool:
    return tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()


def read_optional(path: Path, key: str) -> object:
    """Return the value of a key of a JSON file, or ``None`` where file or key are missing."""
    data = read_json(path) if path.is_file() else None
    return data.get(key) if isinstance(data, dict) else None
