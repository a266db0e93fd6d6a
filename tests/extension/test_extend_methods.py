"""What the methods of `locant extend` write, against formulas, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.extension.extend.methods import TRACE, apply_method, before_extension, extension_methods, mark_trained
from locant.positions.scaling import YaRN
from locant.rotary_configs import read_huggingface

LLAMA = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 8192, "rope_theta": 100000.0}
LLAMA_31 = {
    **LLAMA,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
QWEN = {
    **LLAMA,
    "model_type": "qwen2",
    "max_position_embeddings": 131072,
    "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
}
GEMMA_3 = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "rope_theta": 1e6,
    "rope_local_base_freq": 10000.0,
}


def rotary(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != TRACE}


def frequencies(content: dict[str, Any], length: int, layer: str = "all") -> list[float]:
    return [float(each) for each in read_huggingface(content).configs[layer].frequencies(length)]


def test_the_entries_of_each_method() -> None:
    written = {method: apply_method(LLAMA, method, 16384) for method in extension_methods()}
    assert written["linear"]["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}
    # bloc97's formula with the numbers put in by hand.
    assert written["ntk"]["rope_theta"] == pytest.approx(100000.0 * 2 ** (64 / 62), rel=1e-12)
    assert "rope_scaling" not in written["ntk"]
    assert written["dynamic"]["rope_scaling"] == {"rope_type": "dynamic", "factor": 2.0}
    assert written["dynamic"]["max_position_embeddings"] == 8192, "transformers takes the original length from there"
    yarn = written["yarn"]["rope_scaling"]
    assert (yarn["rope_type"], yarn["factor"], yarn["original_max_position_embeddings"]) == ("yarn", 2.0, 8192)
    assert "attention_factor" not in yarn, "engines compute 0.1 ln 2 + 1 themselves"
    longrope = written["longrope"]["rope_scaling"]
    assert longrope["short_factor"] == [1.0] * 32
    assert longrope["long_factor"][0] == 1.0
    assert longrope["long_factor"][-1] == pytest.approx(2.0)
    for method in ("linear", "ntk", "yarn", "longrope"):
        assert written[method]["max_position_embeddings"] == 16384


def test_longrope_is_yarn_for_long_texts_and_nothing_for_short_ones() -> None:
    extended = apply_method(LLAMA, "longrope", 32768)
    yarn = YaRN(original_length=8192, target_length=32768, truncate=False)
    assert frequencies(extended, 32768) == pytest.approx([float(f) for f in yarn.frequencies(64, 1e5)], rel=1e-12)
    assert frequencies(extended, 8192) == frequencies(LLAMA, 8192)
    assert read_huggingface(extended).config.attention_scale(32768) == 1.0


@pytest.mark.parametrize("content", [LLAMA_31, QWEN], ids=["llama3", "yarn"])
def test_longrope_goes_on_from_a_scaling(content: dict[str, Any]) -> None:
    extended = apply_method(content, "longrope", 262144)
    now, before = frequencies(extended, 262144), frequencies(content, 131072)
    assert frequencies(extended, 131072) == pytest.approx(before, rel=1e-12)
    assert now[0] == pytest.approx(before[0], rel=1e-12)
    assert now[-1] == pytest.approx(before[-1] / 2, rel=1e-12)
    scale = read_huggingface(content).config.attention_scale()
    assert read_huggingface(extended).config.attention_scale() == pytest.approx(scale, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(
    method=st.sampled_from(sorted(extension_methods())),
    first=st.integers(8193, 1 << 20),
    second=st.integers(8193, 1 << 20),
)
def test_factors_never_multiply(method: str, first: int, second: int) -> None:
    twice = apply_method(apply_method(LLAMA, method, first), method, second)
    assert twice == apply_method(LLAMA, method, second)
    assert before_extension(twice) == LLAMA


def test_another_method_takes_the_place_of_the_first() -> None:
    assert apply_method(apply_method(LLAMA, "ntk", 16384), "yarn", 32768) == apply_method(LLAMA, "yarn", 32768)


def test_a_published_yarn_counts_from_its_original_length() -> None:
    extended = apply_method(QWEN, "yarn", 262144)["rope_scaling"]
    assert (extended["factor"], extended["original_max_position_embeddings"]) == (8.0, 32768)


def test_a_stated_attention_factor_follows_yarns_formula_where_it_was_its_value() -> None:
    stated = {**QWEN, "rope_scaling": {**QWEN["rope_scaling"], "attention_factor": 0.1 * math.log(4) + 1}}  # type: ignore[dict-item]
    extended = read_huggingface(apply_method(stated, "yarn", 262144)).config
    assert extended.attention_scale() == pytest.approx(0.1 * math.log(8) + 1)
    own = {**QWEN, "rope_scaling": {**QWEN["rope_scaling"], "attention_factor": 1.0}}  # type: ignore[dict-item]
    assert read_huggingface(apply_method(own, "yarn", 262144)).config.attention_scale() == 1.0


@pytest.mark.parametrize("method", extension_methods())
def test_sliding_attention_stays(method: str) -> None:
    extended = apply_method(GEMMA_3, method, 131072)
    assert frequencies(extended, 131072, "sliding_attention") == frequencies(GEMMA_3, 1, "sliding_attention")
    assert frequencies(extended, 131072, "full_attention")[-1] < frequencies(GEMMA_3, 1, "full_attention")[-1] / 3.9


def test_the_text_part_of_a_model_with_images() -> None:
    whole = {"model_type": "mistral3", "text_config": {**LLAMA, "model_type": "mistral"}, "vision_config": {"a": 1}}
    extended = apply_method(whole, "yarn", 16384)
    assert extended["text_config"]["rope_scaling"]["factor"] == 2.0
    assert extended["vision_config"] == {"a": 1}
    assert "rope_scaling" not in extended
    assert whole["text_config"]["max_position_embeddings"] == 8192, "the argument is not changed"  # type: ignore[index]


LINEAR = {**LLAMA, "rope_scaling": {"type": "linear", "factor": 4.0}}
AXES = {**LLAMA, "model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": [16, 8, 8]}}
PHI_3 = {**LLAMA, "model_type": "phi3"}


@pytest.mark.parametrize(
    ("content", "method", "length", "said"),
    [
        (LLAMA, "yarn", 8192, "8192 tokens already"),
        (LLAMA, "longrope", 4096, "8192 tokens already"),
        (LLAMA, "yran", 16384, "Did you mean 'yarn'"),
        (LLAMA, "yarn", 1 << 40, "at most 2\\^31"),
        (LLAMA_31, "yarn", 262144, "extended already, by the scaling 'llama3'.*longrope"),
        (LLAMA_31, "longrope", 100000, "131072 tokens already"),
        (QWEN, "linear", 262144, "extended already, by the scaling 'yarn'"),
        (QWEN, "yarn", 32768, "trained for 32768"),
        (LINEAR, "linear", 16384, "before or after"),
        (AXES, "yarn", 16384, "several axes"),
        (PHI_3, "yarn", 16384, "no scaling but LongRoPE"),
        ({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4}, "yarn", 16384, "how long the texts were"),
    ],
)
def test_refusals(content: dict[str, Any], method: str, length: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        apply_method(content, method, length)


def test_a_linear_model_that_states_its_original_length() -> None:
    stated = {**LINEAR, "rope_scaling": {**LINEAR["rope_scaling"], "original_max_position_embeddings": 2048}}  # type: ignore[dict-item]
    assert apply_method(stated, "linear", 16384)["rope_scaling"]["factor"] == 8.0


def test_entries_that_were_changed_after_the_extension() -> None:
    changed = apply_method(LLAMA, "yarn", 16384) | {"rope_theta": 5e5}
    with pytest.raises(ConfigError, match="no longer those that the method yarn gave"):
        apply_method(changed, "yarn", 32768)
    with pytest.raises(ConfigError, match="damaged"):
        apply_method(LLAMA | {TRACE: {"before": {"vocab_size": 1}}}, "yarn", 32768)


def test_a_trained_model_keeps_its_method() -> None:
    trained = mark_trained(apply_method(LLAMA, "yarn", 16384))
    with pytest.raises(ConfigError, match="fine-tuned with the method yarn"):
        apply_method(trained, "linear", 32768)
    assert rotary(apply_method(trained, "yarn", 32768)) == rotary(apply_method(LLAMA, "yarn", 32768))
