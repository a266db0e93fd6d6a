"""Indexers of sparse attention in GGUF files: build b11739 was run with every one of them."""

from __future__ import annotations

from typing import Any

import pytest

from locant.rotary_configs import read_gguf
from locant.rotary_configs.classes.families import INDEXERS
from locant.rotary_configs.gguf.architectures import model_type_of
from locant.rotary_configs.gguf.loader_facts import loader_facts
from locant.rotary_configs.gguf.loading import refusals

_SIZES = {"embedding_length": 256, "attention.head_count": 2, "block_count": 4, "context_length": 2048}
_LATENT = {
    **{"attention.key_length": 576, "attention.value_length": 512, "attention.head_count_kv": 1},
    **{"attention.key_length_mla": 192, "attention.value_length_mla": 128, "attention.kv_lora_rank": 512},
    **{"rope.dimension_count": 64, "attention.indexer.key_length": 128, "rope.freq_base": 1e4},
}
_NOTHING_ROTATED = {**_LATENT, "rope.dimension_count": 0, "attention.key_length": 512}
_HY_V4 = _LATENT | {
    **{"attention.indexer.top_k": 2048, "attention.indexer.head_count": 64, "attention.indexer.types": [1, 0, 0, 0]},
}
_QWEN = {
    **{"attention.indexer.key_length": 128, "attention.compress_ratios": [4] * 4, "rope.freq_base": 1e4},
    "rope.dimension_sections": [16, 16, 16, 16],
}


def _metadata(architecture: str, keys: dict[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in {**_SIZES, **keys}.items() if value is not None}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": own[key] for key in own}


def _refused(architecture: str, keys: dict[str, Any]) -> list[str]:
    return [each.message for each in refusals(_metadata(architecture, keys), {}) if each.severity == "error"]


def _said(architecture: str, keys: dict[str, Any]) -> list[tuple[str, str]]:
    findings = read_gguf(_metadata(architecture, keys)).findings
    return [(each.severity, each.message) for each in findings if "indexer" in each.message]


@pytest.mark.parametrize(
    ("architecture", "keys", "which", "layout"),
    [
        ("hy_v4", _HY_V4, "the last 64 of its 128 features", "'interleaved', as the attention does"),
        ("deepseek32", _LATENT, "the first 64 of its 128", "'half', unlike the attention, which has 'interleaved'"),
        ("deepseek32", _LATENT | {"attention.indexer.key_length": 64}, "all of its 64 features", "'half', unlike"),
        ("glm-dsa", _LATENT, "the first 64 of its 128 features", "'interleaved', as the attention does"),
        ("qwen4exp", _QWEN | {"rope.dimension_count": 64}, "the first 64 of its 128 features", "'half', as the"),
    ],
)
def test_what_is_rotated_of_the_heads_of_an_indexer(
    architecture: str, keys: dict[str, Any], which: str, layout: str
) -> None:
    ((severity, message),) = _said(architecture, keys)
    assert severity == "note"
    assert message.startswith(f"The indexer of the sparse attention rotates {which}")
    assert f"by the same frequencies, in the layout {layout}" in message


def test_an_indexer_that_the_class_of_the_model_rotates_otherwise() -> None:
    """dots3note.cpp: LLAMA_ROPE_TYPE_NEOX; modeling_dots3_note.py: apply_rotary_pos_emb_interleave."""
    window = {"attention.sliding_window": 8, "attention.sliding_window_pattern": [1, 0, 1, 0]}
    ((severity, message),) = _said("dots3note", {**_LATENT, **window, "rope.freq_base_swa": 1e4})
    assert severity == "warning"
    assert (
        "in the layout 'half', where the class of 'dots3_note_text' in transformers has 'interleaved', and" in message
    )


def test_the_rotated_part_of_an_indexer_stands_where_the_class_of_the_model_has_it() -> None:
    facts = loader_facts()["indexers"]
    kinds = {name: INDEXERS.get(model_type_of(name) or "") for name in facts}
    assert {name for name, kind in kinds.items() if kind is None} == {"hy_v4"}  # of which the warning of pairs tells
    assert all(kind is None or kind[1] == facts[name]["rotates"] for name, kind in kinds.items())


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        ("hy_v4", _HY_V4 | {"attention.indexer.top_k": None, "attention.indexer.key_length": 32}),
        ("hy_v4", _HY_V4 | {"attention.indexer.top_k": 0, "attention.indexer.head_count": None}),
        ("qwen4exp", _QWEN | {"attention.compress_ratios": None, "attention.indexer.key_length": 32}),
    ],
)
def test_full_attention_has_no_indexer(architecture: str, keys: dict[str, Any]) -> None:
    assert not [each for each in _said(architecture, keys) if "rotates" in each[1]]
    assert not _refused(architecture, keys)


@pytest.mark.parametrize(
    ("keys", "size"),
    [({"rope.dimension_count": 64}, "is 64"), ({}, "is missing, for which llama.cpp takes the 128 of")],
)
def test_heads_of_an_indexer_that_are_smaller_than_their_rotated_part(keys: dict[str, Any], size: str) -> None:
    """ggml_compute_forward_rope_flt: ``GGML_ASSERT(n_dims <= ne0)``."""
    (said,) = _refused("qwen4exp", _QWEN | {"attention.indexer.key_length": 32} | keys)
    assert f"qwen4exp.rope.dimension_count {size}" in said
    assert "rotated alike, have 32 features (attention.indexer.key_length): llama.cpp ends before it" in said
    assert not _refused("qwen4exp", _QWEN | {"attention.indexer.key_length": 32, "rope.dimension_count": 32})


@pytest.mark.parametrize(
    ("architecture", "keys", "said"),
    [
        ("hy_v4", {"attention.indexer.key_length": 64}, "of which a part is rotated, have 64 features"),
        ("hy_v4", {"attention.indexer.key_length": None}, "key_length is missing beside attention.indexer.top_k 2048"),
        ("hy_v4", {"attention.indexer.head_count": 0}, "head_count is 0 beside attention.indexer.top_k 2048"),
        ("hy_v4", {"attention.indexer.types": None}, "types is missing, and no layer has an indexer of its own"),
        ("hy_v4", {"attention.indexer.types": [0, 1, 0, 1]}, "types has 0 for layer 0, the first one with sparse"),
        ("hy_v4", {"attention.indexer.types": [1, 0]}, "types has 2 values for 4 layers"),
        ("glm-dsa", {"attention.indexer.types": [0] * 4}, "types has 0 for layer 0"),
        ("glm5-next", {"attention.indexer.types": [1, 0, 1, 0]}, "types has 0 for layer 1"),
        ("deepseek32", {"attention.indexer.key_length": None}, "key_length is missing: llama.cpp refuses to load"),
    ],
)
def test_indexers_with_which_llama_cpp_does_not_run_a_file(architecture: str, keys: dict[str, Any], said: str) -> None:
    own = {"hy_v4": _HY_V4, "glm5-next": _NOTHING_ROTATED | {"attention.head_count_kv": [0, 1, 0, 1]}}
    (message,) = _refused(architecture, own.get(architecture, _LATENT) | keys)
    assert f"{architecture}.attention.indexer.{said}" in message or said in message


def test_keys_of_an_indexer_that_nothing_reads_have_no_effect() -> None:
    ((severity, message),) = _said("llama", {"attention.indexer.key_length": 128})
    assert severity == "note"
    assert "attention.indexer.key_length 128 has no effect" in message
