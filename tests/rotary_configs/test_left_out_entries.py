"""Entries that a scaling cannot do without, and what stands for those that may be left out."""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.rotary_configs import read_huggingface

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
