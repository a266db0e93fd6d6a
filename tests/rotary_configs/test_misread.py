"""Published kinds of config.json that are easily misread; the facts are those of transformers or the models' code."""

from __future__ import annotations

import math
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import Linear, Llama3, NTKAware, Unscaled, YaRN
from locant.rotary_configs import read_huggingface, read_vllm

_WIDE = {"hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 65536}
_YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192}


def _still(config: dict[str, Any]) -> list[int]:
    parsed = read_huggingface(config)
    return sorted(index for kind in parsed.layers if kind.attends and kind.config is None for index in kind.layers)


@pytest.mark.parametrize("stated", [{}, {"layer_types": ["sliding_attention"] * 3 + ["full_attention"]}])
def test_olmo_3_scales_full_attention_alone(stated: dict[str, Any]) -> None:
    """configuration_olmo3.py: rope_scaling goes into the group of full attention."""
    olmo = {"model_type": "olmo3", **_WIDE, "num_hidden_layers": 4, "rope_theta": 500000, "rope_scaling": _YARN}
    configs = read_huggingface(olmo | stated).configs
    assert isinstance(configs["full_attention"].scaling, YaRN)
    assert configs["sliding_attention"].scaling == Unscaled()
    assert configs["sliding_attention"].attention_scale() == 1
    assert {config.base for config in configs.values()} == {500000}


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "jamba", **_WIDE, "attn_layer_period": 8, "attn_layer_offset": 4},
        {"model_type": "jamba", **_WIDE},
        {"model_type": "granitemoehybrid", **_WIDE, "position_embedding_type": "nope", "rope_theta": 10000},
        {"model_type": "granitemoehybrid", **_WIDE},
        {"model_type": "kimi_linear", **_WIDE, "mla_use_nope": True, "qk_rope_head_dim": 64, "rope_theta": 10000.0},
        {"model_type": "nemotron_h", **_WIDE, "hybrid_override_pattern": "M-M*"},
        {
            "model_type": "NemotronH_Nano_VL_V2",
            "text_config": {"model_type": "nemotron_h", **_WIDE},
            "vision_config": {"rope_parameters": {"rope_theta": 100.0}},
        },
        {"model_type": "zamba2", **_WIDE, "use_mem_rope": False, "rope_theta": 10000},
        {"model_type": "esm", **_WIDE, "position_embedding_type": "absolute"},
        {"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 40, "model_max_length": 4096},
        {"model_type": "smollm3", **_WIDE, "num_hidden_layers": 2, "no_rope_layers": [0, 0]},
        {"model_type": "gpt2", "n_embd": 768, "n_head": 12},
        {"model_type": "bert", **_WIDE},
    ],
)
def test_models_without_rotary_positions_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="no rotary positions"):
        read_huggingface(config)


@pytest.mark.parametrize("stated", [{"kv_channels": 128}, {}])
def test_jetmoes_heads_have_the_size_kv_channels(stated: dict[str, Any]) -> None:
    """configuration_jetmoe.py: kv_channels, 128 by default, is the head's size."""
    jetmoe = {"model_type": "jetmoe", "hidden_size": 2048, "num_attention_heads": 32, **stated}
    assert read_huggingface(jetmoe).config.head_dim == 128


@pytest.mark.parametrize("model_type", ["gemma4_text", "gemma4_unified_text", "diffusion_gemma_text"])
def test_full_attention_of_gemma_4_has_wider_heads(model_type: str) -> None:
    gemma = {"model_type": model_type, "hidden_size": 2304, "num_attention_heads": 8, "head_dim": 256}
    assert read_huggingface(gemma).configs["full_attention"].head_dim == 512
    stated = read_huggingface(gemma | {"global_head_dim": 128}).configs
    assert (stated["full_attention"].head_dim, stated["sliding_attention"].head_dim) == (128, 256)


@pytest.mark.parametrize("outer", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("inner", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("beside", [{}, {"rope_type": "default"}])
def test_groups_within_groups_are_passed_over(outer: str, inner: str, beside: dict[str, Any]) -> None:
    """nested_rope_parameter_keys of modeling_rope_utils.py: groups for the types of layers alone are looked at."""
    config = {"model_type": "llama", **_WIDE, outer: {**beside, inner: {"rope_type": "linear", "factor": 2}}}
    parsed = read_huggingface(config)
    assert parsed.config.scaling == Unscaled()
    errors = [each.message for each in parsed.findings if each.severity == "error"]
    assert len(errors) == 1
    assert errors[0].startswith(f"'{inner}' in {outer} of config.json is a group of its own and no layer type")
    with pytest.raises(ConfigError, match=f"'{inner}' in {outer} of config.json .* transformers passes over"):
        read_huggingface(config | {"model_type": "novel"})


@pytest.mark.parametrize("head_dim", [None, 64, 128])
def test_a_separate_part_is_not_cut_again(head_dim: int | None) -> None:
    """configuration_mistral4.py: a head of 64 + 64 features, partial_rotary_factor 0.5."""
    rope = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5, "max_position_embeddings": 1048576}
    mistral = {"model_type": "mistral4", **_WIDE, "qk_rope_head_dim": 64, "qk_nope_head_dim": 64, "head_dim": head_dim}
    config = read_huggingface(mistral | {"rope_parameters": rope}).config
    assert (config.head_dim, config.rotary_dim, config.layout) == (64, 64, "interleaved")


@pytest.mark.parametrize("model_type", ["glm4v", "glm4v_text"])
def test_glm_4_1v_pairs_neighbours_in_a_flat_file_too(model_type: str) -> None:
    """modeling_glm4v.py: x[..., 0::2] and x[..., 1::2]."""
    glm = {"model_type": model_type, **_WIDE, "partial_rotary_factor": 0.5, "rope_theta": 10000.0}
    config = read_huggingface(glm).config
    assert (config.layout, config.rotary_dim) == ("interleaved", 64)


def _llama4(**entries: Any) -> dict[str, Any]:
    return {"model_type": "llama4_text", **_WIDE, "head_dim": 128, "num_hidden_layers": 8, **entries}


@pytest.mark.parametrize(
    ("config", "still"),
    [
        (_llama4(), [3, 7]),
        (_llama4(no_rope_layers=[]), [3, 7]),
        (_llama4(no_rope_layers=[1, 1, 0, 1, 1, 1, 1, 0]), [2, 7]),
        (_llama4(no_rope_layers=[1] * 8), []),
        ({"model_type": "smollm3", **_WIDE, "num_hidden_layers": 8}, [3, 7]),
        ({"model_type": "smollm3", **_WIDE, "num_hidden_layers": 6, "no_rope_layer_interval": 3}, [2, 5]),
        ({"model_type": "smollm3", **_WIDE, "num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 1]}, []),
        ({"model_type": "cohere2", **_WIDE, "num_hidden_layers": 8}, [3, 7]),
        ({"model_type": "cohere2", **_WIDE, "num_hidden_layers": 6, "sliding_window_pattern": 3}, [2, 5]),
        ({"model_type": "exaone4", **_WIDE, "num_hidden_layers": 8, "sliding_window_pattern": "LLLG"}, [3, 7]),
        (
            {
                **{"model_type": "exaone4", **_WIDE, "num_hidden_layers": 2, "sliding_window": None},
                "layer_types": ["full_attention"] * 2,
            },
            [],
        ),
    ],
)
def test_layers_without_positions_are_told(config: dict[str, Any], still: list[int]) -> None:
    assert _still(config) == still
    notes = [finding.message for finding in read_huggingface(config).findings if "no positions" in finding.message]
    assert bool(notes) is bool(still)
    if still:
        assert notes[0].startswith(f"Layers {', '.join(map(str, still))} have no positions")


def test_each_layer_has_its_configuration() -> None:
    gemma = {"model_type": "gemma3_text", "hidden_size": 2560, "num_attention_heads": 8, "num_hidden_layers": 7}
    parsed = read_huggingface(gemma | {"sliding_window": 512})
    assert [parsed.of_layer(index).base for index in range(7)] == [1e4] * 5 + [1e6, 1e4]  # type: ignore[union-attr]
    assert parsed.layers_with("sliding_attention") == "layers 0, 1, 2, 3, 4, 6 (6 of 7), window 512 tokens"
    assert read_huggingface(_llama4()).layers_without() == ("Layers 3, 7 have no positions.",)
    smollm = {"model_type": "smollm3", "num_hidden_layers": 8, "use_sliding_window": True, "sliding_window": 512}
    said = ("Layers 3, 7 have no positions, and a window of 512 tokens.",)
    assert read_huggingface(smollm).layers_without() == said
    with pytest.raises(ConfigError, match="has no layer 9: it has 7"):
        parsed.of_layer(9)


# Kinds of files that were called an error, and what their code computes.
_READ: dict[str, tuple[dict[str, Any], RotaryConfig]] = {
    "Llama-4-Scout: low and high factor are the same": (
        _llama4(
            rope_theta=500000.0,
            max_position_embeddings=10485760,
            rope_scaling={
                **{"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0},
                "original_max_position_embeddings": 8192,
            },
        ),
        RotaryConfig(
            head_dim=128,
            base=500000.0,
            layout="interleaved",
            scaling=Llama3(factor=16.0, original_length=8192, low_frequency_factor=1.0, high_frequency_factor=1.0),
        ),
    ),
    "llava-1.5: the text part leaves widths to its class": (
        {"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}},
        RotaryConfig(head_dim=128, max_length=4096),
    ),
    "ChatGLM3-6B-32k (modeling_chatglm.py)": (
        {
            **{"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128},
            **{"original_rope": True, "rope_ratio": 50, "seq_length": 32768, "num_layers": 28},
        },
        RotaryConfig(head_dim=128, rotary_dim=64, base=500000.0, layout="interleaved", max_length=32768),
    ),
    "Hunyuan: alpha raises the base": (
        {
            **{"model_type": "hunyuan_v1_dense", **_WIDE, "head_dim": 128, "rope_theta": 10000.0},
            "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
        },
        RotaryConfig(head_dim=128, base=10000.0 * 1000 ** (128 / 126), max_length=65536),
    ),
    "Zamba2-7B: use_mem_rope": (
        {
            **{"model_type": "zamba2", "hidden_size": 3584, "num_attention_heads": 32, "use_mem_rope": True},
            **{"attention_head_dim": 224, "rope_theta": 10000, "num_hidden_layers": 81},
        },
        RotaryConfig(head_dim=224),
    ),
    "Bamba-9B: attn_rotary_emb features": (
        {
            **{"model_type": "bamba", **_WIDE, "attn_rotary_emb": 64, "rope_theta": 10000.0, "num_hidden_layers": 32},
            "attn_layer_indices": [9, 18, 27],
        },
        RotaryConfig(head_dim=128, rotary_dim=64, max_length=65536),
    ),
    "DBRX: the class of transformers 5 passes over a base in attn_config": (
        {
            **{"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768},
            "attn_config": {"rope_theta": 500000, "kv_n_heads": 8},
        },
        RotaryConfig(head_dim=128, max_length=32768),
    ),
    "OpenELM: rope_freq_constant": (
        {"model_type": "openelm", "head_dim": 64, "model_dim": 1280, "rope_freq_constant": 10000},
        RotaryConfig(head_dim=64),
    ),
    "nomic-bert: rotary_emb_fraction and base 1000": (
        {
            **{"model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "rotary_emb_base": 1000, "n_layer": 12},
            **{"rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None},
        },
        RotaryConfig(head_dim=64, base=1000),
    ),
    "RoFormer: rotary_value": (
        {"model_type": "roformer", "hidden_size": 768, "num_attention_heads": 12, "rotary_value": False},
        RotaryConfig(head_dim=64, layout="interleaved"),
    ),
    "ESM-2: position_embedding_type rotary": (
        {"model_type": "esm", "hidden_size": 320, "num_attention_heads": 20, "position_embedding_type": "rotary"},
        RotaryConfig(head_dim=16),
    ),
    "Baichuan2-7B has no rotary entries": (
        {"model_type": "baichuan", "hidden_size": 4096, "num_attention_heads": 32, "model_max_length": 4096},
        RotaryConfig(head_dim=128, max_length=4096),
    ),
    "StableLM Epoch: rope_pct": (
        {"model_type": "stablelm_epoch", "hidden_size": 2560, "num_attention_heads": 32, "rope_pct": 0.25},
        RotaryConfig(head_dim=80, rotary_dim=20),
    ),
    "Phi-3-small-8k: rope_embedding_base": (
        {"model_type": "phi3small", **_WIDE, "rope_embedding_base": 1000000, "rope_position_scale": 1.0},
        RotaryConfig(head_dim=128, base=1e6, max_length=65536),
    ),
    "Phi-3-small: rope_position_scale divides positions": (
        {"model_type": "phi3small", **_WIDE, "rope_embedding_base": 1000000, "rope_position_scale": 2.0},
        RotaryConfig(head_dim=128, base=1e6, scaling=Linear(factor=2.0), max_length=65536),
    ),
    "T5Gemma: encoder and decoder": (
        {"model_type": "t5gemma", "decoder": {"model_type": "t5_gemma_module", "head_dim": 256, "rope_theta": 10000.0}},
        RotaryConfig(head_dim=256),
    ),
}


@pytest.mark.parametrize("name", _READ)
def test_published_kinds_are_read(name: str) -> None:
    content, meant = _READ[name]
    config = read_huggingface(content).config
    assert (config.head_dim, config.rotary_dim, config.layout) == (meant.head_dim, meant.rotary_dim, meant.layout)
    assert config.max_length == meant.max_length or meant.max_length is None
    for ours, theirs in zip(config.frequencies(), meant.frequencies(), strict=True):
        assert float(ours) == pytest.approx(float(theirs), rel=1e-12)


def test_hunyuans_alpha_is_the_ntk_formula() -> None:
    """base * alpha^(d / (d - 2)), which is that of bloc97's scaling by alpha."""
    config = read_huggingface(_READ["Hunyuan: alpha raises the base"][0]).config
    scaled = RotaryConfig(head_dim=128, scaling=NTKAware(factor=1000.0, original_length=64))
    assert float(config.frequencies()[-1]) == pytest.approx(float(scaled.frequencies()[-1]), rel=1e-12)


@pytest.mark.parametrize("name", ["hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan"])
def test_a_lost_alpha_of_hunyuan_is_told(name: str) -> None:
    """The class of such a file does as plain 'dynamic' does: the base stays 10000 in texts of the declared length."""
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "head_dim": 128, "max_position_embeddings": 32768}
    content = {"model_type": name, **sizes, "rope_theta": 10000.0, "rope_scaling": {"type": "dynamic", "factor": 1.0}}
    for alpha, said in (({}, "without alpha"), ({"alpha": 0}, "and an alpha of 0")):
        parsed = read_huggingface({**content, "rope_scaling": {**content["rope_scaling"], **alpha}})
        assert (parsed.config.base, parsed.config.scaling.name) == (10000.0, "dynamic")
        (told,) = [each for each in parsed.findings if "alpha" in each.message]
        assert said in told.message
        assert "raises the base from 10000 to 11158839.93" in told.message  # published: 10000 * 1000^(128 / 126)
    other = read_huggingface({**content, "rope_scaling": {"type": "linear", "factor": 2.0, "alpha": 1000.0}})
    assert other.config.base == 10000.0  # modeling_hunyuan_v1_dense.py reads alpha beside 'dynamic' alone
    assert any("alpha 1000.0 in rope_scaling of config.json has no effect" in each.message for each in other.findings)
    without_factor = read_huggingface({**content, "rope_scaling": {"type": "dynamic", "alpha": 1000.0}})
    refused = any("lacks factor: transformers 5 refuses" in each.message for each in without_factor.findings)
    assert refused is (name != "hunyuan")


def test_qwen_2_5_omni_keeps_its_text_part_two_levels_down() -> None:
    text = {"model_type": "qwen2_5_omni_text", "hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1000000.0}
    rope = {"rope_scaling": {"type": "default", "mrope_section": [16, 24, 24]}}
    omni = {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": text | rope}}
    parsed = read_huggingface(omni)
    assert (parsed.config.head_dim, parsed.config.base) == (128, 1e6)
    assert parsed.multimodal["all"]["sections"] == (16, 24, 24)


def test_deepseek_v4_has_two_bases() -> None:
    """configuration_deepseek_v4.py: main for sliding layers, compress for those with a compressor."""
    rope = {
        "main": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.125},
        "compress": {"rope_type": "default", "rope_theta": 160000.0, "partial_rotary_factor": 0.125},
    }
    types = ["sliding_attention", "heavily_compressed_attention", "compressed_sparse_attention"]
    deepseek = {"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 3, "layer_types": types}
    parsed = read_huggingface(deepseek | {"rope_parameters": rope, "hidden_size": 4096, "num_attention_heads": 64})
    assert [parsed.of_layer(index).base for index in range(3)] == [1e4, 1.6e5, 1.6e5]  # type: ignore[union-attr]
    assert parsed.configs["main"].rotary_dim == 64


def test_deepseek_v4_takes_its_two_groups_together() -> None:
    """configuration_deepseek_v4.py makes both of its own entries where one of them is no group."""
    plain = {"rope_type": "default", "rope_theta": 5e4}
    for groups, said in (
        ({"main": None, "compress": plain}, "compress"),
        ({"main": {**plain, "partial_rotary_factor": 0.5}}, "main"),
    ):
        parsed = read_huggingface({"model_type": "deepseek_v4", "num_hidden_layers": 6, "rope_parameters": groups})
        assert {name: (each.base, each.rotary_dim) for name, each in parsed.configs.items()} == {
            "main": (1e4, 64),
            "compress": (1.6e5, 64),
        }
        warned = [each.message for each in parsed.findings if each.severity == "warning"]
        assert len(warned) == 1
        assert f"rope_parameters of config.json has a group for '{said}' alone" in warned[0]
    yarn = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 65536}
    for beside, rotated in (({}, 64), ({"partial_rotary_factor": 0.25}, 128)):
        parsed = read_huggingface({"model_type": "deepseek_v4", "rope_scaling": yarn, **beside})
        assert {each.rotary_dim for each in parsed.configs.values()} == {rotated}


@pytest.mark.parametrize(("kind", "scaling"), [("dynamic", "dynamic"), ("origin", "none")])
def test_internlms_group_of_rotary_entries(kind: str, scaling: str) -> None:
    content = {"model_type": "internlm", **_WIDE, "rotary": {"base": 20000, "type": kind}}
    config = read_huggingface(content).config
    assert (config.base, config.scaling.name) == (20000, scaling)


def test_truncate_within_a_layer_type_is_passed_over() -> None:
    """modeling_rope_utils.py of 5.23 looks for truncate next to the layer types."""
    full = {**_YARN, "rope_theta": 1e6, "truncate": False}
    rope = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    parsed = read_huggingface({"model_type": "gemma3_text", **_WIDE, "rope_parameters": rope})
    assert parsed.configs["full_attention"].scaling == YaRN(factor=8.0, original_length=8192)
    assert any("truncate false" in finding.message for finding in parsed.findings)


@pytest.mark.parametrize(
    ("config", "windows"),
    [
        ({"model_type": "modernbert", "local_attention": 128, "num_hidden_layers": 3}, [None, 65, 65]),
        ({"model_type": "neomme", "sliding_window": 64, "layer_types": ["sliding_attention"]}, [65]),
        ({"model_type": "openai_privacy_filter", "sliding_window": 64, "num_hidden_layers": 1}, [65]),
        ({"model_type": "gemma3_text", "sliding_window": 512, "layer_types": ["sliding_attention"]}, [512]),
        (
            {
                "model_type": "gemma3_text",
                "sliding_window": 512,
                "layer_types": ["sliding_attention"],
                "use_bidirectional_attention": True,
            },
            [257],
        ),
        ({"model_type": "minimax", "sliding_window": 64, "layer_types": ["full_attention"]}, [64]),
        ({"model_type": "minimax", "layer_types": ["full_attention"]}, [None]),
        ({"model_type": "t5gemma2_text", "sliding_window": 9, "layer_types": ["sliding_attention"]}, [5]),
        ({"model_type": "moshi", "sliding_window": 3000, "num_hidden_layers": 1}, [None]),
        ({"model_type": "qwen3_omni_moe_text", "sliding_window": 64, "num_hidden_layers": 1}, [None]),
    ],
)
def test_windows_are_those_of_the_masks(config: dict[str, Any], windows: list[int | None]) -> None:
    """masking_utils.py: an encoder's window is the distance to either side; Gemma's encoders halve what they state."""
    layers = read_huggingface({**_WIDE, "num_hidden_layers": len(windows), **config}).layers
    found = {index: kind.window for kind in layers for index in kind.layers}
    assert [found[index] for index in range(len(windows))] == windows


@pytest.mark.parametrize(
    "name", ["gemma3_text", "gemma3n_text", "gemma4_text", "diffusion_gemma_text", "mistral", "gemma2"]
)
def test_windows_for_both_ways_are_those_of_the_class(name: str) -> None:
    """Of the classes that speak of use_bidirectional_attention some halve the window, and others pass over it."""
    both = "all" if name in ("gemma4_text", "diffusion_gemma_text") else True
    entries = {"sliding_window": 512, "use_bidirectional_attention": both, "num_hidden_layers": 2}
    entries |= {"layer_types": ["sliding_attention", "full_attention"]}
    config = pytest.importorskip("transformers").CONFIG_MAPPING[name].from_dict(dict(entries))
    parsed = read_huggingface({"model_type": name, **_WIDE, **entries})
    first = parsed.layers[0]
    assert (first.layers[0], first.window) == (0, config.sliding_window)
    said = " ".join(each.message for each in parsed.findings)
    assert ("sliding_window is 512 in config.json, of which the class" in said) is (config.sliding_window == 257)


def test_a_scaling_that_the_file_leaves_out_is_that_of_the_class() -> None:
    """configuration_higgs_audio_v2.py has LLaMA 3's scaling, with numbers of its own."""
    config = read_huggingface({"model_type": "higgs_audio_v2", "num_hidden_layers": 1}).config
    assert (config.base, config.head_dim) == (500_000, 128)
    assert isinstance(config.scaling, Llama3)
    assert (config.scaling.factor, config.scaling.original_length) == (32, 1024)


def test_molmo_2_scales_the_layers_that_it_lists() -> None:
    """modeling_molmo2.py: the rest have the same base without the scaling."""
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6}
    molmo = {"model_type": "molmo2_text", **_WIDE, "num_hidden_layers": 4, "rope_parameters": rope}
    parsed = read_huggingface({**molmo, "rope_scaling_layers": [1, 3]})
    assert {kind.config: kind.layers for kind in parsed.layers} == {"unscaled": (0, 2), "scaled": (1, 3)}
    assert isinstance(parsed.configs["scaled"].scaling, Linear)
    assert parsed.configs["unscaled"].scaling == Unscaled()
    assert {each.base for each in parsed.configs.values()} == {1e6}
    assert isinstance(read_huggingface({**molmo, "rope_scaling_layers": [0, 1, 2, 3]}).config.scaling, Linear)
    with pytest.raises(ConfigError, match="list of layers"):
        read_huggingface({**molmo, "rope_scaling_layers": "all"})


def test_axes_are_shared_out_as_the_class_has_it() -> None:
    """recomposition_frequencies of modeling_qwen3_vl.py, modeling_ernie4_5_vl_moe.py and modeling_hunyuan_vl.py."""
    rope = {"rope_type": "default", "rope_theta": 1e6}
    head = {"num_attention_heads": 32, "hidden_size": 512, "head_dim": 16, "num_hidden_layers": 1}
    qwen = {"model_type": "qwen3_vl_text", **head, "rope_parameters": {**rope, "mrope_section": [3, 3, 2]}}
    assert read_huggingface(qwen).multimodal["all"]["axis_of_pair"] == (0, 1, 2, 0, 1, 2, 0, 1)
    ernie = {"model_type": "ernie4_5_vl_moe_text", **head, "rope_parameters": {**rope, "mrope_section": [3, 3, 2]}}
    assert read_huggingface(ernie).multimodal["all"]["axis_of_pair"] == (1, 2, 1, 2, 1, 2, 0, 0)
    hunyuan = {"model_type": "hunyuan_vl_text", **head, "rope_parameters": {**rope, "mrope_section": [4, 2, 2]}}
    parsed = read_huggingface(hunyuan)
    assert parsed.multimodal["all"]["axis_of_pair"] is None
    assert any("which is no rotation" in finding.message for finding in parsed.findings)
    usual = read_huggingface({"model_type": "qwen2_vl_text", "hidden_size": 4096, "num_attention_heads": 32})
    assert usual.multimodal["all"]["sections"] == (16, 24, 24)


def test_a_head_size_that_the_class_overwrites_is_passed_over() -> None:
    """configuration_hy_v4.py: head_dim is set to qk_rope_head_dim."""
    parsed = read_huggingface({"model_type": "hy_v4", **_WIDE, "head_dim": 32, "qk_rope_head_dim": 64})
    assert (parsed.config.head_dim, parsed.config.rotary_dim) == (64, 64)
    assert any("passes over the first" in finding.message for finding in parsed.findings)


def test_a_model_of_several_stacks_names_them() -> None:
    """configuration_blt.py: four stacks, each with heads and a rope_theta of its own."""
    stack = {"hidden_size": 1024, "num_attention_heads": 16, "rope_theta": 500000.0}
    parts = {"patcher_config": stack, "encoder_config": stack, "global_config": stack | {"hidden_size": 2048}}
    with pytest.raises(ConfigError, match="heads and positions of their own: patcher_config, encoder_config, global_c"):
        read_huggingface({"model_type": "blt_of_another", "cross_attn_k": 2, "patch_size": 4, **parts})
    parsed = read_huggingface({"model_type": "blt", "cross_attn_k": 2, "patch_size": 4, **parts})
    (said,) = [each.message for each in parsed.findings if "stacks of layers" in each.message]
    assert all(f"'{name}' (" in said for name in parts)
    assert any("has no 'decoder_config'" in each.message for each in parsed.findings)
    assert read_huggingface({"model_type": "blt_global_transformer", **parts["global_config"]}).config.head_dim == 128


@pytest.mark.parametrize(("stated", "windows"), [({}, {None}), ({"sliding_window": 6}, {None, 6})])
def test_smollm_3s_layers_without_positions_have_its_window(stated: dict[str, Any], windows: set[int | None]) -> None:
    """configuration_smollm3.py: sliding_attention where no_rope_layers has 0, if use_sliding_window is true."""
    model = {"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 4}
    parsed = read_huggingface({**model, "no_rope_layers": [1, 0, 1, 0], "use_sliding_window": True, **stated})
    assert {kind.window for kind in parsed.layers if kind.config is None} == {stated.get("sliding_window")}
    assert {kind.window for kind in parsed.layers} == windows
    assert [parsed.of_layer(index) is None for index in range(4)] == [False, True, False, True]


def test_heads_of_gemma_4_are_alike_where_no_layer_has_others() -> None:
    """configuration_gemma4.py: heads of 512 features for full attention only where the file has no per_layer_config."""
    model = {"model_type": "gemma4_text", "head_dim": 16, "hidden_size": 64, "num_attention_heads": 4}
    model |= {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]}
    for stated, size in (
        ({"per_layer_config": {}}, 16),
        ({"per_layer_config": {"1": {"head_dim": 32}}}, 32),
        ({"per_layer_config": {"01": {"head_dim": 32}}}, 32),
        ({}, 512),
    ):
        assert read_huggingface(model | stated).configs["full_attention"].head_dim == size


def test_published_deepseek_v4_scales_compressed_layers_alone() -> None:
    """configuration_deepseek_v4.py: rope_scaling and compress_rope_theta are theirs, and cosines are not scaled."""
    yarn = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536, "beta_fast": 32, "beta_slow": 1}
    parsed = read_huggingface(
        {
            **{"model_type": "deepseek_v4", "hidden_size": 4096, "num_attention_heads": 64, "head_dim": 512},
            **{"qk_rope_head_dim": 64, "max_position_embeddings": 1048576, "rope_scaling": yarn, "rope_theta": 10000},
            **{"compress_rope_theta": 160000, "compress_ratios": [0, 4, 128, 0], "num_hidden_layers": 3},
        }
    )
    main, compressed = parsed.configs["main"], parsed.configs["compress"]
    assert (main.base, main.scaling.name, compressed.base, compressed.scaling.name) == (1e4, "none", 1.6e5, "yarn")
    assert compressed.attention_scale() == 1.0
    assert [kind.config for index in range(3) for kind in parsed.layers if index in kind.layers] == [
        *("main", "compress", "compress")
    ]
    assert not [each.message for each in parsed.findings if each.severity == "warning"]
    with pytest.raises(ConfigError, match=r"compress_ratios in config.json must hold 0, 4 and 128; got 3"):
        read_huggingface({"model_type": "deepseek_v4", "head_dim": 512, "qk_rope_head_dim": 64, "compress_ratios": [3]})


def test_a_switch_that_is_on_says_nothing_more() -> None:
    on = read_huggingface({"model_type": "llama", **_WIDE, "use_rotary_pos_emb": True})
    assert on == read_huggingface({"model_type": "llama", **_WIDE})
    with pytest.raises(ConfigError, match=r"use_rotary_pos_emb false: the model is said to have no rotary"):
        read_huggingface({"model_type": "novel", **_WIDE, "use_rotary_pos_emb": False})
    said = read_huggingface({"model_type": "llama", **_WIDE, "rope_ratio": 2.0}).findings
    assert any("'rope_ratio' in config.json is 2.0, which the class of 'llama'" in each.message for each in said)
    with pytest.raises(ConfigError, match=r"'rope_ratio' in config.json is not known"):
        read_huggingface({"model_type": "novel", **_WIDE, "rope_ratio": 2.0})


def test_the_layout_of_an_indexer_is_not_that_of_the_attention() -> None:
    sizes = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "rope_interleave": True, "rope_theta": 1e6}
    model = {"model_type": "glm_moe_dsa", **_WIDE, "head_dim": 64, **sizes}
    said = read_huggingface(model | {"indexer_rope_interleave": False}).findings
    assert any("indexer_rope_interleave is false, which the class" in each.message for each in said)
    same = " ".join(each.message for each in read_huggingface(model | {"indexer_rope_interleave": True}).findings)
    assert "indexer_rope_interleave true says the same, and the class does not read it." in same
    heads = {"num_key_value_heads": model["num_attention_heads"]}
    read = read_huggingface(model | heads | {"indexer_rope_interleave": True})
    assert read.config.layout == "interleaved"
    assert not [each for each in read.findings if each.severity == "warning"]


def test_the_text_part_of_a_known_whole_is_what_its_class_takes_it_for() -> None:
    """Exaone4_5_Config takes the type 'exaone4_5_text' for 'exaone4'; what another name means stays unknown."""
    text = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4, "sliding_window": 64}
    text |= {"layer_types": [*["sliding_attention"] * 3, "full_attention"], "rope_theta": 1e6}
    parsed = read_huggingface({"model_type": "exaone4_5", "text_config": text | {"model_type": "exaone4_5_text"}})
    assert parsed.of_layer(3) is None
    assert not any("not known here" in each.message for each in parsed.findings)
    parsed = read_huggingface({"model_type": "exaone4_5", "text_config": text | {"model_type": "novel"}})
    assert any("'novel' is not known here" in each.message for each in parsed.findings)


def test_sliding_layers_with_heads_of_their_own_beside_latent_attention() -> None:
    """Dots3NoteTextConfig: head_dim, and entries that begin with swa_, are about its sliding layers."""
    model = {"model_type": "dots3_note_text", "hidden_size": 512, "num_attention_heads": 2, "head_dim": 256}
    model |= {"num_hidden_layers": 3, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "sliding_window": None}
    configs = read_huggingface(model).configs
    assert {name: config.rotary_dim for name, config in configs.items()} == {
        "indexed_attention": 16,
        "sliding_attention": 64,
    }
    configs = read_huggingface(model | {"swa_qk_rope_head_dim": 32}).configs
    assert configs["sliding_attention"].rotary_dim == 32


_MLLAMA = {"model_type": "mllama_text_model", "num_hidden_layers": 12, "hidden_size": 4096, "num_attention_heads": 32}


@pytest.mark.parametrize(
    ("config", "still"),
    [
        (_MLLAMA | {"cross_attention_layers": [1, 7]}, (1, 7)),
        (_MLLAMA, (3, 8)),  # configuration_mllama.py: [3, 8, 13, ...] where there is no list
        (_MLLAMA | {"model_type": "llama", "cross_attn_layer_idx": [2]}, (2,)),
        (_MLLAMA | {"model_type": "llama", "cross_attention_layers": [0, 1] * 6}, ()),  # no indices
    ],
)
def test_layers_that_attend_to_images_do_not_rotate(config: dict[str, Any], still: tuple[int, ...]) -> None:
    layers = read_huggingface(config).layers
    assert tuple(index for each in layers if each.config is None for index in each.layers) == still
    assert sum(len(each.layers) for each in layers) == 12


def test_a_list_of_layers_that_holds_something_else_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'cross_attention_layers' in config\.json must be a list of layers"):
        read_huggingface(_MLLAMA | {"cross_attention_layers": ["3"]})


def test_the_depth_decoder_of_moshi_does_not_rotate() -> None:
    """MoshiDepthDecoder builds its layers with use_rope=False."""
    with pytest.raises(ConfigError, match="'moshi_depth' in transformers has no rotary positions"):
        read_huggingface({"model_type": "moshi_depth", "hidden_size": 1024, "num_attention_heads": 16})


@pytest.mark.parametrize(("model_type", "own"), [("apertus", 1.2e7), ("gpt_neox", 1e4), ("muse_spark_text", 5e5)])
def test_a_base_that_the_class_passes_over_is_not_taken(model_type: str, own: float) -> None:
    """Their __post_init__ writes a group with a base of its own where the file has no group."""
    model = {"model_type": model_type, **_WIDE, "head_dim": 128, "rope_theta": 5e3}
    read = read_huggingface(model)
    assert {config.base for config in read.configs.values()} == {own}
    assert any("rope_theta is 5000 in config.json, which the class of" in each.message for each in read.findings)
    stated = read_huggingface(model | {"rope_scaling": {"rope_type": "default"}})
    # GPT-NeoX converts its entries itself, and never looks for rope_theta.
    assert {config.base for config in stated.configs.values()} == {own if model_type == "gpt_neox" else 5e3}


def test_gpt_neox_takes_its_base_by_its_own_name() -> None:
    read = read_huggingface({"model_type": "gpt_neox", **_WIDE, "rotary_emb_base": 25000, "rotary_pct": 0.25})
    assert read.config.base == 25000
    assert not any("passes over" in each.message for each in read.findings)


def test_a_window_that_the_masks_of_the_class_do_not_have_is_passed_over() -> None:
    """modeling_llama.py makes causal masks alone, modeling_mistral.py sliding ones where there is a sliding_window."""
    model = {**_WIDE, "num_hidden_layers": 2, "rope_theta": 1e4, "sliding_window": 512}
    for model_type, window in (("llama", None), ("mistral", 512)):
        read = read_huggingface({"model_type": model_type, **model})
        assert [kind.window for kind in read.layers] == [window]
        said = [each for each in read.findings if "have no window: every token" in each.message]
        assert [each.severity for each in said] == ["warning"] * (window is None)
    off = read_huggingface({"model_type": "llama", **model, "use_sliding_window": False})
    assert not any("every token" in each.message for each in off.findings)


def test_a_window_of_no_tokens_is_not_a_missing_one() -> None:
    """modeling_exaone4.py rotates all layers where sliding_window is None, and by their type where it is 0 or -1."""
    types = [*["sliding_attention"] * 3, "full_attention"]
    model = {"model_type": "exaone4", **_WIDE, "num_hidden_layers": 4, "layer_types": types, "rope_theta": 1e6}
    for window, rotates in ((None, True), (4096, False), (0, False), (-1, False)):
        assert (read_huggingface(model | {"sliding_window": window}).of_layer(3) is not None) is rotates


@pytest.mark.parametrize("corners", [1.0, 4.0])
def test_equal_corners_of_llama3_are_a_warning(corners: float) -> None:
    """modeling_rope_utils.py: "high_freq_factor field must be greater than low_freq_factor"."""
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": corners}
    rope |= {"original_max_position_embeddings": 8192, "rope_theta": 500000.0}
    parsed = read_huggingface({"model_type": "llama", **_WIDE, "head_dim": 128, "rope_parameters": rope})
    said = [each for each in parsed.findings if "low_freq_factor and high_freq_factor are both 1" in each.message]
    assert [each.severity for each in said] == ["warning"] * (corners == 1)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "granitemoehybrid"}, "is 'rope'; the file leaves it out (null)"),
        ({"model_type": "llama", "rope_scaling": False}, "rope_scaling is false in config.json"),
        ({"model_type": "llama", "rope_parts": [None, True]}, "is [null, true], and nothing known"),
    ],
)
def test_values_are_said_in_the_words_of_json(entries: dict[str, Any], said: str) -> None:
    try:
        found = " ".join(each.message for each in read_huggingface({**_WIDE, **entries}).findings)
    except ConfigError as error:
        found = str(error)
    assert said in found


_TYPES = {"layer_types": ["sliding_attention", "linear_attention", "full_attention", "mlp"], "num_hidden_layers": 4}


@pytest.mark.parametrize(
    ("entries", "is_doubtful"),
    [
        (_TYPES, True),
        ({**_TYPES, "no_rope_layers": [1, 1, 0, 1]}, False),
        ({"layer_types": ["linear_attention", "full_attention"] * 2, "num_hidden_layers": 4}, False),
        ({**_TYPES, "model_type": "olmo3"}, False),
    ],
)
def test_which_types_of_an_unknown_model_rotate_is_doubtful(entries: dict[str, Any], is_doubtful: bool) -> None:
    """In LaraMini's class layers of full attention do not, which no entry says."""
    read = read_huggingface({"model_type": "novel", **_WIDE, "rope_theta": 1e4, **entries})
    said = [each.message for each in read.findings if each.severity == "warning"]
    assert any("full_attention and sliding_attention" in each and "is assumed" in each for each in said) is is_doubtful


def test_names_that_only_look_rotary_across_two_words_are_no_findings() -> None:
    """recurre(nt k)v of Dory, and the whole head of Sarvam's own code, which is near to head_dim."""
    file = {"model_type": "llama", **_WIDE}
    expected = read_huggingface(file)
    assert read_huggingface(file | {"recurrent_kv_cache_mode": "per_loop", "q_head_dim": 192}) == expected
    for name in ("ntk_alpha", "use_dynamic_ntk", "freq_base_scale", "my_log_n"):
        said = read_huggingface(file | {name: 2}).findings
        assert any(f"'{name}' in config.json looks as if it were about rotary" in each.message for each in said), name


def test_a_base_that_an_unknown_class_may_have_otherwise_is_not_said_to_be_its_own() -> None:
    for name, said in (("novel", "as most code has."), ("llama", "as its class has.")):
        notes = [
            each.message for each in read_huggingface({"model_type": name, **_WIDE, "rope_scaling": None}).findings
        ]
        assert any(f"no rope_theta; 10000 is taken, {said}" in each for each in notes), notes


_SARVAM = {
    "model_type": "sarvam_mla",
    **_WIDE,
    **{"num_hidden_layers": 32, "head_dim": 576, "q_head_dim": 192, "kv_lora_rank": 512, "qk_nope_head_dim": 128},
    **{"qk_rope_head_dim": 64, "rope_theta": 10000},
    "rope_scaling": {
        **{"type": "deepseek_yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32},
        **{"beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
    },
}


def test_a_file_of_latent_attention_for_code_of_its_own() -> None:
    """Sarvam-105B as published: head_dim is the width of the cache, and the type of YaRN that of inference engines."""
    read = read_huggingface(_SARVAM)
    assert (read.config.head_dim, read.config.rotary_dim, read.config.layout) == (64, 64, "interleaved")
    plain = read_huggingface({**_SARVAM, "rope_scaling": {**_SARVAM["rope_scaling"], "type": "yarn"}})
    assert isinstance(read.config.scaling, YaRN)
    assert read.config == plain.config
    (said,) = [each for each in read.findings if "head_dim is 576" in each.message]
    assert said.severity == "note"
    assert "the features of a token that are cached, which the class of 'sarvam_mla' in transformers" in said.message


def test_vllm_takes_deepseeks_yarn_of_any_class_for_its_own() -> None:
    """vllm/model_executor/layers/rotary_embedding: DeepseekScalingRotaryEmbedding has mscale over mscale_all_dim."""
    scaling = {**_SARVAM["rope_scaling"], "mscale": 1.0, "mscale_all_dim": 0.5}
    read = read_vllm({}, {**_SARVAM, "head_dim": 64, "rope_scaling": scaling})
    factor = (0.1 * math.log(40) + 1) / (0.05 * math.log(40) + 1)
    assert read.config.attention_scale() == pytest.approx(factor, rel=1e-9)


def test_exaone_has_the_base_of_its_class() -> None:
    """configuration_exaone.py of transformers 5.24: default_theta."""
    file = {"model_type": "exaone", **_WIDE, "num_layers": 32}
    assert read_huggingface(file).config.base == 500000
    assert read_huggingface(file | {"rope_theta": 1e6}).config.base == 1e6


def test_layers_of_lara_mini_rotate_where_they_have_a_window() -> None:
    read = read_huggingface({"model_type": "lara_mini", **_WIDE, "num_hidden_layers": 10, "head_dim": 128})
    rotating = {index: kind.window for kind in read.layers for index in kind.layers if kind.config}
    assert rotating == dict.fromkeys((1, 4, 6, 9), 512)
    assert _still({"model_type": "lara_mini", **_WIDE, "num_hidden_layers": 10, "head_dim": 128}) == [3, 8]


def test_a_head_that_the_class_has_angles_for_is_told() -> None:
    """DeepseekV3Model of transformers fails with a head_dim beside another qk_rope_head_dim; vLLM rotates the part."""
    sizes = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "head_dim": 128}
    read = read_huggingface({"model_type": "deepseek_v3", **_WIDE, **sizes})
    assert (read.config.head_dim, read.config.rotary_dim) == (64, 64)
    assert any("has angles for the first, and fails" in each.message for each in read.findings)
