"""GGUF files whose layers differ, written by the ``gguf`` package; what llama.cpp does stands in its ``src/models``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from locant.cli import main
from locant.errors import LocantError
from locant.extension import extend_model, inspect_model, to_engine_config
from locant.extension.inspect.result import Inspection
from locant.positions.scaling import Unscaled, YaRN
from locant.rotary_configs import read_gguf, read_huggingface, read_vllm, write_gguf

gguf = pytest.importorskip("gguf")

_YARN = {
    "rope_scaling_type": gguf.RopeScalingType.YARN,
    "rope_scaling_factor": 8.0,
    "rope_scaling_orig_ctx_len": 8192,
}


def written(path: Path, architecture: str, **more: Any) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    usual = {"context_length": 65536, "embedding_length": 512, "head_count": 4, "rope_freq_base": 500000.0}
    for name, value in (usual | more).items():
        getattr(writer, f"add_{name}")(value)
    writer.add_tensor("token_embd.weight", np.zeros((8, 64), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def inspected(folder: Path, architecture: str, **more: Any) -> Inspection:
    return inspect_model(written(folder / "model.gguf", architecture, **more))


def still(found: Inspection) -> list[int]:
    assert found.parsed is not None
    return sorted(index for kind in found.parsed.layers if kind.attends and not kind.config for index in kind.layers)


# OLMo 3: what scales holds for full attention alone.


@pytest.mark.parametrize(("pattern", "full"), [({}, [3, 7]), ({"sliding_window_pattern": 2}, [1, 3, 5, 7])])
def test_olmo_3_scales_full_attention_alone(pattern: dict[str, Any], full: list[int], tmp_path: Path) -> None:
    """llama_model_olmo2::graph: freq_scale 1, ext_factor 0 and attn_factor 1 where hparams.is_swa(il)."""
    found = inspected(tmp_path, "olmo2", block_count=8, sliding_window=4096, **pattern, **_YARN)
    parsed = found.parsed
    assert parsed is not None
    assert isinstance(parsed.configs["full_attention"].scaling, YaRN)
    assert parsed.configs["sliding_attention"].scaling == Unscaled()
    assert parsed.configs["sliding_attention"].attention_scale() == 1
    assert {config.base for config in parsed.configs.values()} == {500000.0}
    assert [index for index in range(8) if parsed.of_layer(index) == parsed.configs["full_attention"]] == full
    assert {kind.name: kind.window for kind in parsed.layers} == {"sliding_attention": 4096, "full_attention": None}


def test_olmo_2_without_a_window_scales_every_layer(tmp_path: Path) -> None:
    found = inspected(tmp_path, "olmo2", block_count=8, **_YARN)
    assert found.parsed is not None
    assert isinstance(found.parsed.config.scaling, YaRN)
    assert {kind.config for kind in found.parsed.layers} == {"all"}


def test_olmo_3_is_extended_in_its_full_attention(tmp_path: Path) -> None:
    path = written(tmp_path / "model.gguf", "olmo2", block_count=8, sliding_window=4096)
    out = extend_model(path, tmp_path / "out", 131072, method="yarn")
    parsed = inspect_model(out.model).parsed
    assert parsed is not None
    assert isinstance(parsed.configs["full_attention"].scaling, YaRN)
    assert parsed.configs["sliding_attention"].scaling == Unscaled()
    assert read_gguf(
        write_gguf(parsed.configs, "olmo2").metadata | {"olmo2.attention.sliding_window": 4096}
    ).configs == (parsed.configs)


# What llama.cpp refuses to load.


@pytest.mark.parametrize(
    ("architecture", "more", "said"),
    [
        ("qwen2vl", {"block_count": 4}, "qwen2vl.rope.dimension_sections is missing"),
        ("qwen2", {}, "qwen2.block_count is missing"),
        ("qwen2", {"block_count": 4, "head_count_kv": [2, 2]}, "attention.head_count_kv has 2 values for 4 layers"),
        ("qwen2vl", {"block_count": 4, "rope_dimension_sections": [16, 24, 24]}, "has 3 values for 4 axes"),
    ],
)
def test_keys_that_llamacpp_needs(architecture: str, more: dict[str, Any], said: str, tmp_path: Path) -> None:
    """get_key_or_arr: "key %s has wrong array length", and "key not found in model" where it is required."""
    errors = [each.message for each in inspected(tmp_path, architecture, **more).findings if each.severity == "error"]
    assert len(errors) == 1
    assert f"{said}" in errors[0]
    assert "llama.cpp refuses to load the file" in errors[0]


@pytest.mark.parametrize(
    ("key", "value", "kind", "expected"),
    [
        ("rope.freq_base", 1000000, "UINT32", "float32"),
        ("rope.dimension_count", 64.0, "FLOAT32", "uint32"),
        ("rope.scaling.factor", 4.0, "FLOAT64", "float32"),
    ],
)
def test_types_of_values(key: str, value: float, kind: str, expected: str, tmp_path: Path) -> None:
    """GKV::get_kv: "key %s has wrong type %s but expected type %s"."""
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "qwen2")
    for name, whole in {"block_count": 4, "context_length": 4096, "embedding_length": 256}.items():
        getattr(writer, f"add_{name}")(whole)
    writer.add_head_count(4)
    writer.add_key_value(f"qwen2.{key}", value, gguf.GGUFValueType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    (error,) = [each for each in inspect_model(tmp_path / "model.gguf").findings if each.severity == "error"]
    assert f"qwen2.{key} is stored as {kind.lower()}, where {expected} is expected: llama.cpp refuses" in error.message


# Granite 4: the switch.


@pytest.mark.parametrize("architecture", ["granitehybrid", "granitemoe", "granite"])
def test_granites_switch(architecture: str, tmp_path: Path) -> None:
    """hparams.rope_finetuned: "Granite uses rope_finetuned as a switch for rope, so default to true"."""
    heads = {"head_count_kv": [4, 0, 0, 4]} if architecture == "granitehybrid" else {}
    off = inspected(tmp_path, architecture, block_count=4, rope_scaling_finetuned=False, **heads)
    assert off.parsed is None
    assert not any("hence the layout" in each.message for each in off.findings), "which is none"
    assert "no rotary positions" in off.findings[0].message
    assert "rope.scaling.finetuned is false" in off.findings[0].message
    for more in ({}, {"rope_scaling_finetuned": True}):
        assert inspected(tmp_path, architecture, block_count=4, **more).parsed is not None
    other = inspected(tmp_path, "llama", block_count=4, rope_scaling_finetuned=False)
    assert other.parsed is not None, "others only print it"


def test_layers_of_a_state_space_have_no_attention(tmp_path: Path) -> None:
    """llama_model_granite_hybrid: a layer is recurrent if and only if its n_head_kv is 0."""
    found = inspected(tmp_path, "granitehybrid", block_count=6, head_count_kv=[0, 0, 8, 0, 0, 8])
    assert found.parsed is not None
    assert found.parsed.layers_without() == ("Layers 0, 1, 3, 4 have no attention.",)
    assert found.parsed.of_layer(0) is None
    assert found.parsed.of_layer(5) == found.parsed.config


# OpenELM: heads by layer.


@pytest.mark.parametrize("part", [{}, {"rope_dimension_count": 64}])
def test_openelm_has_head_counts_by_layer(part: dict[str, Any], tmp_path: Path) -> None:
    heads = {"head_count": [12, 12, 16, 20], "head_count_kv": [3, 3, 4, 5]}
    found = inspected(tmp_path, "openelm", block_count=4, key_length=64, **heads, **part)
    assert found.parsed is not None
    assert (found.parsed.config.head_dim, found.parsed.config.rotary_dim) == (64, 64)
    assert {kind.config for kind in found.parsed.layers} == {"all"}
    bare = inspected(tmp_path, "openelm", block_count=4, **heads)
    assert "attention.key_length" in bare.findings[0].message


# Layers without positions.


@pytest.mark.parametrize(
    ("architecture", "more", "expected"),
    [
        ("smollm3", {"block_count": 9}, [3, 7]),
        ("llama4", {"block_count": 8}, [3, 7]),
        ("llama4", {"block_count": 8, "sliding_window": 8192}, [3, 7]),
        ("cohere2", {"block_count": 8, "sliding_window": 4096}, [3, 7]),
        ("cohere2", {"block_count": 6, "sliding_window": 4096, "sliding_window_pattern": 3}, [2, 5]),
        ("cohere2", {"block_count": 4, "sliding_window": 4096, "sliding_window_pattern": [True, False] * 2}, [1, 3]),
        ("exaone4", {"block_count": 64, "sliding_window": 4096}, list(range(3, 64, 4))),
        ("exaone4", {"block_count": 30}, []),
        ("llama", {"block_count": 8}, []),
    ],
)
def test_layers_without_positions_are_told(
    architecture: str, more: dict[str, Any], expected: list[int], tmp_path: Path
) -> None:
    found = inspected(tmp_path, architecture, **more)
    assert still(found) == expected
    notes = [finding.message for finding in found.findings if "no positions" in finding.message]
    assert bool(notes) is bool(expected)
    if expected:
        assert notes[0].startswith(f"Layers {expected[0]}, {expected[1]}")


def test_the_command_says_the_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "model.gguf", "smollm3", block_count=8)
    assert main(["inspect", str(path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Layers 3, 7 have no positions." in said
    assert main(["inspect", str(path), "--json"]) == 0
    kinds = json.loads(capsys.readouterr().out)["layer_types"]
    assert [(kind["layers"], kind["config"]) for kind in kinds] == [([0, 1, 2, 4, 5, 6], "all"), ([3, 7], None)]


# What transformers and CTranslate2 have is the model before it was converted.


@pytest.mark.parametrize(
    ("architecture", "model_type", "layout"),
    [
        ("llama", "llama", "half"),
        ("granite", "granite", "half"),
        ("olmo", "olmo", "half"),
        ("qwen2", "qwen2", "half"),
        ("command-r", "cohere", "interleaved"),
        ("deepseek2", "deepseek_v2", "interleaved"),
    ],
)
def test_what_is_written_pairs_as_the_class_does(
    architecture: str, model_type: str, layout: str, tmp_path: Path
) -> None:
    found = inspected(tmp_path, architecture, rope_dimension_count=128)
    for engine in ("hf5", "hf4"):
        said = to_engine_config(found, engine)
        assert isinstance(said, dict)
        read = read_huggingface({"model_type": model_type, **said}).config
        assert (read.layout, read.base, read.rotary_dim) == (layout, 500000.0, 128)
    attributes = to_engine_config(found, "ctranslate2")
    assert isinstance(attributes, dict)
    assert attributes["rotary_interleave"] == (layout == "interleaved")
    permuted = [each.message for each in found.findings if "permuted from halves to neighbours" in each.message]
    assert len(permuted) == (architecture in ("llama", "granite", "olmo"))


@pytest.mark.parametrize(("architecture", "model_type"), [("gemma3", "gemma3_text"), ("olmo2", "olmo3")])
def test_vllm_is_given_a_group_for_each_layer_type(architecture: str, model_type: str, tmp_path: Path) -> None:
    found = inspected(tmp_path, architecture, block_count=6, sliding_window=4096, rope_dimension_count=128)
    said = to_engine_config(found, "vllm")
    assert isinstance(said, str)
    read = read_vllm(said, {"model_type": model_type, "head_dim": 128})
    assert found.parsed is not None
    assert {layer: config.base for layer, config in read.configs.items()} == {
        layer: config.base for layer, config in found.parsed.configs.items()
    }


def test_no_class_that_pairs_so_is_an_error(tmp_path: Path) -> None:
    found = inspected(tmp_path, "plm", rope_dimension_count=64)
    with pytest.raises(LocantError, match=r"layout 'interleaved' for the architecture 'plm'.* none is known for it"):
        to_engine_config(found, "hf5")


def test_a_window_of_a_file_that_is_refused_is_not_called_without_effect(tmp_path: Path) -> None:
    """Without the list of layers that have it llama.cpp does not load MiMo's file, and with it the window counts."""
    path = written(tmp_path / "model.gguf", "mimo2", block_count=8, sliding_window=128)
    found = inspect_model(path).findings
    assert [each.code for each in found if each.severity == "error"] == ["refused by the engine"]
    assert not any("no effect" in each.message for each in found)
