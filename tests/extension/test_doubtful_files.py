"""Files whose entries cannot be meant, in several forms each: what is said, how gravely, and in whose names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.extension import Inspection, inspect_model
from locant.extension.inspect.engine_differences import engine_differences
from locant.positions.scaling import Unscaled
from locant.rotary_configs import read_gguf, read_huggingface, read_vllm

_LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 16384,
    "rope_theta": 10000.0,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_MROPE = {"model_type": "qwen2_vl", "rope_theta": 1e6}


def _inspected(folder: Path, content: dict[str, Any]) -> Inspection:
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return inspect_model(folder, ask_class=False)


def _scaled(**rope: Any) -> dict[str, Any]:
    return {"rope_scaling": rope}


def _sections(*sizes: float, **more: Any) -> dict[str, Any]:
    return {**_MROPE, "rope_scaling": {"type": "mrope", "mrope_section": list(sizes), **more}}


_CASES: list[tuple[dict[str, Any], str, str]] = [
    # numbers beyond any range: what can be computed is, and the number is named
    (_scaled(rope_type="linear", factor=1e306), "warning", r"factor in rope_scaling .* 1e\+306; published models have"),
    (_scaled(rope_type="linear", factor=1e300), "warning", r"factor in rope_scaling .* 1e\+300; published models have"),
    (_scaled(rope_type="dynamic", factor=1e305), "warning", r"factor in rope_scaling .* 1e\+305; published"),
    (_scaled(rope_type="dynamic", factor=1e200), "warning", r"factor in rope_scaling .* 1e\+200; published"),
    ({"rope_parameters": _YARN | {"factor": 1e15}}, "warning", r"factor in rope_parameters .* 1e\+15; published"),
    (_scaled(**_YARN, attention_factor=1e-200), "warning", "attention_factor .* 1e-200; published models have 0.25 to"),
    (_scaled(**_YARN, attention_factor=1e200), "warning", r"attention_factor .* 1e\+200; published models"),
    ({"rope_theta": 1.7e308, "head_dim": 4096}, "warning", r"rope_theta in config.json is 1.7e\+308; published models"),
    ({"rope_theta": 1e300}, "warning", r"rope_theta in config.json is 1e\+300; published models have 1000 to 1e\+11"),
    ({"rope_theta": 1e60}, "warning", r"rope_theta in config.json is 1e\+60;"),
    ({"rope_theta": 10}, "warning", "rope_theta in config.json is 10;"),
    (
        {"rope_theta": None, "rope_parameters": {"rope_theta": 500.0}},
        "warning",
        "rope_theta in rope_parameters .* 500;",
    ),
    ({"max_position_embeddings": 2**40}, "warning", "max_position_embeddings in config.json is 1.09951e.12; published"),
    # nothing can be computed
    ({"model_type": "novel", "rope_theta": 1.0}, "error", "rope_theta in config.json is 1. The base .* above 1"),
    ({"rope_theta": 1.0}, "error", "rope_theta is 1, with which all pairs turn by the same angle"),
    ({"rope_theta": 0}, "error", "rope_theta in config.json is 0. The base"),
    ({"partial_rotary_factor": -0.5}, "error", "partial_rotary_factor in config.json is -0.5. It is the share"),
    ({"partial_rotary_factor": 1.5}, "error", "partial_rotary_factor in config.json is 1.5. It is the share"),
    ({"model_type": "gpt_neox", "rotary_pct": 0.0}, "note", "rotary_pct is 0: no feature of a head is rotated"),
    (_scaled(rope_type="proportional", factor=0), "error", "factor of the scaling 'proportional' must be .* got 0"),
    (_scaled(rope_type="proportional", factor=0.0, partial_rotary_factor=0.5), "error", "must be at least 1; got 0"),
    # read as something else
    (_scaled(**_YARN, beta_fast=0), "warning", "beta_fast in rope_scaling .* 0, .* reads as 32"),
    (_scaled(**_YARN, beta_slow=0.0), "warning", "beta_slow in rope_scaling .* 0, .* reads as 1"),
    (_scaled(**_YARN, mscale=0, mscale_all_dim=0), "warning", "both 0, .* the attention scale is 1.13863"),
    (_scaled(**_YARN, mscale=0.0, mscale_all_dim=0.0), "warning", "By DeepSeek's own code it would be 1"),
    # lengths
    (_scaled(**_LLAMA3, original_max_position_embeddings=32768), "warning", "is 32768, above max_position_embeddings"),
    (_scaled(**_YARN | {"original_max_position_embeddings": 20000}), "warning", "is 20000, above max_position"),
    (
        _scaled(rope_type="linear", factor=4.0, original_max_position_embeddings=8192),
        "warning",
        "factor 4 makes 32768 of original_max_position_embeddings 8192, but max_position_embeddings is 16384",
    ),
    (
        _scaled(rope_type="longrope", short_factor=[1.0 + i for i in range(64)], long_factor=[1.0] * 64)
        | {"original_max_position_embeddings": 4096},
        "warning",
        "the two lists may be swapped",
    ),
    # axes
    (_sections(16, 20, 24), "error", r"mrope_section \[16, 20, 24\] sums to 60 pairs, .* 64 pairs"),
    (_sections(32, 48, 48), "error", "sums to 128 pairs, .* 64 pairs"),
    (_sections(), "error", r"mrope_section in rope_scaling .* \[\]. It must list"),
    (_sections(-16, 40, 40), "error", r"\[-16, 40, 40\]. It must list the number of pairs of each axis"),
    (_sections(16.5, 23.5, 24), "error", r"\[16.5, 23.5, 24\]. It must list"),
    (_sections(24, 20, 19, mrope_interleaved=True), "error", "sums to 63 pairs, .* 64 pairs"),
    (
        _sections(24, 20, 19, mrope_interleaved=True) | {"model_type": "qwen3_vl_text"},
        "warning",
        "sums to 63 pairs, .* 64 pairs",
    ),
    (
        _sections(16, 24, 24, mrope_interleaved=True),
        "warning",
        "mrope_interleaved is true, which the class of .* passes",
    ),
    # names that nothing reads
    ({"rop_scaling": _YARN}, "error", "'rop_scaling' in config.json is not known.* Did you mean 'rope_scaling'"),
    ({"Rope_scaling": _YARN}, "error", "'Rope_scaling' .* Did you mean 'rope_scaling'"),
    ({"RoPE_theta": 5e5}, "error", "'RoPE_theta' .* Did you mean 'rope_theta'"),
    ({"ropeTheta": 5e5}, "error", "'ropeTheta' in config.json is not known.* Did you mean 'rope_theta'"),
    ({"rope_tetha": 5e5}, "error", "'rope_tetha' in config.json is not known.* Did you mean 'rope_theta'"),
    ({"head_dims": 64}, "error", "'head_dims' .* Did you mean 'head_dim'"),
    ({"HeadDim": 64}, "error", "'HeadDim' .* Did you mean 'head_dim'"),
    ({"Max_Position_Embeddings": 64}, "error", "Did you mean 'max_position_embeddings'"),
    ({"theta": 5e5}, "warning", "'theta' in config.json looks as if it were about rotary positions"),
    ({"freq_base": 5e5}, "warning", "'freq_base' in config.json looks as if"),
    ({"use_dynamic_ntk": True}, "warning", "'use_dynamic_ntk' .* looks as if"),
    ({"use_logn_attn": True}, "warning", "'use_logn_attn' .* looks as if"),
    ({"beta_fast": 32, **_scaled(**_YARN)}, "warning", "'beta_fast' stands in config.json next to rope_scaling"),
    ({"low_freq_factor": 1.0}, "warning", "'low_freq_factor' stands in config.json next to"),
    (_scaled(rope_type="linear", factor=4.0, attention_factor=1.0), "warning", "means nothing to the scaling 'linear'"),
    (
        _scaled(**_LLAMA3, original_max_position_embeddings=8192, beta_fast=3),
        "warning",
        "means nothing to the .*'llama3'",
    ),
    # layer types
    (
        {"num_hidden_layers": 1, "layer_types": ["full_attention"], "rope_parameters": {"full_attention": None}},
        "warning",
        "' in rope_p.* is null",
    ),
    (
        {
            "model_type": "gemma3_text",
            "rope_theta": None,
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6}},
        },
        "warning",
        "Layers are of the type 'sliding_attention', for which rope_parameters of config.json has no group",
    ),
]


@pytest.mark.parametrize(("entries", "severity", "said"), _CASES)
def test_what_cannot_be_meant_is_said(entries: dict[str, Any], severity: str, said: str, tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, _LLAMA | entries)
    assert [each for each in inspection.findings if each.severity == severity and re.search(said, each.message)]
    json.dumps(inspection.as_data(), allow_nan=False)
    for finding in inspection.findings:
        assert not re.search("target_length|original_length|max_length|long_factors", finding.message + finding.remedy)
    if severity == "warning":
        assert not inspection.has_errors


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (_scaled(**_YARN | {"factor": 0}), "factor in rope_scaling of config.json is 0: transformers divides"),
        ({"head_dim": -64}, "'head_dim' in config.json must be a positive whole number; got -64"),
        ({"rope_theta": "1e4"}, "'rope_theta' in config.json must be a number; got '1e4'"),
        (_scaled(rope_scaling={"factor": 4.0}), "'rope_scaling' in rope_scaling of config.json is a group of its own"),
    ],
)
def test_a_value_is_reported_once_and_in_the_words_of_json(entries: dict[str, Any], said: str, tmp_path: Path) -> None:
    (finding,) = [each for each in _inspected(tmp_path, _LLAMA | entries).findings if each.severity != "note"]
    assert finding.message.startswith(said)
    assert len(finding.message) < 160


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (
            {"rope_theta": "abc", "max_position_embeddings": "4096", **_scaled(rope_type="linear", factor="2")},
            ["'max_position_embeddings' in config", "'rope_theta' in config", "'factor' in rope_scaling of config"],
        ),
        ({"model_type": "gpt_neox", "rotary_emb_base": "1e4", "rotary_pct": [0.25]}, ["'rotary_emb", "'rotary_pct'"]),
        ({"rope_theta": "5e5", **_scaled(**_YARN)}, ["'rope_theta'"]),
        ({"rope_theta": "5e5", **_scaled(rope_type="yarn")}, ["'rope_theta'"]),  # what is missing is no wrong value
    ],
)
def test_all_values_of_a_wrong_kind_are_told_at_once(entries: dict[str, Any], told: list[str], tmp_path: Path) -> None:
    errors = [each for each in _inspected(tmp_path, _LLAMA | entries).findings if each.severity == "error"]
    assert len(errors) == len(told)
    assert all(each.message.startswith(name) for each, name in zip(errors, told, strict=True))


def test_no_remedy_is_refused(tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, _LLAMA | _scaled(**_YARN | {"original_max_position_embeddings": 20000}))
    assert not any("Set factor to 0." in finding.remedy for finding in inspection.findings)
    errors = _inspected(tmp_path, _LLAMA | {"partial_rotary_factor": -0.5}).findings
    assert "the configuration that the publisher released" not in errors[0].remedy


_METADATA = {
    "general.architecture": "qwen2vl",
    "qwen2vl.context_length": 32768,
    "qwen2vl.attention.key_length": 128,
    "qwen2vl.rope.freq_base": 1e6,
}


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"rope.dimension_sections": [16, 20, 24, 0]}, "sections .16, 20, 24. sums to 60 pairs, .* 64 pairs"),
        ({"rope.dimension_sections": [32, 48, 48, 0]}, "sums to 128 pairs"),
        ({"rope.freq_base": 10.0}, "rope.freq_base in the GGUF metadata of 'qwen2vl' is 10; published models have"),
        ({"rope.freq_base": 1e35}, "rope.freq_base .* published models"),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 5000.0}, "rope.scaling.factor .* published models"),
    ],
)
def test_doubtful_metadata_is_a_warning(entries: dict[str, Any], said: str) -> None:
    metadata = _METADATA | {f"qwen2vl.{name}": value for name, value in entries.items()}
    assert [
        each for each in read_gguf(metadata).findings if each.severity == "warning" and re.search(said, each.message)
    ]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"rope.freq_base": 0.0}, "rope.freq_base in the GGUF metadata of 'qwen2vl' is 0. The base"),
        ({"rope.dimension_sections": [-16, 40, 40, 0]}, "rope.dimension_sections .* It must list"),
        ({"rope.dimension_sections": [0, 0, 0, 0]}, "rope.dimension_sections .* It must list"),
        ({"rope.scaling.attn_factor": 0.0}, "rope.scaling.attn_factor in .* is 0: all scores are 0 then"),
        (
            {"rope.scaling.type": "yarn", "rope.scaling.factor": -0.5, "rope.scaling.original_context_length": 4096},
            "YaRN's factor is -0.5: llama.cpp takes its logarithm, which is no number",
        ),
    ],
)
def test_impossible_metadata_is_refused(entries: dict[str, Any], said: str) -> None:
    metadata = _METADATA | {f"qwen2vl.{name}": value for name, value in entries.items()}
    with pytest.raises(ValueError, match=said):
        read_gguf(metadata)


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_positions": 1024},
        {"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 512},
        {"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 40, "model_max_length": 4096,
         "auto_map": {"AutoConfig": "configuration_baichuan.BaichuanConfig"}},
        {"model_type": "zamba", "hidden_size": 3712, "num_attention_heads": 16, "max_position_embeddings": 4096},
        {"model_type": "nemotron_h", "hidden_size": 4096, "num_attention_heads": 32, "hybrid_override_pattern": "M-M*"},
        {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "max_seq_len": 2048, "attn_config": {"alibi": True}},
        {"model_type": "bloom", "hidden_size": 4096, "n_head": 32},
    ],
    ids=lambda content: content["model_type"],
)  # fmt: skip
def test_no_engine_is_said_to_rotate_what_has_no_rotary_positions(content: dict[str, Any], tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, content)
    assert inspection.parsed is None
    assert not inspection.has_errors
    assert {finding.severity for finding in inspection.findings} == {"note"}
    assert "Correct the entry" not in inspection.findings[0].remedy
    said = inspection.findings[0].message
    assert "no rotary positions" in said
    assert "vLLM" not in said
    assert ("ALiBi" in said) is (content["model_type"] in ("baichuan", "mpt", "bloom"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({**_LLAMA, "num_key_value_heads": 3}, "num_key_value_heads is 3 in config.json, which does not divide the 32"),
        (
            {"model_type": "gemma3_text", "num_hidden_layers": 2, "layer_types": ["local", "full_attention"]},
            "'local' in layer_types of config.json is no layer type that transformers knows",
        ),
        (
            {**_LLAMA, "rope_scaling": {**_YARN, "attention_factor": 0.9, "mscale": 1.2, "mscale_all_dim": 0.8}},
            r"has attention_factor 0\.9 as well as mscale 1\.2: transformers takes attention_factor",
        ),
    ],
)
def test_what_the_class_fails_with_or_passes_over_is_told(tmp_path: Path, content: dict[str, Any], words: str) -> None:
    assert re.search(words, " ".join(each.message for each in _inspected(tmp_path, content).findings))


def test_the_attention_factor_goes_before_mscale() -> None:
    """modeling_rope_utils.py, _compute_yarn_parameters: mscale is looked at where attention_factor is null."""
    rope = {**_YARN, "attention_factor": 0.9, "mscale": 1.2, "mscale_all_dim": 0.8}
    assert read_huggingface({**_LLAMA, "rope_scaling": rope}).config.scaling.attention_scale() == 0.9


def test_heads_in_whole_groups_are_no_doubt(tmp_path: Path) -> None:
    for heads in (1, 8, 32):
        assert not _inspected(tmp_path, {**_LLAMA, "num_key_value_heads": heads}).findings


def test_smallthinker_has_windows_between_layers_without_positions() -> None:
    """models/smallthinker.cpp of llama.cpp: any window is one of 4096; every fourth layer has none and stands still."""
    keys = {"general.architecture": "smallthinker", "smallthinker.block_count": 8}
    keys |= {"smallthinker.attention.key_length": 128, "smallthinker.attention.sliding_window": 512}
    layers = read_gguf(keys).layers
    assert {(each.layers, each.window, each.config is None) for each in layers} == {
        ((0, 4), None, True),
        ((1, 2, 3, 5, 6, 7), 4096, False),
    }
    four = read_gguf({**keys, "smallthinker.block_count": 4}).layers
    assert all(each.config for each in four)


def test_a_share_of_the_head_that_graphs_of_llama_cpp_do_not_take() -> None:
    keys = {"general.architecture": "qwen3", "qwen3.block_count": 4, "qwen3.attention.key_length": 64}
    assert read_gguf({**keys, "qwen3.rope.dimension_count": 64}).config.rotary_dim == 64
    with pytest.raises(ConfigError, match=r"is 48, but a head has 64 features; llama\.cpp refuses"):
        read_gguf({**keys, "qwen3.rope.dimension_count": 48})


def test_sections_of_axes_that_a_class_passes_over(tmp_path: Path) -> None:
    """modeling_qwen2.py has one axis, and never reads mrope_section; that of Qwen2-VL does."""
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24]}
    content = {**_LLAMA, "model_type": "qwen2", "rope_scaling": rope}
    assert re.search(
        "mrope_section .* passes over", " ".join(e.message for e in _inspected(tmp_path, content).findings)
    )
    assert not read_huggingface(content).multimodal
    assert read_huggingface({**content, "model_type": "qwen2_vl"}).multimodal


def test_a_misspelt_window_is_an_error(tmp_path: Path) -> None:
    content = {**_LLAMA, "model_type": "mistral", "sliding_windows": 1024}
    said = [each.message for each in _inspected(tmp_path, content).findings if each.severity == "error"]
    assert len(said) == 1
    assert "'sliding_windows' in config.json is not known, and passed over. Did you mean 'sliding_window'?" in said[0]
    assert not _inspected(tmp_path, {**content, "sliding_windows": None, "sliding_window": 1024}).findings


def test_a_number_that_the_class_has_by_itself_is_no_doubt(tmp_path: Path) -> None:
    """configuration_csm.py: the depth decoder reads 33 positions, one for each codebook and one more."""
    sizes = {"hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 2}
    for length, is_doubted in ((33, False), (34, True)):
        content = {"model_type": "csm_depth_decoder_model", **sizes, "max_position_embeddings": length}
        said = [each.message for each in _inspected(tmp_path, content).findings]
        assert any("published models have" in each for each in said) is is_doubted


def test_an_entry_that_is_null_is_told_once(tmp_path: Path) -> None:
    """modeling_falcon.py fails with a base that is null; that vLLM's reading has it as well is nothing more."""
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
    (said,) = _inspected(tmp_path, {"model_type": "falcon", **sizes, "rope_theta": None}).findings
    assert "is null, with which the class of 'falcon' in transformers fails" in said.message


def test_a_null_that_the_class_refuses_is_told_once(tmp_path: Path) -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 2}
    found = _inspected(tmp_path, {"model_type": "minimax_m2", **sizes, "head_dim": None, "rope_theta": 1e4}).findings
    assert ["refuses the file" in each.message for each in found if each.message.startswith("head_dim")] == [True]


def test_a_null_window_of_a_class_that_has_none_of_its_own_is_told_once(tmp_path: Path) -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_attention_groups": 8, "num_hidden_layers": 2}
    types = ["full_attention"] * 2
    content = {"model_type": "step3p5", **sizes, "rope_theta": 1e4, "sliding_window": None, "layer_types": types}
    said = [each.message for each in _inspected(tmp_path, content).findings]
    assert len([each for each in said if each.startswith("sliding_window is null")]) == 1


def test_the_scaling_of_nomics_code_is_neither_of_transformers_nor_of_vllm() -> None:
    """NomicBertModelConfig of vLLM takes rope_parameters alone, beside the names of the base and of the share."""
    file = {"model_type": "nomic_bert", "hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 6}
    content = {**file, "max_position_embeddings": 2048, "rotary_scaling_factor": 4, "max_trained_positions": 2048}
    assert isinstance(read_vllm({}, content | {"rotary_emb_base": 500}).config.scaling, Unscaled)
    assert not [each for each in engine_differences(content, read_huggingface(content)) if "scal" in each.message]


def test_dynamic_scaling_is_told_as_vllm_serves_it() -> None:
    file = {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 6}
    llama = {**file, "max_position_embeddings": 2048}
    llama |= {"model_type": "llama", "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    said = " ".join(each.message for each in engine_differences(llama, read_huggingface(llama)))
    assert "transformers: dynamic NTK, which follows the length of the text." in said
