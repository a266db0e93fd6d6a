"""What is said for an engine is read back by that engine's dialect with the same frequencies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from published_models import GEMMA_3, MODELS

from locant.errors import LocantError, UsageError
from locant.extension import Inspection, inspect_model, to_engine_config
from locant.positions import RotaryConfig
from locant.rotary_configs import read_ctranslate2, read_huggingface, read_llamacpp, read_vllm

_ROTARY = ("rope_theta", "rope_scaling", "rotary_emb_base", "rotary_pct", "original_max_position_embeddings")


def _inspected(tmp_path: Path, content: dict[str, Any]) -> Inspection:
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return inspect_model(tmp_path)


def _same(read: RotaryConfig, meant: RotaryConfig, length: int | None = None) -> bool:
    length = length or meant.max_length
    return read.frequencies(length) == meant.frequencies(length) and read.attention_scale(length) == pytest.approx(
        meant.attention_scale(length)
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["hf5", "hf4"])
@pytest.mark.parametrize("name", MODELS)
def test_merged_into_config_json_it_means_the_same(name: str, engine: str, tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, MODELS[name])
    assert inspection.parsed is not None
    said = to_engine_config(inspection, engine)
    assert isinstance(said, dict)
    bare = {key: value for key, value in MODELS[name].items() if key not in _ROTARY}
    assert _same(read_huggingface(bare | said).config, inspection.parsed.config)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODELS)
def test_given_to_vllm_it_means_the_same(name: str, tmp_path: Path) -> None:
    if name == "LLaMA-2-7B-32K":
        pytest.skip("has no original length, which vLLM needs; refused below")
    inspection = _inspected(tmp_path, MODELS[name])
    assert inspection.parsed is not None
    said = to_engine_config(inspection, "vllm")
    assert isinstance(said, str)
    read = read_vllm(said, MODELS[name]).config
    # The length that vLLM serves: that of the training where config.json states it beside the group, as Phi-3 does.
    assert _same(read, inspection.parsed.config, read.max_length)


_OLMO_3 = {"model_type": "olmo3", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 65536}
_YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "content",
    [
        GEMMA_3,
        GEMMA_3["text_config"],
        _OLMO_3 | {"rope_theta": 500000.0, "rope_scaling": _YARN},
        {"model_type": "llava", "text_config": MODELS["Llama 2 7B"]},
    ],
)
def test_given_to_vllm_it_means_the_same_for_each_layer_type(content: dict[str, Any], tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, content)
    assert inspection.parsed is not None
    said = to_engine_config(inspection, "vllm")
    assert isinstance(said, str)
    read = read_vllm(said, content)
    assert read.configs.keys() == inspection.parsed.configs.keys()
    assert all(_same(config, inspection.parsed.configs[layer], 8192) for layer, config in read.configs.items())
    assert not [each for each in read.findings if each.severity == "error"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["Llama 2 7B", "Code Llama 7B", "LLaMA-2-7B-32K", "Qwen2.5 7B with YaRN"])
def test_as_flags_of_llamacpp_it_means_the_same(name: str, tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, MODELS[name])
    assert inspection.parsed is not None
    said = to_engine_config(inspection, "llamacpp")
    assert isinstance(said, str)
    assert _same(read_llamacpp(said, RotaryConfig(head_dim=128)).config, inspection.parsed.config)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["Llama 2 7B", "Llama 3.1 8B", "LLaMA-2-7B-32K", "Phi-3 mini 128k"])
def test_as_attributes_of_ctranslate2_it_means_the_same(name: str, tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, MODELS[name])
    assert inspection.parsed is not None
    said = to_engine_config(inspection, "ctranslate2")
    assert isinstance(said, dict)
    assert _same(read_ctranslate2(said).config, inspection.parsed.config)


@pytest.mark.parametrize("name", ["hunyuan_vl", "fuyu"])
def test_where_a_class_makes_a_text_part_of_the_file_overrides_stand_in_that_part(name: str, tmp_path: Path) -> None:
    """vLLM sets what stands beside it on the class of the whole, which no layer asks."""
    content = {"model_type": name, "head_dim": 32, "hidden_size": 256, "num_attention_heads": 8, "rope_theta": 2e6}
    inspection = _inspected(tmp_path, content)
    assert inspection.parsed is not None
    said = to_engine_config(inspection, "vllm")
    assert isinstance(said, str)
    assert list(json.loads(said)) == ["text_config"]
    read = read_vllm(said, content | {"rope_theta": 1e4})
    assert (read.config.base, [each for each in read.findings if each.severity == "error"]) == (2e6, [])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("served", [32768, 16384])
def test_interpolation_whose_length_is_the_extended_one_is_served_at_that_length(served: int, tmp_path: Path) -> None:
    """vLLM multiplies max_position_embeddings by the factor, so that the length before is stated there."""
    content = MODELS["LLaMA-2-7B-32K"] | (
        {} if served == 32768 else {"max_position_embeddings": served, "rope_theta": 5e5}
    )
    inspection = _inspected(tmp_path, content)
    assert inspection.parsed is not None
    said = to_engine_config(inspection, "vllm")
    assert isinstance(said, str)
    again = read_vllm(said, content).config
    assert (again.max_length, again.base) == (served, inspection.parsed.config.base)
    assert again.frequencies() == inspection.parsed.config.frequencies()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("content", "engine", "message"),
    [
        (MODELS["Llama 3.1 8B"], "llamacpp", "cannot express the scaling 'llama3'"),
        (MODELS["gpt-oss 20B"], "llamacpp", "truncate false"),
        (MODELS["DeepSeek-V2-Lite"], "ctranslate2", "cannot express the scaling 'yarn'"),
        (
            MODELS["LLaMA-2-7B-32K"] | {"rope_scaling": {"type": "linear", "factor": 3.0}},
            "vllm",
            "needs original_max_position_embeddings",
        ),
        (
            {"model_type": "own", "head_dim": 64, "layer_types": ["full_attention", "sliding_attention"]}
            | {"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}},
            "vllm",
            "cannot express different rotary positions",
        ),
        (
            MODELS["Llama 2 7B"] | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
            "vllm",
            "one base for all of them",
        ),
        (MODELS["Llama 2 7B"] | {"rope_scaling": {"type": "yarm"}}, "hf5", "before it is right: Unknown rope_type"),
        (
            MODELS["Llama 2 7B"] | {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
            "hf5",
            r"several axes \(sections 16, 24, 24\)",
        ),
    ],
)
def test_what_cannot_be_said_is_an_error(content: dict[str, Any], engine: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(LocantError, match=message) as caught:
        to_engine_config(_inspected(tmp_path, content), engine)
    assert caught.value.exit_code == 1


def test_engines(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'vllm'"):
        to_engine_config(_inspected(tmp_path, MODELS["Llama 2 7B"]), "vlm")
