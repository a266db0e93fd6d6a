"""What the methods of `locant extend` write, against formulas, and what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.extension.extend.methods import (
    TRACE,
    apply_method,
    before_extension,
    extend_config,
    extend_configs,
    extension_methods,
    mark_trained,
    read_by_class,
)
from locant.positions import RotaryConfig
from locant.positions.scaling import Proportional, YaRN
from locant.rotary_configs.config_json import read_huggingface

Content = dict[str, Any]

LLAMA: Content = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 8192, "rope_theta": 100000.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA_31 = {
    **LLAMA,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": LLAMA3 | {"original_max_position_embeddings": 8192},
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
QWEN = {**LLAMA, "model_type": "qwen2", "max_position_embeddings": 131072, "rope_scaling": YARN}
GEMMA_3: Content = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "rope_theta": 1e6,
    "rope_local_base_freq": 10000.0,
}
LINEAR: Content = {**LLAMA, "rope_scaling": {"type": "linear", "factor": 4.0}}
AXES = {**LLAMA, "model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": [16, 8, 8]}}


def frequencies(content: Content, length: int, layer: str = "all") -> list[float]:
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
    assert (longrope["long_factor"][0], longrope["long_factor"][-1]) == (1.0, pytest.approx(2.0))
    assert written["drope"]["rope_scaling"] == {"rope_type": "linear", "factor": 2.0**40}
    assert max(frequencies(written["drope"], 16384)) * 1_000_000 < 1e-6
    assert {written[method]["max_position_embeddings"] for method in written if method != "dynamic"} == {16384}


def test_what_is_slowed_already_is_slowed_further() -> None:
    half = Proportional(rotary_fraction=0.5)
    configs = {"all": RotaryConfig(head_dim=8, scaling=half, max_length=4096)}
    assert extend_configs(configs, "linear", 16384)["all"].scaling == replace(half, factor=4.0)
    for method in ("yarn", "longrope"):
        with pytest.raises(ConfigError):
            extend_configs(configs, method, 16384)


def test_longrope_is_yarn_for_long_texts_and_nothing_for_short_ones() -> None:
    extended = apply_method(LLAMA, "longrope", 32768)
    yarn = YaRN(original_length=8192, target_length=32768, truncate=False)
    assert frequencies(extended, 32768) == pytest.approx([float(f) for f in yarn.frequencies(64, 1e5)], rel=1e-12)
    assert frequencies(extended, 8192) == frequencies(LLAMA, 8192)
    assert read_huggingface(extended).config.attention_scale(32768) == 1.0


@pytest.mark.parametrize("content", [LLAMA_31, QWEN], ids=["llama3", "yarn"])
def test_longrope_goes_on_from_a_scaling(content: Content) -> None:
    extended = apply_method(content, "longrope", 262144)
    now, before = frequencies(extended, 262144), frequencies(content, 131072)
    assert frequencies(extended, 131072) == pytest.approx(before, rel=1e-12)
    assert (now[0], now[-1]) == (pytest.approx(before[0], rel=1e-12), pytest.approx(before[-1] / 2, rel=1e-12))
    scale = read_huggingface(content).config.attention_scale()
    assert read_huggingface(extended).config.attention_scale() == pytest.approx(scale, rel=1e-12)


def test_a_scaled_model_goes_on_where_the_method_cannot_be_expressed() -> None:
    taken = extend_config(LLAMA_31, "yarn", 262144, may_go_on=True)
    assert (taken.method, taken.content) == ("longrope", apply_method(LLAMA_31, "longrope", 262144))
    assert extend_config(QWEN, "yarn", 262144, may_go_on=True).method == "yarn"
    for content, method, length in ((LLAMA_31, "yarn", 100_000), (LINEAR, "linear", 16384), (LLAMA, "yarn", 4096)):
        with pytest.raises(ConfigError):
            extend_config(content, method, length, may_go_on=True)


@pytest.mark.parametrize("read", [read_huggingface, read_by_class])
def test_axes_are_scaled_alike_and_stay(read: Any) -> None:
    sizes = {"hidden_size": 256, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    new = extend_config({**AXES, **sizes, "head_dim": None, "num_key_value_heads": 2}, "yarn", 32768, read)
    assert new.content["rope_scaling"]["mrope_section"] == [16, 8, 8]
    assert (new.content["rope_scaling"]["rope_type"], new.content["rope_scaling"]["factor"]) == ("yarn", 4.0)
    assert frequencies(new.content, 1) == frequencies(apply_method(LLAMA, "yarn", 32768), 1)


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


@pytest.mark.parametrize("read", [read_huggingface, read_by_class])
def test_drope_stops_all_layers(read: Any) -> None:
    kinds = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    parameters = {kind: {"rope_type": "default", **each} for kind, each in kinds.items()}
    content = {key: each for key, each in GEMMA_3.items() if not key.startswith("rope")}
    extended = extend_config({**content, "rope_parameters": parameters}, "drope", 131072, read)
    found = [config.frequencies() for config in read(extended.content).configs.values()]
    assert len(found) == 2
    assert max(map(max, found)) < 1e-9
    again = extend_config(extended.content, "linear", 65536, read).content
    assert again["rope_parameters"]["full_attention"]["factor"] == 2.0, "the rotation comes back"


@pytest.mark.parametrize("method", [method for method in extension_methods() if method != "drope"])
def test_sliding_attention_stays(method: str) -> None:
    extended = apply_method(GEMMA_3, method, 131072)
    assert frequencies(extended, 131072, "sliding_attention") == frequencies(GEMMA_3, 1, "sliding_attention")
    assert frequencies(extended, 131072, "full_attention")[-1] < frequencies(GEMMA_3, 1, "full_attention")[-1] / 3.9


@pytest.mark.parametrize(
    ("content", "method", "length"),
    [
        (LLAMA, "yarn", 8192),
        (LLAMA, "drope", 8192),
        (GEMMA_3, "drope", 131072),
        (LLAMA, "longrope", 4096),
        (LLAMA, "yran", 16384),
        (LLAMA, "y" * 100_000, 16384),
        (LLAMA, "yarn", 1 << 40),
        (LLAMA_31, "yarn", 262144),
        (LLAMA_31, "longrope", 100000),
        (QWEN, "linear", 262144),
        (QWEN, "yarn", 32768),
        (LINEAR, "linear", 16384),
        ({"model_type": "llama", "head_dim": 64, "rope_theta": 1e4}, "yarn", 16384),
    ],
)
def test_refusals(content: Content, method: str, length: int) -> None:
    with pytest.raises(ConfigError) as error:
        apply_method(content, method, length)
    assert len(str(error.value)) < 500


def test_a_class_that_knows_no_other_scaling() -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    phi = {"model_type": "phi3", "max_position_embeddings": 64, "original_max_position_embeddings": 64, **sizes}
    with pytest.raises(ConfigError):
        extend_config(phi, "linear", 160, read_by_class)
    assert extend_config(phi, "linear", 160, read_by_class, may_go_on=True).method == "longrope"
    assert extend_config(phi, "ntk", 160, read_by_class, may_go_on=True).method == "ntk"


def test_entries_that_were_changed_after_the_extension() -> None:
    for changed in (
        apply_method(LLAMA, "yarn", 16384) | {"rope_theta": 5e5},
        LLAMA | {TRACE: {"before": {"vocab_size": 1}}},
        LLAMA | {TRACE: {"before": {}, "method": ["yarn"], "target_length": 1e400}},
    ):
        with pytest.raises(ConfigError):
            apply_method(changed, "yarn", 32768)


def test_a_trained_model_keeps_its_method() -> None:
    trained = mark_trained(apply_method(LLAMA, "yarn", 16384))
    with pytest.raises(ConfigError):
        apply_method(trained, "linear", 32768)
    assert apply_method(trained, "yarn", 32768) == apply_method(LLAMA, "yarn", 32768)


def test_a_stated_attention_factor_follows_yarns_formula_where_it_was_its_value() -> None:
    for stated, expected in ((0.1 * math.log(4) + 1, 0.1 * math.log(8) + 1), (1.0, 1.0)):
        content = {**QWEN, "rope_scaling": YARN | {"attention_factor": stated}}
        assert read_huggingface(apply_method(content, "yarn", 262144)).config.attention_scale() == pytest.approx(
            expected
        )
