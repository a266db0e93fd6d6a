"""What ``--hf-overrides`` make of a config.json, by the sources of vLLM 0.33 and transformers 5.16 to 5.20."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions import Linear, Llama3, Unscaled, YaRN
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import read_huggingface, read_vllm, write_vllm
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.families import known_model_types

_QWEN = {"model_type": "qwen2", "head_dim": 32, "rope_theta": 5e6, "max_position_embeddings": 2048}
_LLAMA = {"model_type": "llama", "head_dim": 32, "rope_theta": 5e5, "max_position_embeddings": 2048}
_LLAVA = {"model_type": "llava", "text_config": _LLAMA, "vision_config": {"model_type": "clip_vision_model"}}
_VL = {"model_type": "qwen2_vl", "head_dim": 32, "rope_theta": 1e6}
_TEXT_OF_VL = {"model_type": "qwen2_vl_text", "head_dim": 128, "rope_theta": 1e6}
_LINEAR: dict[str, Any] = {"rope_type": "linear", "factor": 4.0}
_FLAT = {"rope_scaling": _LINEAR, "rope_theta": 2e6}
_SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 2048}


_OF_NULL = {"full_attention": None, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}


def _errors(findings: tuple[Finding, ...]) -> list[str]:
    return [each.message for each in findings if each.severity == "error"]


@pytest.mark.parametrize("name", ["gemma3", "gemma3_text"])
def test_layers_whose_group_is_null_rotate_by_the_base_of_vllm(name: str) -> None:
    """gemma3.py hands None to get_rope, which takes 10000."""
    text = {"model_type": "gemma3_text", "rope_theta": 1e6, "rope_local_base_freq": 1e4, "head_dim": 32, **_SIZES}
    given = {"rope_parameters": _OF_NULL}
    is_whole = name == "gemma3"
    model = {"model_type": name, "text_config": text} if is_whole else text
    parsed = read_vllm({"text_config": given} if is_whole else given, model)
    assert {layer: read.base for layer, read in parsed.configs.items()} == {
        "full_attention": 1e4,
        "sliding_attention": 1e4,
    }
    said = "takes base 10000 there, where the model has 1000000"
    assert [said in each for each in _errors(parsed.findings)] == [True]


@pytest.mark.parametrize(
    ("model", "overrides", "base", "error"),
    [
        # get_config sets entries first, and standardize_rope_params fills in by setdefault.
        (_QWEN, {"rope_theta": 1e7}, 5e6, "rope_theta in --hf-overrides has no effect: the model has 5000000"),
        (_QWEN, {"rope_theta": 5e6}, 5e6, ""),
        # _apply_dict_overrides sets groups after that; qwen2.py: set_default_rope_theta(config, 1000000)
        (_QWEN, {"rope_parameters": _LINEAR}, 1e6, "rope_parameters in --hf-overrides has no rope_theta"),
        (_LLAMA, {"rope_scaling": _LINEAR}, 1e4, "takes 10000, unless its class for the model has a base of its own"),
        (_LLAMA, {"rope_scaling": _LINEAR, "rope_theta": 5e5}, 1e4, "has no rope_theta"),
        (_LLAMA, {"rope_scaling": _LINEAR | {"rope_theta": 1e5}}, 1e5, ""),
        (_LLAMA | {"rope_theta": 1e4}, {"rope_scaling": _LINEAR}, 1e4, ""),
        (_LLAMA, {"rope_parameters": None}, 1e4, "has no rope_theta"),
        (_LLAMA, {"rope_parameters": {}}, 1e4, "has no rope_theta"),
        (_LLAMA, {"rope_scaling": None, "rope_theta": 2e5}, 2e5, ""),
        # _update_nested merges into what is there.
        (_LLAVA, {"text_config": {"rope_scaling": _LINEAR}}, 5e5, ""),
        (_LLAVA, {"text_config": {"rope_theta": 1e7}}, 5e5, "rope_theta in --hf-overrides has no effect"),
        (_LLAVA, {"text_config": {"rope_parameters": None}}, 1e4, "has no rope_theta"),
        (_VL, {"text_config": {"rope_theta": 1e7}}, 1e6, "rope_theta in --hf-overrides has no effect"),
        (
            _VL,
            {"rope_parameters": {**_LINEAR, "rope_theta": 1e7}},
            1e6,
            "rope_parameters in --hf-overrides has no effect",
        ),
        (_VL, {"rope_scaling": None}, 1e6, "the class of 'qwen2_vl' makes a text part of the entries of the file"),
        (_VL, {"max_position_embeddings": 65536}, 1e6, "max_position_embeddings in --hf-overrides has no effect"),
        (_LLAVA, {"text_config": {"text_config": {"rope_theta": 1e7}}}, 5e5, "vLLM takes the outer one"),
        (_LLAVA, {"text_config": {"rope_parameters": {"rope_theta": 1e7}}}, 1e7, ""),
        # It is the class of the whole that makes a text part, whatever the type of that part.
        (_VL | {"model_type": "fuyu"}, {"text_config": {"rope_parameters": {"rope_theta": 1e7}}}, 1e7, ""),
        (
            _VL | {"model_type": "fuyu"},
            {"text_config": {"rope_theta": 1e7}},
            1e6,
            "has no effect: the model has 1000000",
        ),
        (_VL | {"model_type": "fuyu"}, {"rope_scaling": _LINEAR}, 1e6, "rope_scaling in --hf-overrides has no effect"),
        # It makes one of its own where the file has none: LlavaConfig that of Llama, Mistral3Config one with base 1e9.
        ({"model_type": "llava"}, {"text_config": {"rope_parameters": {**_LINEAR, "rope_theta": 1e7}}}, 1e7, ""),
        ({"model_type": "mistral3"}, {"text_config": {"max_position_embeddings": 65536}}, 1e9, ""),
        (
            {"model_type": "llava"},
            {"rope_scaling": _LINEAR},
            1e4,
            "'llava' makes a text part of its own, and vLLM sets",
        ),
        ({"model_type": "gemma3"}, {"rope_scaling": _LINEAR}, 1e6, "'gemma3' makes a text part of its own, and vLLM"),
        (_TEXT_OF_VL, {"rope_parameters": {"rope_type": "default", "rope_theta": 1e7}}, 1e7, ""),
        # A class of people's own may read the entry itself.
        (_LLAMA | {"model_type": "own_llama"}, {"rope_theta": 1e7}, 1e7, ""),
    ],
)
def test_the_base_under_overrides(model: Any, overrides: Any, base: float, error: str) -> None:
    parsed = read_vllm(overrides, model)
    assert next(iter(parsed.configs.values())).base == base
    errors = _errors(parsed.findings)
    assert len(errors) == bool(error)
    assert error in "".join(errors)


def test_entries_of_the_file_beside_a_text_part_that_the_class_makes_itself_are_told() -> None:
    model = {"model_type": "llava", "rope_theta": 1e6}
    parsed = read_vllm({"text_config": {"rope_parameters": {**_LINEAR, "rope_theta": 1e7}}}, model)
    told = [each.message for each in parsed.findings if "of its own" in each.message]
    assert told == [
        "rope_theta 1000000.0 of config.json has no effect: the class of 'llava' makes a text part of its own."
    ]


@pytest.mark.parametrize(
    ("model", "overrides", "message"),
    [
        (_LLAMA, {"rope_parameters": _LINEAR | {"rope_theta": None}}, "rope_theta is null for rope_parameters"),
        (_LLAVA, {"text_config": None}, "null in the place of text_config: vLLM cannot start"),
    ],
)
def test_overrides_with_which_vllm_cannot_start_are_refused(model: Any, overrides: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_vllm(overrides, model)


def test_a_group_that_is_a_number_in_the_model_is_refused() -> None:
    model = _LLAVA | {"text_config": _LLAMA | {"rope_scaling": 1}}
    with pytest.raises(ConfigError, match="'rope_scaling' of the model must be a group of named values; got 1"):
        read_vllm({"text_config": {"rope_scaling": _LINEAR}}, model)


def test_a_base_that_the_class_of_vllm_fills_in_is_a_note() -> None:
    parsed = read_vllm({"rope_scaling": _LINEAR}, _QWEN | {"rope_theta": 1e6})
    assert (parsed.config.base, parsed.findings[0].severity) == (1e6, "note")
    assert "fills in 1000000 for this model type" in parsed.findings[0].message


@pytest.mark.parametrize(
    ("overrides", "scaling", "error"),
    [
        (
            {"rope_parameters": {"type": "linear", "factor": 4.0, "rope_theta": 5e5}},
            Unscaled(),
            "has type 'linear' and no",
        ),
        (
            {"rope_scaling": {"factor": 4.0, "rope_theta": 5e5}},
            Unscaled(),
            "has no rope_type: vLLM 0.33 (transformers 5.16",
        ),
        ({"rope_scaling": {"rope_theta": 5e5}}, Unscaled(), ""),
        ({"rope_scaling": _LINEAR | {"type": "yarn", "rope_theta": 5e5}}, Linear(factor=4.0), ""),
    ],
)
def test_the_type_is_rope_type_alone(overrides: Any, scaling: Any, error: str) -> None:
    parsed = read_vllm(overrides, _LLAMA)
    assert (parsed.config.scaling, parsed.config.base) == (scaling, 5e5)
    assert error in "".join(_errors(parsed.findings))
    assert len(_errors(parsed.findings)) == bool(error)


def test_the_type_of_a_group_that_is_merged() -> None:
    typed = {"text_config": {"rope_parameters": {"type": "linear", "factor": 4.0}}}
    file = _LLAVA | {"text_config": _LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}}
    assert read_vllm(typed, file).config.scaling == Linear(factor=4.0)
    file = _LLAVA | {"text_config": _LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.0}}}
    yarn = {"type": "yarn", "factor": 4.0}
    parsed = read_vllm({"text_config": {"rope_scaling": yarn}}, file)
    assert parsed.config.scaling == Linear(factor=4.0)
    assert "'type' of rope_scaling in --hf-overrides has no effect: the group has rope_type 'linear'" in str(
        parsed.findings
    )


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            '--rope-scaling {"rope_type": "yarn"}',
            'no option --rope-scaling any more. State \'{"rope_parameters": {"rope_',
        ),
        ("--rope-theta 1000000", "vLLM 0.33 has no option --rope-theta any more"),
        ("--max-model-len 4096", "is the option --max-model-len. Quote the JSON alone"),
        ("rope_theta=1000000", "is no JSON: "),
    ],
)
def test_what_is_no_json(overrides: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_vllm(overrides, _LLAMA)


def test_both_names_are_one_group() -> None:
    llama3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
    file = _LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, **llama3}}
    assert isinstance(read_vllm({}, file).config.scaling, Llama3)
    parsed = read_vllm({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, file)
    assert (parsed.config.scaling, parsed.config.base) == (Unscaled(), 1e6)
    (note,) = parsed.findings
    assert "replaces rope_theta 500000.0 by 1000000.0, rope_type 'llama3' by 'default'" in note.message
    parsed = read_vllm(
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, file | {"model_type": "own_llama"}
    )
    assert parsed.config.scaling == Unscaled()


def test_the_share_of_the_head_under_overrides() -> None:
    assert read_vllm({"partial_rotary_factor": 0.5}, _LLAMA).config.rotary_dim == 16
    half = {"model_type": "stablelm", "head_dim": 32, "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    kept = read_vllm({"partial_rotary_factor": 0.25}, half)
    assert kept.config.rotary_dim == 16
    assert "partial_rotary_factor in --hf-overrides has no effect: the model has 0.5" in _errors(kept.findings)[0]
    lost = read_vllm({"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, half)
    assert lost.config.rotary_dim == 32
    assert "rotates whole heads" in _errors(lost.findings)[0]


def test_messages_say_that_an_entry_stands_in_the_overrides() -> None:
    misspelt = read_vllm({"rope_paramters": _LINEAR}, _LLAMA)
    assert "'rope_paramters' in --hf-overrides is not known" in _errors(misspelt.findings)[0]
    outside = read_vllm({"rope_parameters": _LINEAR}, _LLAVA)
    assert "'rope_parameters' stands in --hf-overrides beside 'text_config'" in _errors(outside.findings)[0]
    beside = read_vllm({"max_position_embeddings": 4096}, _LLAMA | {"rope_paramters": _LINEAR})
    assert "'rope_paramters' in config.json is not known" in _errors(beside.findings)[0]


def test_what_is_written_as_rope_scaling_has_its_base_in_either_place() -> None:
    config = read_vllm(
        {}, _LLAMA | {"rope_scaling": {**_LINEAR, "rope_type": "yarn", "original_max_position_embeddings": 512}}
    )
    parsed = read_vllm(write_vllm(config.config, "rope_scaling"), _LLAMA)
    assert (parsed.config.base, parsed.config.scaling) == (5e5, YaRN(factor=4.0, original_length=512))
    assert _errors(parsed.findings) == []


@pytest.mark.parametrize(
    ("model_type", "name", "layer", "base"),
    [
        ("gemma3_text", "rope_local_base_freq", "sliding_attention", 10000.0),
        ("modernbert", "local_rope_theta", "sliding_attention", 10000.0),
        ("modernbert", "global_rope_theta", "full_attention", 160000.0),
        ("deepseek_v4", "compress_rope_theta", "compress", 160000.0),
    ],
)
def test_bases_of_layer_types_come_too_late_in_overrides(model_type: str, name: str, layer: str, base: float) -> None:
    """vLLM sets them on a class that has formed its groups (get_config), and standardize_rope_params adds none."""
    parsed = read_vllm({name: 7777.0}, {"model_type": model_type})
    assert parsed.configs[layer].base == base
    assert [each.severity for each in parsed.findings if f"{name} in --hf-overrides has no effect" in each.message] == [
        "error"
    ]
    assert read_vllm({name: base}, {"model_type": model_type}).configs[layer].base == base


@pytest.mark.parametrize(("model_type", "base"), [("exaone4", 1e6), ("exaone_moe", 1e6), ("falcon_h1", 1e11)])
def test_bases_that_classes_of_vllm_fill_in(model_type: str, base: float) -> None:
    """set_default_rope_theta in exaone4.py, exaone_moe.py and falcon_h1.py."""
    overrides = {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}
    parsed = read_vllm(overrides, {"model_type": model_type, "rope_theta": 5e5, "max_position_embeddings": 8192})
    assert {config.base for config in parsed.configs.values()} == {base}


@pytest.mark.parametrize("model_type", ["gemma3n_text", "modernbert"])
def test_one_group_is_refused_where_the_class_of_vllm_looks_by_layer(model_type: str) -> None:
    with pytest.raises(ConfigError, match="has no groups for layer types: vLLM looks for"):
        read_vllm({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, {"model_type": model_type})


@pytest.mark.parametrize(
    ("overrides", "is_said"),
    [
        ({"max_position_embeddings": 8192}, True),
        ({"max_position_embeddings": 1024}, False),
        ({"max_position_embeddings": 8192, "rope_scaling": {**_LINEAR, "rope_theta": 5e5}}, False),
    ],
)
def test_a_longer_length_alone_scales_nothing(overrides: dict[str, Any], is_said: bool) -> None:
    said = " ".join(each.message for each in read_vllm(overrides, _LLAMA).findings)
    assert ("is 8192 in --hf-overrides, 2048 in the model: the length alone scales nothing" in said) is is_said


def test_corners_of_llama_3_that_are_exchanged_are_a_step_elsewhere_in_vllm() -> None:
    """``Llama3RotaryEmbedding`` keeps all pairs of shorter wavelengths than the corner of the high frequencies."""
    rope = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 1024}
    parsed = read_vllm({}, _LLAMA | {"rope_scaling": rope | {"low_freq_factor": 4.0, "high_freq_factor": 1.0}})
    assert parsed.config.scaling == Llama3(factor=8.0, original_length=1024, high_frequency_factor=1.0)
    assert "less than 4 turns are interpolated. vLLM: those of less than 1." in parsed.findings[0].message
    assert not _errors(parsed.findings)


def test_factors_of_which_vllm_makes_no_table() -> None:
    """``LinearScalingRotaryEmbedding`` and ``YaRNScalingRotaryEmbedding`` have angles for factor times the length."""
    yarn = {"rope_type": "yarn", "factor": -2.0, "original_max_position_embeddings": 1024}
    for rope in (yarn, _LINEAR | {"factor": -4.0}):
        with pytest.raises(ConfigError, match=r"vLLM tabulates angles for factor -\d times the length, and fails"):
            read_vllm({}, _LLAMA | {"rope_scaling": rope})
    short = read_vllm({}, _LLAMA | {"rope_scaling": yarn | {"factor": 0.5}})
    assert any("vLLM tabulates angles for 512 tokens alone" in each.message for each in short.findings)


_DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e6}


@pytest.mark.parametrize("model_type", ["olmo2", "smollm3", "seed_oss", "arcee"])
def test_models_without_a_class_in_vllm_are_read_as_that_of_transformers(model_type: str) -> None:
    """_TRANSFORMERS_SUPPORTED_MODELS of its registry: the rotation is that of transformers, the length vLLM's."""
    model = {"model_type": model_type, **_SIZES}
    parsed = read_vllm({"rope_scaling": _DYNAMIC}, model)
    assert (parsed.config.scaling.name, parsed.config.base, parsed.config.max_length) == ("dynamic", 1e6, 8192)
    assert read_vllm({"rope_scaling": _DYNAMIC}, {"model_type": "qwen2", **_SIZES}).config.scaling == Unscaled()
    with pytest.raises(ConfigError, match="has no rope_theta: vLLM runs this model by the class of transformers"):
        read_vllm({"rope_scaling": _LINEAR}, model)


def test_classes_of_transformers_fail_without_what_an_override_leaves_out() -> None:
    """What vLLM's Transformers backend builds, with the group in the place of that of the class."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 32, "pad_token_id": 0}
    for name, group in (("Olmo2", {"rope_type": "linear", "factor": 4.0}), ("Olmo3", dict(_DYNAMIC))):
        config = getattr(transformers, f"{name}Config")(**sizes)
        config.rope_parameters = group
        with torch.device("meta"), pytest.raises((KeyError, TypeError)):
            transformers.AutoModel.from_config(config)
    with pytest.raises(ConfigError, match="looks for the one of every layer in models of the type 'olmo3'"):
        read_vllm({"rope_scaling": _DYNAMIC}, {"model_type": "olmo3", **_SIZES})


def test_a_longer_length_than_the_class_has_where_the_file_declares_none() -> None:
    model = {"model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
    said = [each.message for each in read_vllm({"max_position_embeddings": 131072}, model).findings]
    assert any("131072 in --hf-overrides, 32768 in the model: the length alone scales nothing" in each for each in said)
    shorter = read_vllm({"max_position_embeddings": 4096}, model)
    assert not any("the length alone" in each.message for each in shorter.findings)


@pytest.mark.parametrize("model_type", ["gemma3_text", "gemma3n_text", "modernbert"])
def test_groups_in_rope_scaling_are_merged_by_the_configuration_in_vllm_too(model_type: str) -> None:
    """The configuration of transformers is made before any class of vLLM reads it."""
    groups = {"full_attention": dict(_DYNAMIC, rope_type="linear"), "sliding_attention": {"rope_type": "default"}}
    model = {"model_type": model_type, **_SIZES, "rope_scaling": groups}
    of_vllm, of_transformers = read_vllm({}, model), read_huggingface(model)
    assert of_vllm.configs.keys() == of_transformers.configs.keys() == groups.keys()
    for layer, config in of_vllm.configs.items():
        assert (config.base, config.scaling) == (of_transformers.configs[layer].base, Unscaled())


@pytest.mark.parametrize(("local", "base"), [({}, 1e4), ({"rope_local_base_freq": 5e4}, 5e4)])
def test_one_group_of_gemma_4_scales_layers_of_both_types(local: dict[str, float], base: float) -> None:
    """The fallback of Gemma4Attention in vLLM's gemma4.py."""
    model = {"model_type": "gemma4_text", **_SIZES, "num_hidden_layers": 6, "head_dim": 16, **local}
    for overrides, file in (({"rope_scaling": _LINEAR | {"rope_theta": 2e6}}, model), ({}, model | _FLAT)):
        parsed = read_vllm(overrides, file)
        assert {layer: each.base for layer, each in parsed.configs.items()} == {
            "full_attention": 2e6,
            "sliding_attention": base,
        }
        assert {(each.scaling, each.rotary_dim == each.head_dim) for each in parsed.configs.values()} == {
            (Linear(factor=4.0), True)
        }
        assert any(
            "vLLM's class of Gemma 4 scales layers of both types by it" in each.message for each in parsed.findings
        )
    with pytest.raises(ConfigError, match="has no rope_theta, and vLLM's class of Gemma 4 fails without"):
        read_vllm({}, model | {"rope_scaling": _LINEAR})


def test_entries_beside_the_groups_of_layer_types_have_no_effect() -> None:
    """_update_nested merges them into the groups of the class, and gemma4.py looks for that of each layer."""
    for name in ("gemma4", "gemma3"):
        model = {"model_type": name, "text_config": {"model_type": f"{name}_text", **_SIZES, "head_dim": 16}}
        parsed = read_vllm({"text_config": {"rope_scaling": _LINEAR | {"rope_theta": 2e6}}}, model)
        assert parsed.configs == read_vllm({}, model).configs
        assert "has no effect: vLLM puts its entries beside the groups" in _errors(parsed.findings)[0]


def test_plamo_3_has_a_base_of_its_own_for_layers_with_a_window() -> None:
    """Plamo3AttentionMixer in vLLM's plamo3.py; the converter of llama.cpp makes YaRN of rope_scaling_factor."""
    own = {"rope_theta": 1e6, "rope_local_theta": 1e4, "sliding_window": 2048, "sliding_window_pattern": 3}
    model = {"model_type": "plamo3", **_SIZES, "num_hidden_layers": 6, "head_dim": 16, **own}
    for overrides, scaling in (({}, Unscaled()), ({"rope_scaling": _LINEAR | {"rope_theta": 1e6}}, Linear(factor=4.0))):
        parsed = read_vllm(overrides, model)
        full, local = (parsed.configs[f"{name}_attention"] for name in ("full", "sliding"))
        assert (full.base, full.scaling, local.base, local.scaling) == (1e6, scaling, 1e4, Unscaled())
        assert [each.layers for each in parsed.layers] == [(0, 1, 3, 4), (2, 5)]
        assert [each.window for each in parsed.layers] == [2048, None]
    listed = {"sliding_window": [2048, None] * 3, "sliding_window_pattern": None, "rope_scaling_factor": 4}
    scaled = read_huggingface(model | listed | {"initial_context_length": 2048})
    assert scaled.configs["full_attention"].scaling == YaRN(factor=4, original_length=2048, truncate=False)
    assert [each.layers for each in scaled.layers] == [(0, 2, 4), (1, 3, 5)]


@pytest.mark.parametrize(("new", "old"), [("yarn", "deepseek_yarn"), ("yarn", "linear")])
def test_vllm_refuses_two_names_of_a_type_but_for_two_pairs(new: str, old: str) -> None:
    """patch_legacy_rope_type."""
    yarn = {"factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e6}
    with pytest.raises(ConfigError, match=r"vLLM refuses"):
        read_vllm({}, _QWEN | {"rope_scaling": {**yarn, "rope_type": new, "type": old}})
    lists = {"short_factor": [1.0] * 16, "long_factor": [2.0] * 16, **yarn}
    assert read_vllm({}, _QWEN | {"rope_scaling": {**lists, "rope_type": "longrope", "type": "su"}}).configs


def test_yarn_of_telechat_3_has_a_scale_of_its_own_in_vllm() -> None:
    """patch_legacy_rope_type: 0.07 * math.log(factor) + 1.0."""
    rope = {"type": "telechat3-yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e6}
    parsed = read_vllm({}, _LLAMA | {"rope_theta": 1e6, "rope_scaling": rope})
    scale = 0.07 * math.log(4) + 1
    assert parsed.config.scaling == YaRN(factor=4.0, original_length=512, attention_factor=scale)


@pytest.mark.parametrize("name", ["rotary_pct", "rotary_emb_fraction"])
def test_a_share_by_another_name_counts_for_all_classes(name: str) -> None:
    """patch_rope_parameters takes the first of partial_rotary_factor, rotary_pct and rotary_emb_fraction."""
    for model_type in ("mistral", "qwen3", "olmoe", "minimax_m2"):
        parsed = read_vllm({name: 0.5}, {"model_type": model_type, **_SIZES, "head_dim": 16})
        assert {each.rotary_dim for each in parsed.configs.values()} == {8}
        assert not any(name in each.message for each in parsed.findings)
    both = read_vllm({name: 0.25, "partial_rotary_factor": 0.5}, _LLAMA)
    assert both.config.rotary_dim == 16


def test_a_share_is_filled_into_the_groups_of_layer_types_that_have_none() -> None:
    """standardize_rope_params; gemma3.py, modernbert.py and step3p5.py take the group of the layer."""
    for model_type in ("gemma3_text", "modernbert"):
        parsed = read_vllm({"partial_rotary_factor": 0.5}, {"model_type": model_type, **_SIZES, "head_dim": 16})
        assert {each.rotary_dim for each in parsed.configs.values()} == {8}
        assert not any("partial_rotary_factor" in each.message for each in parsed.findings)
    stated = {"full_attention": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25}}
    groups = {**stated, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    file = {"model_type": "gemma3_text", **_SIZES, "head_dim": 16, "rope_parameters": groups}
    parsed = read_vllm({"partial_rotary_factor": 0.5}, file)
    assert [parsed.configs[layer].rotary_dim for layer in groups] == [4, 8]
    kept = read_vllm({"partial_rotary_factor": 0.5}, {"model_type": "mimo_v2_flash", **_SIZES, "head_dim": 192})
    assert {each.rotary_dim for each in kept.configs.values()} == {64}
    assert "partial_rotary_factor in --hf-overrides has no effect: the model has 0.334" in _errors(kept.findings)[0]


@pytest.mark.parametrize("name", ["partial_rotary_factor", "rotary_pct", "rotary_emb_fraction"])
def test_a_share_beside_groups_of_the_file_is_filled_into_them(name: str) -> None:
    """patch_rope_parameters and standardize_rope_params, which do so with no overrides as well."""
    for model_type in ("mistral", "gemma3_text", "gemma4_text", "cohere2_moe", "dory"):
        served = read_vllm({}, {"model_type": model_type, **_SIZES, "head_dim": 16, name: 0.5})
        layer = "sliding_attention" if "sliding_attention" in served.configs else "all"
        assert served.configs[layer].rotary_dim == 8
    assert read_vllm({}, {"model_type": "step3p5", **_SIZES, "head_dim": 16, name: 0.5}).config.rotary_dim == 16
    own = {"stablelm": 4, "qwen3_next": 4} if name != "partial_rotary_factor" else {"stablelm": 8, "qwen3_next": 8}
    for model_type, rotated in own.items():  # whose class has a share, by its own name
        assert (
            read_vllm({}, {"model_type": model_type, **_SIZES, "head_dim": 16, name: 0.5}).config.rotary_dim == rotated
        )


def test_a_share_of_which_a_class_makes_its_own_groups_is_theirs() -> None:
    """configuration_deepseek_v4.py: both groups have the share of the file, 64 of 512 features by default."""
    file = {"model_type": "deepseek_v4", "num_hidden_layers": 4, "head_dim": 64, "partial_rotary_factor": 0.25}
    served = read_vllm({}, file)
    assert {each.rotary_dim for each in served.configs.values()} == {16}
    assert not [each for each in served.findings if "partial_rotary_factor" in each.message]
    under = read_vllm({"partial_rotary_factor": 0.5}, file)
    assert "no effect: the model has 0.25" in _errors(under.findings)[0]


def test_groups_by_both_names_are_merged_one_after_the_other() -> None:
    """_update_nested, in which rope_scaling is another name of rope_parameters also where the file has no group."""
    both = {
        "rope_scaling": {**_LINEAR, "rope_theta": 2e6},
        "rope_parameters": {"rope_type": "default", "rope_theta": 3e6},
    }
    model = {"model_type": "llava_next", "text_config": {"model_type": "llama", **_SIZES}}
    parsed = read_vllm({"text_config": both}, model)
    assert (parsed.config.base, parsed.config.scaling) == (3e6, Unscaled())
    turned = read_vllm({"text_config": dict(reversed(both.items()))}, model)
    assert (turned.config.base, turned.config.scaling) == (2e6, Linear(factor=4.0))


def test_a_type_that_its_class_takes_for_another_is_refused() -> None:
    """``patch_legacy_rope_type`` raises where the class of transformers wrote rope_type beside another type."""
    transformers = pytest.importorskip("transformers")
    lists = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    found = set()
    for name in known_model_types():
        own = entries_of_class(name)
        for stated, taken in own.types.items() if own is not None else ():
            group = {"type": stated, "factor": 4.0, "mrope_section": [16, 24, 24], **lists}
            file = {"rope_scaling": group | {"original_max_position_embeddings": 4096}}
            if "su" in (stated, taken):
                continue
            rope = transformers.CONFIG_MAPPING[name].from_dict(copy.deepcopy(file)).rope_parameters
            both = (rope.get("rope_type"), rope.get("type"))
            if both[1] not in (None, both[0]) and both != ("default", "mrope"):
                with pytest.raises(ConfigError, match=f"takes its type '{stated}' for rope_type '{taken}'"):
                    read_vllm({}, {"model_type": name, "rope_scaling": {"type": stated, **lists}})
                found.add((name, stated))
    assert found == {("phi3", "yarn"), ("phi4_multimodal", "yarn")}


@pytest.mark.parametrize("kind", [[], {}, 3])
def test_a_type_of_a_scaling_that_is_no_text_is_refused(kind: object) -> None:
    file = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
    with pytest.raises(ConfigError):
        read_vllm({**file, "rope_scaling": {"type": kind, "factor": 2.0}}, {})
