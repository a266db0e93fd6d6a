"""Entries that a scaling cannot do without, and what stands for those that may be left out."""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.engines.vllm import read_vllm

_QWEN = {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "max_position_embeddings": 131072}
_LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_ORIGINAL = {"original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    "rope",
    [
        _LLAMA3 | _ORIGINAL,
        _LLAMA3 | _ORIGINAL | {"factor": None},
        {"rope_type": "yarn"} | _ORIGINAL,
        {"rope_type": "linear"},
        {"rope_type": "dynamic", "factor": None},
    ],
)
def test_a_missing_factor_is_not_made_up(rope: dict[str, Any]) -> None:
    """modeling_rope_utils.py of transformers: a KeyError for a missing one; that of llama3 is divided by, also null."""
    with pytest.raises(ConfigError, match=r"'factor' is missing in rope_scaling of config\.json"):
        read_huggingface(_QWEN | {"rope_scaling": rope})


def test_a_factor_that_is_null_is_the_ratio_where_transformers_takes_that() -> None:
    parsed = read_huggingface(_QWEN | {"rope_scaling": {"rope_type": "yarn", "factor": None} | _ORIGINAL})
    assert parsed.config.scaling.stretch == 4
    (note,) = [each for each in parsed.findings if "factor in rope_scaling of config.json is null" in each.message]
    assert note.severity == "note"
    assert "transformers takes 4, max_position_embeddings 131072 divided by" in note.message
    lists = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    parsed = read_huggingface(_QWEN | {"rope_scaling": {"rope_type": "longrope"} | _ORIGINAL | lists})
    assert parsed.config.scaling.stretch == 4
    assert not any("is null" in each.message for each in parsed.findings)  # it is left out in all published files


_PHI3 = {"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32, "max_position_embeddings": 131072}
_LISTS = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}


def test_the_original_length_of_the_class_stands_for_a_missing_one() -> None:
    """configuration_phi3.py has original_max_position_embeddings 4096; that of qwen2 has none."""
    parsed = read_huggingface(_PHI3 | {"rope_scaling": _LISTS})
    assert any("the class of 'phi3' takes its own, 4096" in each.message for each in parsed.findings)
    scaling = parsed.config.scaling
    assert (scaling.trained, scaling.stretch) == (4096, 32)
    parsed = read_huggingface(_PHI3 | {"model_type": "qwen2", "rope_scaling": _LISTS})
    assert any(
        "original_max_position_embeddings is missing in rope_scaling" in each.message for each in parsed.findings
    )
    assert parsed.config.scaling.trained == 131072


@pytest.mark.parametrize("name", ["short_factor", "long_factor"])
def test_a_missing_list_is_named(name: str) -> None:
    rope = {key: value for key, value in _LISTS.items() if key != name}
    with pytest.raises(ConfigError, match=f"'{name}' is missing in rope_scaling of config"):
        read_huggingface(_PHI3 | {"rope_scaling": rope})


def test_a_type_that_the_class_takes_for_longrope_is_named_with_both_lists() -> None:
    """Phi3Config._rope_parameters_adjustment: 'su' and 'yarn' are longrope, whose lists transformers then looks for."""
    yarn = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
    said = (
        "The model's class takes rope_type 'yarn' for 'longrope'. 'short_factor' and 'long_factor' are missing in "
        "rope_scaling of config.json: .* transformers refuses the file."
    )
    with pytest.raises(ConfigError, match=said):
        read_huggingface(_PHI3 | {"rope_scaling": yarn})
    with pytest.raises(ConfigError, match=r"^'short_factor' and 'long_factor' are missing in rope_scaling"):
        read_huggingface(_PHI3 | {"rope_scaling": {**yarn, "type": "longrope"}})


def test_the_number_of_layers_is_told_with_other_sizes_that_are_left_out() -> None:
    sizes = {"model_type": "qwen2", "num_attention_heads": 16}
    notes = [each.message for each in read_huggingface(sizes).findings if "leaves out" in each.message]
    assert notes == [
        "The file leaves out hidden_size (4096) and num_hidden_layers (32); these are the values of the class of "
        "'qwen2'."
    ]
    notes = [each.message for each in read_huggingface(sizes | {"num_hidden_layers": 4}).findings]
    assert any(each.startswith("The file leaves out hidden_size (4096); these") for each in notes)


def test_sizes_that_another_models_file_has() -> None:
    ultravox = {"model_type": "ultravox", "hidden_size": 4096, "text_model_id": "meta-llama/Meta-Llama-3.1-8B-Instruct"}
    with pytest.raises(ConfigError, match=r"num_attention_heads is missing\. text_model_id names the model"):
        read_huggingface(ultravox)
    with pytest.raises(ConfigError, match=r"hidden_size and num_attention_heads is missing\.$"):
        read_huggingface({"model_type": "mine", "rope_theta": 1e4})


def test_an_odd_head_is_named() -> None:
    with pytest.raises(ConfigError, match=r"head_dim is 127, but .* their number must be even\."):
        read_huggingface(_QWEN | {"head_dim": 127})


def test_messages_name_the_share_as_the_file_does() -> None:
    (said,) = [
        each.message
        for each in read_huggingface(_QWEN | {"model_type": "llama", "rotary_pct": 0.25}).findings
        if each.severity == "warning"
    ]
    assert said.startswith("rotary_pct is 0.25 in config.json, which the class of 'llama' in transformers passes over")


@pytest.mark.parametrize(("mscale", "of_all", "warned"), [(1.0, 0.0, False), (1.0, None, False), (0.707, 0.0, True)])
def test_one_mscale_is_a_warning_where_it_decides(mscale: float, of_all: float | None, warned: bool) -> None:
    """deepseek-ai/DeepSeek-V2, modeling_deepseek.py: mscale is 1 and mscale_all_dim 0 where they are left out."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "mscale": mscale, "mscale_all_dim": of_all} | _ORIGINAL
    findings = read_huggingface(_QWEN | {"rope_scaling": yarn}).findings
    assert any("takes neither without the other" in each.message for each in findings) is warned


def test_groups_of_layer_types_count_whatever_stands_beside_them() -> None:
    """modeling_rope_utils.py, nested_rope_parameter_keys: the layer types that the configuration declares."""
    zaya = {"model_type": "zaya", "num_hidden_layers": 4, "layer_types": ["hybrid"] * 4}
    group = {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}
    parsed = read_huggingface(zaya | {"rope_parameters": {"rope_type": "default", "hybrid": group}})
    assert (parsed.config.base, parsed.config.rotary_dim) == (5e6, 64)
    assert any(
        each.severity == "warning" and each.message.startswith("'rope_type' stands in rope_parameters of config.json")
        for each in parsed.findings
    )


def test_sections_by_any_name_are_the_axes() -> None:
    """configuration_hunyuan_vl.py calls xdrope_section mrope_section."""
    hunyuan = {"model_type": "hunyuan_vl", "head_dim": 128, "rope_theta": 1e4, "max_position_embeddings": 32768}
    group = {"type": "xdrope", "alpha": 1000.0, "xdrope_section": [16, 16, 16, 16]}
    parsed = read_huggingface(hunyuan | {"rope_scaling": group})
    assert parsed.multimodal["all"]["sections"] == (16, 16, 16, 16)
    assert parsed.config.base == pytest.approx(1e4 * 1000 ** (128 / 126))


@pytest.mark.parametrize("own", [{}, {"auto_map": {"AutoConfig": "configuration_hf_nomic_bert.NomicBertConfig"}}])
def test_nomics_own_code_may_pair_neighbours(own: dict[str, Any]) -> None:
    """modeling_hf_nomic_bert.py heeds rotary_emb_interleaved, which the class of transformers passes over."""
    nomic = {"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "rotary_emb_interleaved": True}
    parsed = read_huggingface(nomic | own | {"rotary_emb_fraction": 0.5})
    assert (parsed.config.layout, parsed.config.rotary_dim) == ("half", 64)
    said = " ".join(each.message for each in parsed.findings)
    assert "rotary_emb_interleaved is true in config.json, which the class of 'nomic_bert'" in said
    assert "rotary_emb_fraction is 0.5 in config.json, which the class of 'nomic_bert'" in said
    assert read_vllm({}, nomic | own | {"rotary_emb_base": 500}).config.base == 500


def test_a_file_without_overrides_is_named_as_what_vllm_reads() -> None:
    rope = {"rope_type": "yarn", "factor": None} | _ORIGINAL
    with pytest.raises(ConfigError, match=r"'factor' is missing in config\.json: the scaling 'yarn' divides by it"):
        read_vllm({}, _QWEN | {"rope_scaling": rope})


def test_zayas_layers_with_a_window_are_known_and_need_one() -> None:
    """configuration_zaya.py takes layers of the type hybrid_sliding, where sliding_window is stated."""
    zaya = {"model_type": "zaya", "num_hidden_layers": 4, "layer_types": ["hybrid", "hybrid_sliding"] * 2}
    parsed = read_huggingface(zaya | {"sliding_window": 512})
    assert [each.window for each in parsed.layers] == [None, 512]
    assert not any("hybrid_sliding" in each.message for each in parsed.findings)
    for window in ({}, {"sliding_window": None}):
        said = " ".join(each.message for each in read_huggingface(zaya | window).findings)
        assert "refuses layers of the type 'hybrid_sliding' without a window" in said
    ocr = {"model_type": "unlimited_ocr", "text_config": {"sliding_window": None}}
    said = " ".join(each.message for each in read_huggingface(ocr).findings)
    assert "sliding_window is null in config.json: the class of 'unlimited_ocr_text' in transformers 5 refuses" in said
