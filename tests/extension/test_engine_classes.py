"""What is said of other engines is said of models alone that classes and converters of theirs are for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from zoo.conversions import what_is_written
from zoo.engines import PATH, of_ctranslate2

from locant.extension.inspect.inspection import inspect_model
from locant.rotary_configs import read_vllm
from locant.rotary_configs.gguf.loader_facts import loader_facts
from locant.rotary_configs.huggingface.engine_classes import ctranslate2_reads_scaling, vllm_has_class

_OF_SMALL_MODELS = (
    *("bases", "refused", "fails", "fails with two sizes", "fails with shared keys", "without size of heads"),
)
_SIZES: dict[str, Any] = {
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "num_hidden_layers": 4,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def _said(folder: Path, config: dict[str, Any]) -> str:
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return " ".join(each.message for each in inspect_model(folder, ask_class=False).findings)


def _own_code(name: str, architecture: str, config_class: str) -> dict[str, Any]:
    return {"model_type": name, "architectures": [architecture], "auto_map": {"AutoConfig": f"code.{config_class}"}}


@pytest.mark.parametrize(
    ("whose", "is_converted"),
    [
        ({"model_type": "gpt_oss"}, True),
        ({"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]}, True),
        ({"model_type": "mistral3", "text_config": {"model_type": "ministral3"}}, True),
        ({"model_type": "openai_privacy_filter"}, False),
        ({"model_type": "helium"}, False),
        ({"model_type": "mine"}, True),  # of which nobody knows it
        ({"model_type": "mine", "architectures": ["MineForCausalLM"]}, False),
        ({"model_type": "mine", "architectures": ["XverseForCausalLM"]}, True),
    ],
)
def test_the_corners_of_a_ramp_in_llama_cpp_are_told_of_models_that_it_has(
    whose: dict[str, Any], is_converted: bool, tmp_path: Path
) -> None:
    yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
    rotation = {**_SIZES, "rope_scaling": yarn}
    inner = {"text_config": {**whose["text_config"], **rotation}} if "text_config" in whose else rotation
    said = _said(tmp_path, {**whose, **inner})
    assert ("llama.cpp, which always rounds the corners" in said) is is_converted


@pytest.mark.parametrize(
    ("whose", "is_converted"),
    [
        ({"model_type": "llama"}, True),
        ({"model_type": "mistral"}, True),
        ({"model_type": "qwen3"}, True),
        ({"model_type": "apertus"}, False),
        ({"model_type": "exaone4"}, False),
        ({"model_type": "llama4_text"}, False),
        (_own_code("exaone", "ExaoneForCausalLM", "ExaoneConfig"), False),
        (_own_code("nemotron-nas", "DeciLMForCausalLM", "DeciLMConfig"), False),
    ],
)
def test_the_note_on_the_converter_of_ctranslate2_is_for_models_that_it_converts(
    whose: dict[str, Any], is_converted: bool, tmp_path: Path
) -> None:
    said = _said(tmp_path, {**whose, **_SIZES, "rope_scaling": _LLAMA3})
    assert ("CTranslate2" in said) is is_converted


def test_a_converter_that_does_not_read_scalings_is_told(tmp_path: Path) -> None:
    linear = {"rope_type": "linear", "factor": 2.0}
    said = _said(tmp_path, {"model_type": "gemma", "head_dim": 128, **_SIZES, "rope_scaling": linear})
    assert "CTranslate2 after its own converter: no scaling, which the converter does not read" in said
    assert "CTranslate2" not in _said(tmp_path, {"model_type": "llama", **_SIZES, "rope_scaling": linear})
    said = _said(tmp_path, {"model_type": "gemma", "head_dim": 128, **_SIZES})
    assert "no scaling" not in said


@pytest.mark.parametrize(
    ("config", "has"),
    [
        ({"model_type": "llama"}, True),
        ({"model_type": "phimoe"}, True),
        ({"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"]}, True),
        ({"model_type": "chatglm"}, True),
        ({"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"]}, True),
        ({"model_type": "qwen2", "architectures": ["OursForCausalLM"]}, False),
        ({"model_type": "minimax"}, False),  # removed with 0.23
        ({"model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"]}, False),  # run by the class of transformers
        ({"model_type": "hunyuan_v1_moe"}, False),
        ({"model_type": "zaya"}, False),
        # ModelConfig.architectures: those of the whole file alone
        (
            {
                "model_type": "vipllava",
                "architectures": ["VipLlavaForConditionalGeneration"],
                "text_config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
            },
            False,
        ),
        ({"model_type": "vipllava", "text_config": {"architectures": ["LlamaForCausalLM"]}}, False),
    ],
)
def test_classes_of_vllm_are_those_of_its_registry(config: dict[str, Any], has: bool) -> None:
    assert vllm_has_class(config) is has


@pytest.mark.parametrize(
    ("name", "code", "severity"),
    [
        ("BaichuanForCausalLM", False, "error"),
        ("BaichuanForCausalLM", True, "warning"),
        ("FuyuForCausalLM", False, None),  # run by the class of transformers
        ("LlamaForCausalLM", False, None),
    ],
)
def test_classes_of_former_releases_of_vllm_are_told(name: str, code: bool, severity: str | None) -> None:
    """registry.py: _PREVIOUSLY_SUPPORTED_MODELS, for which _raise_for_unsupported raises."""
    file = {"model_type": "llama", **_SIZES, "rope_theta": 1e6, "architectures": [name]}
    file |= {"auto_map": {"AutoModelForCausalLM": "modeling.Own"}} if code else {}
    found = [each for each in read_vllm({}, file).findings if "which vLLM ran until 0.23.0" in each.message]
    assert [each.severity for each in found] == ([] if severity is None else [severity])
    assert all(("unless the code of auto_map" in each.message) == code for each in found)


def test_vllm_is_said_to_serve_no_encoder_decoder_model_without_a_class_of_its_own(tmp_path: Path) -> None:
    """transformers/base.py: "vLLM does not support encoder-decoder models"."""
    linear = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
    part = {"model_type": "t5gemma2_decoder", **_SIZES, "head_dim": 128, "max_position_embeddings": 32768}
    groups = {"full_attention": linear, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    two = {"model_type": "t5gemma2", "decoder": {**part, "rope_parameters": groups}}
    assert "vLLM" not in _said(tmp_path, two)
    (found,) = [each for each in read_vllm({}, two).findings if "encoder-decoder model 't5gemma2'" in each.message]
    assert found.severity == "error"
    alone = {"model_type": "gemma3_text", **_SIZES, "head_dim": 128, "rope_parameters": groups}
    assert not any("encoder-decoder" in each.message for each in read_vllm({}, alone).findings)


def test_the_converter_of_llama_cpp_is_of_the_sources_that_its_loader_is_of() -> None:
    stored = json.loads(PATH.read_text(encoding="utf-8"))["llamacpp"]
    assert loader_facts()["source"] == f"llama.cpp as {stored['release']} brings it"


def test_only_what_classes_of_vllm_do_is_told_of_them(tmp_path: Path) -> None:
    dynamic = {"rope_type": "dynamic", "factor": 4.0}
    assert "nothing is scaled" in _said(tmp_path, {"model_type": "llama", **_SIZES, "rope_scaling": dynamic})
    by_transformers = _said(tmp_path, {"model_type": "hunyuan_v1_moe", **_SIZES, "rope_scaling": dynamic})
    assert "nothing is scaled" not in by_transformers
    assert "vLLM: serves 524288 by default" in by_transformers  # by whatever class it runs the model
    assert "vLLM" not in _said(tmp_path, {"model_type": "minimax", "head_dim": 128, "rotary_dim": 64, **_SIZES})


def test_the_length_that_vllm_derives_is_told_of_all_models(tmp_path: Path) -> None:
    linear = {"rope_type": "linear", "factor": 2.0}
    assert "serves 262144 by default" in _said(tmp_path, {"model_type": "olmo2", **_SIZES, "rope_scaling": linear})


def test_the_length_that_vllm_serves_is_told_by_what_it_derives_it_from(tmp_path: Path) -> None:
    lists = {"short_factor": [1.0] * 48, "long_factor": [4.0] * 48}
    file = {
        "model_type": "phi4_multimodal",
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
    }
    said = _said(tmp_path, {**file, "rope_scaling": {"type": "longrope", **lists}})
    assert "vLLM: serves 4096 by default, the original length of the scaling 'longrope'." in said
    linear = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6}
    said = _said(tmp_path, {"model_type": "gemma4_text", "max_position_embeddings": 4096, "rope_scaling": linear})
    assert "serves 16384 by default, which it derives from the factor of the scaling 'linear'" in said
    assert "the scaling 'none'" not in said


def test_converters_are_those_of_the_release_that_is_installed() -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    stored = json.loads(PATH.read_text(encoding="utf-8"))["ctranslate2"]
    if ctranslate2.__version__ != stored["release"]:
        pytest.skip(f"the facts are of release {stored['release']}")
    assert of_ctranslate2() == {key: value for key, value in stored.items() if key not in _OF_SMALL_MODELS}
    assert ctranslate2_reads_scaling({"model_type": "gemma3"}) is False
    assert ctranslate2_reads_scaling({"model_type": "t5gemma2"}) is False
    assert ctranslate2_reads_scaling({"model_type": "cohere"}) is None


@pytest.mark.slow
def test_what_converters_write_is_that_of_the_release_that_is_installed() -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    pytest.importorskip("transformers")
    stored = json.loads(PATH.read_text(encoding="utf-8"))["ctranslate2"]
    if ctranslate2.__version__ != stored["release"]:
        pytest.skip(f"the facts are of release {stored['release']}")
    assert what_is_written() == {key: stored[key] for key in _OF_SMALL_MODELS}


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ({"model_type": "gemma"}, "base 500000. CTranslate2 after its own converter, run with transformers 5: 10000,"),
        ({"model_type": "falcon"}, "run with transformers 5: 10000, whatever the file has"),
        (
            {"model_type": "gemma3_text", "num_hidden_layers": 6},
            "base 500000 for 'full_attention'. CTranslate2 after its own converter, run",
        ),
        (
            {"model_type": "t5gemma", "encoder": {"rope_theta": 5e5}, "decoder": {"rope_theta": 5e5}},
            "base 500000. CTranslate2 after its own converter, run with transformers 5: 10000, whatever",
        ),
        ({"model_type": "gemma", "rope_theta": 1e4}, ""),
        ({"model_type": "llama"}, ""),
        ({"model_type": "qwen2", "rope_theta": 1e6}, ""),
    ],
)
def test_bases_that_a_converter_of_ctranslate2_does_not_find_are_told(
    file: dict[str, Any], said: str, tmp_path: Path
) -> None:
    found = _said(tmp_path, {"head_dim": 128, **_SIZES, **file})
    assert said in found
    assert ("CTranslate2" in found) is bool(said)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3"])
def test_scalings_that_a_converter_of_ctranslate2_refuses_are_told(model_type: str, tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    lists = {"short_factor": [1.0] * 64, "long_factor": [4.0] * 64, "original_max_position_embeddings": 32768}
    for rope in (yarn, {"rope_type": "longrope", "factor": 4.0, **lists}, {"rope_type": "dynamic", "factor": 4.0}):
        said = _said(tmp_path, {"model_type": model_type, **_SIZES, "rope_scaling": rope})
        assert f"CTranslate2's converter for this model refuses the scaling '{rope['rope_type']}'." in said
    linear = {"rope_type": "linear", "factor": 4.0}
    assert "CTranslate2" not in _said(tmp_path, {"model_type": model_type, **_SIZES, "rope_scaling": linear})


@pytest.mark.parametrize("model_type", ["gpt_neox", "phi", "phi3"])
def test_a_converter_that_fails_with_transformers_5_is_told(model_type: str, tmp_path: Path) -> None:
    """rotary_pct, n_layer and rope_scaling["type"] are what CTranslate2 4.8.5 looks for in their configurations."""
    file = {"model_type": model_type, **_SIZES, "rope_theta": 5e5}
    said = _said(tmp_path, file)
    assert "CTranslate2's converter for this model fails with transformers 5" in said
    assert said.count("CTranslate2") == 1
    own = {"auto_map": {"AutoConfig": "configuration_phi.PhiConfig"}}
    assert "fails with transformers 5" not in _said(tmp_path, {**file, **own})


@pytest.mark.parametrize("model_type", ["llama", "qwen2"])
def test_a_size_of_heads_that_a_converter_does_not_write_is_told(model_type: str, tmp_path: Path) -> None:
    """LlamaLoader and Qwen2Loader of 4.8.5 hand no head_dim on; the engine then ends with sizes that do not fit."""
    file = {"model_type": model_type, **_SIZES, "hidden_size": 4096, "num_attention_heads": 32}
    said = _said(tmp_path, {**file, "head_dim": 64})
    assert "Heads have 64 features, where hidden_size / num_attention_heads is 128: CTranslate2's converter" in said
    assert "CTranslate2" not in _said(tmp_path, {**file, "head_dim": 128})
    assert "CTranslate2" not in _said(tmp_path, {**file, "model_type": "mistral", "head_dim": 64})


def test_layers_that_share_keys_are_told_of_the_converter_that_refuses_them(tmp_path: Path) -> None:
    file = {"model_type": "gemma4_text", **_SIZES, "num_hidden_layers": 6, "head_dim": 128, "global_head_dim": 128}
    said = _said(tmp_path, file | {"num_kv_shared_layers": 2})
    assert "num_kv_shared_layers is 2: CTranslate2's converter for this model refuses layers" in said


def test_what_a_converter_reads_of_a_share_is_no_lost_scaling(tmp_path: Path) -> None:
    file = {"model_type": "gemma4_text", **_SIZES, "num_hidden_layers": 6, "head_dim": 128, "global_head_dim": 128}
    assert "CTranslate2" not in _said(tmp_path, file)
    said = _said(tmp_path, {**file, "global_head_dim": 256})
    assert "Heads have 128 and 256 features: CTranslate2's converter for this model asks for one head_dim" in said
    full = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25, "factor": 4.0}
    groups = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    said = _said(tmp_path, {**file, "rope_parameters": groups})
    assert "divided by factor 4 of 'proportional'. CTranslate2 after its own converter: by none" in said
    sliding = {**groups, "full_attention": {**full, "factor": 1.0}, "sliding_attention": full}
    assert "no scaling, which the converter does not read" in _said(tmp_path, {**file, "rope_parameters": sliding})


def test_a_factor_that_a_converter_reads_in_a_group_is_no_lost_scaling(tmp_path: Path) -> None:
    """T5Gemma2Loader._apply_layer_types of 4.8.5 writes the factor of the type 'linear' of full attention alone."""
    full, sliding = (
        {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        {"rope_type": "default", "rope_theta": 1e4},
    )

    def said(**groups: Any) -> str:
        decoder = {"num_hidden_layers": 6, "max_position_embeddings": 4096, "rope_parameters": groups}
        return _said(tmp_path, {"model_type": "t5gemma2", "encoder": {"text_config": {}}, "decoder": decoder})

    assert "CTranslate2" not in said(full_attention=full, sliding_attention=sliding)
    lost = "no scaling, which the converter does not read for this model"
    assert lost in said(full_attention={**full, "rope_type": "dynamic"}, sliding_attention=sliding)
    assert lost in said(full_attention=full, sliding_attention={**full, "rope_theta": 1e4})


@pytest.mark.parametrize("name", ["mistral", "qwen2", "qwen3"])
def test_a_converter_without_the_corners_of_llama_3_is_told(name: str, tmp_path: Path) -> None:
    """MultiHeadAttentionSpec has both corners None, which LayerSpec.validate refuses; LlamaLoader alone sets them."""
    said = _said(tmp_path, {"model_type": name, **_SIZES, "rope_scaling": _LLAMA3})
    assert "CTranslate2's converter for this model sets no low_freq_factor and no high_freq_factor" in said
    assert "leaves out factor" not in said
    assert "leaves out factor and original length" in _said(
        tmp_path, {"model_type": "llama", **_SIZES, "rope_scaling": _LLAMA3}
    )


def test_a_share_that_a_class_passes_over_is_told_of_vllm_where_it_has_a_class(tmp_path: Path) -> None:
    half = {**_SIZES, "partial_rotary_factor": 0.5}
    assert "vLLM: 64 features" in _said(tmp_path, {"model_type": "llama", **half})
    assert "vLLM" not in _said(tmp_path, {"model_type": "diffllama", **half})


def test_of_one_group_with_which_a_class_fails_nothing_is_said_twice(tmp_path: Path) -> None:
    """The class of Laguna looks for groups of layer types: what vLLM would make of its own ones is no contradiction."""
    types = ["full_attention", *["sliding_attention"] * 3]
    yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
    laguna = {"model_type": "laguna", "num_hidden_layers": 4, "layer_types": types, "rope_scaling": yarn}
    said = _said(tmp_path, laguna | {"rope_theta": 1e6, "partial_rotary_factor": 1.0})
    assert "partial_rotary_factor is 1 in config.json, beside rope_scaling" in said
    assert not [words for words in ("acts on", "it takes its own groups", "beside the groups") if words in said]
    without = _said(tmp_path, {"model_type": "laguna", "num_hidden_layers": 4, "partial_rotary_factor": 0.25})
    assert "passes over for 'full_attention': it takes its own 0.5 of each head there" in without
