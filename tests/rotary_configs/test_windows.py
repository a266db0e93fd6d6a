"""Windows of config.json as the masks of the classes of transformers have them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING

from locant.extension.inspect.model_class.small_model import build
from locant.rotary_configs import read_huggingface

_SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4, "head_dim": 64}


def _windows(model_type: str, **entries: Any) -> list[int | None]:
    parsed = read_huggingface({"model_type": model_type, **_SIZES, **entries})
    return [kind.window for index in range(4) for kind in parsed.layers if index in kind.layers]


@pytest.mark.parametrize(
    ("entries", "window"),
    [
        ({"local_attention": 128}, 65),
        ({"local_attention": 5}, 3),
        ({"local_attention": 0}, 1),
        ({"sliding_window": 3}, 4),
        ({"sliding_window": 0}, 1),
        ({"sliding_window": 5, "local_attention": 40}, 6),
    ],
)
def test_modernbert_sees_its_window_on_both_sides(entries: dict[str, int], window: int) -> None:
    """configuration_modernbert.py: sliding_window is half of local_attention, and the mask has it on either side."""
    assert _windows("modernbert", **entries) == [None, window, window, None]


@pytest.mark.parametrize(("both", "window"), [(128, 64), (7, 3)])
def test_modernbert_decoder_sees_half_of_its_window_with_the_token_itself(both: int, window: int) -> None:
    """configuration_modernbert_decoder.py: sliding_window is half of local_attention, and its mask is causal."""
    assert _windows("modernbert-decoder", local_attention=both) == [None, window, window, None]


@pytest.mark.parametrize(
    ("model_type", "entry", "value"),
    [
        ("mistral", "sliding_window", 0),
        ("gemma2", "sliding_window", -1),
        ("modernbert", "local_attention", -1),
        ("recurrent_gemma", "attention_window_size", 0),
    ],
)
def test_windows_of_no_tokens_are_told(model_type: str, entry: str, value: int) -> None:
    assert set(_windows(model_type, **{entry: value})) == {None}
    findings = read_huggingface({"model_type": model_type, **_SIZES, entry: value}).findings
    said = [each for each in findings if "hide every token" in each.message]
    assert [each.severity for each in said] == ["warning"]
    assert said[0].message.startswith(f"{entry} is {value} in config.json")
    assert ("with a cache" in said[0].message) is (model_type in ("mistral", "gemma2"))


@pytest.mark.parametrize(("size", "fails"), [(64, False), (-1, True)])
def test_a_cache_of_no_tokens_fails(size: int, fails: bool) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64}
    model = build(transformers.MistralConfig(**sizes, num_hidden_layers=1, vocab_size=16, sliding_window=size))
    model.set_attn_implementation("eager")
    with pytest.raises(RuntimeError, match="must match the size") if fails else contextlib.nullcontext():
        model(torch.zeros((1, 8), dtype=torch.long))


def test_code_of_its_own_may_take_such_a_window_for_none() -> None:
    findings = read_huggingface({"model_type": "mine", **_SIZES, "sliding_window": -1}).findings
    assert not [each for each in findings if "hide every token" in each.message]


def test_which_layers_of_qwens_mixtures_have_the_window() -> None:
    """configuration_qwen2_moe.py, configuration_qwen3_moe.py."""
    windowed = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 3}
    assert _windows("qwen2_moe", **windowed) == [8, None, 8, None]
    assert _windows("qwen3_moe", **windowed) == [8, 8, 8, 8]
    assert _windows("qwen2", **windowed) == [None, None, None, 8]
    assert _windows("qwen2", **windowed | {"max_window_layers": None}) == [None] * 4  # 28 by default
    assert _windows("qwen3_moe", **windowed | {"use_sliding_window": False}) == [None] * 4


def test_classes_without_a_switch_ask_the_window_alone() -> None:
    """configuration_dots1.py, configuration_qwen3_omni_moe.py: 4,096 and none where the file leaves it out."""
    assert _windows("dots1", max_window_layers=2) == [None, None, 4096, 4096]
    assert _windows("dots1", max_window_layers=2, sliding_window=6) == [None, None, 6, 6]
    assert _windows("dots1", max_window_layers=2, sliding_window=None) == [None] * 4
    assert _windows("dots1", sliding_window=6) == [None] * 4  # 62 layers by default
    assert _windows("qwen3_omni_moe_talker_code_predictor", max_window_layers=2) == [None] * 4


def test_windows_that_a_file_leaves_out_are_those_of_the_class() -> None:
    assert _windows("mistral") == [4096] * 4
    assert _windows("mistral", sliding_window=None) == [None] * 4
    types = ["full_attention", "sliding_attention"] * 2
    dots = {"layer_types": types, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    assert _windows("dots3_note_text", **dots) == [None, 512, None, 512]
    assert _windows("dots3_note_text", **dots, sliding_window_size=64) == [None, 64, None, 64]


def test_neomme_has_long_and_short_windows_in_turn() -> None:
    """configuration_neomme.py: every second sliding layer has default_long_sliding_window, on either side."""
    types = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    assert _windows("neomme", layer_types=types, sliding_window=200) == [201, 1025, None, 201]


def test_types_of_layers_without_a_model_type_are_told_in_its_words() -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": 1e4}
    parsed = read_huggingface({**sizes, "layer_types": ["full_attention", "sliding_attention"]})
    assert any("and without model_type the class is not known here" in each.message for each in parsed.findings)


@pytest.mark.parametrize(
    ("model_type", "entries", "window"),
    [
        ("recurrent_gemma", {"sliding_window": 32, "attention_window_size": 64}, 32),
        ("modernbert-decoder", {"sliding_window": 32, "local_attention": 128}, 32),
    ],
)
def test_of_two_sizes_of_the_same_windows_the_one_that_counts_is_told(
    model_type: str, entries: dict[str, int], window: int
) -> None:
    """Both classes set ``sliding_window`` last: by their ``attribute_map``, or as an attribute beside their fields."""
    (config,) = {CONFIG_MAPPING[model_type](**_SIZES, **entries).sliding_window}
    assert {*_windows(model_type, **entries)} - {None} == {config} == {window}
    said = read_huggingface({"model_type": model_type, **_SIZES, **entries}).findings
    (found,) = [each for each in said if "both for the same windows" in each.message]
    assert found.severity == "warning"
    assert "takes sliding_window, as is shown" in found.message


def test_the_same_window_said_twice_is_no_finding() -> None:
    """ModernBERT's decoder halves ``local_attention``, and writes both into its files."""
    file = {"model_type": "modernbert-decoder", **_SIZES, "sliding_window": 64, "local_attention": 128}
    assert not [each for each in read_huggingface(file).findings if "local_attention" in each.message]


def test_a_list_in_the_place_of_a_window_that_no_field_checks() -> None:
    """configuration_modernbert_decoder.py keeps it as it is, and its masks subtract it from positions."""
    file = {"model_type": "modernbert-decoder", **_SIZES, "sliding_window": [64, 64]}
    said = [each.message for each in read_huggingface(file).findings if each.severity == "warning"]
    assert any(each.startswith("sliding_window is [64, 64] in config.json, and no number") for each in said)
