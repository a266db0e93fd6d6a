"""What entries of a file change in its reading, found by reading the file again without them."""

from __future__ import annotations

from typing import Any

import pytest

from locant.extension.inspect.effects import entries_without_effect
from locant.extension.inspect.keys_left_out import keys_left_out
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import read_gguf, read_huggingface
from locant.rotary_configs.base import NoRotaryPositionsError, error_finding
from locant.rotary_configs.huggingface.reading import read_config
from locant.rotary_configs.usual_values import GROUPS

_SIZES = {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "num_hidden_layers": 4}


def _told(content: dict[str, Any]) -> str:
    parsed = read_huggingface(content)
    return " ".join(each.message for each in entries_without_effect(content, parsed, read_config, parsed.findings))


@pytest.mark.parametrize(
    ("model_type", "more", "entry"),
    [
        ("mimo_v2_flash", {"sliding_window": 128, "sliding_window_size": 128}, "sliding_window 128"),
        ("mimo_v2_flash", {"sliding_window": 7, "sliding_window_size": 96}, "sliding_window 7"),
    ],
)
def test_an_entry_without_effect_is_told(model_type: str, more: dict[str, Any], entry: str) -> None:
    told = _told({"model_type": model_type, **_SIZES, **more})
    assert f"{entry} has no effect" in told or f"{entry} and " in told or f"and {entry} have no effect" in told


@pytest.mark.parametrize(
    ("model_type", "more"),
    [
        ("mistral", {"rope_theta": 1e6, "sliding_window": 512, "head_dim": 64}),
        ("qwen2", {"use_sliding_window": False, "sliding_window": 512, "max_window_layers": 2}),  # switched off
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 24}}),
        ("qwen3_5_text", {"partial_rotary_factor": 0.25, "rope_parameters": {"partial_rotary_factor": 0.25}}),
        ("llama", {"head_dim": 128}),  # as the sizes say
        ("llama", {name: {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32} for name in GROUPS}),  # the same twice
        ("smollm3", {"no_rope_layer_interval": 100}),  # a small one has
    ],
)
def test_an_entry_with_effect_or_that_agrees_is_not_told(model_type: str, more: dict[str, Any]) -> None:
    assert not _told({"model_type": model_type, **_SIZES, **more})


def test_what_a_finding_names_is_not_told_again() -> None:
    content = {"model_type": "llama", **_SIZES, "sliding_window": 512}
    assert "sliding_window" in " ".join(each.message for each in read_huggingface(content).findings)
    assert not _told(content)


def test_a_finding_may_name_an_entry_at_the_end_of_a_sentence() -> None:
    content = {"model_type": "mimo_v2_flash", **_SIZES, "sliding_window": 7, "sliding_window_size": 96}
    parsed = read_huggingface(content)
    for sentence in ("It goes by sliding_window.", "sliding_window is 7: it is passed over."):
        assert not entries_without_effect(content, parsed, read_config, [Finding("note", sentence, "Nothing.")])


def test_a_key_of_gguf_without_effect_is_told() -> None:
    metadata = {
        "general.architecture": "gemma",
        "gemma.block_count": 4,
        "gemma.embedding_length": 2048,
        "gemma.attention.head_count": 8,
        "gemma.attention.key_length": 256,
        "gemma.context_length": 8192,
        "gemma.attention.sliding_window": 512,
    }
    parsed = read_gguf(metadata)
    told = entries_without_effect(metadata, parsed, read_gguf, ())
    assert [each.message.split(":")[0] for each in told] == ["attention.sliding_window 512 has no effect"]
    assert not entries_without_effect({**metadata, "gemma.attention.sliding_window": 0}, parsed, read_gguf, ())


_YARN: dict[str, Any] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 4.0,
    "rope__scaling__original_context_length": 2048,
}


_COMPRESSED: dict[str, Any] = {
    "attention__sliding_window": 128,
    "attention__compress_rope_freq_base": 160000.0,
    "attention__compress_ratios": [0, 4] * 4,
}


def _gguf(architecture: str, **more: Any) -> dict[str, Any]:
    keys = {"context_length": 8192, "embedding_length": 2048, "block_count": 8, "attention.head_count": 8}
    keys |= {key.replace("__", "."): value for key, value in more.items()}
    return {"general.architecture": architecture, **{f"{architecture}.{key}": value for key, value in keys.items()}}


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        (_gguf("gemma2", attention__key_length=256), "no attention.sliding_window; 4096 is taken"),
        (_gguf("gemma3", attention__key_length=256), "no attention.sliding_window: all layers look back"),
        (_gguf("gptneox"), "no rope.dimension_count: all 256 features of a head rotate"),
        (_gguf("qwen3"), "no attention.key_length: a head has 256 features"),
        (_gguf("llama", rope__scaling__factor=8.0), "no rope.scaling.type; 'linear' is taken"),
        (_gguf("granitehybrid"), "no rope.scaling.finetuned: it is taken for true"),
        (_gguf("gptneox", rope__dimension_count=64), "no rope.freq_base; 10000 is taken, as llama.cpp has."),
        (
            _gguf("mistral3"),
            "no rope.freq_base; 10000 is taken, where the class of 'ministral3' in transformers has 1000000.",
        ),
        (
            _gguf("plamo3", attention__sliding_window=64),
            "no rope.freq_base_swa; 10000 is taken for layers with a window",
        ),
        (
            _gguf("deepseek4", **_COMPRESSED),
            "no rope.dimension_count: all 256 features of a head rotate, as llama.cpp has",
        ),
        (_gguf("qwen3next"), "no full_attention_interval: one layer in 4, the last of them, has attention"),
        (_gguf("gemma2"), "no attention.sliding_window_pattern: one layer in 2, the last of them, has full attention"),
        (_gguf("grok", **_YARN), "no rope.scaling.yarn_beta_fast; 8 is taken, as llama.cpp has."),
        (_gguf("grok", **_YARN), "no rope.scaling.yarn_beta_slow; 1 is taken, as llama.cpp has."),
    ],
)
def test_keys_of_gguf_that_are_left_out_are_told(metadata: dict[str, Any], told: str) -> None:
    (found,) = keys_left_out(metadata, read_gguf(metadata), ())
    assert told in found.message


def test_all_that_a_file_leaves_out_is_one_note() -> None:
    metadata = _gguf("plamo3", attention__sliding_window=64)
    (found,) = keys_left_out(metadata, read_gguf(metadata), ())
    assert found.message == (
        "The file has no rope.freq_base; 10000 is taken, as llama.cpp has. It has no rope.freq_base_swa; 10000 is "
        "taken for layers with a window, as llama.cpp has. It has no attention.sliding_window_pattern: one layer in 8, "
        "the last of them, has full attention, as llama.cpp has for 'plamo3'. It has no rope.dimension_count: the "
        "whole head rotates, as llama.cpp has."
    )


def test_a_whole_head_that_is_left_out_is_told_beside_other_keys_alone() -> None:
    """load_hparams of llama-model.cpp: n_rot is n_embd_head_k where the key is missing."""
    metadata = _gguf("orion", rope__scale_linear=4.0)
    (found,) = keys_left_out(metadata, read_gguf(metadata), ())
    assert found.message == (
        "The file has no rope.freq_base; 10000 is taken, as llama.cpp has. It has no rope.scaling.type; 'linear' is "
        "taken, as llama.cpp has. It has no rope.dimension_count: the whole head rotates, as llama.cpp has."
    )
    for more in ({"rope__dimension_count": 256}, {"rope__dimension_count": 64}):
        metadata = _gguf("gptneox", **more)
        (found,) = keys_left_out(metadata, read_gguf(metadata), ())
        assert "rope.dimension_count" not in found.message
    metadata = _gguf("orion", rope__freq_base=1e4)
    assert keys_left_out(metadata, read_gguf(metadata), ()) == []


_WINDOWS: dict[str, Any] = {"attention__sliding_window": 512, "attention__sliding_window_pattern": 4}


def test_keys_of_gguf_that_are_there_are_not_called_missing() -> None:
    files = [
        _gguf("gptneox", rope__dimension_count=64),
        _gguf("qwen3", attention__key_length=128),
        _gguf("llama", rope__scaling__factor=8.0, rope__scaling__type="linear"),
        _gguf("gemma3", attention__key_length=256, **_WINDOWS, rope__freq_base_swa=1e4),
        _gguf("qwen3next", attention__key_length=256, rope__dimension_count=64, attention__recurrent_layers=[1, 0] * 4),
        _gguf(
            "mistral3",
            attention__key_length=128,
            **_YARN,
            rope__scaling__yarn_beta_fast=32.0,
            rope__scaling__yarn_beta_slow=1.0,
        ),
        _gguf("exaone4", block_count=30),  # the 1.2B, none of whose layers has a window
        _gguf("llama"),
        _gguf("cogvlm"),  # whose graph has one base
        # Of which only layers with a window rotate.
        _gguf("muse-glimmer", attention__key_length=128, rope__freq_base_swa=1e4, **_WINDOWS),
    ]
    for each in files[:-2]:
        each[f"{each['general.architecture']}.rope.freq_base"] = 1e6
    assert not [found for each in files for found in keys_left_out(each, read_gguf(each), ())]


def test_a_key_that_counts_by_being_there_is_told() -> None:
    metadata = _gguf("smallthinker", attention__key_length=128, attention__sliding_window=2048)
    (found,) = entries_without_effect(metadata, read_gguf(metadata), read_gguf, ())
    assert found.message.startswith("attention.sliding_window 2048 has an effect by being there alone")


def test_alibi_of_mpt_in_gguf_is_that_of_its_key() -> None:
    """llama.cpp's mpt.cpp reads attention.max_alibi_bias, 0 where it is missing."""
    with pytest.raises(NoRotaryPositionsError, match="but ALiBi"):
        read_gguf(_gguf("mpt", attention__max_alibi_bias=8.0))
    for left_out in ({}, {"attention__max_alibi_bias": 0.0}):
        with pytest.raises(NoRotaryPositionsError, match="and no ALiBi either") as refused:
            read_gguf(_gguf("mpt", **left_out))
        assert error_finding(refused.value, "").severity == "warning"


def test_a_bias_of_alibi_that_the_graph_passes_over_is_told() -> None:
    """jina-bert-v2.cpp, bloom.cpp and refact.cpp set 8; all but jais.cpp and mpt.cpp read no key."""
    with pytest.raises(NoRotaryPositionsError, match=r"max_alibi_bias 4 .*: the bias is 8 there") as refused:
        read_gguf(_gguf("jina-bert-v2", attention__max_alibi_bias=4.0))
    assert error_finding(refused.value, "").severity == "warning"
    with pytest.raises(NoRotaryPositionsError) as refused:
        read_gguf(_gguf("jina-bert-v2", attention__max_alibi_bias=8.0))
    assert error_finding(refused.value, "").severity == "note"
    (found,) = read_gguf(_gguf("llama", attention__max_alibi_bias=8.0)).findings
    assert "there is no ALiBi there" in found.message


def test_keys_of_layers_with_windows_that_are_left_out_are_told() -> None:
    """laguna.cpp and dots3note.cpp: these layers then rotate as all others do."""
    sizes = {"attention.key_length": 128, "attention.value_length": 128, "attention.sliding_window": 512}
    sizes = {key.replace(".", "__"): value for key, value in sizes.items()}
    metadata = _gguf("laguna", **sizes, rope__dimension_count=64, rope__freq_base=5e5)
    told = [each.message for each in keys_left_out(metadata, read_gguf(metadata), ())]
    assert [each for each in told if "no rope.freq_base_swa: layers with a window have the base 500000" in each]
    assert [each for each in told if "no rope.dimension_count_swa: layers with a window rotate 64 features" in each]
    own = {"rope__freq_base_swa": 1e4, "rope__dimension_count_swa": 128, "attention__sliding_window_pattern": 4}
    metadata = _gguf("laguna", **sizes, **own, rope__dimension_count=64, rope__freq_base=5e5)
    assert keys_left_out(metadata, read_gguf(metadata), ()) == []


def test_rounds_of_windows_that_converters_write_are_told_where_they_are_left_out() -> None:
    sizes = {"attention__key_length": 128, "attention__sliding_window": 4096, "leading_dense_block_count": 1}
    metadata = _gguf("cohere2moe", **sizes)
    (found,) = keys_left_out(metadata, read_gguf(metadata), ())
    assert "no attention.sliding_window_pattern: one layer in 4, the first of them, has full attention" in found.message


def test_a_window_that_0_alone_changes_is_not_called_the_same_with_any_other_value() -> None:
    """llama4.cpp has chunks of 8192 tokens, unless the key is 0."""
    metadata = _gguf("llama4", attention__key_length=128, attention__sliding_window=4096)
    (found,) = entries_without_effect(metadata, read_gguf(metadata), read_gguf, ())
    assert "attention.sliding_window 4096 has no effect unless 0" in found.message
    assert "any other value but 0, and without" in found.message


@pytest.mark.parametrize(("architecture", "share"), [("chatglm", "0.5"), ("minimax-m3", "0.5"), ("phi2", "0.5")])
def test_shares_of_a_head_that_a_gguf_file_leaves_out(architecture: str, share: str) -> None:
    """n_rot_full is n_embd_head_k_full without the key; code of people's own rotates a part as well (ChatGLM)."""
    keys = {"context_length": 4096, "embedding_length": 4096, "attention.head_count": 32, "attention.key_length": 128}
    metadata = {"general.architecture": architecture} | {f"{architecture}.{key}": each for key, each in keys.items()}
    (found,) = keys_left_out(metadata, read_gguf(metadata), ())
    assert f"published models of '{architecture}' rotate {share} of them" in found.message
    assert found.severity == "warning"  # another model than the published one
