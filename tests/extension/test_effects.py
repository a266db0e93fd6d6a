"""Entries without effect are found by asking the class again."""

from __future__ import annotations

import pytest

from locant.extension.asked.ask import ask_class
from locant.extension.inspect.effects import idle_entries
from locant.rotary_configs.vocabulary import text_config_path

_LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 24,
    "max_position_embeddings": 32768,
    "rope_theta": 500000.0,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
_QWEN2 = {**_LLAMA, "model_type": "qwen2", "sliding_window": 4096}
_VL_TEXT = {
    **_LLAMA,
    "model_type": "qwen3_vl_text",
    "head_dim": 64,
    "rope_scaling": {"rope_type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": True},
}
_VL = {"model_type": "qwen3_vl", "text_config": _VL_TEXT, "max_position_embeddings": 32768}


def _idle(content, seconds=60.0):
    return idle_entries(content, text_config_path(content), ask_class(content), seconds=seconds)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (_LLAMA, {}),
        ({**_LLAMA, "rope_theta": 10000.0}, {}),  # what the class takes anyway
        ({**_LLAMA, "rope_tetha": 5e5}, {"rope_tetha": False}),
        ({**_LLAMA, "rope_scalling": _YARN}, {"rope_scalling": False}),
        ({**_LLAMA, "partial_rotary_factor": 0.5}, {"partial_rotary_factor": False}),
        ({**_LLAMA, "partial_rotary_factor": 1.0}, {}),  # which is so
        ({**_LLAMA, "rope_interleaved": False}, {}),
        ({**_LLAMA, "rope_interleaved": True}, {"rope_interleaved": False}),
        ({**_LLAMA, "rope_scaling": {**_YARN, "attn_factor": 0.8}}, {"rope_scaling.attn_factor": False}),
        ({**_LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 7.5e4}}, {"rope_theta": False}),
        ({**_QWEN2, "use_sliding_window": True, "max_window_layers": 12}, {}),
        (
            {**_QWEN2, "use_sliding_window": False, "max_window_layers": 24},
            {"sliding_window": True, "max_window_layers": True},
        ),
        (_VL, {}),
        ({**_VL, "rope_scaling": _YARN}, {"rope_scaling": False}),
    ],
    ids=range(14),
)
def test_entries_that_change_nothing_are_found(content, expected):
    idle, untried = _idle(content)
    assert {each.entry: each.is_known for each in idle} == expected
    assert not untried


def test_a_group_without_effect_is_told_as_a_whole():
    flat = {"model_type": "gemma3_text", "num_hidden_layers": 6, "rope_parameters": {**_YARN, "rope_theta": 1e6}}
    idle, _ = _idle(flat)
    assert [each.entry for each in idle] == ["rope_parameters"]


def test_what_there_is_no_time_for_is_named():
    idle, untried = _idle({**_LLAMA, "rope_scaling": _YARN}, seconds=0.0)
    assert idle == ()
    assert "rope_scaling.factor" in untried
