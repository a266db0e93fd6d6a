"""Extending a GGUF file: new keys for rotary positions, everything else copied byte for byte."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from locant.errors import ConfigError, UsageError
from locant.extension.extend.methods import Extended, check_request, extend_configs, first_possible, main_layer
from locant.extension.gguf_file import FACTORS
from locant.extension.source import Source
from locant.lazy import require_package
from locant.positions.scaling import Unscaled
from locant.rotary_configs.gguf import read_gguf, write_gguf
from locant.rotary_configs.scaling import form_of

TRACE = "locant.extension."
"""Start of the keys that remember an extension and what it replaced; engines ignore them."""


def extend_gguf(source: Source, method: str, target_length: int, *, may_go_on: bool = False) -> Extended:
    """Return what the extended GGUF file of a model has.

    Args:
        source: The GGUF file. Where it was extended here before, what it was then is extended.
        method: One of :func:`~locant.extension.extend.methods.extension_methods`.
        target_length: Length in tokens that the model should read.
        may_go_on: As for :func:`~locant.extension.extend.methods.extend_config`.

    Raises:
        ConfigError: The file cannot be read, or llama.cpp cannot compute the method for this model.
    """
    check_request(method, target_length)
    content = source.content
    if content.get("split.count", 1) not in (0, 1):
        raise ConfigError("The model is one of several GGUF files. Merge them with llama-gguf-split --merge first.")
    before, architecture = read_gguf(content, source.tensors).configs, str(content.get("general.architecture"))
    base, length = content.get(f"{TRACE}freq_base"), content.get(f"{TRACE}context_length")
    main = main_layer(before)
    if isinstance(base, float) and isinstance(length, int):
        before = before | {main: replace(before[main], base=base, scaling=Unscaled(), max_length=length)}
    old = before[main]
    names = _keys(architecture, "context_length", "rope.freq_base", "rope.scaling.")

    def make(method: str) -> Extended:
        after = extend_configs(before, method, target_length)
        scaling = after[main].scaling
        if scaling.depends_on_length and form_of("gguf", scaling.name) is None:
            raise ConfigError(
                f"llama.cpp has the same frequencies for texts of all lengths, so GGUF cannot express the method "
                f"{method}. Take ntk, which is the same for the longest text."
            )
        written = write_gguf(after, architecture)
        metadata = {key: value for key, value in written.metadata.items() if key.startswith(names)}
        metadata[f"{TRACE}method"] = method
        if old.scaling == Unscaled() and old.max_length is not None:
            metadata |= {f"{TRACE}freq_base": float(old.base), f"{TRACE}context_length": old.max_length}
        return Extended(method, before, after, metadata, "GGUF metadata", written.tensors)

    return first_possible(make, method, before, may_go_on=may_go_on)


def write_extended_gguf(source: Source, target: Path, extended: Extended) -> None:
    """Write a GGUF file that differs from another one in its rotary positions alone; ``target`` should be temporary.

    Raises:
        UsageError: The file is damaged.
        MissingExtraError: gguf is not installed.
        OSError: The disk is full or not writable.
    """
    architecture = str(source.content["general.architecture"])
    replaced = _keys(architecture, "context_length", "rope.freq_base", "rope.scaling.", "rope.scale_linear")
    gguf = require_package("gguf", "Writing a GGUF file")
    try:
        reader = gguf.GGUFReader(source.path)
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise UsageError(f"{source.path} is damaged: {error}. Download or convert it again.") from error
    order = ">" if reader.byte_order == "S" else "<"
    kept = [
        field
        for name, field in reader.fields.items()
        if not name.startswith(("GGUF.", TRACE))
        and (name == f"{architecture}.rope.scaling.finetuned" or not name.startswith(replaced))
    ]
    copied = [tensor for tensor in reader.tensors if tensor.name not in FACTORS]
    with target.open("wb") as file:
        file.write(bytes(reader.data[:8]))
        counts = len(copied) + len(extended.tensors), len(kept) + len(extended.content)
        file.write(struct.pack(f"{order}QQ", *counts))
        for field in kept:
            file.write(b"".join(part.tobytes() for part in field.parts))
        for key, value in extended.content.items():
            file.write(_text(key, order))
            if isinstance(value, str):
                file.write(struct.pack(f"{order}I", 8) + _text(value, order))
            else:  # uint32 or float32
                kind, code = (4, "I") if isinstance(value, int) else (6, "f")
                file.write(struct.pack(f"{order}I{code}", kind, value))
        data, offset, alignment = list[Any](), 0, int(reader.alignment)
        for tensor in copied:
            *head, _ = tensor.field.parts  # all but where its data is
            file.write(b"".join(part.tobytes() for part in head) + struct.pack(f"{order}Q", offset))
            data.append(reader.data[int(tensor.data_offset) : int(tensor.data_offset + tensor.n_bytes)].data)
            offset += -(-len(data[-1]) // alignment) * alignment
        for name, factors in extended.tensors.items():
            file.write(_text(name, order) + struct.pack(f"{order}IQIQ", 1, len(factors), 0, offset))
            data.append(struct.pack(f"{order}{len(factors)}f", *factors))
            offset += -(-len(data[-1]) // alignment) * alignment
        for raw in (b"", *data):
            file.write(raw)
            file.write(b"\0" * (-file.tell() % alignment))


def _keys(architecture: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{architecture}.{name}" for name in names)


def _text(text: str, order: str) -> bytes:
    raw = text.encode()
    return struct.pack(f"{order}Q", len(raw)) + raw
