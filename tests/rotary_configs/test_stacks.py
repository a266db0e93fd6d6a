"""Stacks of layers beside the one that is shown: decoders of depth, encoders and codecs that rotate otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.extension import inspect_model
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import read_huggingface

_LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.125, "high_freq_factor": 0.5}
_OF_DEPTH = {
    **{"hidden_size": 1024, "num_attention_heads": 8, "num_hidden_layers": 4, "max_position_embeddings": 33},
    "rope_theta": 20_000,
    "rope_scaling": {**_LLAMA3, "low_freq_factor": 0.001953125, "original_max_position_embeddings": 16},
}


def _said(content: dict[str, Any]) -> list[Finding]:
    return [each for each in read_huggingface(content).findings if "stacks of layers" in each.message]


def test_a_decoder_of_depth_is_told_with_its_numbers() -> None:
    """CsmConfig: the backbone is the file itself; depth decoder and codec stand in groups, with their own defaults."""
    (said,) = _said({"model_type": "csm", "depth_decoder_config": _OF_DEPTH})
    assert "'depth_decoder_config' (4 layers, heads of 128 features, base 20000, scaling llama3 with factor 32)" in (
        said.message
    )
    assert "'codec_config' (8 layers, windows of 250 tokens, heads of 64 features, base 10000)" in said.message
    (said,) = _said({"model_type": "csm"})
    assert "'depth_decoder_config' (4 layers, heads of 128 features, base 500000)" in said.message
    found = read_huggingface({"model_type": "csm", "depth_decoder_config": _OF_DEPTH}).findings
    assert not [each for each in found if each.severity != "note"]  # 33 codebooks are no short text


def test_what_is_wrong_with_a_stack_is_told_of_it() -> None:
    part = {**_OF_DEPTH, "rope_scaling": {**_LLAMA3, "factor": "32"}}
    found = read_huggingface({"model_type": "csm", "depth_decoder_config": part}).findings
    assert any("'depth_decoder_config'" in each.message for each in found if each.severity != "note")


def test_parts_that_a_file_leaves_out_are_those_of_the_class(tmp_path: Path) -> None:
    """DiaConfig and BltConfig fill in each of their parts, and entries beside them reach none."""
    parsed = read_huggingface({"model_type": "dia", "rope_theta": 500_000.0, "max_position_embeddings": 4096})
    assert (parsed.config.head_dim, parsed.config.base, len(parsed.layers[0].layers)) == (128, 10_000.0, 18)
    (said,) = [each.message for each in parsed.findings if "passes over" in each.message]
    assert "It passes over rope_theta 500000.0, max_position_embeddings 4096" in said
    (stacks,) = _said({"model_type": "dia"})
    assert "'encoder_config' (12 layers, heads of 128 features, base 10000)" in stacks.message
    content = {"model_type": "blt", "rope_theta": 250_000.0}
    parsed = read_huggingface(content)
    assert (parsed.config.head_dim, parsed.config.base, parsed.config.layout) == (64, 500_000.0, "interleaved")
    (stacks,) = _said(content)
    assert "'patcher_config' (14 layers, windows of 512 tokens, heads of 64 features, base 10000)" in stacks.message
    assert "'global_config' (25 layers, heads of 128 features, base 500000)" in stacks.message
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    inspection = inspect_model(tmp_path)
    assert inspection.checked_against is not None
    assert inspection.checked_against.startswith("BltLocalDecoder ")
    assert inspection.declared_length is None
    assert not [each for each in inspection.findings if "something else" in each.message]


def test_a_base_beside_a_text_part_that_is_left_out_reaches_none() -> None:
    transformers = pytest.importorskip("transformers")
    content = {"model_type": "llava", "rope_theta": 500_000.0}
    made = transformers.CONFIG_MAPPING["llava"].from_dict(dict(content)).text_config
    assert read_huggingface(content).config.base == made.rope_parameters["rope_theta"] == 10_000.0
    assert any("passes over rope_theta 500000.0" in each.message for each in read_huggingface(content).findings)


def test_a_stack_with_the_positions_that_are_shown_is_not_told_again() -> None:
    part = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    assert not _said({"model_type": "t5gemma", "encoder": part, "decoder": part})
    assert not _said({"model_type": "csm", "auto_map": {"AutoModel": "modeling_csm.Csm"}})


def test_a_stack_of_others_that_is_a_file_of_its_own_is_read_as_its_class() -> None:
    """modeling_mimi.py and modeling_blt.py: rotate_half of halves, and of neighbours."""
    mimi = read_huggingface({"model_type": "mimi"})
    assert (mimi.config.head_dim, mimi.config.base, mimi.config.layout) == (64, 1e4, "half")
    assert [(len(each.layers), each.window) for each in mimi.layers] == [(8, 250)]
    published = {"hidden_size": 512, "num_attention_heads": 8, "head_dim": 64, "num_hidden_layers": 8}
    assert not read_huggingface({"model_type": "mimi", **published, "rope_theta": 1e4, "sliding_window": 250}).findings
    assert read_huggingface({"model_type": "blt_global_transformer"}).config.layout == "interleaved"


def test_sizes_of_a_class_that_do_not_go_together_are_told_as_its_own() -> None:
    with pytest.raises(ConfigError, match=r"leaves out hidden_size \(2048\) and num_attention_heads \(28\); these are"):
        read_huggingface({"model_type": "qwen3_omni_moe"})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model_type", ["blt", "csm", "dia", "moshi", "neucodec", "qwen3_omni_moe", "t5gemma2"])
def test_stacks_are_those_of_the_installed_classes(model_type: str) -> None:
    transformers = pytest.importorskip("transformers")
    if model_type not in transformers.CONFIG_MAPPING:
        pytest.skip("not in this release")
    from zoo.architectures import architecture
    from zoo.stacks import PATH, stored_stacks

    stored = json.loads(PATH.read_text(encoding="utf-8"))
    assert stored[model_type] == json.loads(json.dumps(stored_stacks(architecture(model_type))))
