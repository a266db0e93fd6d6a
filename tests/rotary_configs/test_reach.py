"""The layers that a scaling reaches which a file states for all of them."""

from __future__ import annotations

from typing import Any

import pytest

from locant.rotary_configs.gguf.reading import read_gguf
from locant.rotary_configs.huggingface.reading import read_huggingface
from locant.rotary_configs.reach import REACH

_SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 6}
_LINEAR = {"rope_type": "linear", "factor": 8.0}


def _reach(findings: Any) -> list[str]:
    return [each.message for each in findings if each.code == REACH]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            {"model_type": "gemma3_text", "rope_scaling": _LINEAR},
            "The scaling 'linear' in rope_scaling of config.json acts on full_attention layers alone (layer 5): "
            "sliding_attention layers have none.",
        ),
        (
            {"model_type": "modernbert", "rope_scaling": _LINEAR},
            "The scaling 'linear' in rope_scaling of config.json acts on layers with a window, too: sliding_attention "
            "layers are scaled as the others are.",
        ),
        (
            {"model_type": "granite_swa", "rope_scaling": _LINEAR, "layer_rope_theta": [0, 1e4, 1e4, 1e4, 0, 1e4]},
            "The scaling 'linear' in rope_scaling of config.json acts on layers with a window alone (layers 1, 2, 3, "
            "5): those that see the whole text do not rotate.",
        ),
        ({"model_type": "gemma2", "rope_scaling": _LINEAR}, ""),  # one rotation
        ({"model_type": "gemma3_text"}, ""),
        ({"model_type": "laguna", "rope_theta": 1e6, "rope_scaling": _LINEAR}, ""),  # with which its class fails
        (
            {
                "model_type": "gemma3_text",
                "rope_parameters": {
                    "full_attention": {**_LINEAR, "rope_theta": 1e6},
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                },
            },
            "",
        ),
    ],
)
def test_the_layers_that_one_scaling_of_a_file_reaches(entries: dict[str, Any], said: str) -> None:
    assert _reach(read_huggingface({**_SIZES, **entries}).findings) == ([said] if said else [])


@pytest.mark.parametrize(
    ("architecture", "entries", "said"),
    [
        (
            "plamo3",
            {"rope.scaling.factor": 4.0, "attention.sliding_window_pattern": 4},
            "The scaling 'linear' of the file acts on full_attention layers alone (layers 3, 7): sliding_attention "
            "layers have none.",
        ),
        (
            "afmoe",
            {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0, "rope.freq_base_swa": 20000.0},
            "The scaling 'linear' of the file acts on layers with a window alone (layers 0, 1, 2, 4 and 2 more, up to "
            "6): those that see the whole text do not rotate.",
        ),
        ("plamo3", {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, ""),
        ("llama", {"rope.scaling.factor": 4.0}, ""),
    ],
)
def test_the_layers_that_the_scaling_of_a_gguf_file_reaches(
    architecture: str, entries: dict[str, Any], said: str
) -> None:
    keys = {"attention.key_length": 64, "block_count": 8, "context_length": 4096, "attention.sliding_window": 512}
    metadata = {f"{architecture}.{key}": value for key, value in {**keys, **entries}.items()}
    found = read_gguf({"general.architecture": architecture, **metadata}).findings
    assert _reach(found) == ([said] if said else [])
