from __future__ import annotations

import contextlib
import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_models import GEMMA_3, GPT_J, MODELS, PHI3_LONG
from rotary_examples import assert_same, configs

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import SCALINGS, DynamicNTK, Linear, LongRoPE, NTKAware, Proportional, Unscaled
from locant.rotary_configs import read_huggingface, read_vllm, write_huggingface
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.huggingface.reading import read_config


def _llama(**entries: Any) -> dict[str, Any]:
    width = {"hidden_size": 256, "num_attention_heads": 8, "max_position_embeddings": 8192, "rope_theta": 10000.0}
    return {"model_type": "llama", **width, **entries}


def _scaled(**rope: Any) -> dict[str, Any]:
    return _llama(rope_scaling=rope)


def test_phi_3_states_its_original_length_outside() -> None:
    scaling = read_huggingface(MODELS["Phi-3 mini 128k"]).config.scaling
    assert isinstance(scaling, LongRoPE)
    assert (scaling.factor, scaling.original_length, list(scaling.long_factors)) == (32, 4096, PHI3_LONG)
    assert scaling.attention_scale() == pytest.approx(1.1902380714238083)  # sqrt(1 + ln 32 / ln 4096), Phi-3's code


def test_old_names_alone_or_beside_new_ones_are_no_contradiction() -> None:
    phi = MODELS["Phi-3 mini 128k"]
    for names in ({"type": "longrope"}, {"type": "su", "rope_type": "longrope"}):
        old = {**phi, "rope_scaling": {**phi["rope_scaling"], **names}}
        assert read_huggingface(old) == read_huggingface(phi)
    axes = _scaled(type="mrope", rope_type="default", mrope_section=[4, 6, 6])
    assert read_huggingface({**axes, "model_type": "qwen2_vl"}).multimodal


def test_deepseek_v2s_scale_of_all_scores_is_a_finding() -> None:
    reading = read_huggingface(MODELS["DeepSeek-V2-Lite"])
    assert reading.config.attention_scale() == 1
    # modeling_deepseek.py: yarn_get_mscale(40, 0.707)^2, by which softmax_scale is multiplied
    assert [finding.severity for finding in reading.findings] == ["note"]
    assert "1.58963" in reading.findings[0].message


def test_gemma_3_has_two_rotations() -> None:
    configs = read_huggingface(GEMMA_3).configs
    assert configs["full_attention"] == RotaryConfig(head_dim=256, base=1e6, scaling=Linear(factor=8.0))
    assert configs["sliding_attention"] == RotaryConfig(head_dim=256, base=1e4)
    with pytest.raises(ConfigError, match="2 rotary configurations"):
        _ = read_huggingface(GEMMA_3).config


def test_gpt_j_rotates_neighbours_in_part_of_the_head() -> None:
    config = read_huggingface(GPT_J).config
    assert (config.head_dim, config.rotary_dim, config.layout, config.max_length) == (256, 64, "interleaved", 2048)


def test_release_5_nests_parameters_by_layer_type() -> None:
    full = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
    rope = {"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "none": None}
    configs = read_huggingface({**_llama(model_type="novel", rope_theta=None), "rope_parameters": rope}).configs
    assert list(configs) == ["full_attention", "sliding_attention"]
    assert configs["full_attention"].scaling == Proportional(rotary_fraction=0.25)
    assert configs["full_attention"].rotary_dim == 32


def test_sections_of_several_axes_are_kept() -> None:
    rope = {"type": "mrope", "mrope_section": [4, 6, 6]}
    reading = read_huggingface(_scaled(**rope) | {"model_type": "qwen2_vl"})
    axes = (0,) * 4 + (1,) * 6 + (2,) * 6
    assert reading.multimodal == {"all": {"sections": (4, 6, 6), "interleaved": False, "axis_of_pair": axes}}
    assert reading.config.scaling == Unscaled()
    assert "exact for text alone" in reading.findings[0].message


@pytest.mark.sampled(9)
@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("name", list(SCALINGS))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_what_is_written_reads_the_same(name: str, version: Any, data: st.DataObject) -> None:
    config = data.draw(configs(name))
    if name == "proportional" and version == "4":
        with pytest.raises(ConfigError, match="transformers 4 cannot express the scaling 'proportional'"):
            write_huggingface(config, version)
        return
    written = write_huggingface(config, version, model_type="stablelm")
    assert_same(read_huggingface({"model_type": "stablelm"} | written).config, config)


@pytest.mark.parametrize("version", ["4", "5"])
def test_what_a_release_keeps_elsewhere_reads_the_same(version: Any) -> None:
    neox = RotaryConfig(head_dim=96, rotary_dim=24, base=2e4, max_length=2048)
    deepseek = RotaryConfig(head_dim=64, layout="interleaved", max_length=4096)
    switched = RotaryConfig(head_dim=64, max_length=4096)
    dynamic = RotaryConfig(head_dim=64, scaling=DynamicNTK(original_length=4096, factor=2.0, length_step=1))
    for model_type, config in [("gpt_neox", neox), ("deepseek_v3", deepseek), ("deepseek_v3", switched)]:
        written = write_huggingface(config, version, model_type=model_type)
        assert read_huggingface({"model_type": model_type} | written).config == config
    read = read_huggingface({"model_type": "llama"} | write_huggingface(dynamic, version)).config
    assert read.scaling == dynamic.scaling
    gemma = read_huggingface(GEMMA_3).configs
    written = write_huggingface(gemma, version, model_type="gemma3_text")
    assert read_huggingface({"model_type": "gemma3_text"} | written).configs == gemma
    gptj = RotaryConfig(head_dim=256, rotary_dim=64, layout="interleaved", max_length=2048)
    written = write_huggingface(gptj, version, model_type="gptj")
    assert read_huggingface({"model_type": "gptj", "head_dim": 256} | written).config == gptj


def test_release_4_keeps_gpt_neox_names() -> None:
    written = write_huggingface(RotaryConfig(head_dim=96, rotary_dim=24), "4", model_type="gpt_neox")
    assert written == {
        "head_dim": 96,
        "rotary_emb_base": 10000.0,
        "rotary_pct": 0.25,
        "rope_scaling": None,
        "rope_parameters": None,
    }


def test_static_ntk_is_written_as_the_larger_base() -> None:
    config = RotaryConfig(head_dim=128, scaling=NTKAware(factor=4.0, original_length=2048))
    rope = write_huggingface(config)["rope_parameters"]
    assert rope == {"rope_type": "default", "rope_theta": pytest.approx(10000 * 4 ** (128 / 126), rel=1e-14)}
    dynamic = RotaryConfig(head_dim=128, scaling=DynamicNTK(original_length=2048, target_length=8192))
    assert write_huggingface(dynamic)["rope_parameters"] == rope


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (RotaryConfig(head_dim=64, layout="interleaved"), {}, "cannot express layout 'interleaved'"),
        (RotaryConfig(head_dim=64), {"model_type": "cohere"}, "cannot express layout 'half': the class of .* 'cohere'"),
        (RotaryConfig(head_dim=64, scaling=DynamicNTK(original_length=64)), {}, "length_step 256"),
        (
            RotaryConfig(head_dim=64, max_length=128, scaling=DynamicNTK(original_length=64, length_step=1)),
            {},
            "max_length 128, original_length 64",
        ),
        (
            RotaryConfig(
                head_dim=4,
                scaling=LongRoPE(
                    short_factors=[1, 1], long_factors=[1, 2], original_length=8, factor=2, final_length=9
                ),
            ),
            {},
            "cannot express final_length 9",
        ),
        (RotaryConfig(head_dim=8, rotary_dim=4, scaling=Proportional(rotary_fraction=0.5)), {}, "takes the whole head"),
        ({"a": RotaryConfig(head_dim=8), "b": RotaryConfig(head_dim=16)}, {}, "a, b differ"),
        ({"a": RotaryConfig(head_dim=8), "all": RotaryConfig(head_dim=8)}, {}, "cannot stand beside others"),
        ({}, {}, "no rotary configuration"),
        (
            {"a": RotaryConfig(head_dim=8)},
            {"version": "4"},
            "transformers 4 cannot express rotary positions of .* a apart",
        ),
        (RotaryConfig(head_dim=8), {"version": "6"}, "Known: 4, 5"),
        (RotaryConfig(head_dim=8, base=2e4, layout="interleaved"), {"model_type": "gptj"}, "holds rotary_dim and"),
    ],
)
def test_what_cannot_be_said_is_refused(config: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        write_huggingface(config, **options)


_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (_scaled(rope_type="yarm", factor=2.0), "Unknown rope_type 'yarm'.* Did you mean 'yarn'"),
        (_scaled(type="linear"), "'factor' is missing in rope_scaling"),
        (_scaled(type="linear", factor="4"), "'factor' in rope_scaling of config.json must be a number; got '4'"),
        (_scaled(type="linear", factor=True), "must be a number; got true"),
        (_scaled(type="linear", factor={"a": 1}), "'factor' in rope_scaling of config.json must be a number"),
        (_scaled(type={"a": 1}, factor=4.0), "'type' in rope_scaling of config.json must be text"),
        (_llama(layer_types=[None], num_hidden_layers=1), r"must be a list of the layers' types; got \[null\]"),
        (_scaled(type="linear", factor=0), "factor in rope_scaling of config.json is 0"),
        (_scaled(type="linear", factor=0.25) | {"model_type": "novel"}, "at least 1"),
        (_llama(rope_scaling="linear"), "'rope_scaling' in config.json must be a group of named values"),
        (
            _scaled(type="longrope", short_factor=[1], long_factor=[1], original_max_position_embeddings=2048),
            "1 numbers in long_factor and short_factor, but 32 rotated features are 16 pairs",
        ),
        (_scaled(type="mrope"), "without mrope_section"),
        (
            _llama(model_type="novel", partial_rotary_factor=0.5, rotary_dim=8),
            "rotary_dim is 8, but partial_rotary_factor 0.5",
        ),
        (_llama(model_type="novel", qk_rope_head_dim=16, head_dim=64), "head_dim 64 and qk_rope_head_dim 16"),
        ({"hidden_size": 100, "num_attention_heads": 3}, r"hidden_size \(100\) that num_attention_heads \(3\)"),
        (_llama(model_type="novel", rotary=False), "rotary false: the model is said to have no rotary positions"),
        (_llama(model_type="novel", alibi=True), "ALiBi in place of rotary positions"),
        (_llama(max_position_embeddings=10**400), "must be a positive whole number; got 1000"),
        (_llama(max_position_embeddings=10**300), "must be at most 9223372036854775807; got 1000"),
        (_llama(rope_theta=-(10**400)), "'rope_theta' in config.json must be a number; got -1000"),
        (_scaled(type="linear", factor=10**400), "'factor' in rope_scaling of config.json must be a number"),
        (_scaled(rope_type="yarn", factor=1e308, original_max_position_embeddings=2**60), "64-bit integers"),
        (
            _scaled(
                rope_type="yarn", factor=2.0**62, mscale=1, mscale_all_dim=1e308, original_max_position_embeddings=1
            ),
            "make an attention scale beyond any float",
        ),
        (_llama(max_position_embeddings="8k"), "must be a positive whole number; got '8k'"),
    ],
)
def test_what_cannot_be_right_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_huggingface(config)


@pytest.mark.parametrize(
    ("config", "severity", "message"),
    [
        (
            _scaled(**_YARN, beta_fats=3),
            "error",
            "'beta_fats' in rope_scaling of config.json.* Did you mean 'beta_fast'",
        ),
        (
            _scaled(**_YARN, attn_factor=1.0),
            "error",
            "'attn_factor' in rope_scaling .* Did you mean 'attention_factor'",
        ),
        (
            _llama(rope_scalling={}),
            "error",
            "'rope_scalling' in config.json is not known.* Did you mean 'rope_scaling'",
        ),
        (_llama(max_position_embedings=4), "error", "Did you mean 'max_position_embeddings'"),
        (_llama(rope_base=5e5), "warning", "'rope_base' in config.json is 500000.0, which the class of 'llama'"),
        (_llama(rope_bases=5e5), "warning", "'rope_bases' in config.json is 500000.0, and nothing known here reads it"),
        (
            _scaled(type="dynamic", alpha=1000.0, factor=1.0),
            "warning",
            "'alpha' in rope_scaling .* is 1000.0, and nothing",
        ),
    ],
)
def test_what_the_class_passes_over_is_said(config: dict[str, Any], severity: str, message: str) -> None:
    found = [each for each in read_huggingface(config).findings if re.search(message, each.message)]
    assert [each.severity for each in found] == [severity]
    if severity == "warning":  # what other code makes of it is not known
        unknown = config | {"model_type": "novel", "rope_ratio": 3}
        with pytest.raises(ConfigError, match="is not known here"):
            read_huggingface(unknown)


@pytest.mark.parametrize(
    ("config", "message", "remedy"),
    [
        (_scaled(type="yarn", factor=4.0), "silently takes max_position_embeddings, 8192", "Write down the length"),
        (
            _scaled(**(_YARN | {"original_max_position_embeddings": 8192})),
            "are both 8192, with factor 4",
            "raise max_position_embeddings to 32768; .* should be 2048",
        ),
        (_scaled(**(_YARN | {"factor": 8.0})), "factor 8 makes 16384 of .* 2048, but .* is 8192", "Set factor to 4"),
        (_scaled(**(_YARN | {"factor": 2.0})), "declared for 8192 tokens, but .* extends it to 4096", "left out"),
        (_scaled(**_YARN, mscale=0.7), "cosine and sine transformers takes neither without", "State both"),
        (_scaled(**_YARN, mscale=1.0), "without mscale_all_dim, and so without effect in transformers", "state both"),
        (
            _scaled(**_YARN, mscale=1.0, mscale_all_dim=0.0),
            "beside mscale_all_dim 0, and so without effect",
            "state both",
        ),
        (
            _scaled(**_YARN, mscale_all_dim=0.7),
            "mscale is missing and mscale_all_dim 0.7 in rope_scaling",
            "State both",
        ),
        (
            _scaled(**(_YARN | {"factor": 1.0}), mscale_all_dim=0.7),
            "mscale_all_dim is 0.7 in .* without mscale, and so without effect",
            "Leave mscale_all_dim out",
        ),
        (
            {**_llama(), "model_type": "qwen", "use_logn_attn": True},
            r"queries beyond seq_length tokens by log\(position\) / log\(seq_length\)",
            "Scale the queries",
        ),
        (_llama(model_type="novel"), "the model type 'novel' is not known here: halves are assumed", "rotate_half"),
        (
            _llama(rope_theta=None),
            "rope_theta of the file is null, with which .* fails; 10000 is shown",
            "trained with",
        ),
        (
            _llama(partial_rotary_factor=0.5, rope_scaling={"partial_rotary_factor": 0.25}),
            "0.25 in rope_scaling of config.json and 0.5 next to it: .* takes the first",
            "Keep one",
        ),
        (_scaled(**_YARN, llama_4_scaling_beta=0.1), "queries grow with their position", "Scale the queries"),
        (
            _llama(model_type="smollm3", no_rope_layers=[1, 0], num_hidden_layers=2),
            "Layer 1 has no positions",
            "every layer",
        ),
        (_llama(rope_interleaved=True), "rope_interleaved true, but the class of 'llama'", "permuted"),
    ],
)
def test_what_is_doubtful_is_a_finding(config: dict[str, Any], message: str, remedy: str) -> None:
    findings = read_huggingface(config).findings
    assert any(re.search(message, finding.message) and re.search(remedy, finding.remedy) for finding in findings)


def test_a_class_that_was_asked_says_how_features_are_paired() -> None:
    kind = ModelType("novel", layout="interleaved")
    parsed = read_config(_llama(model_type="novel", rope_interleaved=True), kind=kind)
    assert parsed.config.layout == "interleaved"
    assert not any("rope_interleaved" in each.message for each in parsed.findings)


def test_a_sound_file_has_no_findings() -> None:
    assert read_huggingface(_scaled(**_YARN)).findings == ()


_NUMBERS = st.sampled_from([-1, 0, 1, 2.5, 5e-324, 1e308, 2**62, 2**63, 10**300, 10**400, math.inf, math.nan, True])
_ENTRIES = ["factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale"]
_ENTRIES += ["mscale_all_dim", "low_freq_factor", "high_freq_factor", "rope_theta", "partial_rotary_factor"]


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"]),
    rope=st.dictionaries(st.sampled_from(_ENTRIES), _NUMBERS),
    length=_NUMBERS,
)
def test_extreme_numbers_are_read_or_refused(kind: str, rope: dict[str, Any], length: Any) -> None:
    lists = {"short_factor": [1.0] * 16, "long_factor": [1.0] * 16} if kind == "longrope" else {}
    config = _scaled(rope_type=kind, **lists, **rope) | {"max_position_embeddings": length}
    for read in (read_huggingface, lambda content: read_vllm({}, content)):
        with contextlib.suppress(ConfigError):
            assert read(config).config.attention_scale() > 0
