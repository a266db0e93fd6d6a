"""Options of vLLM and SGLang: what is written means the same when it is merged as vLLM merges it."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotary_examples import assert_same, configs

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import SCALINGS, DynamicNTK, Linear, LongRoPE, NTKAware, Proportional, Unscaled, YaRN
from locant.positions.scaling.clipped import Clipped
from locant.rotary_configs.config_json import read_huggingface
from locant.rotary_configs.vllm import merge_hf_overrides, served_length, write_sglang, write_vllm

_YARN = YaRN(factor=4.0, original_length=2048)
_AXES = {"all": {"sections": (4, 6, 6), "interleaved": False}}


@pytest.mark.parametrize("group", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", sorted(set(SCALINGS) - {"clipped"}))
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_scaling_is_read_as_it_is_written(name: str, group: Any, data: st.DataObject) -> None:
    config = data.draw(configs(name))
    if isinstance(config.scaling, Proportional):  # whose factor vLLM ignores
        config = replace(config, scaling=replace(config.scaling, factor=1.0))
    file = {"model_type": "own", "head_dim": config.head_dim, "rope_theta": 3e4, "max_position_embeddings": 1}
    merged, _ = merge_hf_overrides(file, write_vllm(config, group))
    assert_same(read_huggingface(merged).config, config, 1e-9)
    assert served_length(merged) in {config.max_length or config.scaling.reach, 1}


_REFUSED: list[tuple[Any, Any]] = [
    (write_vllm, Clipped(pairs=2)),
    (write_vllm, DynamicNTK(original_length=8)),
    (write_vllm, Proportional(rotary_fraction=0.5, factor=2.0)),
    (write_vllm, Linear(factor=3.0)),  # 8 tokens are no multiple of it
    (write_sglang, DynamicNTK(original_length=8)),
    (write_sglang, Proportional(rotary_fraction=0.5)),
    (lambda c: write_vllm(c, "rope"), Unscaled()),
    (lambda c: write_vllm({"a": c, "b": c}, "rope_scaling"), Unscaled()),
    (lambda c: write_sglang({"a": c, "b": c}), Unscaled()),
    (lambda c: write_vllm(c, multimodal={"all": {"sections": (1, 1, 0), "interleaved": False}}), Linear(factor=2.0)),
]


@pytest.mark.parametrize(("write", "scaling"), _REFUSED)
def test_what_an_engine_does_not_have_is_refused(write: Any, scaling: Any) -> None:
    with pytest.raises(ConfigError):
        write(RotaryConfig(head_dim=4, scaling=scaling, max_length=8 if isinstance(scaling, Linear) else None))


@pytest.mark.parametrize("write", [write_vllm, write_sglang])
def test_attention_scales_have_the_names_of_all_releases(write: Any) -> None:
    yarn = json.loads(write(RotaryConfig(head_dim=32, scaling=replace(_YARN, attention_factor=1.0))))["rope_parameters"]
    assert yarn["attention_factor"] == 1.0
    assert yarn["attn_factor"] * (0.1 * math.log(4) + 1) == pytest.approx(1)  # section 3.4 of YaRN's paper
    lists: dict[str, Any] = {
        "short_factors": [1.0] * 16,
        "long_factors": [2.0] * 16,
        "original_length": 1024,
        "factor": 4,
    }
    rope = json.loads(write(RotaryConfig(head_dim=32, scaling=LongRoPE(**lists))))["rope_parameters"]
    assert rope["long_mscale"] == rope["short_mscale"] == pytest.approx(math.sqrt(1 + math.log(4) / math.log(1024)))


def test_the_length_that_is_declared_is_served() -> None:
    linear = RotaryConfig(head_dim=32, scaling=Linear(factor=8, original_length=4096), max_length=32768)
    written = json.loads(write_vllm(linear))
    assert isinstance(written["rope_parameters"]["factor"], float)
    assert served_length(written) == 32768
    without = RotaryConfig(head_dim=32, scaling=Linear(factor=8.0), max_length=32768)  # only the extended one is known
    assert served_length(json.loads(write_vllm(without))) == 32768
    ntk = json.loads(write_vllm(RotaryConfig(head_dim=64, scaling=NTKAware(factor=4, original_length=2048))))
    assert ntk["rope_parameters"]["rope_theta"] == pytest.approx(10000 * 4 ** (64 / 62))
    assert ntk["max_position_embeddings"] == 8192


def test_layer_types_and_axes_stay() -> None:
    local, whole = RotaryConfig(head_dim=32), RotaryConfig(head_dim=32, base=1e6, scaling=Linear(factor=8))
    groups = json.loads(write_vllm({"full_attention": whole, "sliding_attention": local}))["rope_parameters"]
    assert groups["full_attention"] == {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
    assert groups["sliding_attention"] == {"rope_type": "default", "rope_theta": 1e4}
    for write in (write_vllm, write_sglang):
        rope = json.loads(write(replace(whole, scaling=_YARN), multimodal=_AXES))["rope_parameters"]
        assert (rope["rope_type"], rope["mrope_section"], "mrope_interleaved" in rope) == ("yarn", [4, 6, 6], False)
    axes = {"all": {**_AXES["all"], "interleaved": True}}
    assert json.loads(write_vllm(local, multimodal=axes))["rope_parameters"]["mrope_interleaved"] is True


_BY_FOUR = {"rope_type": "linear", "factor": 4.0}
_LONGER = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e6}
_LLAMA = {"model_type": "llama", "rope_theta": 5e5, "max_position_embeddings": 2048}
_PARTLY = {"model_type": "stablelm", "rope_theta": 2e4, "partial_rotary_factor": 0.5}
_LLAVA = {"model_type": "llava", "text_config": _LLAMA}
_QWEN = {"model_type": "qwen2_vl", "rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}
_GEMMA = {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4}
_MERGES: list[tuple[Any, Any, set[str]]] = [
    (_LLAMA, {"rope_parameters": _BY_FOUR}, {"rope_theta"}),
    (_LLAMA, {"rope_scaling": {**_BY_FOUR, "rope_theta": 1e5}}, set()),
    (_PARTLY, {"rope_parameters": _LONGER}, {"partial_rotary_factor"}),
    (_LLAVA, {"text_config": {"rope_scaling": _BY_FOUR}}, set()),
    (_QWEN, {"text_config": {"rope_parameters": _LONGER}}, set()),
    (_GEMMA, {"rope_parameters": {"full_attention": _LONGER, "sliding_attention": {"rope_theta": 1e4}}}, set()),
    (
        {"model_type": "gemma3", "text_config": {**_GEMMA, "rope_scaling": _BY_FOUR}},
        {"text_config": {"rope_parameters": {"full_attention": {"factor": 8.0}}}},
        set(),
    ),
]


@pytest.mark.parametrize(("content", "overrides", "dropped"), _MERGES)
def test_overrides_are_merged_as_vllm_does(content: Any, overrides: Any, dropped: set[str]) -> None:
    transformers = pytest.importorskip("transformers")
    kind = transformers.CONFIG_MAPPING[content["model_type"]]
    config = kind.from_dict(copy.deepcopy(content))
    merged, found = merge_hf_overrides(config.to_dict(), json.dumps(overrides))
    assert found.keys() == dropped
    theirs = _as_vllm(config, copy.deepcopy(overrides))
    ours = kind.from_dict(merged).get_text_config().rope_parameters
    for group, made in _groups(theirs, ours):
        usual = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}  # of get_rope
        kept = {key: value for key, value in (usual | group).items() if key != "type"}
        assert kept == {key: value for key, value in (usual | made).items() if key != "type"}


def _groups(theirs: dict[str, Any], ours: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    if not all(isinstance(each, dict) for each in theirs.values()):
        return [(theirs, ours)]
    assert theirs.keys() == ours.keys()
    return [(group, ours[layer]) for layer, group in theirs.items()]


def _as_vllm(config: Any, overrides: dict[str, Any]) -> dict[str, Any]:
    """What ``ModelConfig.__post_init__`` of vLLM 0.33 does: plain values, ``patch_rope_parameters``, then objects."""
    config.update({name: value for name, value in overrides.items() if not isinstance(value, dict)})
    text = config.get_text_config()
    text.standardize_rope_params()
    names = {"rope_scaling": "rope_parameters"}
    for name, value in overrides.items():
        if isinstance(value, dict) and hasattr(getattr(config, name, None), "to_dict"):
            _nest(getattr(config, name), {names.get(key, key): each for key, each in value.items()})
        elif isinstance(value, dict):
            setattr(config, names.get(name, name), value)
    rope: dict[str, Any] = text.rope_parameters
    return rope


def _nest(target: Any, updates: dict[str, Any]) -> None:
    for key, value in updates.items():
        inner = target.get(key) if isinstance(target, dict) else getattr(target, key, None)
        if isinstance(value, dict) and isinstance(inner, dict):
            _nest(inner, value)
        elif isinstance(target, dict):
            target[key] = value
        else:
            setattr(target, key, value)


@pytest.mark.parametrize(
    ("content", "overrides"),
    [
        *(
            (_LLAMA, text)
            for text in ("{rope", "[1]", "null", "", '{"rope_theta": 1e7}', '{"partial_rotary_factor": 1}')
        ),
        (_LLAVA, json.dumps({"rope_parameters": _LONGER})),  # beside the text config
        (_LLAVA, '{"max_position_embeddings": 4096}'),
    ],
)
def test_what_vllm_refuses_or_passes_over_is_an_error(content: Any, overrides: str) -> None:
    with pytest.raises(ConfigError):
        merge_hf_overrides(content, overrides)


@pytest.mark.parametrize(
    ("text", "served"),
    [
        ({}, None),
        ({"max_position_embeddings": 4096, "n_positions": 2048}, 2048),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        ({"max_position_embeddings": 2048, "rope_scaling": {"type": "linear", "factor": 2.5}}, 5120),
        ({"max_position_embeddings": 2048, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, 4096),
        ({"max_position_embeddings": 2048, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 2048),
        ({"max_position_embeddings": 2048, "rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 2048),
        ({"model_type": "gemma3_text", "max_position_embeddings": 131072, "rope_scaling": _BY_FOUR}, 131072),
        (
            {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
            | {"rope_scaling": {"type": "longrope"}},
            4096,
        ),
        ({"max_position_embeddings": 16, "rope_parameters": {"full_attention": _BY_FOUR, "sliding_attention": {}}}, 64),
    ],
)
def test_served_lengths(text: dict[str, Any], served: int | None) -> None:
    """``_get_and_verify_max_len`` of vLLM 0.33."""
    assert served_length(text) == served
