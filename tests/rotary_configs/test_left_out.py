"""What config.json leaves out, and what the classes of transformers 5.23 have then: asked by building them."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import CONFIG_MAPPING

from locant.errors import ConfigError
from locant.rotary_configs import read_huggingface

_SMALL = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 4096}


def _small(model_type: str, layers: int, **entries: Any) -> dict[str, Any]:
    return {**_SMALL, "model_type": model_type, "num_hidden_layers": layers, **entries}


_TURNING = [
    pytest.param(_small("gemma4_text", 7, head_dim=64), "sssssff", id="the last layer is full"),
    pytest.param(
        _small("gemma4_text", 3, head_dim=64, layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
        "fsf",
        id="the last layer is full, whatever is stated",
    ),
    pytest.param(_small("flint", 7, head_dim=64, sliding_window=513), "--sss--", id="a first and a last layer"),
    pytest.param(_small("muse_spark_text", 7, head_dim=64), "ss-sss-", id="rounds that end with the last layer"),
    pytest.param(
        _small("cohere2_moe", 6, head_dim=64, first_k_dense_replace=1, sliding_window_pattern=4, sliding_window=512),
        "fsss-s",
        id="a dense layer of its own round, which rotates",
    ),
    pytest.param(
        _small("bailing_hybrid", 8, qk_rope_head_dim=64, head_dim=64, layer_group_size=4),
        "   f   f",
        id="a length of a round under a name of its own",
    ),
    pytest.param(_small("llama4_text", 4, head_dim=64, no_rope_layer_interval=2), "c-c-", id="rounds of two"),
]
_LETTERS = {"sliding_attention": "s", "full_attention": "f", "chunked_attention": "c"}


@pytest.mark.parametrize(("content", "expected"), _TURNING)
def test_layers_are_of_the_types_that_the_class_gives_them(content: dict[str, Any], expected: str) -> None:
    """A letter for a layer that rotates, a dash for one without positions, a space for one without attention."""
    found = [""] * content["num_hidden_layers"]
    for kind in read_huggingface(content).layers:
        letter = _LETTERS[kind.name] if kind.config else "-" if kind.attends else " "
        for index in kind.layers:
            found[index] = letter
    assert "".join(found) == expected


_READ = [
    pytest.param(
        _small("bamba", 6, attn_layer_indices=[2, 5], partial_rotary_factor=1.0), (64, 32, 10000.0), id="a fixed share"
    ),
    pytest.param(
        {"model_type": "gptj", "n_embd": 512, "n_head": 8, "n_layer": 2, "rotary_dim": 32, "rope_theta": 5e5},
        (64, 32, 10000.0),
        id="a fixed base",
    ),
    pytest.param(_small("minimax", 4, head_dim=64, rotary_dim=32, rope_theta=1e7), (64, 64, 1e7), id="no rotary_dim"),
    pytest.param(
        {"model_type": "clvp_encoder", "hidden_size": 768, "num_attention_heads": 12, "projection_dim": 768},
        (64, 32, 10000.0),
        id="a rotated part that another entry gives",
    ),
    pytest.param(_small("seed_oss", 4, head_dim=None, rope_theta=1e7), (64, 64, 1e7), id="a size that is null"),
    pytest.param(_small("minimax_m2", 4, head_dim=64, rotary_dim=32, rope_theta=1e7), (64, 32, 1e7), id="rotary_dim"),
    pytest.param(
        {"model_type": "falcon", "n_embed": 512, "num_attention_heads": 8, "num_hidden_layers": 2},
        (64, 64, 10000.0),
        id="another name of the width",
    ),
    pytest.param(
        _small("glm4_moe_lite", 4, head_dim=32, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
        (32, 32, 1e6),
        id="another name of the rotated part",
    ),
    pytest.param(
        {"model_type": "voxtral", "text_config": {"model_type": "llama", "num_hidden_layers": 4}},
        (128, 128, 1e8),
        id="what a whole gives its text part",
    ),
    pytest.param(
        {"model_type": "voxtral", "text_config": {"model_type": "llama", "rope_theta": 5e5, "head_dim": 64}},
        (64, 64, 5e5),
        id="what its text part states itself",
    ),
]


@pytest.mark.parametrize(("content", "expected"), _READ)
def test_sizes_and_bases_are_those_of_the_class(content: dict[str, Any], expected: tuple[int, int, float]) -> None:
    config = read_huggingface(content).config
    assert (config.head_dim, config.rotary_dim, config.base) == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_READ[0].values[0], "partial_rotary_factor is 1 in config.json, which the class of 'bamba'"),
        (_READ[1].values[0], "rope_theta is 500000 in config.json, which the class of 'gptj'"),
        (_READ[2].values[0], "rotary_dim is 32 in config.json, which the class of 'minimax'"),
        (_small("modernbert-decoder", 4, rope_theta=20000.0), "rope_theta is 20000 in config.json"),
    ],
)
def test_an_entry_that_the_class_passes_over_is_a_warning(content: dict[str, Any], words: str) -> None:
    findings = read_huggingface(content).findings
    assert any(each.severity == "warning" and each.message.startswith(words) for each in findings)
    assert not any("The file has no rope_theta" in each.message for each in findings if "rope_theta" in content)


def test_what_a_whole_gives_its_text_part_is_a_note() -> None:
    content = {"model_type": "voxtral", "text_config": {"model_type": "llama", "num_hidden_layers": 4}}
    (note,) = [each.message for each in read_huggingface(content).findings if each.severity == "note"]
    assert note.startswith("The text part leaves out rope_theta (1e+08), head_dim (128), hidden_size (3072), ")


def test_a_group_whose_base_is_null_has_no_rotary_positions() -> None:
    """modeling_olmo_hybrid.py asks for a base that is not null; an absent one is that of the class."""
    content = _small("olmo_hybrid", 4)
    assert read_huggingface(content).config.base == 10000
    with pytest.raises(ConfigError, match=r"rope_theta is null .* no rotary positions"):
        read_huggingface({**content, "rope_parameters": {"rope_type": "default", "rope_theta": None}})


def test_a_group_with_a_length_that_the_class_takes_from_beside_it() -> None:
    """modeling_rope_utils.py: the entry of the configuration has priority, and Phi-3 always has one."""
    factors = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 8192, **factors}
    parsed = read_huggingface(_small("phi3", 2, max_position_embeddings=131072, rope_parameters=rope))
    assert parsed.config.scaling.original_length == 4096  # type: ignore[attr-defined]
    said = "original_max_position_embeddings is 8192 in rope_parameters"
    assert any(said in each.message for each in parsed.findings)
    assert not any("nothing known here reads it" in each.message for each in parsed.findings)


def test_the_text_part_under_a_name_that_its_class_takes_as_well() -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 3}
    parsed = read_huggingface({"model_type": "unlimited_ocr", "language_config": {**sizes, "rope_theta": 20000.0}})
    assert (parsed.config.head_dim, parsed.config.base) == (128, 20000)
    others = {"model_type": "paligemma", "vision_config": {**sizes, "model_type": "siglip_vision_model"}}
    assert read_huggingface(others).config.head_dim == 256


def test_the_whole_head_beside_its_rotated_part() -> None:
    sizes = {"head_dim": 128, "qk_rope_head_dim": 64, "compress_ratios": [0, 4], "compress_rope_theta": 160000}
    parsed = read_huggingface(_small("deepseek_v4", 2, **sizes))
    assert {key: each.rotary_dim for key, each in parsed.configs.items()} == {"main": 64, "compress": 64}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            _small("cohere2", 2, layer_types=["Sliding_Attention", "full_attention"]),
            "'Sliding_Attention' in layer_types of config.json is no layer type",
        ),
        (_small("lfm2", 4, full_attn_idxs=[1, 9]), "full_attn_idxs of config.json has 9, but there are 4 layers"),
        (
            _small("recurrent_gemma", 4, block_types=["recurent", "attention"]),
            "'recurent' in block_types of config.json is not 'recurrent'",
        ),
        (
            _small("qwen2_vl_text", 2, rope_scaling={"type": "mrope", "mrope_section": [8, 8, 8, 8]}),
            "mrope_section has 4 axes",
        ),
    ],
)
def test_layers_and_axes_that_no_class_has_are_warnings(content: dict[str, Any], words: str) -> None:
    assert any(each.severity == "warning" and words in each.message for each in read_huggingface(content).findings)


def test_what_is_right_is_not_doubted() -> None:
    """A base in the group of the text part, and entries that the class expects."""
    rope = {"rope_type": "default", "rope_theta": 2e6, "mrope_section": [8, 12, 12]}
    content = {"model_type": "qwen2_5_vl", "rope_theta": 2e6}
    found = read_huggingface(content | {"text_config": _small("qwen2_5_vl_text", 2, rope_parameters=rope)})
    assert not [each for each in found.findings if each.severity != "note"]
    assert found.config.base == 2e6
    rope = {"rope_type": "default", "interleaved": True, "mrope_section": [12, 10, 10]}
    found = read_huggingface(_small("qwen3_omni_moe_text", 2, head_dim=64, rope_scaling=rope))
    assert not [each for each in found.findings if each.severity != "note"]


@pytest.mark.parametrize(
    ("model_type", "base", "head_dim", "layers", "window"),
    [
        ("lighton_ocr", 1e6, 128, 28, None),
        ("voxtral_realtime", 1e6, 128, 26, 8192),
        ("pp_chart2table", 1e6, 64, 24, None),
        ("mistral3", 1e9, 128, 40, None),
    ],
)
def test_a_whole_without_its_text_part_has_the_one_of_its_class(
    model_type: str, base: float, head_dim: int, layers: int, window: int | None
) -> None:
    """AutoConfig of transformers makes such a text part, with other values than that part's class alone."""
    parsed = read_huggingface({"model_type": model_type})
    assert (parsed.config.base, parsed.config.head_dim) == (base, head_dim)
    assert [(len(each.layers), each.window) for each in parsed.layers] == [(layers, window)]
    said = [each for each in parsed.findings if each.severity == "warning"]
    assert ["has no 'text_config'" in each.message for each in said] == [True]


def test_a_text_part_under_a_name_that_its_class_does_not_know() -> None:
    """VibeVoice's published files have decoder_config, which the class of transformers passes over."""
    decoder = _small("qwen2", 28, rope_theta=1e6)
    parsed = read_huggingface({"model_type": "vibevoice", "decoder_config": decoder})
    assert (parsed.config.base, parsed.config.head_dim, len(parsed.layers[0].layers)) == (1e6, 64, 28)
    said = [each for each in parsed.findings if each.severity == "warning"]
    assert ["passes over 'decoder_config'" in each.message for each in said] == [True]
    usual = read_huggingface({"model_type": "vibevoice", "text_config": decoder})
    assert usual.config == parsed.config
    assert not [each for each in usual.findings if each.severity == "warning"]


def test_a_last_layer_that_the_class_makes_full_is_told() -> None:
    """configuration_embedding_gemma2.py, and that of Gemma 4: ``self.layer_types[-1] = "full_attention"``."""
    for name in ("embedding_gemma2_text", "gemma4_text"):
        for last in ("sliding_attention", "full_attention"):
            parsed = read_huggingface(_small(name, 2, head_dim=64, layer_types=["sliding_attention", last]))
            said = [each.message for each in parsed.findings if each.severity == "warning"]
            told = any("has 'sliding_attention' for the last layer, 1" in each for each in said)
            assert told is (last != "full_attention")


def test_blocks_of_which_a_class_makes_half_as_many_layers_are_told() -> None:
    """DoryConfig halves num_hidden_layers where layer_types has MLP blocks as well."""
    types = ["sliding_attention", "mlp", "full_attention", "mlp"]
    for stated, layers in ((types, 2), (types[::2] * 2, 4)):
        parsed = read_huggingface(_small("dory", 4, head_dim=64, sliding_window=64, layer_types=stated))
        assert sum(len(each.layers) for each in parsed.layers) == layers
        told = "num_hidden_layers 4 counts the blocks of layer_types, attention and MLP by turns: the class of 'dory'"
        assert any(each.message.startswith(told) for each in parsed.findings) is (layers == 2)


def test_layers_of_stacks_are_not_the_passes_through_them() -> None:
    """configuration_hrm_text.py counts a slot of the cache for every pass, and keeps the layers of a stack beside."""
    config = CONFIG_MAPPING["hrm_text"](num_hidden_layers=16).to_dict()
    assert (config["num_hidden_layers"], config["num_layers_per_stack"]) == (128, 16)
    parsed = read_huggingface(config)
    assert sum(len(each.layers) for each in parsed.layers) == 16
    assert any(each.message.startswith("num_hidden_layers is 128 in config.json, which") for each in parsed.findings)
