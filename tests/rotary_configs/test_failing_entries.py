"""Entries with which a class of transformers fails, those that it needs, and names of sizes that it passes over."""

from __future__ import annotations

import contextlib
import copy
import inspect
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING

from locant.extension.inspect.model_class.inputs import text_inputs
from locant.extension.inspect.model_class.small_model import model_class, quiet
from locant.positions.scaling import LongRoPE
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes.families import model_type

_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "vocab_size": 64,
    "pad_token_id": 0,
}
_EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1}
_LATENT = {
    **_SMALL,
    **_EXPERTS,
    "num_key_value_heads": 4,
    **{"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16},
    **{"n_group": 1, "topk_group": 1},
}
_RECURRENT = {
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    **{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16},
}
_DBRX = {"model_type": "dbrx", "d_model": 64, "n_heads": 4, "n_layers": 2, "max_seq_len": 512, "vocab_size": 64}
_DBRX |= {"ffn_config": {"ffn_hidden_size": 64}}
_ATTENTION = {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 1e4}
_GEMMA = {**_SMALL, "head_dim": 16, "top_k_experts": 2, "moe_intermediate_size": 32}


def _findings(content: dict[str, Any]) -> list[Finding]:
    return [each for each in read_huggingface(content).findings if each.severity != "note"]


def _computes(content: dict[str, Any]) -> bool:
    """Whether the class makes a model of a file, and computes a text with it."""
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    with contextlib.suppress(Exception), quiet(), torch.no_grad():
        config = mapping[content["model_type"]].from_dict(copy.deepcopy(content))
        made = model_class(type(config))
        assert made is not None
        model = made(config).eval()
        model(**text_inputs(inspect.signature(model.forward).parameters, range(4), None))
        return True
    return False


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"model_type": "deepseek_v3", **_LATENT, "v_head_dim": None}, "v_head_dim is null"),
        ({"model_type": "deepseek_v3", **_LATENT, "kv_lora_rank": None}, "kv_lora_rank is null"),
        (
            {"model_type": "deepseek_v32", **_LATENT, "index_n_heads": 2, "index_topk": 4, "index_head_dim": None},
            "index_head_dim is null",
        ),
        (
            {"model_type": "qwen3_next", **_SMALL, **_RECURRENT, "linear_key_head_dim": None},
            "linear_key_head_dim is null",
        ),
    ],
)
def test_sizes_that_are_null(content: dict[str, Any], said: str) -> None:
    name = said.split()[0]
    assert not _computes(content)
    assert any(each.message.startswith(said) for each in _findings(content))
    stated = {**content, name: 16 if "index" in name else 8}
    assert _computes(stated)
    assert not [each for each in _findings(stated) if name in each.message]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"model_type": "idefics", **_SMALL}, "cross_layer_interval"),
        ({"model_type": "llama4_text", **_SMALL, "head_dim": 16}, "interleave_moe_layer_step"),
        ({"model_type": "qwen3_moe", **_SMALL, "num_experts": 4}, "decoder_sparse_step"),
    ],
)
def test_rounds_of_no_layers(content: dict[str, Any], name: str) -> None:
    said = [each.message for each in read_huggingface({**content, name: 0}).findings]
    assert [each for each in said if each.startswith(f"{name} is 0") and each.endswith("divides by it, and fails.")]
    assert not any(each.startswith(name) for each in (each.message for each in read_huggingface(content).findings))
    with pytest.raises((ZeroDivisionError, ValueError)):
        _made({**content, name: 0})


def _made(content: dict[str, Any]) -> torch.nn.Module:
    with quiet(), torch.device("meta"):
        config = CONFIG_MAPPING[content["model_type"]](**content)
        made = model_class(type(config))
        assert made is not None
        model: torch.nn.Module = made(config)
    return model


def test_null_that_a_class_takes_is_no_finding() -> None:
    content = {"model_type": "deepseek_v3", **_LATENT, "q_lora_rank": None}
    assert _computes(content)
    assert not _findings(content)


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        (
            {"model_type": "deepseek_ocr2_text", **_SMALL, **_EXPERTS, "mlp_layer_types": ["dense"] * 4},
            "mlp_layer_types",
        ),
        ({"model_type": "diffusion_gemma_text", **_GEMMA, "num_experts": 4}, "num_experts"),
    ],
)
def test_entries_that_a_class_has_no_value_for(content: dict[str, Any], missing: str) -> None:
    rest = {name: value for name, value in content.items() if name != missing}
    assert _computes(content)
    assert not _computes(rest)
    assert not [each for each in _findings(content) if missing in each.message]
    assert any(each.message.startswith(f"{missing} is left out of config.json") for each in _findings(rest))


@pytest.mark.parametrize("missing", ["clip_qkv", "rope_theta"])
def test_entries_within_the_attention_of_dbrx(missing: str) -> None:
    group = {name: value for name, value in _ATTENTION.items() if name != missing}
    whole, rest = {**_DBRX, "attn_config": _ATTENTION}, {**_DBRX, "attn_config": group}
    assert _computes(whole)
    assert not _computes(rest)
    assert not _findings(whole)
    assert any(f"{missing} is left out in attn_config of config.json" in each.message for each in _findings(rest))


def test_a_share_with_which_whole_heads_fail() -> None:
    """modeling_solar_open.py has frequencies for the share, and rotates whole heads by them."""
    content = {"model_type": "solar_open", **_SMALL, **_EXPERTS, "head_dim": 16}
    assert _computes(content)
    assert not _computes({**content, "partial_rotary_factor": 0.5})
    (said,) = _findings({**content, "partial_rotary_factor": 0.5})
    assert "rotates whole heads, and fails" in said.message
    assert "passes over" not in said.message
    (llama,) = _findings({"model_type": "llama", **_SMALL, "partial_rotary_factor": 0.5})
    assert "passes over" in llama.message


def test_a_share_that_sections_of_its_pairs_go_with() -> None:
    """modeling_glm_ocr.py splits the pairs of the share by mrope_section."""
    group = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    content = {"model_type": "glm_ocr_text", **_SMALL, "head_dim": 16, "partial_rotary_factor": 0.5}
    assert _computes({**content, "rope_parameters": group})
    assert not _computes(content)
    parsed = read_huggingface({**content, "rope_parameters": group})
    assert parsed.config.rotary_dim == 8
    assert not _findings({**content, "rope_parameters": group})


@pytest.mark.parametrize(
    ("content", "name", "usual"),
    [
        ({"model_type": "llama", "hidden_size": 4096}, "n_heads", "num_attention_heads"),
        ({"model_type": "llama", "num_attention_heads": 32}, "d_model", "hidden_size"),
        ({"model_type": "deepseek_ocr2_text", "hidden_size": 1280}, "n_heads", "num_attention_heads"),
        ({"model_type": "qwen2", "hidden_size": 4096, "num_attention_heads": 32}, "n_layers", "num_hidden_layers"),
    ],
)
def test_sizes_under_names_of_other_classes(content: dict[str, Any], name: str, usual: str) -> None:
    """The class passes over them, and has its own."""
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    kind = model_type(content["model_type"])
    assert kind is not None
    own = kind.defaults[usual]
    assert getattr(mapping[content["model_type"]].from_dict({**content, name: 10}), usual) == own
    (said,) = [each for each in read_huggingface({**content, name: 10}).findings if each.severity == "error"]
    assert said.message.startswith(f"'{name}' in config.json is 10")
    assert f"it takes {own} for {usual}" in said.message
    stated = {**content, usual: own, name: 10}
    assert not [each for each in read_huggingface(stated).findings if each.severity == "error"]


def test_names_of_sizes_that_a_class_takes_for_its_own() -> None:
    parsed = read_huggingface({"model_type": "gptj", "hidden_size": 128, "num_attention_heads": 4, "rotary_dim": 16})
    assert parsed.config.head_dim == 32


def test_a_group_of_the_type_su_without_the_original_length() -> None:
    """Phi3Config takes 'su' for 'longrope' behind the place where transformers fills the length in."""
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    group = {"type": "su", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    content = {"model_type": "phi3", **_SMALL, "max_position_embeddings": 8192}
    content |= {"original_max_position_embeddings": 4096}
    with pytest.raises(KeyError):
        mapping["phi3"].from_dict({**content, "rope_scaling": dict(group)})
    assert any("refuses the file" in each.message for each in _findings({**content, "rope_scaling": group}))
    for stated in ({"type": "longrope"}, {"original_max_position_embeddings": 4096}):
        assert mapping["phi3"].from_dict({**content, "rope_scaling": {**group, **stated}}) is not None
        said = _findings({**content, "rope_scaling": {**group, **stated}})
        assert not [each for each in said if "refuses the file" in each.message]


def test_the_short_list_of_phimoe_is_that_of_all_texts() -> None:
    group = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    group |= {"short_mscale": 1.2, "long_mscale": 1.3, "original_max_position_embeddings": 4096}
    content = {"model_type": "phimoe", **_SMALL, "max_position_embeddings": 8192, "rope_scaling": group}
    scaling = read_huggingface(content).config.scaling
    assert isinstance(scaling, LongRoPE)
    assert scaling.frequencies(16, 1e6, length=8192) == scaling.frequencies(16, 1e6, length=10)
    assert [scaling.attention_scale(length) for length in (10, 8192)] == [1.2, 1.3]


def test_an_old_type_that_is_null_counts_only_in_a_group_without_the_new_one() -> None:
    full, sliding = {"rope_theta": 1e6}, {"rope_type": "default", "rope_theta": 1e4, "type": None}
    groups = {"full_attention": full, "sliding_attention": sliding}
    content = {"model_type": "gemma3_text", **_SMALL, "head_dim": 16, "rope_parameters": groups}
    assert not [each for each in _findings(content) if "type is null" in each.message]
    full["type"] = None
    (found,) = [each for each in _findings(content) if "type is null" in each.message]
    assert "full_attention" in found.message


def test_scores_are_multiplied_beside_scalings_that_are_not_yarn() -> None:
    """``yarn_apply_mscale`` of modeling_deepseek_v3.py asks for any type of scaling but 'default'."""

    def content(**scaling: Any) -> dict[str, Any]:
        group = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4, **scaling}
        return {"model_type": "deepseek_v3", **_LATENT, "rope_parameters": group}

    def scale(entries: dict[str, Any]) -> float:
        scales = (each.scaling for each in _made(entries).modules() if type(each).__name__ == "DeepseekV3Attention")
        return next(scales)

    said = [each.message for each in read_huggingface(content(mscale_all_dim=1.0)).findings]
    (told,) = (each for each in said if "multiply all scores by" in each)
    ratio = scale(content(mscale_all_dim=1.0)) / scale(content())
    assert f"by {ratio:.6g}," in told
    assert not any("means nothing to the scaling" in each for each in said)
    lists = {"short_factor": [1.0] * 4, "long_factor": [1.0] * 4, "original_max_position_embeddings": 64}
    without = content(rope_type="longrope", mscale_all_dim=1.0, **lists)
    del without["rope_parameters"]["factor"]
    (told,) = (each.message for each in read_huggingface(without).findings if "there is no factor" in each.message)
    assert told.endswith("fails.")
    with pytest.raises(KeyError):
        _made(without)


@pytest.mark.parametrize(("share", "fails"), [(0.5, False), (0.25, True)])
def test_a_share_of_the_whole_head_that_mistral_4_has_by_itself(share: float, fails: bool) -> None:
    """configuration_mistral4.py sets head_dim to the sum of both parts, of which 0.5 is the one that rotates."""
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
    parts = {**_LATENT, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "n_shared_experts": 1}
    content = {"model_type": "mistral4", **parts, "rope_parameters": {**yarn, "partial_rotary_factor": share}}
    said = [each.message for each in read_huggingface(copy.deepcopy(content)).findings]
    assert any("it fails then" in each for each in said) is fails
    frequencies = next(value for name, value in _made(content).named_buffers() if name.endswith("inv_freq"))
    assert (2 * len(frequencies) != parts["qk_rope_head_dim"]) is fails


@pytest.mark.parametrize(
    ("entries", "fails"),
    [
        ({"rope_type": "default"}, True),
        ({}, True),  # which is the same
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}, False),
    ],
)
def test_mistral_4_fails_without_a_scaling(entries: dict[str, Any], fails: bool) -> None:
    """compute_default_rope_parameters in modeling_mistral4.py has frequencies for head_dim, the sum of both parts."""
    parts = {**_LATENT, "qk_rope_head_dim": 8, "qk_nope_head_dim": 24, "n_shared_experts": 1}
    rope = {"rope_theta": 1e4, "llama_4_scaling_beta": 0.1, **entries}
    content = {"model_type": "mistral4", **parts, "rope_parameters": rope}
    said = [each.message for each in read_huggingface(copy.deepcopy(content)).findings]
    wanted = "has angles for all 32 features of a head, of which 8 are to be turned, and fails."
    assert any(each.endswith(wanted) for each in said) is fails
    frequencies = next(value for name, value in _made(content).named_buffers() if name.endswith("inv_freq"))
    assert (2 * len(frequencies) == 32) is fails


@pytest.mark.parametrize(
    ("place", "rest", "share", "fails"),
    [
        (None, 8, 0.25, False),
        ("rope_parameters", 8, 0.25, False),
        ("rope_parameters", 24, 0.5, False),  # whose own share is 0.25
        ("rope_scaling", 8, 0.25, True),
    ],
)
def test_mistral_4_keeps_its_share_beside_no_group_and_rope_parameters(
    place: str | None, rest: int, share: float, fails: bool
) -> None:
    """configuration_mistral4.py fills in its own share before the common code looks next to the group."""
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
    parts = {**_LATENT, "qk_rope_head_dim": 8, "qk_nope_head_dim": rest, "n_shared_experts": 1}
    group = {} if place is None else {place: yarn}
    content = {"model_type": "mistral4", **parts, **group, "partial_rotary_factor": share}
    said = [each.message for each in read_huggingface(copy.deepcopy(content)).findings]
    assert any("it fails then" in each for each in said) is fails
    frequencies = next(value for name, value in _made(content).named_buffers() if name.endswith("inv_freq"))
    assert (2 * len(frequencies) != parts["qk_rope_head_dim"]) is fails


@pytest.mark.parametrize(("scaled", "rotated"), [(False, 32), (True, 30)])
def test_a_share_beside_no_group_where_the_group_of_the_class_has_its_own(scaled: bool, rotated: int) -> None:
    group = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}} if scaled else {}
    content = {"model_type": "moonshine_streaming", "partial_rotary_factor": 0.75, **group}
    read = read_huggingface(copy.deepcopy(content))
    assert read.config.rotary_dim == rotated
    assert any("passes over: it rotates a share of 0.8" in each.message for each in read.findings) is not scaled
    with quiet():
        taken = CONFIG_MAPPING["moonshine_streaming"].from_dict(copy.deepcopy(content)).rope_parameters
    assert int(40 * taken["partial_rotary_factor"]) == rotated


def test_a_number_for_each_layer_in_the_place_of_one_for_all() -> None:
    """modeling_laguna.py makes its heads by ``num_attention_heads_per_layer``, and none by the number for all."""
    file = {"model_type": "laguna", **_SMALL, "head_dim": 16, "num_attention_heads": -1}
    assert any("makes no model of that" in each.message for each in _findings(file))
    listed = {**file, "num_attention_heads_per_layer": [4, 2, 4, 2]}
    assert not [each for each in _findings(listed) if "num_attention_heads" in each.message]
    with torch.device("meta"), quiet():
        made = model_class(CONFIG_MAPPING["laguna"])
        assert made is not None
        made(CONFIG_MAPPING["laguna"].from_dict(listed | {"num_experts": 2, "num_experts_per_tok": 1}))


def test_a_window_that_is_null_is_to_be_stated_where_no_types_of_layers_do_without() -> None:
    """VaultGemmaModel makes a mask with the window whatever types its layers have."""
    sizes = {"head_dim": 64, "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2}
    said = read_huggingface({"model_type": "vaultgemma", **sizes, "sliding_window": None}).findings
    (found,) = [each for each in said if "there is no number for their window" in each.message]
    assert found.remedy == "State a sliding_window."


def test_an_entry_that_nobody_may_set_is_not_said_to_limit_nothing() -> None:
    """XLNetConfig raises NotImplementedError for max_position_embeddings."""
    with pytest.raises(NoRotaryPositionsError) as raised:
        read_huggingface({"model_type": "xlnet", "max_position_embeddings": 512})
    assert "limits nothing" not in str(raised.value)
