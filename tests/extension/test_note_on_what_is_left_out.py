"""The note about all that a config.json leaves out about positions, and its class has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from locant.extension.inspect.inspection import inspect_model
from locant.positions.scaling.fields import Finding

_SIZES = {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "num_hidden_layers": 12}
_EVERY = [0, 1, 1] * 4
_ROPE = {**_SIZES, "rope_theta": 1e4, "max_position_embeddings": 4096}


def _found(folder: Path, content: dict[str, Any], *, ask_class: bool = False) -> list[Finding]:
    (folder / "config.json").write_text(json.dumps(content))
    return [*inspect_model(folder, ask_class=ask_class).findings]


def _said(folder: Path, content: dict[str, Any], *, ask_class: bool = False) -> list[str]:
    """Return the items of the note."""
    said = [each.message for each in _found(folder, content, ask_class=ask_class)]
    notes = [each for each in said if each.startswith("Left out of config.json")]
    assert len(notes) < 2
    return notes[0].removesuffix(".").partition(" has it: ")[2].split("; ") if notes else []


@pytest.mark.parametrize(
    ("content", "items"),
    [
        ({"model_type": "llama", **_SIZES}, ["rope_theta 10000"]),
        (
            {"model_type": "mellum", **_SIZES},
            [
                "rope_theta 500000",  # and no other one of sliding layers, of which there are none
                "layer_types, all full_attention",
            ],
        ),
        ({"model_type": "nemotron", **_ROPE}, ["partial_rotary_factor 0.5"]),
        # heads of 42 features, 21 of which are turned with one more by a base that is shown for that
        ({"model_type": "glm4_moe"}, ["rope_theta 10000", "partial_rotary_factor 0.5"]),
        ({"model_type": "persimmon", **_ROPE}, ["partial_rotary_factor 0.5"]),
        # entries of other classes, which this one does not read, say nothing of its share
        ({"model_type": "stablelm", **_ROPE, "rope_pct": 0.5}, ["partial_rotary_factor 0.25"]),
        ({"model_type": "glm4_moe", **_ROPE, "rotary_percent": 0.25}, ["partial_rotary_factor 0.5"]),
        ({"model_type": "phi", **_ROPE}, ["partial_rotary_factor 0.5"]),
        ({"model_type": "gptj", **_ROPE}, ["rotary_dim 64"]),
        # Of 36 features the class turns 32, which is the even number below 0.9 of them.
        ({"model_type": "moonshine", "hidden_size": 288, "rope_theta": 1e4}, ["partial_rotary_factor 0.9"]),
        ({"model_type": "clvp_encoder", **_ROPE}, []),  # whose share no entry changes
        ({"model_type": "gpt_neox", **_ROPE, "rotary_emb_base": 10000}, ["rotary_pct 0.25"]),
        ({"model_type": "mistral", **_ROPE}, ["sliding_window 4096"]),
        ({"model_type": "qwen3", **_ROPE, "hidden_size": 1024}, ["head_dim 128"]),
        # Layers without positions are those of no_rope_layers, whatever their type is.
        ({"model_type": "smollm3", **_ROPE}, ["no_rope_layers, 0 for every 4th layer"]),
        (
            {"model_type": "mistral_large4_text", **_ROPE, "num_hidden_layers": 4},
            [
                "rope_parameters, scaling yarn (factor 2048, extended length 1048576, original_max_position_embeddings "
                "512, attention_factor 1), attention scale 1",
                "qk_rope_head_dim 64",
                "no_rope_layers, 0 for the last layer",
            ],
        ),
        (
            {"model_type": "qwen2_moe", **_ROPE, "use_sliding_window": True, "max_window_layers": 9},
            [
                "sliding_window 4096",
                "layer_types, every 2nd layer from 0 to 8 sliding_attention, the others full_attention",
            ],
        ),
        (
            {"model_type": "modernbert-decoder", **_SIZES, "global_rope_theta": 1e5, "local_attention": 64},
            [
                "local_rope_theta 10000",
                "layer_types, every 3rd layer from the first on full_attention, the others sliding_attention",
            ],
        ),
        ({"model_type": "ministral", **_ROPE, "sliding_window": 64}, ["layer_types, all sliding_attention"]),
        (
            {
                "model_type": "paddleocr_vl",
                "text_config": {"model_type": "paddleocr_vl_text", **_ROPE, "head_dim": 128},
            },
            ["mrope_section [16, 24, 24]"],
        ),
        (
            {
                "model_type": "paddleocr_vl",
                **_ROPE,
                "head_dim": 128,
                "rope_scaling": {"type": "default", "mrope_section": [16, 24, 24]},
            },
            ["text_config, for which entries of the file itself are taken"],
        ),
        ({"model_type": "pp_chart2table", "text_config": _ROPE}, ["the model_type of text_config, 'qwen2'"]),
        (
            {"model_type": "gemma3_text", **_SIZES, "head_dim": 64, "sliding_window": 64, "rope_theta": 1e6},
            ["rope_local_base_freq 10000", "layer_types, every 6th layer full_attention, the others sliding_attention"],
        ),
        (  # whose bases by layer name the configurations, and say which layers rotate, but not their types
            {"model_type": "granite_swa", **_SIZES, "sliding_window": 64, "layer_rope_theta": [0, *[1e4] * 10, 5e5]},
            ["layer_types, every 4th layer from the first on full_attention, the others sliding_attention"],
        ),
        (
            {"model_type": "llama", **_SIZES, "rope_theta": 1e4, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
            ["max_position_embeddings 2048"],
        ),
    ],
)
def test_what_the_class_has_is_named_with_its_value(tmp_path: Path, content: dict[str, Any], items: list[str]) -> None:
    expected = [item for item in items if not (content["model_type"] == "mellum" and item.startswith("head"))]
    said = _said(tmp_path, content)
    assert [item for item in said if item in expected] == expected
    assert said == items or content["model_type"] == "mellum"


def test_a_scaling_of_the_class_is_named_with_its_entries(tmp_path: Path) -> None:
    (group, *_) = _said(tmp_path, {"model_type": "apertus", **_SIZES})
    assert group.startswith("rope_parameters, scaling llama3 (factor 8")


def test_windows_of_two_sizes_are_named(tmp_path: Path) -> None:
    """configuration_neomme.py: every other layer with a window has the long one."""
    said = _said(tmp_path, {"model_type": "neomme", **_SIZES, "num_attention_heads": 32})
    (layers,) = (each for each in said if each.startswith("layer_types"))
    assert "sliding_attention with a window of 257" in layers
    assert "sliding_attention with a window of 1025" in layers


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "llama", **_ROPE},
        {"model_type": "llama", **_SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
        {"model_type": "mistral", **_ROPE, "sliding_window": None},
        {"model_type": "phi", **_ROPE, "partial_rotary_factor": 0.5},
        {"model_type": "gpt_neox", **_SIZES, "rotary_pct": 0.25, "rotary_emb_base": 10000},
        {"model_type": "qwen2", **_ROPE, "use_sliding_window": False},
        {"model_type": "gemma2", **_ROPE, "head_dim": 64, "sliding_window": 64, "layer_types": ["full_attention"] * 12},
        {"model_type": "cohere2", **_ROPE, "sliding_window": 64, "sliding_window_pattern": 4},
        # of which the class makes no types of layers, and fails
        {"model_type": "exaone4", **_ROPE, "sliding_window": 64, "sliding_window_pattern": None},
        # a list in a group states the types, and the class passes over the rotary_dim that it has
        {"model_type": "minimax_m3_vl_text", **_ROPE, "sparse_attention_config": {"sparse_attention_freq": _EVERY}},
    ],
)
def test_what_the_file_states_or_the_scheme_does_not_use_is_not_named(tmp_path: Path, content: dict[str, Any]) -> None:
    assert not _said(tmp_path, content)


def test_the_note_stands_in_the_place_of_that_on_the_base(tmp_path: Path) -> None:
    content = {"model_type": "llama", **_SIZES}
    for ask_class in (False, True):
        said = [each.message for each in _found(tmp_path, content, ask_class=ask_class)]
        assert [each for each in said if "rope_theta" in each] == [
            "Left out of config.json, and taken as the class of 'llama' in transformers has it: rope_theta 10000."
        ]


def test_what_is_read_of_no_class_of_transformers_keeps_its_own_note(tmp_path: Path) -> None:
    said = [each.message for each in _found(tmp_path, {**_SIZES, "rope_scaling": None, "rope_theta": None})]
    assert not [each for each in said if each.startswith("Left out")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {
                **{"model_type": "gemma3_text", **_ROPE, "layer_types": None},
                **{"head_dim": 256, "rope_local_base_freq": 1e4, "sliding_window": 64},
            },
            "Null in config.json, and",
        ),
        ({"model_type": "gemma3_text", **_SIZES, "layer_types": None}, "Left out of config.json or null there, and"),
    ],
)
def test_an_entry_that_is_null_is_not_called_left_out_alone(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    (note,) = (each.message for each in _found(tmp_path, content) if each.code == "values of the class")
    assert note.startswith(said)
    assert "layer_types, every 6th layer" in note


def test_a_base_in_a_group_that_the_class_passes_over_is_not_called_left_out(tmp_path: Path) -> None:
    """modeling_rope_utils.py takes ``rope_scaling`` alone, and fills in the base of the class there."""
    scaled = {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    content = {
        "model_type": "llama",
        **_SIZES,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
        **scaled,
    }
    said = [each.message for each in _found(tmp_path, content)]
    assert "rope_scaling of config.json has no rope_theta; 10000 is taken, as its class has." in said
    assert not [each for each in said if each.startswith(("The file has no", "Left out"))]


def test_groups_of_layer_types_that_a_class_passes_over_are_told_once(tmp_path: Path) -> None:
    groups = {name: {"rope_type": "default", "rope_theta": 16e4} for name in ("full_attention", "sliding_attention")}
    said = [each.message for each in _found(tmp_path, {"model_type": "llama", **_SIZES, "rope_parameters": groups})]
    assert [each for each in said if "rope_theta" in each or "base" in each] == [
        "rope_parameters of config.json has groups for 'full_attention' and 'sliding_attention', which the class of "
        "'llama' in transformers passes over: its layers have no types, and all have the base 10000, without scaling."
    ]


def test_a_class_that_fails_without_groups_gives_no_base(tmp_path: Path) -> None:
    """modeling_cohere_compass.py looks for a group of every type of layers, and its configuration has none."""
    found = _found(tmp_path, {"model_type": "cohere_compass_text", **_SIZES, "rope_parameters": {}})
    assert any("has none of its own, and fails" in each.message for each in found)
    assert not [each for each in found if each.code == "values of the class" and "rope_theta" in each.message]


def test_a_base_in_one_group_with_which_a_class_fails_is_read(tmp_path: Path) -> None:
    group = {"rope_type": "default", "rope_theta": 5e5}
    said = [each.message for each in _found(tmp_path, {"model_type": "beam", **_SIZES, "rope_parameters": group})]
    assert any("looks for these, and fails" in each for each in said)
    assert not [each for each in said if "nothing known here reads it" in each]


def test_what_a_part_leaves_out_is_told_with_its_name(tmp_path: Path) -> None:
    """Another part may have an entry of that name."""
    parts = {"text_config": {**_SIZES}, "vision_config": {"rope_parameters": {"rope_theta": 1e4}}}
    (note,) = (
        each.message
        for each in _found(tmp_path, {"model_type": "qwen3_vl", **parts})
        if each.code == "values of the class"
    )
    assert note.startswith("Left out of config.json (in text_config), and taken as the class of 'qwen3_vl_text'")


def test_a_base_in_a_group_of_a_class_without_any_does_not_count(tmp_path: Path) -> None:
    """modeling_clvp.py has one rotation, which no entry of the file changes."""
    group = {"rope_type": "default", "rope_theta": 2e4}
    said = [each.message for each in _found(tmp_path, {"model_type": "clvp_encoder", "rope_parameters": group})]
    assert "The class of 'clvp_encoder' in transformers has the base 10000, which no entry changes." in said


def test_a_base_in_one_group_that_a_class_of_several_passes_over_does_not_count(tmp_path: Path) -> None:
    """configuration_olmo3.py makes its own groups of what is none of layer types."""
    group = {"rope_type": "default", "rope_theta": 2e4}
    said = [each.message for each in _found(tmp_path, {"model_type": "olmo3", **_SIZES, "rope_parameters": group})]
    assert any("passes over it, and takes its own groups" in each for each in said)
    assert not [each for each in said if "rope_theta" in each]


def test_a_base_that_an_alpha_raises_is_not_told_as_that_of_the_class(tmp_path: Path) -> None:
    group = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    hunyuan = {"model_type": "hunyuan_v1_moe", **_SIZES, "head_dim": 128, "rope_scaling": group}
    assert not [each for each in _said(tmp_path, hunyuan) if "rope_theta" in each]
