"""GGUF files written by the ``gguf`` package, whole and damaged."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import UsageError
from locant.extension.gguf_file import read_gguf_file

gguf = pytest.importorskip("gguf")

FACTORS = np.linspace(1, 8, 64, dtype=np.float32)
WORDS = {"token_list": ["a", "bc"] * 700, "token_scores": [0.5] * 1400, "token_types": [1] * 1400}


def _written(path: Path, order: str = "LITTLE", **more: Any) -> Path:
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian[order])
    writer.add_context_length(8192)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_sections([8, 12, 12, 0])
    for name, value in more.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_tensor("token_embd.weight", np.zeros((8, 64), np.float32))
    writer.add_tensor("rope_freqs.weight", FACTORS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_what_gguf_writes_is_read(order: str, tmp_path: Path) -> None:
    path = _written(tmp_path / "m.gguf", order, **WORDS)
    metadata, tensors = read_gguf_file(path)
    for name, field in gguf.GGUFReader(path).fields.items():
        if not name.startswith("GGUF."):
            expected = field.contents()
            assert metadata[name] == (None if isinstance(expected, list) and len(expected) > 1024 else expected)
    assert tensors == {"rope_freqs.weight": tuple(FACTORS.tolist())}


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    content, cut = _written(tmp_path / "m.gguf", token_list=["a", "b"]).read_bytes(), tmp_path / "cut.gguf"
    # The last tensor begins 256 bytes of factors before the end.
    for size in [*range(4, len(content) - 256, 13), len(content) - 257, len(content) - 1]:
        cut.write_bytes(content[:size])
        with pytest.raises(UsageError):
            read_gguf_file(cut)


@settings(max_examples=100, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(4, 700), st.binary(min_size=1, max_size=8)), min_size=1, max_size=3))
def test_a_damaged_file_is_refused_or_read(
    changes: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = _written(tmp_path_factory.mktemp("damaged") / "m.gguf")
    content = bytearray(path.read_bytes())
    for place, raw in changes:
        content[place : place + len(raw)] = raw
    path.write_bytes(content)
    with suppress(UsageError):
        read_gguf_file(path)


def _head(body: bytes, version: int = 3, tensors: int = 0, keys: int = 1) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + body


_KEY = struct.pack("<Q", 1) + b"k"
_PAIR = _KEY + struct.pack("<IQ", 8, 1) + b"v"
_TENSOR = struct.pack("<Q", 17) + b"rope_freqs.weight"
_WIDE = struct.pack("<Q", 1) + b"t" + struct.pack("<IQQIQ", 2, 2**31, 2**31, 0, 0)


@pytest.mark.parametrize(
    "content",
    [
        _head(b"", version=1, keys=0),
        _head(b"", version=77, keys=0),
        _head(b"", keys=2**63),
        _head(b"", keys=0, tensors=2**62),
        _head(b"", keys=1000),
        _head(struct.pack("<Q", 2**60) + b"k"),
        _head(_KEY + struct.pack("<I", 99)),
        _head(_KEY + struct.pack("<IIQ", 9, 4, 2**62)),
        _head(_KEY + struct.pack("<IIQ", 9, 8, 2**40)),
        _head(_KEY + struct.pack("<IIQ", 9, 8, 1000)),
        _head(_KEY + struct.pack("<IIQ", 9, 9, 2)),
        _head(struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<IB", 0, 1)),
        _head(_PAIR + _PAIR, keys=2),
        _head(_TENSOR + struct.pack("<I", 2**31), tensors=1, keys=0),
        _head(_TENSOR + struct.pack("<IQIQ", 1, 64, 2, 0), tensors=1, keys=0),
        _head(_TENSOR + struct.pack("<IQIQ", 1, 2**40, 0, 0), tensors=1, keys=0),
        _head(_TENSOR + struct.pack("<IQIQ", 1, 64, 0, 2**63), tensors=1, keys=0),
        _head(_WIDE + bytes(99), tensors=1, keys=0),
        _head(struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, 3)),
    ],
)
def test_no_size_is_believed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="gguf"):
        read_gguf_file(path)
