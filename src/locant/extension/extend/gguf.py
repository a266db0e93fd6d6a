"""Extending a GGUF file: new keys for rotary positions, everything else copied byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from locant.errors import ConfigError, MissingExtraError, UsageError
from locant.extension.extend.methods import extend_configs, main_layer
from locant.extension.source import EXTRA, Source
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.contexts import FACTORS, LONG_FACTORS, SHORT_FACTORS
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.gguf.reading import read_gguf
from locant.rotary_configs.gguf.writing import write_gguf
from locant.rotary_configs.layer_types import LOCAL

if TYPE_CHECKING:
    from gguf import GGUFReader

TRACE = "locant.extension."
"""Start of the keys that remember an extension and what it replaced; engines pass over them."""

_UINT32, _FLOAT32, _STRING = 4, 6, 8
_ROTARY_TENSORS = (FACTORS, LONG_FACTORS, SHORT_FACTORS)


def extended_configs(
    source: Source, method: str, target_length: int
) -> tuple[dict[str, RotaryConfig], dict[str, RotaryConfig]]:
    """Return a model's rotary configurations by layer type, before the extension and after it.

    Args:
        source: The GGUF file.
        method: One of :func:`~locant.extension.extend.methods.extension_methods`.
        target_length: Length in tokens that the model shall read.

    Raises:
        ConfigError: The file contradicts itself, or llama.cpp cannot compute the method for this model.
    """
    if source.content.get("split.count", 1) not in (0, 1):
        raise ConfigError("The model is one of several GGUF files. Merge them with llama-gguf-split --merge first.")
    architecture = source.content.get("general.architecture")
    parsed = _before_extension(read_gguf(source.content, source.tensors), source.content)
    configs = extend_configs(parsed, method, target_length)
    extended = configs[main_layer(configs)]
    assert extended.rotary_dim is not None
    if extended.scaling.gguf_form(extended.rotary_dim, extended.base, "GGUF") is None:
        raise ConfigError(
            f"llama.cpp has the same frequencies for texts of all lengths, so GGUF cannot express the method {method}. "
            "Take ntk, which is the same for the longest text."
        )
    write_gguf(configs, str(architecture))  # raises what else it cannot express
    return parsed.configs, configs


def extended_metadata(
    source: Source, method: str, target_length: int
) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
    """Return the keys and the tensors about rotary positions that the extended GGUF file has.

    Args and errors are those of :func:`extended_configs`.
    """
    before, configs = extended_configs(source, method, target_length)
    architecture = str(source.content["general.architecture"])
    old = before[main_layer(configs)]
    written = write_gguf(configs, architecture)
    names = _keys(architecture, ("context_length", "rope.freq_base", "rope.scaling."))
    new = {key: value for key, value in written.metadata.items() if key.startswith(names)}
    new[f"{TRACE}method"] = method
    if old.scaling == Unscaled() and old.max_length is not None:
        new |= {f"{TRACE}freq_base": float(old.base), f"{TRACE}context_length": old.max_length}
    return new, written.tensors


def write_extended_gguf(source: Source, target: Path, method: str, target_length: int) -> dict[str, Any]:
    """Write a GGUF file that differs from another one in its rotary positions alone.

    Args:
        source: The file to extend.
        target: Where to; should be a temporary name.
        method: One of :func:`~locant.extension.extend.methods.extension_methods`.
        target_length: Length in tokens that the model shall read.

    Returns:
        The keys that were written.

    Raises:
        ConfigError: As for :func:`extended_metadata`.
        UsageError: The file is damaged.
        MissingExtraError: gguf is not installed.
        OSError: The disk is full or not writable.
    """
    metadata, tensors = extended_metadata(source, method, target_length)
    architecture = str(source.content["general.architecture"])
    replaced = _keys(architecture, ("context_length", "rope.freq_base", "rope.scaling.", "rope.scale_linear"))
    finetuned = f"{architecture}.rope.scaling.finetuned"
    reader = _read(source.path)
    order = ">" if reader.byte_order == "S" else "<"
    kept = [
        field
        for name, field in reader.fields.items()
        if not name.startswith(("GGUF.", TRACE)) and (name == finetuned or not name.startswith(replaced))
    ]
    with target.open("wb") as file:
        copied = [tensor for tensor in reader.tensors if tensor.name not in _ROTARY_TENSORS]
        file.write(bytes(reader.data[:8]))
        file.write(struct.pack(f"{order}QQ", len(copied) + len(tensors), len(kept) + len(metadata)))
        for field in kept:
            file.write(b"".join(part.tobytes() for part in field.parts))
        for key, value in metadata.items():
            file.write(_packed(key, value, order))
        _write_tensors(file, reader, copied, tensors, order)
    return metadata


def _keys(architecture: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{architecture}.{name}" for name in names)


def _before_extension(parsed: ParsedConfig, content: Mapping[str, Any]) -> ParsedConfig:
    """Return the configuration of a model that was extended here as it was before, if it was unscaled then."""
    base, length = content.get(f"{TRACE}freq_base"), content.get(f"{TRACE}context_length")
    if not isinstance(base, float) or not isinstance(length, int):
        return parsed
    restored = {
        layer: config if layer == LOCAL else replace(config, base=base, scaling=Unscaled(), max_length=length)
        for layer, config in parsed.configs.items()
    }
    return ParsedConfig(restored, parsed.findings, parsed.multimodal)


def _read(path: Path) -> GGUFReader:
    try:
        from gguf import GGUFReader
    except ImportError:
        raise MissingExtraError("Writing a GGUF file", "gguf", EXTRA) from None
    try:
        return GGUFReader(path)
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise UsageError(f"{path} is damaged: {error}. Download or convert it again.") from error


def _text(text: str, order: str) -> bytes:
    raw = text.encode()
    return struct.pack(f"{order}Q", len(raw)) + raw


def _packed(key: str, value: Any, order: str) -> bytes:
    match value:
        case str():
            packed = struct.pack(f"{order}I", _STRING) + _text(value, order)
        case int():
            packed = struct.pack(f"{order}II", _UINT32, value)
        case _:
            packed = struct.pack(f"{order}If", _FLOAT32, value)
    return _text(key, order) + packed


def _write_tensors(
    file: IO[bytes], reader: GGUFReader, copied: list[Any], tensors: Mapping[str, tuple[float, ...]], order: str
) -> None:
    """Write the table of tensors and their data: the copied ones, then new ones of float32."""
    alignment = int(reader.alignment)
    new = {name: struct.pack(f"{order}{len(values)}f", *values) for name, values in tensors.items()}
    offset = 0
    for tensor in copied:
        *head, _ = tensor.field.parts  # all but where its data is
        file.write(b"".join(part.tobytes() for part in head) + struct.pack(f"{order}Q", offset))
        offset += -(-int(tensor.n_bytes) // alignment) * alignment
    for name, raw in new.items():
        file.write(_text(name, order) + struct.pack(f"{order}IQIQ", 1, len(raw) // 4, 0, offset))
        offset += -(-len(raw) // alignment) * alignment
    _pad(file, alignment)
    for tensor in copied:
        start = int(tensor.data_offset)
        file.write(reader.data[start : start + int(tensor.n_bytes)].data)
        _pad(file, alignment)
    for raw in new.values():
        file.write(raw)
        _pad(file, alignment)


def _pad(file: IO[bytes], alignment: int) -> None:
    file.write(b"\0" * (-file.tell() % alignment))
