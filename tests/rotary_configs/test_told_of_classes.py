"""What a class of transformers decides beside other entries of a file: types of layers, windows, parts of a whole."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from locant.extension import inspect_model
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import read_huggingface, read_vllm

_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "head_dim": 16,
}
_TYPES = ["full_attention", "linear_attention", "linear_attention", "full_attention"]


def _about(content: dict[str, Any], word: str) -> list[Finding]:
    return [each for each in read_huggingface(content).findings if word in each.message]


def _made(content: dict[str, Any]) -> Any:
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    return mapping[content["model_type"]].from_dict(copy.deepcopy(content))


def test_types_of_layers_win_over_an_interval() -> None:
    content = {"model_type": "qwen3_next", **_SMALL, "full_attention_interval": 2, "layer_types": _TYPES}
    assert list(_made(content).layer_types) == _TYPES
    (said,) = _about(content, "full_attention_interval")
    assert said.severity == "warning"
    assert "layer_types is taken" in said.message
    assert [kind.layers for kind in read_huggingface(content).layers if kind.config] == [(0, 3)]
    same = {**content, "layer_types": ["linear_attention", "full_attention"] * 2}
    assert not _about(same, "full_attention_interval")
    assert not _about({**content, "layer_types": None}, "full_attention_interval")


@pytest.mark.parametrize(("window", "is_told"), [(4095, False), (4096, True), (262144, True)])
def test_a_window_no_shorter_than_the_longest_text(window: int, *, is_told: bool) -> None:
    content = {"model_type": "phi3", **_SMALL, "max_position_embeddings": 4096, "sliding_window": window}
    assert bool(_about(content, "hides nothing")) is is_told
    off = {"model_type": "qwen2", **_SMALL, "max_position_embeddings": 4096, "use_sliding_window": False}
    assert not _about({**off, "sliding_window": window}, "hides nothing")


def test_code_of_its_own_beside_a_known_type() -> None:
    named = {"AutoModelForCausalLM": "modeling_lfm2.Lfm2ForCausalLM"}
    content = {"model_type": "lfm2", **_SMALL, "full_attn_idxs": [1, 3]}
    (said,) = _about({**content, "auto_map": named}, "auto_map")
    assert said.severity == "note"
    assert "(modeling_lfm2)" in said.message
    assert not _about(content, "auto_map")


def test_rotated_features_that_are_left_out() -> None:
    """MiniMaxM2Config reads rotary_dim, has none of its own, and rotates whole heads without."""
    content = {"model_type": "minimax_m2", **_SMALL}
    assert "partial_rotary_factor" not in _made(content).rope_parameters
    assert _made({**content, "rotary_dim": 8}).rope_parameters["partial_rotary_factor"] == 0.5
    assert len(_about(content, "neither rotary_dim")) == 1
    assert not _about({**content, "rotary_dim": 8}, "neither rotary_dim")
    assert not _about({"model_type": "llama", **_SMALL}, "neither rotary_dim")
    assert not [each for each in read_vllm({}, {"model_type": "llama", **_SMALL}).findings if "neither" in each.message]


def test_a_class_that_makes_groups_for_the_types_of_the_file() -> None:
    """Step3p7TextConfig makes one for every type that layers have, of the same base."""
    types = ["full_attention", "sliding_attention"] * 2
    content = {"model_type": "step3p5", **_SMALL, "layer_types": types, "sliding_window": 8, "rope_theta": 5e5}
    made = _made(content).rope_parameters
    parsed = read_huggingface(content)
    assert {name: config.base for name, config in parsed.configs.items()} == {
        name: group["rope_theta"] for name, group in made.items()
    }
    assert [(kind.name, kind.config, kind.window) for kind in parsed.layers] == [
        ("full_attention", "full_attention", None),
        ("sliding_attention", "sliding_attention", 8),
    ]
    assert not _about(content, "no rotation")
    unscaled = {name: group for name, group in made.items() if name == "sliding_attention"}
    scaled = {**content, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    assert _made(scaled).rope_parameters["sliding_attention"] == unscaled["sliding_attention"]
    of_type = {name: config.scaling.name for name, config in read_huggingface(scaled).configs.items()}
    assert of_type == {"full_attention": "linear", "sliding_attention": "none"}


def test_no_base_for_a_class_without_its_text_part() -> None:
    part = {"text_config": {**_SMALL, "rope_theta": 5e6}}
    (said,) = _about({"model_type": "qwen3_asr", "thinker_config": part}, "10000 is taken")
    assert said.message.startswith("The file has no rope_theta for its class;")
    (usual,) = _about({"model_type": "qwen3_asr", "text_config": _SMALL}, "10000 is taken")
    assert usual.message.startswith("The file has no rope_theta;")
    beside = {"model_type": "vipllava", "rope_theta": 1e6, "text_config": {**_SMALL, "model_type": "llama"}}
    (other,) = _about(beside, "10000 is taken")
    assert other.message.startswith("'text_config' has no rope_theta;")


def test_layers_of_t5gemma_slide_by_turns(tmp_path: Path) -> None:
    """T5GemmaModuleConfig has a window in every other layer."""
    parts = {"encoder": {**_SMALL, "sliding_window": 6}, "decoder": {**_SMALL, "sliding_window": 12}}
    made = _made({"model_type": "t5gemma", **parts}).decoder
    parsed = read_huggingface({"model_type": "t5gemma", **parts})
    assert [(kind.name, kind.layers, kind.window) for kind in parsed.layers] == [
        ("sliding_attention", (0, 2), 12),
        ("full_attention", (1, 3), None),
    ]
    assert [made.layer_types.index(kind.name) for kind in parsed.layers] == [0, 1]
    (said,) = _about({"model_type": "t5gemma", **parts}, "The model has other stacks of layers")
    assert "'encoder' (4 layers, windows of 6 tokens, heads of " in said.message
    same = {"model_type": "t5gemma", "encoder": parts["decoder"], "decoder": parts["decoder"]}
    assert not _about(same, "The model has other stacks of layers")
    failing = {"model_type": "t5gemma", **parts, "encoder": {**_SMALL, "sliding_window": None}}
    assert any(each.severity == "warning" for each in _about(failing, "In 'encoder': Layers are of the type"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5gemma", **parts}), encoding="utf-8")
    inspection = inspect_model(tmp_path)
    assert inspection.checked_against is not None
    assert not [each for each in inspection.findings if each.severity != "note"]


def test_widths_of_other_parts_beside_a_flat_file() -> None:
    """Dots3NoteConfig takes its text part from the file itself, and its adapters must be as wide."""
    content = {"model_type": "dots3_note", **{name: value for name, value in _SMALL.items() if name != "head_dim"}}
    adapters = {name: {"adapter_out_dim": 64} for name in ("vision_config", "audio_config")}
    with pytest.raises(Exception, match="vision adapter output width"):
        _made(content)
    assert _made({**content, **adapters}) is not None
    assert len(_about(content, "hidden_size is 64 in config.json, and adapter_out_dim 5120")) == 2
    assert not _about({**content, **adapters}, "adapter_out_dim")


def test_a_part_beside_text_that_must_state_its_type() -> None:
    """MusicFlamingoConfig looks the model type of its audio part up."""
    audio = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    content = {"model_type": "musicflamingo", "text_config": {"model_type": "qwen2", **_SMALL}}
    with pytest.raises(KeyError):
        _made({**content, "audio_config": audio})
    (said,) = _about({**content, "audio_config": audio}, "'audio_config'")
    assert "refuses the file" in said.message
    typed = {**content, "audio_config": {"model_type": "audioflamingo3_encoder", **audio}}
    assert _made(typed) is not None
    assert not _about(typed, "'audio_config'")


@pytest.mark.parametrize(
    ("model_type", "named", "said"),
    [
        ("llama", "Qwen2ForCausalLM", "the class of 'qwen2', and model_type is 'llama'"),
        ("llama", "LlamaForCasualLM", "which no class is called. Did you mean 'LlamaForCausalLM'?"),
        ("llama", "LamaForCausalLM", "which no class is called. Did you mean that of 'llama'?"),
        ("llama", "LlamaForCausalLM", None),
        ("llama", "LlamaForRewardModel", None),
        ("gemma3_text", "Gemma3ForCausalLM", None),
        ("gpt_neox", "GPTNeoXForCausalLM", None),
    ],
)
def test_architectures_of_another_class_or_of_none(model_type: str, named: str, said: str | None) -> None:
    content = {"model_type": model_type, "hidden_size": 64, "num_attention_heads": 4, "architectures": [named]}
    told = [each.message for each in read_huggingface(content).findings if each.message.startswith("architectures of")]
    assert [said in each for each in told] == ([] if said is None else [True])
    assert not [
        each
        for each in read_huggingface({**content, "auto_map": {"AutoModel": "modeling.Other"}}).findings
        if each.message.startswith("architectures of")
    ]


def test_a_base_of_other_code_beside_a_class_with_a_base_for_every_type_of_layers() -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 3}
    parsed = read_huggingface({"model_type": "modernbert-decoder", **sizes, "rotary_emb_base": 12345.0})
    (told,) = (each.message for each in parsed.findings if each.message.startswith("rotary_emb_base is 12345"))
    assert told.endswith("passes over.")
    assert {each.base for each in parsed.configs.values()} == {1e4, 1.6e5}
