"""The note about the entries of a config.json about positions that change nothing in its class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from locant.extension.inspect.inspection import inspect_model

_SIZES = {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "num_hidden_layers": 4}
_ROPE = {**_SIZES, "rope_theta": 1e4, "max_position_embeddings": 4096}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096, "rope_theta": 1e4}


def _said(folder: Path, content: dict[str, Any]) -> list[str]:
    (folder / "config.json").write_text(json.dumps(content))
    return [each.message for each in inspect_model(folder, ask_class=False).findings]


def _note(folder: Path, content: dict[str, Any]) -> str:
    notes = [each for each in _said(folder, content) if each.startswith("Without effect")]
    assert len(notes) < 2
    return notes[0].partition(" in transformers: ")[2] if notes else ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"model_type": "llama", **_ROPE, "rope_is_neox_style": True},
            "rope_is_neox_style true, which it does not read",
        ),
        ({"model_type": "llama", **_ROPE, "kv_channels": 128}, "kv_channels 128, which it does not read"),
        ({"model_type": "mimo_v2_flash", "partial_rotary_factor": 0.334}, "partial_rotary_factor 0.334, which it does"),
        ({"model_type": "minimax_m2", **_ROPE, "attn_type_list": [1] * 4}, "attn_type_list, which it does not read"),
        (
            {"model_type": "openai_privacy_filter", **_SIZES, "initial_context_length": 4096},
            "initial_context_length 4096, which",
        ),
        ({"model_type": "pegasus_x", "static_position_embeddings": False}, "static_position_embeddings false, which"),
        ({"model_type": "jina_embeddings_v3", **_SIZES, "rotary_emb_base": 20000.0}, "rotary_emb_base 20000.0, which"),
        (
            {
                "model_type": "paddleocr_vl",
                "text_config": {"model_type": "paddleocr_vl_text", **_ROPE, "use_3d_rope": True},
            },
            "use_3d_rope true, which it does not read",
        ),
        (
            {
                "model_type": "wav2vec2-conformer",
                "position_embeddings_type": "rotary",
                "max_source_positions": 5000,
                "num_conv_pos_embeddings": 128,
            },
            "num_conv_pos_embeddings 128, of which it makes modules that it never uses; max_source_positions",
        ),
        (
            {
                "model_type": "cohere2_moe",
                "num_hidden_layers": 4,
                "layer_types": ["full_attention"] * 4,
                "sliding_window": 4096,
            },
            "sliding_window 4096, as no layer has a window",
        ),
        (
            {
                "model_type": "cohere2_moe",
                "num_hidden_layers": 4,
                "layer_types": ["full_attention"] * 4,
                "rope_theta": 50000,
            },
            "rope_theta 50000, as no layer rotates",
        ),
        (
            {
                "model_type": "deepseek_v4",
                "num_hidden_layers": 4,
                "rope_theta": 20000.0,
                "partial_rotary_factor": 0.25,
            },
            "rope_theta 20000.0, as no layer is of the types whose base it is",
        ),
        (
            {"model_type": "falcon", **_SIZES, "alibi": True, "rope_theta": 2e4, "rope_scaling": _YARN},
            "rope_theta 20000.0 and rope_scaling, as no layer rotates",
        ),
        ({"model_type": "bert", "position_embedding_type": "absolute"}, "position_embedding_type 'absolute', which"),
        (
            {
                "model_type": "qwen2",
                **_ROPE,
                "use_sliding_window": False,
                "sliding_window": 512,
                "max_window_layers": 2,
            },
            "sliding_window 512 and max_window_layers 2, beside use_sliding_window false",
        ),
        (
            {"model_type": "llama", **_ROPE, "rope_parameters": _YARN, "rope_scaling": _YARN},
            "rope_scaling and rope_theta, of which rope_parameters says the same",
        ),
        ({"model_type": "llama", **_ROPE, "rope_scaling": _YARN}, "rope_theta, of which rope_scaling says the same"),
        (
            {
                "model_type": "llama",
                **_ROPE,
                "rope_parameters": None,
                "rope_scaling": {"type": "linear", "factor": 2.0},
            },
            "rope_parameters null, beside rope_scaling",
        ),
        (
            {"model_type": "moonshine", "hidden_size": 288, "pad_head_dim_to_multiple_of": 8},
            "pad_head_dim_to_multiple_of 8, any other value of which above 0 gives the same positions",
        ),
    ],
)
def test_an_entry_that_changes_nothing_is_named(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    assert said in _note(tmp_path, content)


def test_entries_beside_a_text_part_that_has_its_windows_off_are_named(tmp_path: Path) -> None:
    text = {"model_type": "qwen2_5_vl_text", **_ROPE, "sliding_window": None, "use_sliding_window": False}
    content = {"model_type": "qwen2_5_vl", "sliding_window": 64, "use_sliding_window": False, "max_window_layers": 9}
    said = "sliding_window, max_window_layers and use_sliding_window beside 'text_config', in which such entries count"
    assert said in _note(tmp_path, {**content, "text_config": text})
    assert not [each for each in _said(tmp_path, {**content, "text_config": text}) if "default" in each]
    text["use_sliding_window"] = True
    assert any(
        "'sliding_window' stands in config.json" in each for each in _said(tmp_path, {**content, "text_config": text})
    )


def test_a_number_of_features_that_becomes_a_share_is_told(tmp_path: Path) -> None:
    """configuration_minimax_m2.py converts it; configuration_gptj.py has a field for it."""
    said = "The class makes partial_rotary_factor 0.5 of rotary_dim 64."
    assert any(said in each for each in _said(tmp_path, {"model_type": "minimax_m2", **_ROPE, "rotary_dim": 64}))
    for content in ({"model_type": "minimax_m2"}, {"model_type": "gptj", "rotary_dim": 64}):
        assert not [each for each in _said(tmp_path, {**_ROPE, **content}) if "The class makes" in each]


def test_a_type_that_is_taken_for_another_is_told(tmp_path: Path) -> None:
    group = {"type": "deepseek_yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    said = _said(
        tmp_path, {"model_type": "sarvam_mla", **_ROPE, "max_position_embeddings": 16384, "rope_scaling": group}
    )
    assert "The type 'deepseek_yarn' in rope_scaling of config.json is taken as 'yarn'." in said


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "llama", **_ROPE, "rope_scaling": None},
        {"model_type": "llama", **_ROPE, "rope_is_neox_style": False},  # a warning of its own
        {"model_type": "minimax_m2", **_ROPE, "attn_type_list": [0, 0, 0, 1]},
        {"model_type": "qwen2", **_ROPE, "use_sliding_window": True, "sliding_window": 512, "max_window_layers": 2},
        {"model_type": "whisper", "max_source_positions": 1500, "max_target_positions": 448},
        {"model_type": "wav2vec2-conformer", "position_embeddings_type": "relative", "max_source_positions": 5000},
        {"model_type": "recurrent_gemma", **_ROPE, "attention_window_size": 512},
    ],
)
def test_an_entry_that_counts_or_that_another_finding_names_is_not_named(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    assert not _note(tmp_path, content)


def test_all_of_them_are_one_note(tmp_path: Path) -> None:
    content = {
        "model_type": "qwen2",
        **_ROPE,
        "use_sliding_window": False,
        "sliding_window": 512,
        "initial_context_length": 64,
    }
    assert _note(tmp_path, content) == (
        "sliding_window 512, beside use_sliding_window false; initial_context_length 64, which it does not read."
    )


def test_a_value_with_which_the_class_fails_is_not_as_good_as_another(tmp_path: Path) -> None:
    """configuration_mistral4.py takes a share of the whole head, and its attention turns qk_rope_head_dim features."""
    group = {**_YARN, "partial_rotary_factor": 0.5, "llama_4_scaling_beta": 0.1}
    assert "partial_rotary_factor" not in _note(tmp_path, {"model_type": "mistral4", "rope_parameters": group})
