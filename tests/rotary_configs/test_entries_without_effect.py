"""Entries that a class passes over or fails with in certain places and forms: each is told without that class."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from locant.errors import ConfigError
from locant.extension.inspect.model_class.small_model import build, quiet
from locant.positions.scaling import YaRN
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import read_huggingface, read_vllm

_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "vocab_size": 16,
    "pad_token_id": 0,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "rope_theta": 1e4}
_LATENT: dict[str, Any] = {
    **_SMALL,
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank"), 16),
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "first_k_dense_replace": 4,
}


def _findings(content: dict[str, Any]) -> list[Finding]:
    return [each for each in read_huggingface(content).findings if each.severity != "note"]


def _said(content: dict[str, Any]) -> str:
    return " ".join(each.message for each in _findings(content))


def _run(config_class: Any, content: dict[str, Any]) -> None:
    with quiet():
        model = build(config_class.from_dict(dict(content)))
        model.set_attn_implementation("eager")
        model(torch.zeros((1, 4), dtype=torch.long))


def _class_of(model_type: str) -> Any:
    return pytest.importorskip("transformers").CONFIG_MAPPING[model_type]


class TestBesideTheTextPart:
    @pytest.mark.parametrize(
        ("whole", "text", "entry", "value"),
        [
            ("mistral3", "mistral", "sliding_window", 333),
            ("gemma3", "gemma3_text", "layer_types", ["full_attention"] * 4),
            ("llava", "llama", "head_dim", 32),
            ("llama4", "llama4_text", "attention_chunk_size", 77),
            ("llava", "qwen2", "max_position_embeddings", 777),
        ],
    )
    def test_what_is_not_read_there_is_told(self, whole: str, text: str, entry: str, value: Any) -> None:
        content = {"model_type": whole, "text_config": {"model_type": text, **_SMALL}}
        made = _class_of(whole).from_dict({"text_config": {**content["text_config"]}, entry: value})
        assert getattr(made.text_config, entry) != value
        assert f"'{entry}' stands in config.json beside 'text_config'" in _said({**content, entry: value})
        assert f"'{entry}'" not in _said(content)

    def test_windows_of_sound_are_none_of_text(self) -> None:
        """GraniteSpeechConfig has a window_size of its own, for what it hears."""
        content = {
            "model_type": "granite_speech",
            "window_size": 15,
            "text_config": {"model_type": "granite", **_SMALL},
        }
        assert not _findings(content)

    @pytest.mark.parametrize("value", [[{"model_type": "mistral"}], "mistral", 5])
    def test_a_text_part_that_is_no_group_is_refused(self, value: Any) -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011 -- every kind of value raises something else
            _class_of("mistral3").from_dict({"text_config": value})
        with pytest.raises(ConfigError, match=r"'text_config' in config\.json must be a group of entries"):
            read_huggingface({"model_type": "mistral3", "text_config": value})


@pytest.mark.parametrize(
    ("model_type", "entry"),
    [("gemma3n_text", "rope_local_base_freq"), ("modernbert", "local_rope_theta"), ("modernbert", "global_rope_theta")],
)
def test_a_base_of_some_layers_beside_their_group_is_told(model_type: str, entry: str) -> None:
    groups = {name: {"rope_type": "default", "rope_theta": 2e4} for name in ("full_attention", "sliding_attention")}
    made = _class_of(model_type)(rope_parameters={**groups}, **{entry: 55555.0})
    assert all(group["rope_theta"] == 2e4 for group in made.rope_parameters.values())
    content = {"model_type": model_type, **_SMALL, "rope_parameters": groups}
    parsed = read_huggingface({**content, entry: 55555.0})
    assert {config.base for config in parsed.configs.values()} == {2e4}
    assert f"{entry} is 55555 beside the groups" in _said({**content, entry: 55555.0})
    assert entry not in _said({**content, entry: 2e4})


@pytest.mark.parametrize(
    ("model_type", "name", "meant"),
    [
        ("gemma2", "head_dimension", "head_dim"),
        ("mixtral", "num_hidden_layer", "num_hidden_layers"),
        ("qwen3_next", "full_attn_interval", None),
        ("qwen3_next", "full_attention_intervals", "full_attention_interval"),
        ("jamba2", "attn_layers_period", None),
        ("llama4_text", "attention_chunks_size", "attention_chunk_size"),
    ],
)
def test_a_name_by_longer_or_plural_words_is_told(model_type: str, name: str, meant: str | None) -> None:
    rest = {key: value for key, value in _SMALL.items() if key != meant}
    said = [
        each.message for each in _findings({"model_type": model_type, **rest, name: 4}) if "Did you" in each.message
    ]
    assert said == (
        [] if meant is None else [f"'{name}' in config.json is not known, and passed over. Did you mean '{meant}'?"]
    )


def test_what_a_class_keeps_for_itself_is_no_misspelling() -> None:
    """Files of Gemma 3 have _sliding_window_pattern, which its configuration saved."""
    assert not _findings({"model_type": "gemma3_text", **_SMALL, "head_dim": 16, "_sliding_window_pattern": 6})


@pytest.mark.parametrize("model_type", ["mixtral", "minimax"])
@pytest.mark.parametrize("rope_type", ["yarn", "dynamic"])
def test_a_scaling_by_a_size_of_heads_that_is_not_stated_is_told(model_type: str, rope_type: str) -> None:
    group = _YARN if rope_type == "yarn" else {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
    content = {"model_type": model_type, **_SMALL, "num_local_experts": 2, "rope_parameters": group}
    stated = {**content, "head_dim": 16}
    with pytest.raises(TypeError):
        _run(_class_of(model_type), content)
    _run(_class_of(model_type), stated)
    assert f"rope_type is '{rope_type}' in rope_parameters of config.json, and the file has no head_dim" in _said(
        content
    )
    assert not _findings(stated)
    assert "no head_dim" not in _said({**content, "model_type": "llama"})


@pytest.mark.parametrize("model_type", ["deepseek_v3", "minicpm3", "youtu"])
def test_latent_attention_with_groups_of_heads_is_told(model_type: str) -> None:
    content = {"model_type": model_type, **_LATENT}
    with pytest.raises(RuntimeError):
        _run(_class_of(model_type), content)
    _run(_class_of(model_type), {**content, "num_key_value_heads": 4})
    assert "num_key_value_heads is 2 in config.json, beside 4 heads of queries" in _said(content)
    assert "num_key_value_heads" not in _said({**content, "num_key_value_heads": 4})


@pytest.mark.parametrize("model_type", ["deepseek_v3", "youtu"])
def test_a_share_that_latent_attention_passes_over_is_no_failure_for_vllm_either(model_type: str) -> None:
    content = {"model_type": model_type, **_LATENT, "num_key_value_heads": 4, "partial_rotary_factor": 0.5}
    _run(_class_of(model_type), content)
    read = (read_huggingface(content), read_vllm({}, content))
    assert not any("it fails then" in each.message for parsed in read for each in parsed.findings)


@pytest.mark.parametrize("model_type", ["deepseek_v3", "glm4_moe_lite"])
def test_null_for_the_layout_is_false_to_a_class(model_type: str) -> None:
    content = {"model_type": model_type, **_LATENT, "num_key_value_heads": 4}
    if "rope_interleave" not in _class_of(model_type)().to_dict():
        pytest.skip("no such entry")
    layouts = [
        read_huggingface({**content, **stated}).config.layout
        for stated in ({}, {"rope_interleave": None}, {"rope_interleave": False})
    ]
    assert layouts == ["interleaved", "half", "half"]


@pytest.mark.parametrize("model_type", ["qwen2_vl_text", "qwen3_vl_text", "glm4v_text"])
def test_sections_with_fractions_are_told(model_type: str) -> None:
    content = {"model_type": model_type, **_SMALL, "head_dim": 16}
    share = 0.5 if model_type == "glm4v_text" else 1.0
    sections = [2, 1, 1] if share < 1 else [4, 2, 2]
    group = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": share}
    whole, parts = (
        {**content, "rope_parameters": {**group, "mrope_section": each}} for each in (sections, [*map(float, sections)])
    )
    with pytest.raises(TypeError):
        _run(_class_of(model_type), parts)
    _run(_class_of(model_type), whole)
    assert "has numbers with a fraction" in _said(parts)
    assert "fraction" not in _said(whole)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "llama4_text", "no_rope_layers": [True, False] * 2}, "true stands in no_rope_layers"),
        ({"model_type": "lfm2", "full_attn_idxs": [1, "2"]}, '"2" stands in full_attn_idxs'),
        ({"model_type": "exaone_moe", "sliding_window_pattern": "LLLG"}, 'sliding_window_pattern is "LLLG"'),
        ({"model_type": "exaone4", "sliding_window_pattern": None}, "sliding_window_pattern is null"),
    ],
)
def test_values_in_lists_and_for_rounds_that_a_class_refuses_are_told(entries: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 -- every class raises something else
        _class_of(entries["model_type"])(num_hidden_layers=4, **{**entries})
    assert said.replace('"', "'") in _said({**_SMALL, **entries}).replace('"', "'")


def test_a_word_for_a_round_beside_the_types_is_what_files_of_exaone_have() -> None:
    types = ["sliding_attention", "full_attention"] * 2
    entries = {"num_hidden_layers": 4, "sliding_window_pattern": "LG", "layer_types": types}
    assert _class_of("exaone4")(**entries).layer_types == types
    assert not _findings({"model_type": "exaone4", **_SMALL, "sliding_window": 8, **entries})


@pytest.mark.parametrize("listed", [[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0] * 5])
def test_types_of_layers_follow_the_list_of_those_that_rotate(listed: list[int]) -> None:
    made = _class_of("llama4_text")(num_hidden_layers=5, no_rope_layers=[*listed], attention_chunk_size=99)
    content = {"model_type": "llama4_text", **_SMALL, "num_hidden_layers": 5, "attention_chunk_size": 99}
    if not any(listed):
        with pytest.raises(ConfigError, match="none of the layers"):
            read_huggingface({**content, "no_rope_layers": listed})
        return
    windows = {
        index: kind.window
        for kind in read_huggingface({**content, "no_rope_layers": listed}).layers
        for index in kind.layers
    }
    assert [windows[index] for index in range(5)] == [
        99 if name == "chunked_attention" else None for name in made.layer_types
    ]


@pytest.mark.parametrize(
    ("value", "truncates"),
    [(0, False), (0.0, False), (None, False), (1, True), (True, True), ("false", True), ("", False)],
)
def test_truncate_is_what_a_class_takes_for_true(value: Any, truncates: bool) -> None:
    group = {**_YARN, "truncate": value}
    frequencies = build(_class_of("llama").from_dict({**_SMALL, "rope_parameters": group})).rotary_emb.inv_freq
    config = read_huggingface({"model_type": "llama", **_SMALL, "rope_parameters": group}).config
    assert isinstance(config.scaling, YaRN)
    assert config.scaling.truncate is truncates
    assert [float(each) for each in config.frequencies()] == pytest.approx(frequencies.tolist(), rel=1e-5)


def test_text_for_truncate_is_doubted() -> None:
    """_compute_yarn_parameters looks at it with ``if truncate``, for which any text is true."""
    group = {**_YARN, "truncate": "false"}
    parsed = read_huggingface({"model_type": "llama", **_SMALL, "rope_parameters": group})
    (found,) = [each for each in parsed.findings if "truncate" in each.message]
    assert found.severity == "error"
    assert "truncate in rope_parameters of config.json is 'false', neither true nor false" in found.message


def test_bases_of_a_list_that_only_says_which_layers_rotate_have_no_effect() -> None:
    """MuseSparkTextModel.forward gives every layer with a base the one rotation of rope_parameters."""
    file: dict[str, Any] = {
        "model_type": "muse_spark_text",
        "num_hidden_layers": 4,
        "layer_rope_theta": [1e4, 0, 5e5, 5e5],
    }
    file["rope_parameters"] = {"rope_type": "default", "rope_theta": 5e5}
    parsed = read_huggingface(file)
    assert parsed.config.base == 5e5
    said = [each.message for each in parsed.findings if "layer_rope_theta" in each.message]
    assert len(said) == 1
    assert said[0].startswith("The base 10000 in layer_rope_theta of config.json has no effect")
    assert said[0].endswith("only which layers rotate, all of them by the base 500000.")
    same = file | {
        "layer_rope_theta": [5e5, 0, 5e5, 5e5],
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e5},
    }
    assert not any("layer_rope_theta" in each.message for each in read_huggingface(same).findings)


def test_an_entry_that_a_class_kept_for_itself_is_told_where_its_own_says_otherwise() -> None:
    """configuration_recurrent_gemma.py reads block_types, and not _block_types."""
    gemma = {"model_type": "recurrent_gemma", "num_hidden_layers": 8, "_block_types": ["recurrent", "attention"]}
    said = [each.message for each in read_huggingface(gemma).findings if "block_types" in each.message]
    assert len(said) == 1
    assert "does not read: it takes block_types" in said[0]
    same = gemma | {"block_types": ["recurrent", "attention"]}
    assert not any("block_types" in each.message for each in read_huggingface(same).findings)
