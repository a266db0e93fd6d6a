"""Entries of code of people's own, under names that no list has."""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.spellings import in_names_of_all, sizes_of_layers, words_of

_SIZES = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
_OWN = {"model_type": "somebody's", **_SIZES, "rope_theta": 1e6}
_SLIDING = {"sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * 2}


def _said(content: dict[str, Any]) -> str:
    return " ".join(each.message for each in read_huggingface(content).findings)


def test_words_of_a_name() -> None:
    assert words_of("localRopeTheta") == {"local", "rope", "theta"}
    assert words_of("max-position_embeddings") == {"max", "position", "embeddings"}


@pytest.mark.parametrize(
    "name",
    [
        *("rope_local_base", "rope_theta_local", "sliding_rope_base", "swa_rope_theta", "rope_theta_swa"),
        *("sliding_window_rope_theta", "local_rope_base_freq", "localRopeTheta", "rope_theta_sliding_attention"),
    ],
)
def test_the_base_of_sliding_layers(name: str) -> None:
    configs = read_huggingface(_OWN | _SLIDING | {name: 1e4}).configs
    assert {layer: config.base for layer, config in configs.items()} == {
        "full_attention": 1e6,
        "sliding_attention": 1e4,
    }


@pytest.mark.parametrize("name", ["rope_base", "ropeTheta", "rotary_emb_theta", "global_rope_theta", "rope_freq_base"])
def test_the_base(name: str) -> None:
    content = {"model_type": "somebody's", **_SIZES, name: 2e6}
    assert read_huggingface(content).config.base == 2e6


def test_names_of_indexers_and_of_layers_without_attention_are_no_bases() -> None:
    given = in_names_of_all({"index_rope_theta": 1e4, "linear_rope_base": 1e5, "theta": 0.1}, sizes=True)
    assert not given.names


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        *(("d_model", "nhead"), ("dim", "heads"), ("embed_dim", "num_heads"), ("emb_size", "heads_num")),
        *(("embedding_dim", "num_attn_heads"), ("dim_model", "n_q_heads"), ("n_embed", "n_head")),
        *(("hidden_dim", "n_heads"), ("width", "heads"), ("hiddenSize", "numHeads")),
    ],
)
def test_widths_and_heads(width: str, heads: str) -> None:
    assert read_huggingface({width: 512, heads: 8, "n_kv_heads": 2, "rope_theta": 1e4}).config.head_dim == 64
    assert sizes_of_layers({width: 512, heads: 8})


def test_a_width_of_the_model_goes_before_that_of_a_hidden_layer() -> None:
    content = {"embed_dim": 512, "hidden_dim": 2048, "n_heads": 8, "rope_base": 1e4}
    assert read_huggingface(content).config.head_dim == 64


@pytest.mark.parametrize("name", ["head_size", "dim_head", "attention_head_size", "d_head", "size_per_head"])
def test_sizes_of_heads(name: str) -> None:
    assert read_huggingface(_OWN | {name: 32}).config.head_dim == 32
    assert read_huggingface(_OWN | {"linear_head_size": 32, "v_head_dim": 16}).config.head_dim == 64


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rope_fraction", 0.5), ("partial_rope_factor", 0.5), ("rotary_ratio", 0.5), ("rope_pct", 0.5)),
        *(("rope_dim", 32), ("rotary_ndims", 32), ("rotary_embedding_dim", 32), ("rot_dim", 32)),
    ],
)
def test_parts_of_heads(name: str, value: float) -> None:
    config = read_huggingface(_OWN | {name: value}).config
    assert (config.rotary_dim, config.head_dim) == (32, 64)


def test_rotated_parts_with_projections_of_their_own() -> None:
    latent = {"kv_lora_rank": 512, "qk_nope_dim": 128, "rope_head_dim": 64}
    assert read_huggingface(_OWN | latent).config.head_dim == 64


@pytest.mark.parametrize(
    ("entry", "layout"),
    [
        *(({"rotary_interleaved": True}, "interleaved"), ({"interleaved_rope": False}, "half")),
        *(({"is_neox_style": False}, "interleaved"), ({"rope_style": "neox"}, "half"), ({"rope_style": "gptj"}, None)),
    ],
)
def test_layouts(entry: dict[str, Any], layout: str | None) -> None:
    assert read_huggingface(_OWN | entry).config.layout == (layout or "interleaved")
    assert f"by {next(iter(entry))} of config.json; the model type 'somebody's' is not known" in _said(_OWN | entry)


@pytest.mark.parametrize(("value", "said"), [(False, "false"), ("", "''"), (0, "0"), ([], "[]")])
def test_no_scaling_in_the_words_of_the_file(value: object, said: str) -> None:
    """transformers 5 takes them for none."""
    content = {**_OWN, "model_type": "llama", "rope_scaling": value}
    assert read_huggingface(content).config.scaling.name == "none"
    assert f"rope_scaling is {said} in config.json, which is taken for no scaling" in _said(content)


def test_no_scaling_in_words_that_transformers_refuses() -> None:
    """StrictDataclassFieldValidationError; ZayaConfig takes null in rope_scaling for its groups, and fails."""
    parsed = read_huggingface({**_OWN, "model_type": "zaya", "rope_scaling": False})
    assert {config.scaling.name for config in parsed.configs.values()} == {"none"}
    (found,) = [each for each in parsed.findings if "rope_scaling" in each.message]
    assert found.message.endswith("is false in config.json, which is taken for no scaling; transformers refuses it.")
    assert found.remedy == "Leave rope_scaling out."


def test_no_scaling_in_words_that_transformers_fails_for() -> None:
    for value in ("none", {"type": "none"}, 1.0):
        assert read_huggingface(_OWN | {"rope_scaling": value}).config.scaling.name == "none"
        with pytest.raises(ConfigError):
            read_huggingface({**_OWN, "model_type": "llama", "rope_scaling": value})
    with pytest.raises(ConfigError, match=r"must be a group of named values; got 4\.0"):
        read_huggingface(_OWN | {"rope_scaling": 4.0})


def test_a_scaling_in_pieces() -> None:
    config = read_huggingface(_OWN | {"rope_scaling_type": "linear", "rope_scaling_factor": 4.0}).config
    assert (config.scaling.name, config.scaling.factor) == ("linear", 4.0)  # type: ignore[attr-defined]
    neutral = _OWN | {"rope_scaling_type": "none", "rope_scaling_factor": 1.0}
    assert read_huggingface(neutral).config.scaling.name == "none"
    with pytest.raises(ConfigError, match="rope_scaling_factor"):
        read_huggingface(_OWN | {"rope_scaling_factor": 4.0})


def test_null_groups_are_no_layer_types() -> None:
    content = {**_OWN, "model_type": "llama", "rope_scaling": {"type": None, "factor": None}}
    assert "how such layers rotate" not in _said(content)
    assert "type is null in rope_scaling of config.json: the class of 'llama'" in _said(content)


@pytest.mark.parametrize(
    "entry", [{"pos_emb": "rope"}, {"pe_type": "RoPE"}, {"use_rope": True}, {"rope_enabled": True}]
)
def test_that_a_model_rotates_by_any_name(entry: dict[str, Any]) -> None:
    assert "Nor does it say that the model rotates" not in _said({"d_model": 512, "n_heads": 8, **entry})


@pytest.mark.parametrize("entry", [{"no_rope": True}, {"use_nope": True}, {"rope_enabled": False}])
def test_that_a_model_does_not_rotate_by_any_name(entry: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="said to have no rotary positions"):
        read_huggingface(_OWN | entry)


def test_files_of_diffusers_are_refused() -> None:
    content = {"_class_name": "LTXVideoTransformerModel", "_diffusers_version": "0.35.0", "rope_theta": 1e4, **_SIZES}
    with pytest.raises(ConfigError, match="diffusers' class 'LTXVideoTransformerModel'"):
        read_huggingface(content)


def test_messages_have_the_names_of_the_file() -> None:
    with pytest.raises(ConfigError, match=r"rope_base in config\.json is 0\."):
        read_huggingface({"model_type": "somebody's", **_SIZES, "rope_base": 0})
    unusual = {"model_type": "somebody's", "embed_dim": 512, "nhead": 8, "rope_base": 5.0}
    assert "rope_base in config.json is 5" in _said(unusual)


def test_every_so_many_layers_without_positions() -> None:
    parsed = read_huggingface(_OWN | {"nope_layer_interval": 4})
    assert [index for kind in parsed.layers if kind.config is None for index in kind.layers] == [3]


def test_llama2_c_has_the_layout_of_llamas_own_code() -> None:
    """llama2.c (model.py): neighbours; its files have multiple_of and no norm_eps."""
    content = {"dim": 288, "n_layers": 6, "n_heads": 6, "multiple_of": 32, "max_seq_len": 256}
    assert read_huggingface(content).config.layout == "interleaved"


@pytest.mark.parametrize("value", [[], {}, [64], "64"])
def test_rotated_features_that_are_no_number(value: object) -> None:
    assert "'rope_dim' in config.json" in _said({**_OWN, "model_type": "llama", "rope_dim": value})
