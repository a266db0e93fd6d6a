"""Entries of a file in whose place those of vLLM's overrides stand."""

from __future__ import annotations

from typing import Any

import pytest

from locant.rotary_configs import read_vllm

_MODEL = {"model_type": "llama", "head_dim": 64, "rope_theta": 500000, "max_position_embeddings": 65536}
_YARN = {"type": "yarn", "factor": 8.0, "beta_fast": 16, "original_max_position_embeddings": 8192}
_LINEAR = {"rope_type": "linear", "rope_theta": 500000, "factor": 4.0}
_BY_TYPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000},
}


def _of_text(rope: Any) -> dict[str, Any]:
    return {"text_config": {"rope_parameters": rope}}


@pytest.mark.parametrize(
    ("overrides", "file", "said"),
    [
        (
            {"rope_parameters": {"rope_type": "linear", "rope_theta": 20000, "factor": 2.0}},
            _MODEL,
            "replaces rope_theta 500000 by 20000",
        ),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 500000, "factor": 2.0}}, _MODEL, ""),
        (
            {"rope_parameters": _LINEAR},
            {**_MODEL, "rope_scaling": _YARN},
            "replaces factor 8.0 by 4.0, rope_type 'yarn' by 'linear', and drops beta_fast 16, "
            "original_max_position_embeddings 8192 with the group that it replaces",
        ),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, _MODEL, ""),  # an error tells of the base
        ({"rope_theta": 20000}, _MODEL, ""),  # which has no effect
        ({"sliding_window": 512}, {**_MODEL, "model_type": "mistral", "sliding_window": 1024}, "replaces sliding_wi"),
        (
            _of_text({"full_attention": {"rope_theta": 200000}}),
            {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "rope_parameters": _BY_TYPE}},
            "replaces rope_theta 1000000 by 200000",
        ),
        (
            _of_text({"factor": 4.0}),
            {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "rope_parameters": _BY_TYPE}},
            "",  # which has no effect
        ),
    ],
)
def test_what_overrides_replace_is_told(overrides: dict[str, Any], file: dict[str, Any], said: str) -> None:
    found = [each.message for each in read_vllm(overrides, file).findings if each.message.startswith("Of the entries")]
    assert len(found) == bool(said)
    assert not said or found[0].startswith(f"Of the entries of config.json, --hf-overrides {said}")
