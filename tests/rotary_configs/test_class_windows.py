"""Windows in files whose class never applies them to a mask, and switches that a class does not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from locant.extension.inspect.model_class.ask import without_reading
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.base import NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.classes.windows import has_switch_of_windows, passes_over_window, windows_of_class

_SIZES = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4, "rope_theta": 10000.0}


def _read(model_type: str, **entries: Any) -> tuple[ParsedConfig, list[str]]:
    parsed = read_huggingface({"model_type": model_type, **_SIZES, **entries})
    return parsed, [each.message for each in parsed.findings if "window" in each.message]


@pytest.mark.parametrize("model_type", ["llama", "olmoe", "qwen3_omni_moe_text", "paddleocr_vl_text", "granite"])
def test_a_window_that_no_mask_of_the_class_has_is_none(model_type: str) -> None:
    parsed, (said,) = _read(model_type, sliding_window=128)
    assert {each.window for each in parsed.layers} == {None}
    assert said.startswith("sliding_window is 128 in config.json, but the masks of the class of")
    assert "in generating its cache keeps the last 128 tokens alone" in said
    (beside,) = _read(model_type, sliding_window=128, use_sliding_window=False)[1]
    assert "beside use_sliding_window false" in beside
    assert "in generating its cache keeps the last 128 tokens alone" in beside


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "gpt_bigcode", "sliding_window": 128}, "sliding_window is 128 in config.json, but the masks"),
        ({"model_type": "gpt2", "attention_window": 128}, "attention_window is 128 in config.json, but the masks"),
        ({"model_type": "gpt2", "use_sliding_window": True}, "use_sliding_window is true in config.json, but the"),
        ({"model_type": "opt", "layer_types": ["sliding_attention"] * 4}, "layer_types has 'sliding_attention' in"),
        ({"model_type": "gpt_neo", "window_size": 64, "sliding_window": 128}, "passes over: its windows are those of"),
        ({"model_type": "longformer", "attention_window": 64, "window_size": 8}, "window_size is 8 in config.json, wh"),
    ],
)
def test_windows_beside_other_positions_are_told(entries: dict[str, Any], said: str) -> None:
    (told,) = without_reading(None, entries)
    assert said in told.message


@pytest.mark.parametrize("window", [{}, {"window_size": 64}, {"sliding_window": None}, {"sliding_window": 64}])
def test_a_window_that_the_class_reads_or_that_is_none_is_no_finding(window: dict[str, Any]) -> None:
    assert not without_reading(None, {"model_type": "gpt_neo", "window_size": 64, **window})
    assert not without_reading(None, {"model_type": "gpt2", "auto_map": {"AutoModel": "m.M"}, "sliding_window": 8})


@pytest.mark.parametrize("model_type", ["starcoder2", "mistral", "mixtral", "phi3"])
def test_a_switch_that_the_class_does_not_have_switches_nothing(model_type: str) -> None:
    parsed, said = _read(model_type, sliding_window=128, use_sliding_window=False, num_key_value_heads=2)
    assert {each.window for each in parsed.layers} == {128}
    assert [each for each in said if "use_sliding_window is false in config.json, which the class of" in each]
    parsed, said = _read(model_type, sliding_window=128, max_window_layers=2, num_key_value_heads=2)
    assert {each.window for each in parsed.layers} == {128}
    assert [each for each in said if each.startswith("max_window_layers is 2 in config.json, which the class of")]
    assert not [each for each in _read(model_type, sliding_window=None, max_window_layers=2)[1] if "max_" in each]


def test_a_window_of_another_kind_of_layers_is_told() -> None:
    parsed, (said,) = _read("llama4_text", sliding_window=128, head_dim=64)
    assert {each.window for each in parsed.layers} == {8192, None}
    assert "passes over: its windows are those of attention_chunk_size" in said


def test_chunks_below_0_are_told() -> None:
    """positions // -128 makes chunks of 128, as rounding down does."""
    parsed = read_huggingface({"model_type": "llama4_text", **_SIZES, "head_dim": 64, "attention_chunk_size": -128})
    assert {each.window for each in parsed.layers} == {128, None}
    (said,) = [each.message for each in parsed.findings if "attention_chunk_size" in each.message]
    assert said.startswith("attention_chunk_size is -128 in config.json, below 0")


def test_what_counts_for_a_class_is_on_record() -> None:
    """Seen by running small models: the zoo's windows_facts."""
    assert windows_of_class("of nobody") is None
    assert [passes_over_window(name, "sliding_window") for name in ("olmoe", "mistral", "of nobody")] == [
        *(True, False, False)
    ]
    assert [has_switch_of_windows(name) for name in ("starcoder2", "qwen2", "of nobody")] == [False, True, True]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model_type", ["gpt_bigcode", "olmoe", "starcoder2", "qwen2", "modernbert", "gpt_oss"])
def test_it_is_what_the_installed_class_does(model_type: str) -> None:
    pytest.importorskip("transformers")
    from zoo.architectures import architecture
    from zoo.class_windows import PATH, window_facts

    assert window_facts(architecture(model_type)) == json.loads(PATH.read_text(encoding="utf-8"))[model_type]


def test_full_layers_rotate_where_no_window_is_stated_though_the_class_fails() -> None:
    """modeling_kolibri1.py: ``if self.sliding_window is None or self.is_sliding``, after a mask with a window."""
    full = {"head_dim": 64, "layer_types": ["full_attention"] * 4}
    parsed, (said,) = _read("kolibri1", **full, sliding_window=None)
    assert [each.layers for each in parsed.layers if each.config] == [(0, 1, 2, 3)]
    assert said.startswith("sliding_window is null in config.json: the class of 'kolibri1' in transformers makes a")
    with pytest.raises(NoRotaryPositionsError):
        _read("kolibri1", **full, sliding_window=64)
    sliding = {**full, "layer_types": ["sliding_attention"] * 4}
    assert not any("makes a mask with that" in each for each in _read("olmo3", **sliding, sliding_window=None)[1])
