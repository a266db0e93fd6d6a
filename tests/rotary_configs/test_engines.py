from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotary_examples import assert_same, configs

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import (
    SCALINGS,
    DynamicNTK,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
)
from locant.rotary_configs import (
    derived_max_model_len,
    read_ctranslate2,
    read_gguf,
    read_huggingface,
    read_llamacpp,
    read_vllm,
    write_ctranslate2,
    write_gguf,
    write_llamacpp,
    write_vllm,
)

_MODEL = {"model_type": "llama", "head_dim": 32, "rope_theta": 10000.0, "max_position_embeddings": 2048}
_LINEAR = {"rope_type": "linear", "factor": 8.0}
_YARN = YaRN(factor=4.0, original_length=2048)
_LONGROPE = LongRoPE(short_factors=[1, 1], long_factors=[1, 2], original_length=8, factor=2)


def _float32(values: dict[str, Any]) -> dict[str, Any]:
    """Return what comes back from a file that keeps floats in 32 bits."""
    return {key: float(np.float32(value)) if isinstance(value, float) else value for key, value in values.items()}


def _through_vllm(config: RotaryConfig, group: Any) -> RotaryConfig:
    return read_vllm(write_vllm(config, group), {"model_type": "llama", "head_dim": config.head_dim}).config


def _through_gguf(config: RotaryConfig, architecture: str) -> RotaryConfig:
    written = write_gguf(config, architecture)
    tensors = {key: [float(np.float32(value)) for value in values] for key, values in written.tensors.items()}
    read = read_gguf(_float32(written.metadata), tensors).config
    assert read.layout == written.layout == ("interleaved" if architecture == "llama" else "half")
    return replace(read, layout=config.layout)


def _through_llamacpp(config: RotaryConfig) -> RotaryConfig:
    model = RotaryConfig(head_dim=config.head_dim, rotary_dim=config.rotary_dim, layout=config.layout)
    return read_llamacpp(write_llamacpp(config), model).config


def _through_ctranslate2(config: RotaryConfig) -> RotaryConfig:
    return read_ctranslate2(write_ctranslate2(config)).config


_ENGINES: dict[str, tuple[Callable[[RotaryConfig], RotaryConfig], float]] = {
    "vLLM, rope_parameters": (partial(_through_vllm, group="rope_parameters"), 1e-9),
    "vLLM, rope_scaling": (partial(_through_vllm, group="rope_scaling"), 1e-9),
    "GGUF, llama": (partial(_through_gguf, architecture="llama"), 2e-6),
    "GGUF, apertus": (partial(_through_gguf, architecture="apertus"), 2e-6),
    "llama.cpp": (_through_llamacpp, 1e-12),
    "CTranslate2": (_through_ctranslate2, 1e-12),
}
# Unless the factor or an attention scale happens to make it another scaling.
_NOT_EXPRESSED = {
    "llama.cpp": {"ntk-by-parts", "longrope", "llama3", "proportional"},
    "CTranslate2": {"ntk-by-parts", "yarn", "proportional"},
}


def _expressible(config: RotaryConfig, engine: str) -> RotaryConfig:
    """Return a configuration without what the engine lacks of a scaling that it has."""
    if isinstance(config.scaling, YaRN) and engine == "llama.cpp":
        paper = replace(config.scaling, attention_factor=None, mscale=None, mscale_all_dim=None)
        return replace(config, scaling=paper)
    if isinstance(config.scaling, Proportional) and engine.startswith("vLLM"):
        return replace(config, scaling=replace(config.scaling, factor=1.0))
    if isinstance(config.scaling, LongRoPE) and engine == "CTranslate2":
        return replace(config, scaling=replace(config.scaling, factor=8.0, target_length=None))
    if isinstance(config.scaling, YaRN | NTKByParts) and engine.startswith("GGUF"):
        config = replace(config, scaling=replace(config.scaling, beta_fast=32.0, beta_slow=1.0))
    if engine.startswith("GGUF"):  # both rotate whole heads
        return replace(config, head_dim=config.rotary_dim)
    return config


@pytest.mark.sampled(12)
@pytest.mark.parametrize("engine", list(_ENGINES))
@pytest.mark.parametrize("name", list(SCALINGS))
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_scaling_reads_as_it_is_written_or_is_refused(name: str, engine: str, data: st.DataObject) -> None:
    config = _expressible(data.draw(configs(name)), engine)
    through, tolerance = _ENGINES[engine]
    if name in _NOT_EXPRESSED.get(engine, ()):
        if name == "ntk-by-parts" and config.scaling.stretch == 1:  # YaRN then, which has the attention scale 1 as well
            return
        with pytest.raises(ConfigError, match="cannot express"):
            through(config)
        return
    if name == "llama3" and engine.startswith("GGUF"):  # its factors can be told only where two pairs are blended
        config = replace(config, base=10000.0)
    assert_same(through(config), _served(config, engine), tolerance)


def _served(config: RotaryConfig, engine: str) -> RotaryConfig:
    """Return what an engine computes: vLLM has one list of LongRoPE for all texts."""
    if isinstance(config.scaling, LongRoPE) and engine.startswith("vLLM"):
        return replace(config, scaling=config.scaling.fixed_for(config.max_length or round(config.scaling.reach or 0)))
    return config


_CASES = [
    (lambda c: write_vllm(c), DynamicNTK(original_length=8), "vLLM has one base for all of them"),
    (lambda c: write_vllm(c), Proportional(rotary_fraction=0.5, factor=2.0), "factor 2 of 'proportional'"),
    (lambda c: write_vllm(c), Linear(factor=3.0), "multiplies max_position_embeddings"),
    (lambda c: write_vllm(c, "rope"), Unscaled(), "Unknown group 'rope'"),
    (
        lambda c: write_vllm({"a": c, "b": c}, "rope_scaling"),
        Unscaled(),
        "by layer type under the name 'rope_parameters'",
    ),
    (lambda c: write_gguf(c, "llama"), DynamicNTK(original_length=8), "same frequencies for texts of all lengths"),
    (lambda c: write_gguf(c, "llama"), replace(_YARN, truncate=False), "truncate false"),
    (lambda c: write_gguf(c, "lama"), Unscaled(), "Unknown architecture 'lama'.* Did you mean 'llama'"),
    (lambda c: write_gguf(c, "qwen2vl"), Unscaled(), "positions of several axes"),
    (lambda c: write_gguf(replace(c, rotary_dim=2), "llama"), Unscaled(), "cannot express 2 rotated features of"),
    (lambda c: write_gguf({"a": c, "b": c}, "llama"), Unscaled(), "cannot express rotary positions of a, b"),
    (lambda c: write_gguf(c, "gemma3"), Unscaled(), "gemma3 have those of full_attention and sliding_attention|gemma3"),
    (lambda c: write_gguf(c, "llama"), replace(_LONGROPE, final_length=9), "cannot express final_length 9"),
    (
        lambda c: write_gguf(c, "deepseek2"),
        replace(_YARN, mscale=1.0, mscale_all_dim=0.5),
        "mscale 1.0 with mscale_all_dim 0.5 for the architecture 'deepseek2'",
    ),
    (lambda c: write_llamacpp(c), Llama3(factor=8, original_length=8), "other factors are tensors of the file"),
    (lambda c: write_llamacpp(c), _LONGROPE, "cannot express the scaling 'longrope'"),
    (lambda c: write_llamacpp(c), Proportional(rotary_fraction=0.5), "cannot express the scaling 'proportional'"),
    (lambda c: write_llamacpp(c), replace(_YARN, attention_factor=1.0), "cannot express attention scale 1 "),
    (
        lambda c: write_ctranslate2(c),
        _YARN,
        r"cannot express the scaling 'yarn': its engine has Linear, Su \(LongRoPE\)",
    ),
    (lambda c: write_ctranslate2(c), Proportional(rotary_fraction=0.5), "cannot express the scaling 'proportional'"),
    (lambda c: write_ctranslate2(c), DynamicNTK(original_length=8), "cannot express the scaling 'dynamic'"),
    (lambda c: write_ctranslate2(c), replace(_LONGROPE, attention_factor=1.01), "for whole numbers n"),
]


@pytest.mark.parametrize(("write", "scaling", "message"), _CASES)
def test_what_an_engine_cannot_express_is_refused(write: Any, scaling: Any, message: str) -> None:
    length = 8 if isinstance(scaling, Linear) else None
    with pytest.raises(ConfigError, match=message):
        write(RotaryConfig(head_dim=4, scaling=scaling, max_length=length))


def test_vllm_serves_the_length_that_is_declared() -> None:
    linear = RotaryConfig(head_dim=32, scaling=Linear(factor=8.0, original_length=4096), max_length=32768)
    written = json.loads(write_vllm(linear))
    assert written["max_position_embeddings"] * 8 == derived_max_model_len(linear) == 32768
    assert read_vllm(written, _MODEL).config.max_length == 32768
    dynamic = RotaryConfig(head_dim=32, scaling=DynamicNTK(original_length=2048, factor=4.0, target_length=8192))
    base = 10000 * (4 * 8192 / 2048 - 3) ** (32 / 30)  # dynamic NTK as its authors give it, for 8192 tokens
    read = read_vllm(write_vllm(dynamic, "rope_scaling"), _MODEL).config
    assert (read.base, read.scaling, read.max_length) == (pytest.approx(base), Unscaled(), 8192)


def test_vllm_takes_the_attention_scale_in_the_words_of_all_releases() -> None:
    rope = json.loads(write_vllm(RotaryConfig(head_dim=32, scaling=replace(_YARN, attention_factor=1.0))))[
        "rope_parameters"
    ]
    assert rope["attention_factor"] == 1.0
    assert rope["attn_factor"] * (0.1 * math.log(4) + 1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("overrides", "config", "message"),
    [
        ("{rope", _MODEL, "is no JSON"),
        ("[1]", _MODEL, "must be a JSON object"),
        ({"rope_parameters": {"rope_type": "ntk", "factor": 2.0}}, _MODEL, "is no scaling known here"),
        ("null", _MODEL, "must be a JSON object; got null"),
        ({"text_config": {"head_dim": 16}}, _MODEL, "has text_config, but the model has no such part"),
        ({"rope_scaling": {"rope_type": "yarm"}}, _MODEL, "Unknown rope_type 'yarm' in rope_scaling of --hf-overrides"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 0.0}}, _MODEL, "for factor 0 times the length, and fails"),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": -4, "attn_factor": 1.0}},
            _MODEL,
            "for factor -4 times the length, and fails",
        ),
    ],
)
def test_wrong_overrides_of_vllm_are_refused(overrides: Any, config: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_vllm(overrides, config)


_NESTED = {
    "model_type": "mistral3",
    "text_config": {**_MODEL, "rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "vision_config": {"model_type": "pixtral", "rope_theta": 1e4},
}


def test_vllm_merges_overrides_of_the_text_config() -> None:
    linear = {"rope_type": "linear", "factor": 4.0}
    config = read_vllm({"text_config": {"rope_parameters": linear}}, _NESTED).config
    assert (config.base, config.scaling, config.head_dim) == (5e5, Linear(factor=4.0), 32)
    longer = read_vllm('{"text_config": {"max_position_embeddings": 8192}}', _NESTED).config
    assert (longer.base, longer.max_length) == (5e5, 8192)
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "attention_factor": 2.0}
    config = read_vllm({"text_config": {"rope_parameters": yarn}}, _NESTED).config
    assert config.attention_scale() == 2.0


def test_older_releases_of_vllm_take_attn_factor_in_place_of_attention_factor() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "attention_factor": 1.0}
    note, replaced = read_vllm({"rope_scaling": rope}, _MODEL).findings
    assert replaced.message.startswith("Of the entries of config.json")
    assert note.severity == "note"
    assert "attention scale 1, as transformers. Its releases up to 0.25" in note.message
    assert note.message.endswith("mscale: 1.13863.")  # 0.1 ln 4 + 1
    assert "attn_factor 0.878249 " in note.remedy  # its inverse


@pytest.mark.parametrize(
    ("name", "value"), [("attn_factor", 0.5), ("apply_yarn_scaling", False), ("extrapolation_factor", 0.5)]
)
def test_vllm_passes_over_what_its_older_releases_heeded(name: str, value: Any) -> None:
    # get_rope of release 0.33 hands beta_fast, beta_slow, mscale, mscale_all_dim, attention_factor and truncate on.
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    read = read_vllm({"rope_scaling": rope | {name: value}}, _MODEL)
    assert read.config.scaling == YaRN(factor=4.0, original_length=512)
    said, replaced = read.findings
    assert f"{name} {value} means nothing to vLLM since release 0.33" in said.message
    assert replaced.message.startswith("Of the entries of config.json")


@pytest.mark.parametrize("model_type", ["deepseek_v3", "kimi_k2", "llama"])
def test_vllm_heeds_mscale(model_type: str) -> None:
    scores = {"mscale": 1.0, "mscale_all_dim": 1.0}
    rope = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, **scores}
    size = "head_dim" if model_type == "llama" else "qk_rope_head_dim"
    config = {"model_type": model_type, size: 64, "max_position_embeddings": 163840, "rope_scaling": rope}
    read = read_vllm({}, config)
    assert read.config.attention_scale() == 1.0
    assert not [finding for finding in read.findings if finding.severity == "warning"]


def test_vllm_serves_what_is_declared_for_yarn() -> None:
    # _get_and_verify_max_len of release 0.33 takes max_position_embeddings as extended already; 0.25 multiplied.
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    assert read_vllm({"rope_scaling": rope}, _MODEL).config.max_length == 2048
    longer = _MODEL | {"max_position_embeddings": 8192}
    assert read_vllm({"rope_scaling": rope}, longer).config.max_length == 8192
    assert json.loads(write_vllm(read_vllm({"rope_scaling": rope}, longer).config))["max_position_embeddings"] == 8192


_SHORT: dict[str, Any] = {"head_dim": 16, "max_position_embeddings": 512}
_EXTENDED = {"factor": 4.0, "original_max_position_embeddings": 128}
_LENGTHS: dict[str, Any] = {"factor": 4.0, "original_length": 128}


@pytest.mark.parametrize(
    ("model_type", "rope", "scale", "said"),
    [
        # attention_factor, or the pair's quotient, or 0.1 ln 4 + 1 of YaRN's paper (3.4): YaRNScalingRotaryEmbedding
        ("llama", {"rope_type": "yarn", "attention_factor": 1.5}, 1.5, "as transformers. Its releases up to 0.25"),
        ("llama", {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 0.5}, 1.0648221, "as transformers. Its"),
        ("llama", {"rope_type": "yarn", "mscale": 0.7}, 1.1386294, ""),
        ("llama", {"rope_type": "yarn", "attn_factor": 0.5, "attention_factor": 2.0}, 2.0, "as transformers. Its"),
        # the quotient of DeepSeek's code, with 1 and 0 where nothing is stated: DeepseekScalingRotaryEmbedding
        ("deepseek_v3", {"rope_type": "yarn", "mscale": 0.7}, 1.0970406, "ignore attention_factor: 1.09704"),
        ("deepseek_v3", {"rope_type": "yarn", "mscale_all_dim": 0.7}, 1.0379099, "ignore attention_factor: 1.03791"),
        ("deepseek_v3", {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 0.5}, 1.0648221, ""),
        ("deepseek_v3", {"rope_type": "yarn", "attention_factor": 1.5}, 1.1386294, "ignore attention_factor: 1.13863"),
        # sqrt(1 + ln 4 / ln 128), of the two lengths, or long_mscale: Phi3LongRoPEScaledRotaryEmbedding
        ("llama", {"rope_type": "longrope", "attention_factor": 1.5}, 1.1338934, "vLLM, which passes over"),
        ("llama", {"rope_type": "longrope", "short_mscale": 1.25, "long_mscale": 1.25}, 1.25, "takes short_mscale"),
        ("phimoe", {"rope_type": "longrope", "short_mscale": 1.25, "long_mscale": 1.25}, 1.25, ""),  # as its own class
    ],
)
def test_vllm_has_an_attention_scale_of_its_own(model_type: str, rope: dict[str, Any], scale: float, said: str) -> None:
    lists = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8} if rope["rope_type"] == "longrope" else {}
    sizes = {"qk_rope_head_dim": 16} if model_type == "deepseek_v3" else {}
    group = {"rope_theta": 1e4, **_EXTENDED, **lists, **rope}
    read = read_vllm({}, {"model_type": model_type, **_SHORT, **sizes, "rope_parameters": group})
    assert read.config.attention_scale(512) == pytest.approx(scale, rel=1e-6)
    messages = [each.message for each in read.findings if "attention scale" in each.message]
    assert [said in message for message in messages] == [True] * bool(said)


def test_vllm_scales_nothing_by_dynamic_ntk() -> None:
    # DynamicNTKScalingRotaryEmbedding since May 2026: factor * 512 / 512 - (factor - 1) is 1, to any power.
    model = {"model_type": "llama", **_SHORT, "rope_theta": 5e3}
    read = read_vllm({}, model | {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})
    assert (read.config.scaling, read.config.base, read.config.max_length) == (Unscaled(), 5e3, 1024)
    assert "there are angles for 512 tokens alone, though 1024 are served by default" in read.findings[-1].message
    with pytest.raises(ConfigError, match=r"alpha multiplies the base by alpha\^\(d/\(d-2\)\) in vLLM"):
        read_vllm({}, model | {"rope_scaling": {"rope_type": "dynamic", "alpha": 1000.0}})


def test_vllm_pairs_latent_attention_as_deepseek_trained_it() -> None:
    model = {"model_type": "deepseek_v3", "qk_rope_head_dim": 16, "rope_interleave": False, "rope_theta": 1e4}
    assert read_huggingface(model).config.layout == "half"
    assert read_vllm({}, model).config.layout == "interleaved"
    cut = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "truncate": False}
    read = read_vllm({"rope_scaling": cut}, model | {"max_position_embeddings": 512})
    assert read.config.scaling == YaRN(factor=4.0, original_length=128)
    assert any("pass over it, and round the corners" in each.message for each in read.findings)
    with pytest.raises(ConfigError, match="take every scaling for YaRN, also rope_type 'linear'"):
        read_vllm({"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, model)


@pytest.mark.parametrize(
    ("model_type", "share", "rotated"),
    [("deepseek_v3", 0.5, 32), ("glm4_moe_lite", 0.25, 16), ("minicpm3", 0.5, 16), ("dots3_note_text", 0.25, 64)],
)
def test_vllm_rotates_a_share_of_the_separate_part_of_latent_heads(model_type: str, share: float, rotated: int) -> None:
    """get_rope(qk_rope_head_dim, rope_parameters=config.rope_parameters); dots3_note has a group of its own there."""
    model = {"model_type": model_type, "partial_rotary_factor": share}
    model |= {"swa_rope_theta": 5e4} if model_type == "dots3_note_text" else {}
    assert {each.rotary_dim for each in read_vllm({}, model).configs.values()} == {rotated}
    by_name = model | {"model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"], "qk_rope_head_dim": 64}
    assert read_vllm({}, by_name).config.rotary_dim == int(64 * share)
    with pytest.raises(ConfigError, match="of a head of 64 features is 21 of them"):
        read_vllm({}, {"model_type": "deepseek_v3", "partial_rotary_factor": 1 / 3})


def test_vllm_pairs_neighbours_in_hy_v4() -> None:
    """is_neox_style=False in its attention, rotate_half in modeling_hy_v4.py; both read the same rows."""
    assert read_huggingface({"model_type": "hy_v4"}).config.layout == "half"
    served = read_vllm({}, {"model_type": "hy_v4"})
    assert served.config.layout == "interleaved"
    assert not any("indexer" in each.message for each in served.findings)  # which is said of transformers


def test_vllm_reads_rotary_dim_of_few_classes() -> None:
    """config.rotary_dim in gpt_j.py, bailing_moe.py and minimax_m2.py alone."""
    sizes = {"head_dim": 128, "hidden_size": 256, "num_attention_heads": 2, "rotary_dim": 32}
    assert read_vllm({}, {"model_type": "minimax_m2", **sizes}).config.rotary_dim == 32
    for model_type in ("llama", "qwen2", "cohere2"):
        assert read_vllm({}, {"model_type": model_type, **sizes}).config.rotary_dim == 128


@pytest.mark.parametrize("model_type", ["qwen2_vl", "qwen3_vl"])
def test_vllm_refuses_axes_of_other_pairs_than_rotate(model_type: str) -> None:
    """MRotaryEmbedding.__init__: assert sum(self.mrope_section) == rotary_dim // 2."""
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24], "partial_rotary_factor": 0.5}
    part = {"model_type": f"{model_type}_text", "head_dim": 128, "rope_parameters": rope}
    with pytest.raises(ConfigError, match=r"sums to 64 pairs, but 64 rotated .* 32 pairs\. vLLM refuses them"):
        read_vllm({}, {"model_type": model_type, "text_config": part})


def test_vllm_widens_yarns_ramp_for_several_axes() -> None:
    # MRotaryEmbedding makes its table four times as long, and YaRN's correction range with that length.
    axes = {"rope_type": "yarn", "mrope_section": [2, 3, 3], **_EXTENDED, "rope_theta": 1e4}
    read = read_vllm({}, {"model_type": "qwen2", **_SHORT, "rope_parameters": axes})
    assert read.config.scaling == YaRN(factor=4.0, original_length=512)
    assert any("for 512, four times as many" in each.message for each in read.findings)
    with pytest.raises(ConfigError, match="not with 'linear'"):
        read_vllm({}, {"model_type": "qwen2", **_SHORT, "rope_parameters": axes | {"rope_type": "linear"}})


def test_vllm_heeds_truncate_within_the_group_of_a_layer_type() -> None:
    # get_rope takes it from the group; transformers looks for it beside the groups alone.
    sharp = {"rope_type": "yarn", **_EXTENDED, "rope_theta": 1e4, "truncate": False}
    groups = {"full_attention": {"rope_type": "default", "rope_theta": 1e6}, "sliding_attention": sharp}
    model = {"model_type": "gemma3_text", **_SHORT, "rope_parameters": groups}
    assert read_vllm({}, model).configs["sliding_attention"].scaling == YaRN(**_LENGTHS, truncate=False)
    assert read_huggingface(model).configs["sliding_attention"].scaling == YaRN(**_LENGTHS)


def test_vllm_fails_with_some_files() -> None:
    whole = read_vllm({}, _MODEL | {"rope_scaling": {"rope_type": "linear", "factor": 4}})
    assert any("takes factor 4, a whole number in JSON, for a list" in each.message for each in whole.findings)
    assert '"factor": 4.0' in write_vllm(RotaryConfig(head_dim=32, scaling=Linear(factor=4, original_length=128)))
    lists = {"rope_type": "longrope", **_EXTENDED, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    with pytest.raises(ConfigError, match="this model pairs neighbours"):
        read_vllm(
            {}, {"model_type": "cohere", **_SHORT, "hidden_size": 32, "num_attention_heads": 2, "rope_scaling": lists}
        )


def test_vllm_takes_one_list_of_longrope_by_the_length_that_it_serves() -> None:
    # _get_and_verify_max_len looks for original_max_position_embeddings beside the group, or in the model's class;
    # Phi3LongRoPEScaledRotaryEmbedding takes the long factors where the served length exceeds the original one.
    lists = {"rope_type": "longrope", **_EXTENDED, "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    model = {"model_type": "llama", **_SHORT, "rope_theta": 1e4, "rope_scaling": lists}
    inside = read_vllm({}, model)
    beside = read_vllm({}, model | {"original_max_position_embeddings": 128})
    plain = RotaryConfig(head_dim=16).frequencies()
    for length in (64, 512):
        assert beside.config.frequencies(length) == plain
        assert [float(each) for each in inside.config.frequencies(length)] == pytest.approx(
            [float(each) / 2 for each in plain]
        )
    assert (beside.config.max_length, inside.config.max_length) == (128, 512)
    said = [next(each for each in read.findings if "long factors" in each.message) for read in (beside, inside)]
    assert "serves 128 tokens by default, with the short ones" in said[0].message
    assert "--max-model-len 512 for long texts" in said[0].remedy
    assert "serves 512 tokens, with the long ones: it looks for the original length beside" in said[1].message
    assert "--max-model-len 128 where texts are short" in said[1].remedy


def test_vllm_rotates_of_glm_what_the_class_of_transformers_does() -> None:
    """GlmForCausalLM is one of _TRANSFORMERS_SUPPORTED_MODELS."""
    quarter = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
    model = {"model_type": "glm", **_SHORT, "rope_parameters": quarter}
    assert read_vllm({}, model).config.rotary_dim == read_huggingface(model).config.rotary_dim == 4


def test_vllm_takes_the_base_of_dbrx_from_its_attention_group() -> None:
    """DbrxAttention in vLLM's models/dbrx.py; transformers 5 takes rope_parameters."""
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}
    model = {"model_type": "dbrx", "d_model": 64, "n_heads": 4, "attn_config": {"rope_theta": 5e5}}
    assert read_huggingface({**model, "rope_parameters": rope}).config.base == 1e4
    read = read_vllm({}, {**model, "rope_parameters": rope}).config
    assert (read.base, read.scaling, read.head_dim) == (5e5, Unscaled(), 16)


def test_vllm_takes_every_group_of_gpt_oss_for_yarn() -> None:
    """OAIAttention in vLLM's models/gpt_oss.py, which looks for the numbers of YaRN by their names."""
    model = {"model_type": "gpt_oss", "head_dim": 64, "rope_theta": 5e5, "max_position_embeddings": 32768}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    with pytest.raises(ConfigError, match="has no beta_fast and no beta_slow: vLLM's class of gpt-oss takes every"):
        read_vllm({}, {**model, "rope_scaling": yarn})
    with pytest.raises(ConfigError, match="has no original_max_position_embeddings and no beta_fast and no beta_slow"):
        read_vllm({}, {**model, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})
    whole = {**yarn, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "partial_rotary_factor": 0.5}
    read = read_vllm({}, {**model, "rope_scaling": {**whole, "attention_factor": 1.0}})
    assert read.config.rotary_dim == 64
    assert read.config.scaling == YaRN(factor=4.0, original_length=8192, truncate=False)
    assert any(
        "attention_factor of rope_scaling in config.json: vLLM's class" in each.message for each in read.findings
    )
    assert read_vllm({}, model).config.scaling == read_huggingface(model).config.scaling  # those of the class


@pytest.mark.parametrize("model_type", ["gte", "muse_spark_text", "step3p5"])
def test_vllm_has_shares_of_its_own_in_some_classes(model_type: str) -> None:
    """GteNewModelConfig, MuseSpark1xAttention and Step3p5Attention, which look at no partial_rotary_factor."""
    read = read_vllm({}, {"model_type": model_type, "head_dim": 64, "partial_rotary_factor": 0.5})
    assert {each.rotary_dim for each in read.configs.values()} == {64}


def test_vllm_scales_nothing_in_muse_spark() -> None:
    """MuseSpark1xAttention makes its RotaryEmbedding of a base alone."""
    part = {"model_type": "muse_spark_text", "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    read = read_vllm({}, {"model_type": "muse_spark", "text_config": part})
    assert read.config.scaling == Unscaled()


_DOTS3 = {"model_type": "dots3_note_text", "architectures": ["Dots3NoteForCausalLM"], "num_hidden_layers": 4}


@pytest.mark.parametrize(
    ("entries", "base", "said"),
    [
        ({"rope_theta": 8e6}, 8e6, None),
        ({}, 1e4, None),  # of DeepseekV3Config, which Dots3NoteConfig of vLLM is made of
        ({"rope_theta": 8e6, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 8e6, "rope_scaling of config.json has"),
        ({"rope_parameters": {"rope_theta": 8e6, "rope_type": "yarn", "factor": 4.0}}, 8e6, "has the scaling 'yarn'"),
    ],
)
def test_vllm_takes_two_bases_alone_in_dots3_note(entries: dict[str, Any], base: float, said: str | None) -> None:
    """models/dots3_note/nvidia/model.py: rope_parameters of rope_type default, with rope_theta and swa_rope_theta."""
    read = read_vllm({}, {**_DOTS3, "swa_rope_theta": 5e4, **entries})
    assert {name: each.base for name, each in read.configs.items()} == {
        "indexed_attention": base,
        "sliding_attention": 5e4,
    }
    assert {each.scaling for each in read.configs.values()} == {Unscaled()}
    found = [each.message for each in read.findings if "never scales" in each.message]
    assert len(found) == (said is not None)
    assert (said or "") in "".join(found)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"rope_theta": 8e6}, "swa_rope_theta is missing in config.json, and vLLM's class of dots3.note fails"),
        (
            {"rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 5e4}}},
            "has groups for layer types: vLLM's class of dots3.note looks for rope_theta there, and fails",
        ),
    ],
)
def test_vllm_fails_with_dots3_note_as_transformers_writes_it(entries: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_vllm({}, {**_DOTS3, **entries})


def test_vllm_scales_nothing_in_mimo_v2() -> None:
    """mimo_v2.py hands get_rope a group of its own."""
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "head_dim": 192, "num_hidden_layers": 4, "rope_theta": 5e6}
    mimo = {"model_type": "mimo_v2_flash", "architectures": ["MiMoV2FlashForCausalLM"], **sizes, "rope_scaling": yarn}
    read = read_vllm({}, mimo | {"partial_rotary_factor": 0.334})
    assert {each.scaling for each in read.configs.values()} == {Unscaled()}
    assert {each.rotary_dim for each in read.configs.values()} == {64}
    assert any("vLLM's class of 'mimo_v2_flash' takes the base alone" in each.message for each in read.findings)


def test_vllm_passes_over_the_factor_of_proportional() -> None:
    rope = {"rope_type": "proportional", "factor": 8.0, "partial_rotary_factor": 0.5, "rope_theta": 1e4}
    read = read_vllm({}, {"model_type": "llama", **_SHORT, "rope_parameters": rope})
    assert read.config.scaling == Proportional(rotary_fraction=0.5)
    assert any("vLLM passes over it" in each.message for each in read.findings)


def test_vllm_takes_gemma_3s_length_as_extended_already() -> None:
    configs = read_vllm({}, {"model_type": "gemma3_text", "max_position_embeddings": 131072, "rope_scaling": _LINEAR})
    assert configs.configs["full_attention"].scaling == Linear(factor=8.0)
    assert {config.max_length for config in configs.configs.values()} == {131072}
    assert read_vllm({}, _MODEL | {"rope_scaling": _LINEAR}).config.max_length == 8 * 2048


def test_deepseek_2_keeps_a_tenth_of_mscale_in_gguf() -> None:
    scaling = YaRN(factor=40.0, original_length=4096, mscale=0.707, mscale_all_dim=0.707)
    config = RotaryConfig(head_dim=64, layout="interleaved", scaling=scaling, max_length=163840)
    metadata = write_gguf(config, "deepseek2").metadata
    assert metadata["deepseek2.rope.scaling.yarn_log_multiplier"] == pytest.approx(0.0707)
    assert read_gguf(_float32(metadata)).config == config


def test_a_log_multiplier_that_llamacpp_passes_over_is_a_warning() -> None:
    # llama_model_llama::load_arch_hparams does not read it; that of mistral3 does. 0.1 ln 4 + 1 without it.
    yarn = {"type": "yarn", "factor": 4.0, "original_context_length": 512, "yarn_log_multiplier": 1.0}
    for architecture, scale in (("llama", 1.1386294), ("mistral3", 1.0)):
        keys = {f"{architecture}.rope.scaling.{name}": value for name, value in yarn.items()}
        read = read_gguf({"general.architecture": architecture, f"{architecture}.attention.key_length": 64, **keys})
        assert read.config.attention_scale() == pytest.approx(scale, rel=1e-6)
        said = [each.severity for each in read.findings if "passes over rope.scaling.yarn_log_mul" in each.message]
        assert said == ["warning"] * (architecture == "llama")


def _of(architecture: str, **scaling: Any) -> dict[str, Any]:
    """Return the metadata of an architecture with heads of 32 features and keys below ``rope.scaling.``."""
    keys = {"attention.key_length": 32, "context_length": 2048}
    keys |= {f"rope.scaling.{name}": value for name, value in scaling.items()}
    return {"general.architecture": architecture} | {f"{architecture}.{name}": value for name, value in keys.items()}


_YARN_BY_FOUR = {"type": "yarn", "factor": 4.0, "original_context_length": 512}
_SHORT_LIST, _LONG_LIST = "rope_factors_short.weight", "rope_factors_long.weight"


@pytest.mark.parametrize(
    ("key", "value"), [("yarn_beta_fast", 64.0), ("yarn_beta_slow", 4.0), ("yarn_ext_factor", 0.5)]
)
def test_keys_that_llamacpp_passes_over_are_warnings(key: str, value: float) -> None:
    """load_arch_hparams of grok.cpp and mistral3.cpp reads the betas, that of grok.cpp the mix; no other does."""
    read = read_gguf(_of("qwen2", **_YARN_BY_FOUR, **{key: value}))
    assert read.config.scaling == YaRN(factor=4.0, original_length=512)
    assert [each.severity for each in read.findings if f"passes over rope.scaling.{key}" in each.message] == ["warning"]
    with pytest.raises(ConfigError, match="cannot express beta_fast 64 and beta_slow 1 for the architecture 'qwen2'"):
        write_gguf(RotaryConfig(head_dim=32, scaling=YaRN(factor=4.0, original_length=512, beta_fast=64.0)), "qwen2")


def test_betas_are_heeded_where_the_loader_reads_them() -> None:
    for architecture in ("grok", "mistral3"):
        read = read_gguf(_of(architecture, **_YARN_BY_FOUR, yarn_beta_fast=64.0, yarn_beta_slow=4.0))
        assert read.config.scaling == YaRN(factor=4.0, original_length=512, beta_fast=64.0, beta_slow=4.0)
        assert read.findings == ()
    assert read_gguf(_of("qwen2", **_YARN_BY_FOUR, yarn_beta_fast=32.0, yarn_beta_slow=1.0)).findings == ()


@pytest.mark.parametrize("kind", [{}, {"type": "none"}, {"type": "linear"}, {"type": "longrope"}])
def test_lists_of_longrope_are_heeded_whatever_the_type(kind: dict[str, str]) -> None:
    """load_arch_tensors of phi3.cpp loads them without a look at the type, and Phi-3's converter writes none."""
    scaling = {"attn_factor": 1.19, "original_context_length": 512, **kind}
    read = read_gguf(_of("phi3", **scaling), {_SHORT_LIST: [1.5] * 16, _LONG_LIST: [4.0] * 16})
    assert read.config.scaling == LongRoPE(
        original_length=512,
        target_length=2048,
        short_factors=[1.5] * 16,
        long_factors=[4.0] * 16,
        attention_factor=1.19,
    )


def test_without_an_original_length_the_long_list_is_for_larger_contexts() -> None:
    """get_rope_factors: beyond n_ctx_orig_yarn, which is n_ctx_train where the file states none, or 0."""
    for scaling in ({}, {"original_context_length": 0}):
        metadata = _of("minicpm3", **scaling) | {"minicpm3.rope.dimension_count": 32}
        read = read_gguf(metadata, {_SHORT_LIST: [1.5] * 16, _LONG_LIST: [4.0] * 16})
        assert float(read.config.frequencies(2048)[0]) == pytest.approx(1 / 1.5)
        assert any("is missing or 0; llama.cpp takes context_length, 2048" in each.message for each in read.findings)
    yarn = read_gguf(_of("qwen2", type="yarn", factor=4.0, original_context_length=0))
    assert yarn.config.scaling == YaRN(factor=4.0, original_length=2048)


@pytest.mark.parametrize(("name", "other"), [(_SHORT_LIST, _LONG_LIST), (_LONG_LIST, _SHORT_LIST)])
def test_one_list_without_the_other_is_a_warning(name: str, other: str) -> None:
    read = read_gguf(_of("phi3", original_context_length=512), {name: [4.0] * 16})
    assert any(f"{other} is missing although {name} is there" in each.message for each in read.findings)
    scaling = read.config.scaling
    assert isinstance(scaling, LongRoPE)
    assert {scaling.short_factors, scaling.long_factors} == {(4.0,) * 16, (1.0,) * 16}


@pytest.mark.parametrize(
    ("architecture", "scaling", "tensors"),
    [
        ("qwen2", {}, {"rope_freqs.weight": [2.0] * 16}),
        ("qwen2", {"type": "longrope"}, {_SHORT_LIST: [1.0] * 16, _LONG_LIST: [2.0] * 16}),
        ("llama", {}, {_SHORT_LIST: [1.0] * 16, _LONG_LIST: [2.0] * 16}),
        ("phi3", {}, {"rope_freqs.weight": [2.0] * 16}),
    ],
)
def test_tensors_that_no_loader_takes_are_warnings(architecture: str, scaling: Any, tensors: Any) -> None:
    read = read_gguf(_of(architecture, **scaling), tensors)
    assert read.config.scaling == Unscaled()
    assert {each.severity for each in read.findings} == {"warning"}
    for name in tensors:
        assert any(f"{name} is passed over" in each.message for each in read.findings)


def test_tensors_that_no_loader_takes_are_not_written() -> None:
    scaling = Llama3(factor=8.0, original_length=2048)
    with pytest.raises(ConfigError, match="'llama3' for the architecture 'qwen2'"):
        write_gguf(RotaryConfig(head_dim=32, scaling=scaling), "qwen2")


def test_a_step_of_llama_3_is_told_from_its_factors() -> None:
    """Llama 4 Scout: factor 16, both corners 1, 8192 tokens; the converter's factors are 1 and 16."""
    wavelengths = 2 * math.pi * 500000.0 ** (np.arange(0, 128, 2) / 128)
    factors = np.where(wavelengths < 8192, 1.0, 16.0)
    metadata = _of("llama4") | {"llama4.attention.key_length": 128, "llama4.rope.freq_base": 500000.0}
    read = read_gguf(metadata, {"rope_freqs.weight": factors.tolist()})
    assert read.config.scaling == Llama3(factor=16.0, original_length=8192, high_frequency_factor=1.0)
    expected = 500000.0 ** (-np.arange(0, 128, 2) / 128) / factors
    assert np.allclose([float(each) for each in read.config.frequencies()], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("scaling", "by_scaling", "scale"),
    [({}, 1.0, 1.0), ({"factor": 2.0}, 2.0, 1.0), ({"type": "none", "factor": 2.0}, 1.0, 1.0)],
)
def test_factors_of_no_known_scaling_divide_the_frequencies(scaling: Any, by_scaling: float, scale: float) -> None:
    """ggml_rope_ext: theta / freq_factors, which freq_scale multiplies."""
    factors = [1.0, 2.0, 1.3, 7.0] * 4
    read = read_gguf(_of("llama", **scaling), {"rope_freqs.weight": factors})
    expected = 10000.0 ** (-np.arange(0, 32, 2) / 32) / factors / by_scaling
    for length in (1, 2048, 4096):
        assert np.allclose([float(each) for each in read.config.frequencies(length)], expected, rtol=1e-12)
    assert read.config.attention_scale() == scale
    assert any("divides the frequencies by the factors in rope_freqs.weight" in each.message for each in read.findings)


def test_factors_beside_yarn_divide_what_yarn_makes() -> None:
    """rope_yarn in ggml: both angles that the ramp mixes are of the divided frequency."""
    factors = np.linspace(1, 8, 16)
    read = read_gguf(_of("llama", **_YARN_BY_FOUR), {"rope_freqs.weight": factors.tolist()})
    yarn = YaRN(factor=4.0, original_length=512)
    expected = np.array([float(each) for each in yarn.frequencies(32, 10000.0)]) / factors
    assert np.allclose([float(each) for each in read.config.frequencies()], expected, rtol=1e-12)
    assert read.config.attention_scale() == yarn.attention_scale()


def test_a_factor_beside_the_type_none_is_a_warning() -> None:
    read = read_gguf(_of("llama", type="none", factor=4.0))
    assert read.config.scaling == Unscaled()
    assert [each.severity for each in read.findings] == ["warning"]
    assert "has no effect with rope.scaling.type 'none'" in read.findings[0].message


def test_an_original_length_above_the_context_length_is_a_warning() -> None:
    read = read_gguf(_of("qwen2", type="yarn", factor=4.0, original_context_length=8192))
    said = "rope.scaling.original_context_length is 8192, above context_length 2048"
    assert any(said in each.message and each.severity == "warning" for each in read.findings)


def test_all_scores_of_deepseek_2_are_scaled_besides() -> None:
    """deepseek2.cpp: kq_scale is mscale * mscale / sqrt(head), mscale 0.1 ln 40 + 1 for DeepSeek V3."""
    keys = {"rope.dimension_count": 64, "attention.key_length": 576, "attention.key_length_mla": 192}
    yarn = {"type": "yarn", "factor": 40.0, "original_context_length": 4096, "yarn_log_multiplier": 0.1}
    for architecture, scale in (("deepseek2", 1.87385), ("deepseek32", 1.87385), ("glm-dsa", 1.87385)):
        metadata = _of(architecture, **yarn) | {f"{architecture}.{name}": value for name, value in keys.items()}
        notes = [each.message for each in read_gguf(metadata).findings if each.severity == "note"]
        assert any(f"multiplies all scores of this architecture by {scale}" in note for note in notes)
        assert any("Heads have 192 features, of which the last 64 are rotated" in note for note in notes)


def test_sliding_attention_has_base_and_factors_of_its_own() -> None:
    """gemma4.cpp: rope_freqs where is_swa(il) is false, base 10000 and scale 1 where it is true, unless stated."""
    keys = {
        "attention.key_length": 512,
        "attention.key_length_swa": 256,
        "rope.dimension_count": 512,
        "rope.dimension_count_swa": 256,
        "rope.freq_base": 1e6,
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": [True, True, False],
        "block_count": 3,
    }
    factors = {"rope_freqs.weight": [1.0] * 64 + [1e30] * 192}
    for stated, base in (({}, 10000.0), ({"rope.freq_base_swa": 20000.0}, 20000.0)):
        metadata = _of("gemma4") | {f"gemma4.{name}": value for name, value in (keys | stated).items()}
        read = read_gguf(metadata, factors)
        assert read.configs["full_attention"].scaling == Proportional(rotary_fraction=0.25)
        assert read.configs["full_attention"].base == 1e6
        assert read.configs["sliding_attention"] == RotaryConfig(head_dim=256, base=base, max_length=2048)
        assert [kind.config for kind in read.layers] == ["sliding_attention", "full_attention"]


def test_sliding_attention_shares_the_scaling_where_the_loader_copies_it() -> None:
    """openai-moe.cpp and gemma2.cpp copy base and scale; olmo2's graph passes over a base of its own."""
    swa = {"rope.freq_base_swa": 5000.0, "attention.sliding_window": 128}
    for architecture, base in (("gpt-oss", 5000.0), ("gemma2", 5000.0), ("qwen2", None)):
        metadata = _of(architecture, **_YARN_BY_FOUR) | {f"{architecture}.{key}": value for key, value in swa.items()}
        read = read_gguf(metadata)
        assert {config.scaling for config in read.configs.values()} == {YaRN(factor=4.0, original_length=512)}
        assert ("sliding_attention" in read.configs) is (base is not None)
        assert any("passes over rope.freq_base_swa" in each.message for each in read.findings) is (base is None)


def test_gemma_3_has_a_base_of_its_own_for_sliding_attention_in_gguf() -> None:
    both = {
        "full_attention": RotaryConfig(head_dim=256, base=1e6, scaling=Linear(factor=8.0)),
        "sliding_attention": RotaryConfig(head_dim=256),
    }
    metadata = write_gguf(both, "gemma3").metadata
    assert metadata["gemma3.rope.freq_base_swa"] == 10000.0
    assert read_gguf(metadata).configs == both


_FILE = {"general.architecture": "qwen2", "qwen2.attention.key_length": 32, "qwen2.context_length": 2048}


def _file(**keys: Any) -> dict[str, Any]:
    return _FILE | {"qwen2." + key.replace("__", "."): value for key, value in keys.items()}


def test_an_impossible_base_of_sliding_layers_is_passed_over_where_nothing_reads_it() -> None:
    """Loaders of architectures without a window read no rope.freq_base_swa."""
    read = read_gguf(_of("qwen3") | {"qwen3.rope.freq_base_swa": -5.0})
    assert read.config.base == 1e4
    assert any("passes over rope.freq_base_swa -5" in each.message for each in read.findings)
    with pytest.raises(ConfigError, match=r"rope\.freq_base_swa in .* is -5"):
        read_gguf(_of("gemma3") | {"gemma3.rope.freq_base_swa": -5.0})


def test_gguf_without_a_type_is_linear() -> None:
    assert read_gguf(_file(rope__scaling__factor=4.0)).config.scaling == Linear(factor=4.0)
    assert read_gguf(_FILE).config == RotaryConfig(head_dim=32, max_length=2048)


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ({}, {}, "no general.architecture"),
        (
            {"general.architecture": "qwen2", "qwen2.attention.head_count": [0]},
            {},
            r"neither attention.key_length nor an embedding_length \(missing\) that attention.head_count \(\[0\]\)",
        ),
        (
            _file(block_count=2**32 - 1, attention__key_length_swa=16),
            {},
            "block_count .* 4294967295; 10000 is the most",
        ),
        (_file(rope__scaling__type="yarm"), {}, "Unknown rope.scaling.type 'yarm'.* Did you mean 'yarn'"),
        (_file(rope__scaling__attn_factor=0.0), {}, "attn_factor in .* is 0: all scores are 0 then"),
        (_file(rope__scaling__type="yarn", rope__scaling__factor=-2.0), {}, "takes its logarithm, which is no number"),
        (_of("phi2", attn_factor=8.0) | {"phi2.rope.dimension_count": 1}, {}, "must be even; got 1"),
        (_file(rope__scaling__type=""), {}, "Unknown rope.scaling.type ''"),
        (_of("llama"), {"rope_freqs.weight": [1.0, 2.0]}, "holds 2 factors, but 32 rotated features are 16 pairs"),
        (_of("llama"), {"rope_freqs.weight": [1.0] * 15 + [0.0]}, "rope_freqs.weight holds 0 for pair 15"),
        (_of("llama"), {"rope_freqs.weight": [math.nan] * 16}, "rope_freqs.weight holds nan for pair 0"),
        (_of("phi3"), {"rope_factors_long.weight": [2.0] * 15 + [0.0]}, "rope_factors_long.weight holds 0"),
        (_of("grok", **_YARN_BY_FOUR, yarn_beta_fast=-1.0), {}, "yarn_beta_fast is -1: llama.cpp takes the logarithm"),
    ],
)
def test_what_is_wrong_in_gguf_is_refused(metadata: Any, tensors: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_gguf(metadata, tensors)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--rope-scalling yarn", "Unknown flag '--rope-scalling'.* Did you mean '--rope-scaling'"),
        ("--rope-scaling yarm", "Unknown --rope-scaling 'yarm'.* Did you mean 'yarn'"),
        ("--rope-scale", "has no value"),
        ("--rope-scale four", "must be a number; got 'four'"),
        ("--yarn-attn-factor 0", "--yarn-attn-factor 0 without YaRN multiplies cosine and sine, which no scaling"),
    ],
)
def test_wrong_flags_of_llamacpp_are_refused(flags: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_llamacpp(flags, RotaryConfig(head_dim=32, max_length=2048))


@pytest.mark.parametrize(
    "flags",
    [
        "--rope_freq_base 5e5 --rope_scaling linear --rope_scale 4",
        "--rope-freq_base 5e5 --rope_freq-scale 0.25 -c 8192",
    ],
)
def test_llamacpp_takes_underscores_for_dashes(flags: str) -> None:
    config = read_llamacpp(flags, RotaryConfig(head_dim=32, max_length=2048)).config
    assert (config.base, config.scaling) == (5e5, Linear(factor=4.0, original_length=2048))
    twice = read_llamacpp(f"--rope-freq-base 1e6 {flags}", RotaryConfig(head_dim=32, max_length=2048))
    assert (twice.config, twice.findings[0].severity) == (config, "warning")
    assert "--rope-freq-base is given twice, 1e6 and 5e5: llama.cpp takes the last" in twice.findings[0].message


@pytest.mark.parametrize("flags", ["--rope-scale 4", "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 1024"])
def test_flags_come_on_top_of_a_scaling_in_tensors(flags: str) -> None:
    """ggml_rope_ext: theta / freq_factors, which freq_scale multiplies and YaRN's ramp mixes."""
    lists = LongRoPE(short_factors=[1.0] * 16, long_factors=[3.0] * 16, original_length=2048, factor=4)
    by_flags = read_llamacpp(flags, RotaryConfig(head_dim=32, max_length=8192)).config
    for scaling in (Llama3(factor=8.0, original_length=2048), lists):
        model = RotaryConfig(head_dim=32, max_length=8192, scaling=scaling)
        parsed = read_llamacpp(flags, model)
        assert "tensors that no flag removes: llama.cpp divides the frequencies by" in parsed.findings[-1].message
        assert parsed.config.attention_scale() == pytest.approx(model.attention_scale() * by_flags.attention_scale())
        wanted = [
            float(own * other / plain)
            for own, other, plain in zip(
                scaling.fixed_for(8192).frequencies(32, 1e4),
                by_flags.frequencies(),
                Unscaled().frequencies(32, 1e4),
                strict=True,
            )
        ]
        assert [float(each) for each in parsed.config.frequencies(8192)] == pytest.approx(wanted, rel=1e-9)
    with pytest.raises(ConfigError, match=r"beside a factor or without a length; .* Leave out --rope-scale"):
        read_llamacpp("--rope-scale 4", RotaryConfig(head_dim=32, scaling=Proportional(rotary_fraction=0.5)))


def _as_ggml(dim: int, base: float, factor: float, original: int, mix: float, fast: float, slow: float) -> Any:
    """Return frequencies by the formulas of ``ggml_rope_yarn_corr_dims``, ``rope_yarn_ramp`` and ``rope_yarn``."""
    index = np.arange(dim // 2)
    plain = base ** (-2 * index / dim)

    def corner(turns: float) -> float:
        logarithm = math.log(original / (turns * 2 * math.pi)) if turns else math.inf
        return float(dim * logarithm / (2 * math.log(base)))

    low, high = max(0, np.floor(corner(fast))), min(dim - 1, np.ceil(corner(slow)))
    kept = (1 - np.clip((index - low) / max(0.001, high - low), 0, 1)) * mix
    return plain / factor * (1 - kept) + plain * kept


@pytest.mark.parametrize(
    ("architecture", "scaling", "expected", "scale", "said"),
    [
        ("qwen2", {"factor": 0.5}, (0.5, 0, 32, 1), 1, "factor 0.5 turns all pairs 2 times as fast"),
        ("qwen2", {"factor": -2.0}, (-2.0, 0, 32, 1), 1, "factor -2 turns all pairs backwards"),
        ("qwen2", {"type": "yarn", "factor": 0.5}, (0.5, 1, 32, 1), 1, "factor 0.5 turns slow pairs 2 times as fast"),
        (
            "grok",
            {"type": "yarn", "factor": 4.0, "yarn_beta_fast": 2.0, "yarn_beta_slow": 16.0},
            (4, 1, 2, 16),
            1.1386294,
            "yarn_beta_slow 16 is above yarn_beta_fast 2",
        ),
        (
            "grok",
            {"type": "yarn", "factor": 4.0, "yarn_ext_factor": 0.5, "yarn_beta_fast": 32.0},
            (4, 0.5, 32, 1),
            1.1386294,
            "yarn_ext_factor 0.5: llama.cpp mixes YaRN with interpolation, as is shown",
        ),
        ("grok", {"type": "yarn", "factor": 4.0, "yarn_ext_factor": 0.0}, (4, 0, 32, 1), 1, ""),
        (
            "mistral3",
            {"type": "yarn", "factor": 4.0, "yarn_beta_slow": 0.0},
            (4, 1, 32, 0),
            1.1386294,
            "yarn_beta_slow is 0: llama.cpp ends the ramp at the last feature then",
        ),
        (
            "mistral3",
            {"type": "yarn", "factor": 4.0, "yarn_beta_fast": 0.0},
            (4, 1, 0, 1),
            1.1386294,
            "yarn_beta_fast is 0: llama.cpp keeps the frequencies of all pairs then",
        ),
        ("qwen2", {"attn_factor": 1.2}, (1, 0, 32, 1), 1.2, "attn_factor 1.2 beside no rope.scaling.type"),
        (
            "qwen2",
            {"type": "linear", "factor": 4.0, "attn_factor": 1.2},
            (4, 0, 32, 1),
            1.2,
            "attn_factor 1.2 beside rope.scaling.type 'linear': llama.cpp multiplies cosine and sine by it",
        ),
        (
            "olmo2",
            {"type": "yarn", "factor": 4.0, "attn_factor": 1.1386294},
            (4, 1, 32, 1),
            1.1386294**2,
            "is YaRN's own attention scale, which llama.cpp multiplies by it: 1.29648",
        ),
        (
            "mistral3",
            {"type": "yarn", "factor": 4.0, "yarn_log_multiplier": 1.0, "attn_factor": 0.9},
            (4, 1, 32, 1),
            0.9,
            "",
        ),
    ],
)
def test_numbers_that_no_converter_writes_are_read_as_ggml_computes_them(
    architecture: str, scaling: Any, expected: tuple[float, float, float, float], scale: float, said: str
) -> None:
    """``llama_context::llama_context`` and ``rope_yarn``; an oracle built on them computes the same."""
    factor, mix, fast, slow = expected
    read = read_gguf(_of(architecture, original_context_length=512, **scaling))
    wanted = _as_ggml(32, 1e4, factor, 512, mix, fast, slow)
    assert [float(each) for each in read.config.frequencies(2048)] == pytest.approx(list(wanted), rel=1e-6)
    assert read.config.attention_scale(2048) == pytest.approx(scale, rel=1e-6)
    severities = ("error", "warning") if "is 0" in said else ("warning",)
    assert any(said in each.message and each.severity in severities for each in read.findings) or not said


@pytest.mark.parametrize(("kind", "scale"), [("longrope", 1.2), ("yarn", 1.2 * 1.1386294)])
def test_a_factor_beside_the_lists_of_longrope_divides_as_well(kind: str, scale: float) -> None:
    """``rope_freq_scale`` multiplies what the factors of the tensors divide, and YaRN's ramp mixes both."""
    stated = {"type": kind, "factor": 4.0, "original_context_length": 512, "attn_factor": 1.2}
    read = read_gguf(_of("phi3", **stated), {_SHORT_LIST: [1.5] * 16, _LONG_LIST: [3.0] * 16})
    plain = _as_ggml(32, 1e4, 4.0, 512, float(kind == "yarn"), 32, 1)
    for length, factor in ((512, 1.5), (513, 3.0)):
        found = [float(each) for each in read.config.frequencies(length)]
        assert found == pytest.approx(list(plain / factor), rel=1e-6)
    assert read.config.attention_scale() == pytest.approx(scale, rel=1e-6)
    assert any("rope.scaling.factor 4 stands beside the lists of LongRoPE" in each.message for each in read.findings)


@pytest.mark.parametrize(
    ("flags", "expected", "scale", "said"),
    [
        ("--rope-scaling yarn --rope-freq-scale 2", (0.5, 1, 32, 1), 1, "multiplies positions by 2"),
        (
            "--rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0.5",
            (4, 0.5, 32, 1),
            1.1386294,
            "--yarn-ext-factor 0.5 mixes YaRN with interpolation",
        ),
        (
            "--rope-scaling yarn --rope-scale 4 --yarn-beta-fast 2 --yarn-beta-slow 16",
            (4, 1, 2, 16),
            1.1386294,
            "--yarn-beta-slow 16 is above --yarn-beta-fast 2",
        ),
        (
            "--rope-scaling yarn --rope-scale 4 --yarn-beta-slow 0",
            (4, 1, 32, 0),
            1.1386294,
            "--yarn-beta-slow is 0: llama.cpp ends the ramp at the last feature then",
        ),
        ("--rope-scale 4 --yarn-attn-factor 0.7", (4, 0, 32, 1), 0.7, "--yarn-attn-factor 0.7 without YaRN multiplies"),
        ("--yarn-attn-factor 0.7", (1, 0, 32, 1), 0.7, "without YaRN multiplies cosine and sine"),
    ],
)
def test_odd_flags_are_read_as_ggml_computes_them(
    flags: str, expected: tuple[float, float, float, float], scale: float, said: str
) -> None:
    factor, mix, fast, slow = expected
    parsed = read_llamacpp(f"{flags} --yarn-orig-ctx 512", RotaryConfig(head_dim=32, max_length=2048))
    wanted = _as_ggml(32, 1e4, factor, 512, mix, fast, slow)
    assert [float(each) for each in parsed.config.frequencies(2048)] == pytest.approx(list(wanted), rel=1e-6)
    assert parsed.config.attention_scale(2048) == pytest.approx(scale, rel=1e-6)
    assert any(said in each.message for each in parsed.findings)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--rope-scale 4", "is linear interpolation"),
        ("--rope-scaling yarn", "extends nothing"),
        ("--rope-scaling yarn --rope-scale 4", "takes the context length of the file, 2048"),
        ("--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 2048 --yarn-attn-factor 2", "has no effect since"),
        ("--rope-freq-scale 0.25", "--rope-freq-scale 0.25 without --rope-scaling is linear interpolation"),
        ("--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 0", "--yarn-orig-ctx is 0: llama.cpp takes .* 2048"),
        ("--rope-scaling none --rope-scale 4", "--rope-scale 4 has no effect with --rope-scaling none"),
        ("--yarn-beta-fast 16", "--yarn-beta-fast without YaRN has no effect"),
        ("--rope-scaling linear --rope-scale 4 --yarn-orig-ctx 512", "--yarn-orig-ctx without YaRN has no effect"),
        ("-c 16384", "16384 tokens, but the model is declared for 2048"),
        ("--rope-scaling linear --rope-scale 4 -c 16384", "16384 tokens, but the scaling 'linear' extends .* to 8192"),
    ],
)
def test_doubtful_flags_of_llamacpp_are_findings(flags: str, message: str) -> None:
    findings = read_llamacpp(flags, RotaryConfig(head_dim=32, max_length=2048)).findings
    assert len(findings) == 1
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(findings[0].message)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "has no rotary positions"),
        ({"rotary_dim": 0}, "have no head_dim"),
        ({"rotary_dim": 32, "head_dim": 32, "rotary_bas": 1.0}, "Did you mean 'rotary_base'"),
        ({"rotary_dim": 32, "head_dim": 32, "rotary_scaling_type": 3}, "Unknown rotary_scaling_type 3"),
        # as CTranslate2's converter writes Llama 3.1
        (
            {"rotary_dim": 0, "head_dim": 32, "rotary_scaling_type": 2, "rotary_low_freq_factor": 1.0},
            "the engine then scales nothing",
        ),
        (
            {
                "rotary_dim": 32,
                "head_dim": 32,
                "original_max_position_embeddings": 1024,
                "max_position_embeddings": 2048,
            },
            "make the engine scale cosine and sine by 1.04881",
        ),
        ({"rotary_dim": 32, "head_dim": 32, "rotary_scaling_type": 1}, "the engine needs it for Su"),
    ],
)
def test_what_is_wrong_in_ctranslate2_is_refused(attributes: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_ctranslate2(attributes)


def test_ctranslate2_takes_a_larger_base_for_ntk() -> None:
    written = write_ctranslate2(RotaryConfig(head_dim=64, scaling=NTKAware(factor=2.0)))
    assert written["rotary_base"] == pytest.approx(10000 * 2 ** (64 / 62))


def test_a_factor_of_0_in_a_gguf_file_is_not_missing() -> None:
    file = {"general.architecture": "llama", "llama.attention.key_length": 64, "llama.rope.scaling.type": "linear"}
    said = " ".join(each.message for each in read_gguf(file | {"llama.rope.scaling.factor": 0.0}).findings)
    assert "rope.scaling.factor is 0 beside rope.scaling.type 'linear'" in said
    assert "rope.scaling.factor is missing" in " ".join(each.message for each in read_gguf(file).findings)


def test_keys_of_another_architecture_are_passed_over() -> None:
    file = {"general.architecture": "qwen2", "qwen2.attention.key_length": 64, "llama.rope.freq_base": 5e5}
    read = read_gguf(file)
    assert read.config.base == 10000
    assert "llama.rope.freq_base is 500000.0, but the architecture is 'qwen2'" in read.findings[0].message


def test_messages_speak_of_overrides_where_there_are_some() -> None:
    scaling = {"rope_type": "linear", "factor": 1e308}
    for overrides, words in ((scaling, True), ({}, False)):
        content = _MODEL | ({} if overrides else {"rope_scaling": scaling})
        with pytest.raises(ConfigError) as caught:
            read_vllm({"rope_scaling": overrides} if overrides else {}, content)
        assert ("with these overrides" in str(caught.value)) is words
