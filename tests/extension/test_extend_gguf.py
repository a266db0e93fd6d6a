"""Extended GGUF files, read back with the gguf package of llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from locant.errors import CheckpointError, ConfigError, LocantError
from locant.extension.extend.gguf import extended_metadata, write_extended_gguf
from locant.extension.extend.methods import extension_methods
from locant.extension.source import load_source
from locant.positions import RotaryConfig
from locant.rotary_configs import read_gguf

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
    keys: dict[str, Any] | None = None,
    tensors: dict[str, Any] | None = None,
    order: Any = None,
    alignment: int | None = None,
) -> Path:
    writer = gguf.GGUFWriter(path, architecture, endianess=order or gguf.GGUFEndian.LITTLE)
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_uint32(f"{architecture}.context_length", 8192)
    writer.add_uint32(f"{architecture}.attention.key_length", 64)
    writer.add_float32(f"{architecture}.rope.freq_base", 100000.0)
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc", "ä"])
    writer.add_array("tokenizer.ggml.scores", [0.5, float("nan"), -1.0])
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    for key, value in (keys or {}).items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32, bool: writer.add_bool}
        add[type(value)](f"{architecture}.{key}", value)
    for name, tensor in {**TENSORS, **(tensors or {})}.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def extend(path: Path, method: str, length: int, name: str = "out.gguf") -> Path:
    target = path.with_name(name)
    write_extended_gguf(load_source(path), target, method, length)
    return target


def rotary(path: Path) -> RotaryConfig:
    source = load_source(path)
    return read_gguf(source.content, source.tensors).config


def values(path: Path) -> dict[str, Any]:
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
@pytest.mark.parametrize("alignment", [None, 64])
@pytest.mark.parametrize("method", ["yarn", "ntk", "linear", "longrope"])
def test_all_but_the_rotary_positions_is_copied(tmp_path: Path, method: str, order: str, alignment: int | None) -> None:
    path = write(tmp_path / "m.gguf", order=getattr(gguf.GGUFEndian, order), alignment=alignment)
    out = extend(path, method, 16384)
    old, new = gguf.GGUFReader(path), gguf.GGUFReader(out)
    for before, after in zip(old.tensors, new.tensors, strict=False):
        assert (before.name, before.tensor_type, before.shape.tolist()) == (
            after.name,
            after.tensor_type,
            after.shape.tolist(),
        )
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
    assert yarn["llama.context_length"] == 16384
    assert yarn["llama.rope.scaling.type"] == "yarn"
    assert yarn["llama.rope.scaling.factor"] == 2.0
    assert yarn["llama.rope.scaling.original_context_length"] == 8192
    assert yarn["llama.rope.freq_base"] == 100000.0
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
    from locant.positions.scaling import Llama3
    from locant.rotary_configs import write_gguf

    scaled = RotaryConfig(head_dim=64, base=100000.0, scaling=Llama3(original_length=2048, factor=4))
    factors = np.array(write_gguf(scaled, "llama").tensors["rope_freqs.weight"], dtype=np.float32)
    path = write(tmp_path / "m.gguf", tensors={"rope_freqs.weight": factors})
    with pytest.raises(ConfigError, match="by the scaling 'llama3'"):
        extend(path, "yarn", 16384)
    out = extend(path, "longrope", 16384)
    assert "rope_freqs.weight" not in {tensor.name for tensor in gguf.GGUFReader(out).tensors}
    assert [float(f) for f in rotary(out).frequencies(8192)] == pytest.approx(
        [float(f) for f in scaled.frequencies()], rel=1e-6
    )


def test_refusals(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    with pytest.raises(ConfigError, match=r"dynamic.*Take ntk"):
        extend(path, "dynamic", 16384)
    with pytest.raises(ConfigError, match="8192 tokens already"):
        extend(path, "yarn", 4096)
    with pytest.raises(ConfigError, match="'longrope' for the architecture 'qwen2'"):
        extend(write(tmp_path / "q.gguf", "qwen2"), "longrope", 16384)


def test_a_part_of_a_model(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf")
    source = load_source(path)
    split = type(source)(source.path, source.kind, {**source.content, "split.count": 3}, source.tensors)
    with pytest.raises(ConfigError, match="llama-gguf-split"):
        extended_metadata(split, "yarn", 16384)


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    from locant.extension.extend.extend import extend_model

    path = write(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(LocantError, match=r"damaged|cut off"):
        extend_model(path, tmp_path / "out", 16384)
    assert not (tmp_path / "out").exists()


def test_the_folder_of_a_gguf_file(tmp_path: Path) -> None:
    from locant.extension.extend.extend import extend_model

    path = write(tmp_path / "tiny.gguf")
    extended = extend_model(path, tmp_path / "out", 16384)
    assert extended.format == "gguf"
    assert sorted(file.name for file in extended.path.iterdir()) == ["README.md", "tiny-16384-yarn.gguf"]
    assert "from 8,192 to 16,384" in (extended.path / "README.md").read_text()
    with pytest.raises(CheckpointError, match="already exists"):
        extend_model(path, tmp_path / "out", 16384)
