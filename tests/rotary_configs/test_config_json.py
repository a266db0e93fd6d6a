"""config.json is read by its entries alone, with what was assumed told, and written so that it is read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from rotary_examples import EXAMPLES, assert_same, configs

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import DynamicNTK, Linear, Proportional, Unscaled, YaRN
from locant.rotary_configs import config_json
from locant.rotary_configs.config_json import read_huggingface, text_config, text_config_path, write_huggingface
from locant.rotary_configs.reading import LayerType, NoRotaryPositionsError, ParsedConfig

_SIZES = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4, "max_position_embeddings": 4096}
_LLAMA = {"model_type": "llama", **_SIZES, "rope_theta": 5e5}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
_OWN = {"model_type": "model_of_mine", **_SIZES, "rope_theta": 5e5}


def _still(parsed: ParsedConfig) -> list[int]:
    return sorted(index for each in parsed.layers if each.attends and each.config is None for index in each.layers)


def _windows(parsed: ParsedConfig) -> list[int | None]:
    found = {index: each.window for each in parsed.layers for index in each.layers}
    return [found[index] for index in sorted(found)]


@pytest.mark.parametrize(
    "entries",
    [
        {"rope_theta": 5e5, "rope_scaling": _YARN},
        {"rope_theta": 5e5, "rope_scaling": {**_YARN, "rope_type": None, "type": "yarn"}},
        {"rope_parameters": {**_YARN, "rope_theta": 5e5}},
        {"rope_parameters": {**_YARN, "rope_theta": 5e5}, "rope_theta": 1e4, "rope_scaling": {"type": "linear"}},
        {"rope_parameters": {**_YARN, "rope_theta": None}, "rope_theta": 5e5},
        {"rope_parameters": {"full_attention": {**_YARN, "rope_theta": 5e5}}, "layer_types": ["full_attention"] * 4},
    ],
)
def test_forms_of_releases_4_and_5(entries: dict[str, Any]) -> None:
    parsed = read_huggingface({"model_type": "llama", **_SIZES, **entries})
    expected = RotaryConfig(head_dim=64, base=5e5, scaling=YaRN(factor=4, original_length=1024), max_length=4096)
    assert parsed.config == expected
    assert [each.layers for each in parsed.layers] == [(0, 1, 2, 3)]
    assert parsed.source == "entries"


def test_groups_by_layer_type() -> None:
    groups = {"full_attention": {**_YARN, "rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    types = ["sliding_attention", "full_attention"] * 2
    parsed = read_huggingface({**_OWN, "rope_parameters": groups, "layer_types": types, "sliding_window": 128})
    assert parsed.configs["full_attention"].scaling == YaRN(factor=4, original_length=1024)
    assert parsed.configs["sliding_attention"] == RotaryConfig(head_dim=64, base=1e4, max_length=4096)
    assert parsed.layers == (
        LayerType("sliding_attention", (0, 2), "sliding_attention", 128),
        LayerType("full_attention", (1, 3), "full_attention"),
    )
    without = read_huggingface({**_OWN, "rope_parameters": {**groups, "full_attention": None}, "layer_types": types})
    assert _still(without) == [1, 3]


@pytest.mark.parametrize(
    ("entries", "windows"),
    [
        ({"sliding_window": 64}, [64] * 4),
        ({"sliding_window": None}, [None] * 4),
        ({"sliding_window": 64, "use_sliding_window": False}, [None] * 4),
        ({"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 3}, [None, None, None, 64]),
        ({"sliding_window": 64, "global_attn_every_n_layers": 3}, [None, 64, 64, None]),
        ({"sliding_window": 64, "sliding_window_pattern": "LLG"}, [64, 64, None, 64]),
        ({"layer_types": ["chunked_attention", "full_attention"] * 2, "attention_chunk_size": 9}, [9, None, 9, None]),
    ],
)
def test_windows(entries: dict[str, Any], windows: list[int | None]) -> None:
    assert _windows(read_huggingface({**_OWN, **entries})) == windows


def test_axes_of_mrope() -> None:
    group = {"type": "mrope", "mrope_section": [8, 12, 12], "mrope_interleaved": True}
    parsed = read_huggingface({**_LLAMA, "model_type": "qwen2_vl_text", "rope_scaling": group})
    assert parsed.multimodal == {"all": {"sections": (8, 12, 12), "interleaved": True}}
    assert parsed.config.scaling == Unscaled()
    scaled = {**group, **_YARN}
    assert read_huggingface({**_LLAMA, "rope_scaling": scaled}).config.scaling.name == "yarn"


@pytest.mark.parametrize("name", ["text_config", "language_config", "llm_config", "decoder"])
def test_the_text_config(name: str) -> None:
    content = {"model_type": "whole_of_mine", name: _LLAMA, "vision_config": {**_LLAMA, "rope_theta": 3.0}}
    assert text_config_path(content) == (name,)
    assert text_config(content) is _LLAMA
    assert read_huggingface(content).config.base == 5e5


def test_a_text_config_within_another_and_its_model_type() -> None:
    content = {"model_type": "gemma3", "thinker_config": {"text_config": {"hidden_size": 2560, "rope_theta": 7.0}}}
    assert text_config_path(content) == ("thinker_config", "text_config")
    parsed = read_huggingface(content)  # with what gemma3_text assumes
    assert {name: each.base for name, each in parsed.configs.items()} == {
        "sliding_attention": 1e4,
        "full_attention": 7.0,
    }
    assert {each.head_dim for each in parsed.configs.values()} == {256}
    assert text_config_path({**_LLAMA, "quantization_config": {}}) == ()


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "bert", **_SIZES, "position_embedding_type": "absolute"},
        {"model_type": "gpt2", "n_embd": 64, "n_head": 2},
        {"model_type": "of_nobody", **_SIZES},
        {**_SIZES},
        {},
        {**_OWN, "alibi": True},
        {**_OWN, "attn_config": {"alibi": True}},
        {**_OWN, "position_encoding_2d": True},
        {**_OWN, "position_embedding_type": "learned"},
        {**_OWN, "use_rope": False},
        {**_OWN, "no_rope_layers": [0, 0, 0, 0]},
    ],
)
def test_models_without_rotary_positions(content: dict[str, Any]) -> None:
    with pytest.raises(NoRotaryPositionsError):
        read_huggingface(content)


@pytest.mark.parametrize(
    ("entries", "entry"),
    [
        ({"rope_theta": "1e4"}, "rope_theta"),
        ({"rope_theta": 0.5}, "base"),
        ({"head_dim": 63}, "63"),
        ({"hidden_size": None, "model_type": "of_mine"}, "hidden_size"),
        ({"rope_scaling": {"type": "yarm", "factor": 4.0}}, "yarm"),
        ({"rope_scaling": [1]}, "rope_scaling"),
        ({"layer_types": "full_attention"}, "layer_types"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"no_rope_layers": [2]}, "no_rope_layers"),
        ({"model_type": 3}, "model_type"),
    ],
)
def test_wrong_entries_are_named(entries: dict[str, Any], entry: str) -> None:
    with pytest.raises(ConfigError, match=entry):
        read_huggingface({**_LLAMA, **entries})


def test_what_was_assumed_is_told() -> None:
    stated = {**_OWN, "head_dim": 64}
    assert len(read_huggingface({**stated, "model_type": "llama"}).assumed) == 1  # the pairing, which no file states
    unknown = read_huggingface({**stated, "rope_theta": None, "rope_scaling": _YARN}).assumed
    assert any("model_of_mine" in each for each in unknown)
    assert any("10000" in each for each in unknown)
    phi = read_huggingface({"model_type": "phi", "hidden_size": 2048, "num_attention_heads": 32}).assumed
    assert any("0.5" in each for each in phi)
    assert any("layers" in each for each in phi)


def _read_back(config: RotaryConfig, version: Any, model_type: str | None = "stablelm") -> RotaryConfig:
    written = write_huggingface(config, version, model_type=model_type)
    entries = {key: value for key, value in written.items() if value is not None}
    return read_huggingface({"model_type": model_type or "llama", **json.loads(json.dumps(entries))}).config


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_written_is_read_back(name: str, version: str) -> None:
    if (name, version) == ("proportional", "4"):
        with pytest.raises(ConfigError, match="proportional"):
            _read_back(RotaryConfig(head_dim=8, scaling=Proportional(rotary_fraction=0.5)), version)
        return

    @settings(max_examples=10 * TIMES, deadline=None)
    @given(configs(name), st.sampled_from([None, 2048]))
    def check(config: RotaryConfig, max_length: int | None) -> None:
        length = config.scaling.reach or max_length
        assert_same(_read_back(replace(config, max_length=length), version), config)

    check()


def test_layer_types_are_written_apart() -> None:
    full = RotaryConfig(head_dim=256, base=1e6, scaling=Linear(factor=8), max_length=131072)
    given = {"full_attention": full, "sliding_attention": RotaryConfig(head_dim=256, max_length=131072)}
    four = write_huggingface(given, "4", model_type="gemma3_text")
    assert (four["rope_theta"], four["rope_local_base_freq"]) == (1e6, 1e4)
    five = write_huggingface(given, "5", model_type="gemma3_text")
    assert five["rope_parameters"].keys() == given.keys()
    for written in (four, five):
        content = {"model_type": "gemma3_text", **{key: value for key, value in written.items() if value is not None}}
        assert read_huggingface(content).configs == given
    with pytest.raises(ConfigError, match="version 5"):
        write_huggingface({**given, "sliding_attention": full}, "4")


@pytest.mark.parametrize("version", ["4", "5"])
def test_axes_stay_where_the_frequencies_are_scaled(version: Any) -> None:
    axes = {"all": {"sections": (8, 12, 12), "interleaved": True}}
    for scaling in (Unscaled(), YaRN(factor=4, original_length=1024)):
        config = RotaryConfig(head_dim=64, base=5e5, scaling=scaling, max_length=4096)
        written = write_huggingface(config, version, model_type="qwen2_vl_text", multimodal=axes)
        content = {"model_type": "qwen2_vl_text", **{key: value for key, value in written.items() if value is not None}}
        parsed = read_huggingface(content)
        assert parsed.multimodal == axes
        assert parsed.config == config


@pytest.mark.parametrize(
    ("config", "version", "model_type"),
    [
        (RotaryConfig(head_dim=64), "6", None),
        (RotaryConfig(head_dim=64, layout="interleaved"), "5", None),
        (RotaryConfig(head_dim=64), "5", "cohere"),
        (RotaryConfig(head_dim=64, rotary_dim=32), "5", "llama"),
        (RotaryConfig(head_dim=64, rotary_dim=32, layout="interleaved"), "5", "gptj"),
        (RotaryConfig(head_dim=64, scaling=DynamicNTK(original_length=2048)), "5", None),
        ({"a": RotaryConfig(head_dim=64), "b": RotaryConfig(head_dim=32)}, "5", None),
        ({}, "5", None),
    ],
)
def test_what_config_json_cannot_express_is_refused(config: Any, version: Any, model_type: str | None) -> None:
    with pytest.raises(ConfigError):
        write_huggingface(config, version, model_type=model_type)


@pytest.mark.parametrize("model_type", ["llama", "cohere2", "gemma3_text", "qwen2", "deepseek_v3", "phi", "bert"])
def test_the_table_is_what_the_classes_say(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "tools")
    from rotary_defaults import defaults_of

    table = json.loads(Path(config_json.__file__).with_name("defaults.json").read_text(encoding="utf-8"))
    assert table.get(model_type) == defaults_of(model_type)
