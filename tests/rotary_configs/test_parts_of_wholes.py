"""What classes of several parts do with their text part and what stands beside it, compared with transformers."""

from __future__ import annotations

import copy
import inspect
import sys
from typing import Any

import pytest
import torch

from locant.errors import ConfigError
from locant.rotary_configs import ParsedConfig, read_huggingface
from locant.rotary_configs.classes.families import ONE_POSITION_FOR_ALL_AXES, known_model_types, model_type

_SIZES = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 6}
_LINEAR = {"rope_scaling": {"type": "linear", "factor": 2.0}}


def _warnings(parsed: ParsedConfig) -> str:
    return " ".join(finding.message for finding in parsed.findings if finding.severity != "note")


def _text_of_class(file: dict[str, Any]) -> Any:
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    return mapping[file["model_type"]].from_dict(copy.deepcopy(file)).get_text_config(decoder=True)


def _base_of_class(file: dict[str, Any]) -> float:
    return float(_text_of_class(file).rope_parameters["rope_theta"])


@pytest.mark.parametrize(
    ("name", "part", "base"),
    [
        ("voxtral", _LINEAR, 1e8),
        ("voxtral", {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, 1e8),
        ("voxtral", {**_LINEAR, "rope_theta": 5e5}, 5e5),
        ("voxtral_realtime", _LINEAR, 1e6),
        ("voxtral_realtime", {"rope_parameters": None}, 1e6),
        ("glmasr", {"rope_theta": 77777.0}, 1e4),
        ("glmasr", {"rope_theta": 77777.0, **_LINEAR}, 77777.0),
        ("glmasr", {"rope_parameters": {"rope_type": "default", "rope_theta": 77777.0}}, 77777.0),
    ],
)
def test_bases_that_the_whole_gives_or_keeps(name: str, part: dict[str, Any], base: float) -> None:
    """__post_init__ of the whole: its own entries, and those of the part over them."""
    file = {"model_type": name, "text_config": {**_SIZES, **part}}
    parsed = read_huggingface(file)
    assert parsed.config.base == base == _base_of_class(file)
    said = "rope_theta is 77777.0 in 'text_config': the class of 'glmasr' in transformers passes over it"
    assert (said in _warnings(parsed)) is ("rope_theta" in part and base != part["rope_theta"])


@pytest.mark.parametrize("file", [{}, {"vlm_config": {}}, {"vlm_config": {"model_type": "paligemma"}}])
def test_a_whole_in_a_whole_without_its_text_part(file: dict[str, Any]) -> None:
    file = {"model_type": "colpali", **file}
    text = pytest.importorskip("transformers").CONFIG_MAPPING["colpali"].from_dict(file).get_text_config()
    parsed = read_huggingface(file)
    assert sum(len(kind.layers) for kind in parsed.layers) == text.num_hidden_layers == 18
    assert parsed.config.head_dim == text.head_dim
    assert "', the text part of the class of" in _warnings(parsed)


def test_a_text_part_that_must_state_its_type() -> None:
    file = {"model_type": "exaone4_5", "text_config": dict(_SIZES)}
    said = "'text_config' states no model_type: the class of 'exaone4_5' in transformers fails without"
    assert said in _warnings(read_huggingface(file))
    with pytest.raises(KeyError, match="model_type"):
        _base_of_class(file)
    typed = {"model_type": "exaone4_5", "text_config": {"model_type": "exaone4_5_text", **_SIZES}}
    assert said not in _warnings(read_huggingface(typed))


_GROUP = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"rope_theta": 77777.0}, "'rope_theta' stands in config.json beside 'text_config', whose group"),
        ({"rope_theta": 5e5}, ""),
        (_LINEAR, "'rope_scaling' stands in config.json beside 'text_config', whose group"),
        ({"rope_scaling": {"type": "default", "rope_theta": 5e5}}, ""),
        ({"num_attention_heads": 4}, "'num_attention_heads' stands in config.json beside 'text_config', where it is 8"),
        ({"num_attention_heads": 8}, ""),
        ({"llm_config": {**_SIZES, "num_hidden_layers": 9}}, "which passes over 'llm_config'"),
        ({"llm_config": {"model_type": "llama", **_SIZES, **_GROUP}}, ""),
    ],
)
def test_entries_beside_a_text_part_that_says_otherwise(beside: dict[str, Any], said: str) -> None:
    file = {"model_type": "llava", "text_config": {"model_type": "llama", **_SIZES, **_GROUP}, **beside}
    parsed = read_huggingface(file)
    assert parsed.config.base == 5e5 == _base_of_class(file)
    assert (said in _warnings(parsed)) if said else not _warnings(parsed)


def test_sizes_that_a_class_has_for_the_whole_are_no_second_ones() -> None:
    """PaliGemma's hidden_size is that of what its images become."""
    file = {"model_type": "paligemma", "hidden_size": 512, "text_config": {"model_type": "gemma", **_SIZES}}
    assert "hidden_size" not in _warnings(read_huggingface(file))


def test_entries_beside_a_whole_within_a_whole_are_compared_with_the_text_part() -> None:
    thinker = {"text_config": {**_SIZES, **_GROUP}}
    parsed = read_huggingface({"model_type": "qwen2_5_omni", "rope_theta": 77777.0, "thinker_config": thinker})
    assert "beside 'thinker_config', whose group of rotary parameters says otherwise" in _warnings(parsed)
    assert "which has none" not in _warnings(parsed)


def test_a_text_part_in_the_place_of_a_whole_within_the_whole() -> None:
    file = {"model_type": "qwen2_5_omni", "thinker_config": {**_SIZES, "head_dim": 128}}
    said = "The class of 'qwen2_5_omni_thinker' in transformers looks for its text part in 'text_config', which "
    assert said + "'thinker_config' of the file lacks" in _warnings(read_huggingface(file))
    with pytest.raises(ConfigError, match="must be a group of entries, the text part of the model"):
        read_huggingface({"model_type": "qwen2_5_omni", "thinker_config": {"text_config": []}})


@pytest.mark.parametrize("entry", ["head_dim", "sliding_window"])
def test_null_in_a_text_part_is_not_left_out(entry: str) -> None:
    """The class of the whole writes what the part states over its own entries, null as well."""
    file = {"model_type": "voxtral_realtime", "text_config": {**_SIZES, entry: None}}
    parsed, text = read_huggingface(file), _text_of_class(file)
    assert parsed.config.head_dim == (text.head_dim or text.hidden_size // text.num_attention_heads)
    assert {kind.window for kind in parsed.layers} == {text.sliding_window}


def test_a_type_that_a_class_of_one_type_passes_over() -> None:
    for whole, own in (("gemma3", "foo"), ("qwen2_5_vl", "llava")):
        file = {"model_type": whole, "text_config": {"model_type": own, **_SIZES}}
        said = _warnings(read_huggingface(file))
        assert f"model_type is '{own}' in 'text_config', which the class of '{whole}' in transformers passes" in said
        assert "is not known here" not in said
        assert "looks for its text part" not in said
        assert type(_text_of_class(file)).model_type == f"{whole}_text"
    own = {"model_type": "qwen2_vl", "text_config": {"model_type": "gemma3_text", **_SIZES, **_GROUP}}
    parsed = read_huggingface({"model_type": "colqwen2", "vlm_config": own})
    assert "the class of 'qwen2_vl' in transformers passes over" in _warnings(parsed)
    assert parsed.config.base == 5e5


_MUST = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
_REFUSED = [
    ({"model_type": "llava", "text_config": {"model_type": None, **_SIZES}}, "model_type is null in 'text_config'"),
    (
        {"model_type": "paligemma", "text_config": {"model_type": "llama", **_SIZES}},
        "'text_config', which states no use_bidirectional_attention",
    ),
    (
        {"model_type": "gemma4_assistant", "text_config": {**_SIZES, "vocab_size_per_layer_input": 0}},
        "hidden_size_per_layer_input is left out in 'text_config'",
    ),
    ({"model_type": "gemma4_assistant"}, "the class of 'gemma4_assistant' in transformers: it refuses the file then"),
    (
        {"model_type": "granite_docling", "text_config": {**_SIZES, "hidden_size": 512}},
        "hidden_size is 512 in 'text_config', and out_hidden_size 1024 in 'vision_config'",
    ),
    (
        {"model_type": "fun_asr_nano", "text_config": {"num_hidden_layers": 6}},
        "hidden_size is 4096 in 'text_config', and hidden_size 1024 in 'adaptor_config'",
    ),
    (
        {"model_type": "llava", "text_config": dict(_SIZES), "decoder": {"num_hidden_layers": 2}},
        "config.json has 'decoder' and 'text_config', each of which is a text part to transformers",
    ),
]


@pytest.mark.parametrize(("file", "said"), _REFUSED, ids=[said for _, said in _REFUSED])
def test_text_parts_for_which_a_class_refuses_the_file(file: dict[str, Any], said: str) -> None:
    refused = pytest.importorskip("huggingface_hub.errors").StrictDataclassError
    assert said in _warnings(read_huggingface(file))
    with pytest.raises((ValueError, AttributeError, refused)):
        _text_of_class(file)


@pytest.mark.parametrize(
    "file",
    [
        {"model_type": "llava", "text_config": dict(_SIZES)},
        {"model_type": "paligemma", "text_config": {"model_type": "gemma2", **_SIZES}},
        {
            "model_type": "paligemma",
            "text_config": {"model_type": "llama", **_SIZES, "use_bidirectional_attention": None},
        },
        {"model_type": "gemma4_assistant", "text_config": {"model_type": "gemma4_text", **_SIZES, **_MUST}},
        {
            "model_type": "granite_docling",
            "text_config": {**_SIZES, "hidden_size": 512},
            "vision_config": {"out_hidden_size": 512},
        },
        {"model_type": "fun_asr_nano", "text_config": {"model_type": "qwen3", **_SIZES}},
    ],
    ids=lambda file: str(file["model_type"]),
)
def test_text_parts_that_a_class_takes(file: dict[str, Any]) -> None:
    assert "refuses" not in _warnings(read_huggingface(file))
    assert "and fails" not in _warnings(read_huggingface(file))
    assert _text_of_class(file) is not None


def test_entries_that_a_class_does_not_take_from_the_file_itself() -> None:
    group = {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}}
    for name, taken in (("fuyu", False), ("qwen2_vl", True)):
        file = {"model_type": name, **_SIZES, **group}
        parsed = read_huggingface(file)
        assert parsed.config.base == _base_of_class(file) == (5e5 if taken else 10_000)
        said = f"'rope_parameters' stands in config.json itself, from which the class of '{name}'"
        assert (said in _warnings(parsed)) is not taken


@pytest.mark.parametrize("name", ["deepseek_ocr2", "unlimited_ocr"])
def test_a_size_of_heads_that_is_computed_where_the_width_is_left_out(name: str) -> None:
    file = {"model_type": name, "text_config": {"num_attention_heads": 10, "head_dim": 32, "num_hidden_layers": 2}}
    if name == "deepseek_ocr2":
        file["text_config"]["num_attention_heads"] = 16
    parsed = read_huggingface(file)
    assert parsed.config.head_dim == _text_of_class(file).head_dim != 32
    assert "head_dim is 32 in config.json, which the class of" in _warnings(parsed)


def test_a_text_part_under_names_that_the_class_passes_over_is_named() -> None:
    file = {"model_type": "qwen3_asr", "thinker_config": {"text_config": {**_SIZES, "rope_theta": 1e6}}}
    parsed = read_huggingface(file)
    assert parsed.config.base == _base_of_class(file) == 10000
    assert "'thinker_config.text_config' of config.json, with rope_theta 1000000 in it, is no entry of" in (
        _warnings(parsed).replace("1000000.0", "1000000")
    )
    assert "thinker_config" not in _warnings(read_huggingface({**file, "text_config": _SIZES, "thinker_config": {}}))


def test_layers_of_a_type_with_which_a_class_fails_are_not_said_to_have_no_positions() -> None:
    types = ["sliding_attention", "full_atention"] * 3
    said = [each.message for each in read_huggingface({"model_type": "olmo3", **_SIZES, "layer_types": types}).findings]
    assert any(
        "'full_atention', for which the class of 'olmo3' in transformers has no rotation" in each for each in said
    )
    assert not any("have no positions" in each for each in said)


@pytest.mark.parametrize(("group", "takes"), [("language_config", True), ("text_config", False)])
def test_a_window_that_the_whole_hands_on(group: str, takes: bool) -> None:
    """Unlimited-OCR's class takes the window beside ``language_config``, also null, which the class of text refuses."""
    sizes = {**_SIZES, "sliding_window": 128}
    said = f"beside '{group}', where it is 128: the class of 'unlimited_ocr' in transformers takes the one beside it"
    refused = "sliding_window is null in config.json: the class of 'unlimited_ocr_text' in transformers 5 refuses"
    for window in (64, None):
        file = {"model_type": "unlimited_ocr", "sliding_window": window, group: sizes}
        warnings = _warnings(read_huggingface(file))
        assert (said in warnings) is takes
        assert (refused in warnings) is (takes and window is None)
        if refused in warnings:
            with pytest.raises(Exception, match="`sliding_window` cannot be `None`"):
                _text_of_class(file)
        else:
            assert _text_of_class(file).sliding_window == (window if takes else 128)
    assert "sliding_window" not in _warnings(read_huggingface({"model_type": "unlimited_ocr", group: sizes}))


def test_a_share_beside_a_text_part_that_is_left_out_is_passed_over() -> None:
    """``Qwen2_5OmniThinkerConfig`` makes a text part of its own, which reads nothing that stands beside it."""
    thinker = {"model_type": "qwen2_5_omni_thinker", "partial_rotary_factor": 0.5, "rope_theta": 5e5}
    read = read_huggingface({"model_type": "qwen2_5_omni", "thinker_config": thinker})
    assert (read.config.base, read.config.rotary_dim) == (1e6, 128)


@pytest.mark.parametrize(("base", "is_made"), [(77.0, True), (None, False)])
def test_a_rotation_of_the_whole_beside_that_of_its_text_part(base: float | None, is_made: bool) -> None:
    """MusicFlamingoConfig has a group of its own, by which times of sound are turned."""
    transformers = pytest.importorskip("transformers")
    file = {"model_type": "musicflamingo", "text_config": {"model_type": "qwen2", **_SIZES}, "rope_theta": base}
    config = transformers.CONFIG_MAPPING["musicflamingo"].from_dict(copy.deepcopy(file))
    assert config.rope_parameters["rope_theta"] == base
    try:
        with torch.device("meta"):
            transformers.AutoModel.from_config(config)
    except TypeError:
        assert not is_made
    said = [each.message for each in read_huggingface(file).findings if each.severity != "note"]
    fails = "rope_theta is null in config.json: the class of 'musicflamingo' in transformers takes it for a rotation"
    assert [each.startswith(fails) for each in said if "rope_theta" in each] == ([] if is_made else [True])


@pytest.mark.parametrize(
    ("name", "base", "windows"),
    [("mistral3", 1e9, {None}), ("voxtral", 1e8, {None}), ("voxtral_realtime", 1e6, {8192})],
)
def test_sizes_beside_the_place_of_a_text_part_go_with_the_base_of_the_whole(
    name: str, base: float, windows: set[int | None]
) -> None:
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 4}
    parsed = read_huggingface({"model_type": name, **sizes})
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    assert mapping[name]().get_text_config().rope_parameters["rope_theta"] == base
    assert [each.base for each in parsed.configs.values()] == [base]
    assert {each.window for each in parsed.layers} == windows
    scaled = read_huggingface({"model_type": name, **sizes, "rope_theta": 5e3})
    assert [each.base for each in scaled.configs.values()] == [5e3]


@pytest.mark.slow
def test_which_wholes_give_all_axes_of_their_text_one_position() -> None:
    """Those whose class has no ``get_rope_index``, though their text part turns pairs by several axes."""
    transformers = pytest.importorskip("transformers")
    names = transformers.models.auto.modeling_auto.MODEL_MAPPING_NAMES
    found = set()
    for name in known_model_types():
        whole = model_type(name)
        text = None if whole is None or whole.text_type is None else model_type(whole.text_type)
        if text is not None and text.axes and name in names:
            classes = [names[name]] if isinstance(names[name], str) else names[name]
            module = sys.modules[getattr(transformers, classes[0]).__module__]
            if "def get_rope_index" not in inspect.getsource(module):
                found.add(name)
    assert found == ONE_POSITION_FOR_ALL_AXES


def test_axes_that_all_have_one_position_are_not_told() -> None:
    """modeling_minicpmv4_6.py hands position_ids on, and the text model makes one range for all axes."""
    text = {"model_type": "qwen3_5_text", "num_hidden_layers": 4}
    for name, axes in (("minicpmv4_6", 0), ("qwen3_5", 1)):
        parsed = read_huggingface({"model_type": name, "text_config": text})
        assert len(parsed.multimodal) == axes
        assert sum(each.code == "several axes" for each in parsed.findings) == axes
