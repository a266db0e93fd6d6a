"""Extended GGUF files, read back with the gguf package of llama.cpp."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from locant.errors import ConfigError, LocantError
from locant.extension.extend.extend import extend_model
from locant.extension.extend.gguf import extend_gguf, write_extended_gguf
from locant.extension.extend.methods import extension_methods
from locant.extension.source import load_source
from locant.positions import RotaryConfig
from locant.positions.scaling import Llama3
from locant.rotary_configs.gguf import read_gguf, write_gguf

gguf = pytest.importorskip("gguf")

TENSORS = {
    "token_embd.weight": np.arange(48, dtype=np.float32).reshape(3, 16),
    "blk.0.attn_q.weight": np.arange(7, dtype=np.float16),
    "output.weight": np.arange(5, dtype=np.float32),
}


def write(
    path: Path,
    architecture: str = "llama",
    *,
    tensors: dict[str, Any] | None = None,
    order: str = "LITTLE",
    alignment: int | None = None,
    sections: list[int] | None = None,
) -> Path:
    writer = gguf.GGUFWriter(path, architecture, endianess=gguf.GGUFEndian[order])
    if alignment:
        writer.add_custom_alignment(alignment)
    if sections:
        writer.add_rope_dimension_sections(sections)
    writer.add_uint32(f"{architecture}.context_length", 8192)
    writer.add_uint32(f"{architecture}.attention.key_length", 64)
    writer.add_float32(f"{architecture}.rope.freq_base", 100000.0)
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc", "ä"])
    writer.add_array("tokenizer.ggml.scores", [0.5, float("nan"), -1.0])
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    for name, tensor in {**TENSORS, **(tensors or {})}.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def extend(path: Path, method: str, length: int, name: str = "out.gguf", **options: Any) -> Path:
    source, target = load_source(path), path.with_name(name)
    write_extended_gguf(source, target, extend_gguf(source, method, length, **options))
    return target


def rotary(path: Path) -> RotaryConfig:
    source = load_source(path)
    return read_gguf(source.content, source.tensors).config


def values(path: Path) -> dict[str, Any]:
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


@pytest.mark.parametrize(("order", "alignment"), [("LITTLE", None), ("LITTLE", 64), ("BIG", None)])
@pytest.mark.parametrize("method", ["yarn", "ntk", "linear", "longrope"])
def test_all_but_the_rotary_positions_is_copied(tmp_path: Path, method: str, order: str, alignment: int | None) -> None:
    path = write(tmp_path / "m.gguf", order=order, alignment=alignment)
    out = extend(path, method, 16384)
    old, new = gguf.GGUFReader(path), gguf.GGUFReader(out)
    for before, after in zip(old.tensors, new.tensors, strict=False):
        assert (before.name, before.tensor_type) == (after.name, after.tensor_type)
        assert before.shape.tolist() == after.shape.tolist()
        assert before.data.tobytes() == after.data.tobytes()
    lists = {"rope_factors_short.weight", "rope_factors_long.weight"} if method == "longrope" else set()
    assert {each.name for each in new.tensors[len(old.tensors) :]} == lists
    for name, field in old.fields.items():
        if not name.startswith("GGUF.") and "rope" not in name and "context_length" not in name:
            raw = [part.tobytes() for part in new.fields[name].parts]
            assert raw == [part.tobytes() for part in field.parts], name
    assert rotary(out).max_length == 16384


def test_the_keys_of_each_method(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    yarn = values(extend(path, "yarn", 16384))
    assert (yarn["llama.context_length"], yarn["llama.rope.freq_base"]) == (16384, 100000.0)
    assert (yarn["llama.rope.scaling.type"], yarn["llama.rope.scaling.factor"]) == ("yarn", 2.0)
    assert yarn["llama.rope.scaling.original_context_length"] == 8192
    ntk = values(extend(path, "ntk", 16384))
    assert ntk["llama.rope.freq_base"] == pytest.approx(100000.0 * 2 ** (64 / 62), rel=1e-6)
    assert ntk["llama.rope.scaling.type"] == "none"
    linear = values(extend(path, "linear", 32768))
    assert (linear["llama.rope.scaling.type"], linear["llama.rope.scaling.factor"]) == ("linear", 4.0)


@pytest.mark.parametrize("method", [method for method in extension_methods() if method != "dynamic"])
def test_factors_never_multiply(tmp_path: Path, method: str) -> None:
    path = write(tmp_path / "m.gguf")
    twice = extend(extend(path, "yarn", 16384, "once.gguf"), method, 32768, "twice.gguf")
    assert twice.read_bytes() == extend(path, method, 32768, "direct.gguf").read_bytes()


def test_longrope_takes_the_place_of_llama_3s_factors(tmp_path: Path) -> None:
    scaled = RotaryConfig(head_dim=64, base=100000.0, scaling=Llama3(original_length=2048, factor=4))
    factors = np.array(write_gguf(scaled, "llama").tensors["rope_freqs.weight"], dtype=np.float32)
    path = write(tmp_path / "m.gguf", tensors={"rope_freqs.weight": factors})
    with pytest.raises(ConfigError):
        extend(path, "yarn", 16384)
    out = extend(path, "yarn", 16384, may_go_on=True)
    assert out.read_bytes() == extend(path, "longrope", 16384, "longrope.gguf").read_bytes()
    assert "rope_freqs.weight" not in {tensor.name for tensor in gguf.GGUFReader(out).tensors}
    expected = [float(f) for f in scaled.frequencies()]
    assert [float(f) for f in rotary(out).frequencies(8192)] == pytest.approx(expected, rel=1e-6)


def test_refusals(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    for method, length in (("dynamic", 16384), ("yarn", 4096)):
        with pytest.raises(ConfigError):
            extend(path, method, length)
    with pytest.raises(ConfigError):
        extend(write(tmp_path / "q.gguf", "qwen2"), "longrope", 16384)
    source = load_source(path)
    with pytest.raises(ConfigError, match="llama-gguf-split"):
        extend_gguf(replace(source, content={**source.content, "split.count": 3}), "yarn", 16384)


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(LocantError):
        extend_model(path, tmp_path / "out", 16384)
    assert not (tmp_path / "out").exists()


def test_sections_of_axes_stay(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "qwen2vl", sections=[8, 12, 12, 0])
    out = values(extend(path, "yarn", 16384))
    assert out["qwen2vl.rope.dimension_sections"] == [8, 12, 12, 0]
    assert out["qwen2vl.rope.scaling.factor"] == 2.0
