"""Files that a class of transformers refuses, and misspelt entries of its own: each is told without that class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from zoo.field_kinds import PATH, kinds_of_all
from zoo.scalings import complete_scaling
from zoo.whole_heads import computes, whole_heads

from locant.errors import ConfigError
from locant.extension import inspect_model
from locant.extension.inspect.model_class.small_model import build, quiet
from locant.positions.scaling.fields import in_json
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes.families import model_type
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.refusals import (
    NEVER_NULL,
    REQUIRED,
    grids_of_other_sizes,
    incomplete_groups,
    refused_by_configuration,
)
from locant.rotary_configs.classes.sub_configs import parts_of_unknown_types

_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "intermediate_size": 64,
    "vocab_size": 16,
    "vocab_size_per_layer_input": 16,
    "pad_token_id": 0,
}
_FAILS = [
    ({"model_type": "llama", "num_key_value_heads": "2"}, "num_key_value_heads"),
    ({"model_type": "cohere", "num_key_value_heads": -1}, "num_key_value_heads is -1"),
    ({"model_type": "gemma3_text", "hidden_size": 65, "head_dim": 32}, "hidden_size is 65"),
    ({"model_type": "gemma3_text", "num_attention_heads": 3, "head_dim": 32}, "num_attention_heads, 3"),
    ({"model_type": "phi3", "rope_scaling": {"type": "linear", "factor": 4.0}}, "rope_type is 'linear'"),
    ({"model_type": "gemma4_text", "head_dim": 32, "rope_parameters": {}}, "rope_parameters is an empty object"),
    ({"model_type": "laguna", "head_dim": 32, "rope_scaling": {}}, "rope_scaling is an empty object"),
    ({"model_type": "gemma4_text", "per_layer_config": {"4": {"head_dim": 16}}}, "entries for layer 4"),
    ({"model_type": "gemma4_text", "per_layer_config": {"1": {"attention_chunk_size": 4}}}, "layer 1 has sliding_win"),
    ({"model_type": "neomme", "per_layer_config": [{"1": {"sliding_window": 8}}]}, "per_layer_config is [{'1'"),
    ({"model_type": "llama", "layer_types": ["sliding_attention"] * 4}, "cache looks for sliding_window"),
    ({"model_type": "llama", "layer_types": ["chunked_attention"] * 4}, "cache looks for attention_chunk_size"),
    ({"model_type": "dbrx", "n_layers": None}, "n_layers is null"),
    (
        {"model_type": "olmo3", "sliding_window": None, "layer_types": ["full_attention"] * 4},
        "sliding_window is null in config.json: the class of 'olmo3' in transformers makes a mask with that window",
    ),
]


def _run(config_class: Any, content: dict[str, Any]) -> None:
    with quiet():
        model = build(config_class.from_dict(dict(content)))
        model.set_attn_implementation("eager")
        model(torch.zeros((1, 4), dtype=torch.long))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("entries", "said"), _FAILS)
def test_what_a_class_refuses_is_told_without_it(entries: dict[str, Any], said: str) -> None:
    """The class raises for the file, and not for the same one with its own values in the place of these."""
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    usual = {name: value for name, value in _SMALL.items() if name not in entries}
    with pytest.raises(Exception):  # noqa: B017, PT011 -- every class raises something else
        _run(mapping[entries["model_type"]], {**usual, **entries})
    if entries["model_type"] != "dbrx":  # whose own layers are too wide to be built
        _run(mapping[entries["model_type"]], {**_SMALL, "model_type": entries["model_type"]})
    warned = [each.message for each in read_huggingface({**usual, **entries}).findings if each.severity != "note"]
    assert any(said in message for message in warned)


def test_a_switch_that_is_no_switch_does_not_say_that_nothing_rotates() -> None:
    """ClvpEncoderConfig refuses 'true'; it does not take it for false."""
    content = {"model_type": "clvp_encoder", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2}
    with pytest.raises(ConfigError, match="it refuses the file") as raised:
        read_huggingface({**content, "use_rotary_embedding": "true"})
    assert not isinstance(raised.value, NoRotaryPositionsError)
    with pytest.raises(NoRotaryPositionsError):
        read_huggingface({**content, "use_rotary_embedding": False})


def test_a_null_base_in_a_group_of_dbrx_is_told() -> None:
    content = {"model_type": "dbrx", "d_model": 64, "n_heads": 2, "n_layers": 2, "attn_config": {"rope_theta": 5e5}}
    parsed = read_huggingface({**content, "rope_parameters": {"rope_type": "default", "rope_theta": None}})
    assert any("null" in each.message for each in parsed.findings if each.severity == "warning")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("hidden_siez", "hidden_size"), ("hidden-size", "hidden_size"), ("num_atention_heads", "num_attention_heads")],
)
def test_a_misspelt_size_that_the_file_leaves_out_is_told(name: str, meant: str) -> None:
    """It is passed over, and the class takes a size of its own."""
    rest = {key: value for key, value in _SMALL.items() if key != meant}
    parsed = read_huggingface({"model_type": "llama", **rest, name: _SMALL[meant]})
    said = [each.message for each in parsed.findings if each.severity == "error"]
    assert said == [f"'{name}' in config.json is not known, and passed over. Did you mean '{meant}'?"]
    beside = read_huggingface({"model_type": "llama", **_SMALL, name: _SMALL[meant]})
    assert not any(each.severity == "error" for each in beside.findings)


@pytest.mark.parametrize(
    ("model_type", "entries"),
    [
        ("gemma3_text", {"global_head_dim": 512}),
        ("diffllama", {"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window_size": 5}),
    ],
)
def test_heads_and_windows_by_entries_of_other_classes_are_passed_over(
    model_type: str, entries: dict[str, Any]
) -> None:
    """Neither class reads the entry: the heads of full attention are those of all, and no mask has a window."""
    parsed = read_huggingface({"model_type": model_type, **_SMALL, "head_dim": 32, **entries})
    assert {each.head_dim for each in parsed.configs.values()} == {32}
    assert model_type == "gemma3_text" or {kind.window for kind in parsed.layers} == {None}
    said = [each.message for each in parsed.findings if each.severity == "warning"]
    assert any(message.startswith(next(reversed(entries))) for message in said)


def test_a_window_under_two_names_as_in_the_files_of_gemma_2_is_no_warning() -> None:
    entries = {"sliding_window": 4096, "sliding_window_size": 4096, "head_dim": 32}
    assert not [
        each
        for each in read_huggingface({"model_type": "gemma2", **_SMALL, **entries}).findings
        if each.severity != "note"
    ]


def test_a_window_of_images_is_none_of_text() -> None:
    """modeling_granite4_vision.py speaks of windows of its tower alone."""
    parsed = read_huggingface({"model_type": "granite4_vision_text", **_SMALL, "sliding_window": 5})
    assert {kind.window for kind in parsed.layers} == {None}
    assert any(each.message.startswith("sliding_window is 5") for each in parsed.findings)


@pytest.mark.parametrize("name", ["llm_config", "language_config", "thinker_config"])
def test_a_text_part_under_a_name_that_the_class_passes_over_is_told(name: str) -> None:
    """AriaConfig has text_config; the part under another name counts for nothing."""
    part = {"model_type": "aria_text", **_SMALL, "rope_theta": 77777.0}
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    made = mapping["aria"].from_dict({name: dict(part)}).get_text_config()
    assert made.rope_parameters["rope_theta"] != part["rope_theta"]
    said = [each.message for each in read_huggingface({"model_type": "aria", name: part}).findings]
    assert any(f"passes over '{name}'" in message for message in said)


def test_a_text_part_of_another_type_is_read_as_the_class_takes_it() -> None:
    """Gemma3Config makes its text part of Gemma3TextConfig, whatever model_type stands there."""
    part = {"model_type": "mistral", **_SMALL, "num_hidden_layers": 6, "head_dim": 32, "rope_theta": 4e5}
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    made = mapping["gemma3"].from_dict({"text_config": dict(part)}).get_text_config()
    parsed = read_huggingface({"model_type": "gemma3", "text_config": part})
    assert {name: config.base for name, config in parsed.configs.items()} == {
        name: group["rope_theta"] for name, group in made.rope_parameters.items()
    }
    assert any("model_type is 'mistral' in 'text_config'" in each.message for each in parsed.findings)


_SIZES = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 4, "max_position_embeddings": 8192}


def _warnings(**content: Any) -> list[str]:
    return [each.message for each in read_huggingface(_SIZES | content).findings if each.severity == "warning"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"model_type": "bitnet", "rope_theta": None}, "'bitnet' in transformers fails; 500000 is shown"),
        ({"model_type": "modernbert-decoder", "local_rope_theta": None}, "local_rope_theta of the file is null, with"),
        ({"model_type": "stablelm", "partial_rotary_factor": None}, "partial_rotary_factor of the file is null, with"),
        ({"model_type": "gpt_neox", "rotary_emb_base": None}, "rotary_emb_base of the file is null, with"),
        ({"model_type": "ministral", "num_key_value_heads": None}, "it refuses the file"),
    ],
)
def test_nulls_with_which_a_class_fails(content: dict[str, Any], said: str) -> None:
    assert any(said in each for each in _warnings(**content))


def test_a_null_that_no_class_is_known_to_fail_with() -> None:
    code = {"AutoConfig": "configuration_baichuan.BaichuanConfig"}
    (said,) = _warnings(model_type="baichuan", rope_theta=None, auto_map=code)
    assert said.endswith("is null; 10000 is shown, what the class of 'baichuan' has where it is left out.")


@pytest.mark.parametrize("name", ["ministral", "hunyuan_v1_dense"])
def test_a_size_of_heads_that_is_null_by_default(name: str) -> None:
    usual = {"model_type": name, "num_key_value_heads": 4}
    assert "head_dim is left out of config.json, and null then" in _warnings(**usual)[0]
    assert not _warnings(**usual, head_dim=64)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            {"model_type": "mpt", "attn_config": {"attn_type": "grouped_query_attention"}},
            "attn_type is 'grouped_query_attention' in attn_config of config.json",
        ),
        ({"model_type": "whisper", "rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling of config.json has"),
    ],
)
def test_what_a_class_without_rotary_positions_refuses(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    warning, note = inspect_model(tmp_path, ask_class=False).findings
    assert warning.severity == "warning"
    assert said in warning.message
    assert "has no rotary positions" in note.message


def test_baichuan_that_names_its_length_otherwise_is_that_with_alibi() -> None:
    """configuration_baichuan.py of 13B has model_max_length, that of 7B max_position_embeddings."""
    small = {"model_type": "baichuan", "hidden_size": 2048, "num_attention_heads": 16, "model_max_length": 4096}
    with pytest.raises(NoRotaryPositionsError, match="model_max_length and no max_position_embeddings"):
        read_huggingface(small)
    assert read_huggingface(small | {"max_position_embeddings": 4096}).config.head_dim == 128
    assert read_huggingface(small | {"hidden_size": 4096, "num_attention_heads": 32}).config.head_dim == 128


def test_own_sections_that_are_not_all_pairs_of_the_class() -> None:
    """modeling_glm4v.py splits cosines by three sections of half a head, where the whole head is rotated by default."""
    flat = {"rope_theta": 1e4, "partial_rotary_factor": 0.5, "vision_config": {}}
    flat["rope_scaling"] = {"type": "default", "mrope_section": [4, 6, 6]}
    said = [each for each in _warnings(model_type="glm4v", **flat) if "looks for its text part" in each]
    assert "takes its own, with which it fails" in said[0]
    (whole,) = [each for each in _warnings(model_type="llava", vision_config={}) if "looks for its text part" in each]
    assert "fails" not in whole


def test_an_own_text_part_without_a_value_that_it_needs() -> None:
    """Step3p7TextConfig has sliding_window null, and its model makes a mask of a window in any case."""
    flat = {"sliding_window": 512, "layer_types": ["full_attention", "sliding_attention"] * 2, "head_dim": 32}
    said = [each for each in _warnings(model_type="step3p7", **flat) if "looks for its text part" in each]
    assert "takes its own, with which it fails" in said[0]
    transformers = pytest.importorskip("transformers")
    if "step3p7" in transformers.CONFIG_MAPPING:
        assert transformers.CONFIG_MAPPING["step3p7"]().get_text_config().sliding_window is None


def _known(name: str) -> ModelType:
    kind = model_type(name)
    assert kind is not None
    return kind


def _is_refused(config_class: Any, content: dict[str, Any]) -> bool:
    try:
        with quiet():
            config_class.from_dict(content)
    except Exception:  # whatever the class raises
        return True
    return False


_SHORT: dict[str, Any] = {"type": "yarn", "factor": 4.0}


@pytest.mark.parametrize("name", ["gpt2", "bert", "gptj"])
def test_groups_that_no_class_reads_must_be_complete(name: str) -> None:
    """``_check_received_keys`` of modeling_rope_utils.py: KeyError, also for classes without rotary positions."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING[name]
    for rope_type, required in REQUIRED.items():
        complete = {"rope_type": rope_type, "rope_theta": 1e4, **complete_scaling(rope_type, 8)}
        for missing in (None, *complete):
            group = {key: value for key, value in complete.items() if key != missing}
            content = {"model_type": name, "rope_parameters": group}
            said = " ".join(each.message for each in refused_by_configuration(content, _known(name)))
            assert _is_refused(config_class, content) is (missing in required), (rope_type, missing)
            assert (f"has the type '{rope_type}' and lacks {missing}" in said) is (missing in required)
        for null in complete:
            content = {"model_type": name, "rope_parameters": {**complete, null: None}}
            is_needed = null in NEVER_NULL.get(rope_type, ())
            assert _is_refused(config_class, content) is is_needed, (rope_type, null)
            assert bool([*refused_by_configuration(content, _known(name))]) is is_needed
        later = {"model_type": name, "rope_parameters": {"rope_type": rope_type}, "rope_scaling": None}
        assert not _is_refused(config_class, later)
        assert not [*refused_by_configuration(later, _known(name))]


@pytest.mark.parametrize(
    ("entries", "is_refused"),
    [
        ({"rope_scaling": _SHORT, "rope_theta": 1e4}, False),
        ({"rope_parameters": None, "rope_scaling": _SHORT, "rope_theta": 1e4}, False),
        ({"rope_scaling": _SHORT}, True),
        ({"rope_scaling": _SHORT, "rope_theta": None}, True),
        ({"rope_scaling": _SHORT | {"rope_theta": 1e4}}, True),
        ({"rope_parameters": _SHORT, "rope_theta": 1e4}, True),
        ({"rope_parameters": _SHORT, "rope_scaling": _SHORT, "rope_theta": 1e4}, True),
    ],
)
@pytest.mark.parametrize("name", ["jamba", "gpt2", "codegen"])
def test_a_group_beside_a_base_is_brought_in_order(name: str, entries: dict[str, Any], is_refused: bool) -> None:
    """``PreTrainedConfig.__post_init__`` asks for ``rope_scaling`` and ``rope_theta`` of classes that read neither."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING[name]
    assert _is_refused(config_class, json.loads(json.dumps(entries))) is is_refused
    assert bool([*refused_by_configuration(entries, _known(name))]) is is_refused


def test_a_class_that_is_switched_off_fills_in_bases_and_lengths() -> None:
    """Zamba2 does not rotate by default, and brings its group in order all the same."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING["zamba2"]
    for group in ({"rope_type": "dynamic"}, {"rope_type": "yarn", "factor": 2.0}):
        content = {"model_type": "zamba2", "rope_parameters": group}
        said = " ".join(each.message for each in incomplete_groups(content, _known("zamba2")))
        assert _is_refused(config_class, content) is ("lacks factor" in said) is ("factor" not in group)


def test_a_type_that_a_class_takes_for_another_wants_what_that_wants() -> None:
    """HunYuan-VL's class calls 'xdrope' 'dynamic', of which ``validate_rope`` wants a factor, though alpha is read."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING["hunyuan_vl_text"]
    for group in ({"type": "xdrope", "alpha": 1000.0}, {"type": "xdrope", "alpha": 1000.0, "factor": 1.0}):
        content = {"model_type": "hunyuan_vl_text", "head_dim": 128, "rope_scaling": group}
        is_refused = _is_refused(config_class, json.loads(json.dumps(content)))
        said = " ".join(each.message for each in read_huggingface(content).findings)
        told = "has the type 'xdrope', which the class takes for 'dynamic', and lacks factor" in said
        assert told is is_refused is ("factor" not in group)


def test_layers_of_one_type_may_differ_where_the_class_asks_each() -> None:
    """NeoMME's own files give every second sliding layer a longer window."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING["neomme"]
    with quiet():
        content = json.loads(json.dumps(config_class(num_hidden_layers=6).to_dict()))
    said = [each.message for each in read_huggingface(content).findings]
    assert content["per_layer_config"]
    assert not any("both of the type" in each for each in said)
    content["rope_parameters"]["sliding_attention"] |= {"rope_type": "linear", "factor": 2.0}
    assert any("both of the type" in each.message for each in read_huggingface(content).findings)


@pytest.mark.parametrize(
    ("name", "entries", "said"),
    [
        ("bert", {"hidden_size": 768.5}, "hidden_size is 768.5"),
        ("gpt2", {"n_head": None}, "n_head is null"),
        ("bert", {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 2}, "the types of 2 layers"),
        ("mamba", {"layer_types": ["mamba"]}, "layer_types is ['mamba']"),
        ("xlnet", {"max_position_embeddings": 64}, "max_position_embeddings is 64"),
        ("falcon", {"head_dim": 64}, "head_dim is 64"),
        ("zamba2", {"num_attention_heads": True}, "num_attention_heads is true"),
        ("zamba2", {"rope_scaling": {"type": "dynamic"}}, "lacks factor"),
    ],
)
def test_what_no_class_takes_is_told_of_those_that_do_not_rotate(
    name: str, entries: dict[str, Any], said: str, tmp_path: Path
) -> None:
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    assert _is_refused(mapping[name], {"model_type": name, **entries})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name, **entries}), encoding="utf-8")
    found = inspect_model(tmp_path, ask_class=False).findings
    assert any(said in each.message for each in found if each.severity != "note")


def test_the_kinds_of_values_of_classes_are_those_of_the_installed_release() -> None:
    transformers = pytest.importorskip("transformers")
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    for what, found in kinds_of_all(every=9).items():
        by_type = {name: each[what] for each in stored[what] for name in each["of"]}
        others = [name for each in found for name in each["of"] if by_type.get(name) != each[what]]
        assert not others or transformers.__version__ < "5.24"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model_type": "falcon", "rotary": True}, "rotary is true in config.json: the class of 'falcon'"),
        ({"model_type": "mimi", "sliding_window": None}, "sliding_window is null in config.json, where the class"),
        ({"model_type": "mimi", "frame_size": 1920}, "frame_size is 1920 in config.json: the class of 'mimi'"),
    ],
)
def test_entries_that_a_class_does_not_let_a_file_set(entries: dict[str, Any], said: str) -> None:
    """Properties without a setter, and fields of stacks, which are whole numbers."""
    usual = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "model_type": entries["model_type"]}
    assert not any("refuses" in each.message for each in read_huggingface(usual).findings)
    assert [each.message for each in read_huggingface({**usual, **entries}).findings if said in each.message]
    transformers = pytest.importorskip("transformers")
    with pytest.raises(Exception, match=r"setter|StrictDataclass|expected|sliding_window"):
        transformers.CONFIG_MAPPING[usual["model_type"]](**entries)


def test_an_entry_that_falcon_does_not_let_a_file_set_is_told_with_alibi_too() -> None:
    file = {"model_type": "falcon", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "alibi": True}
    with pytest.raises(
        ConfigError, match=r"rotary is true in config.json: .* refuses a file which states it"
    ) as raised:
        read_huggingface({**file, "rotary": True})
    assert not isinstance(raised.value, NoRotaryPositionsError)


def test_a_grid_of_axial_positions_of_another_size_than_the_file_says_is_told() -> None:
    kind = model_type("reformer")
    assert kind is not None
    file = {"axial_pos_shape": [64, 64], "max_position_embeddings": 524288}
    found = [each.message for each in grids_of_other_sizes(file, kind)]
    assert len(found) == 1
    assert "a grid of 4096 positions" in found[0]
    assert "fails with texts of more than 4096 tokens, and trains with texts of exactly 4096" in found[0]
    for fitting in ({**file, "axial_pos_shape": [512, 1024]}, {**file, "axial_pos_embds": False}, {}):
        assert not [*grids_of_other_sizes(fitting, kind)]
    found = [each.message for each in grids_of_other_sizes({"hidden_size": 128}, kind)]
    assert ["which is 256 together, and hidden_size 128" in each for each in found] == [True]


def test_a_rotated_part_of_another_size_than_the_angles_of_its_class_is_told() -> None:
    """LongcatFlashRotaryEmbedding goes by head_dim, 64 where it is left out (configuration_longcat_flash.py)."""
    file = {"model_type": "longcat_flash", "hidden_size": 256, "num_layers": 2, "num_attention_heads": 4}
    found = read_huggingface({**file, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32}).findings
    assert "qk_rope_head_dim is 32 in config.json, which leaves head_dim out" in found[0].message
    for fitting in ({"qk_rope_head_dim": 32, "head_dim": 32}, {"qk_rope_head_dim": 64}):
        assert "angles for its own head_dim" not in str(read_huggingface({**file, **fitting}).findings)
    deepseek = {"model_type": "deepseek_v3", "hidden_size": 256, "num_attention_heads": 4, "qk_rope_head_dim": 32}
    assert "angles for its own head_dim" not in str(read_huggingface(deepseek).findings)


@pytest.mark.parametrize(
    ("name", "entry"), [("modernbert", "global_attn_every_n_layers"), ("qwen3_next", "full_attention_interval")]
)
def test_a_round_of_no_layers_is_refused(name: str, entry: str) -> None:
    """All classes with such an entry divide by it, and raise ZeroDivisionError, or refuse it."""
    file = {"model_type": name, "hidden_size": 384, "num_hidden_layers": 10, "num_attention_heads": 6, entry: 0}
    found = [each for each in read_huggingface(file).findings if entry in each.message]
    assert [each.severity for each in found] == ["error"]
    assert "makes no types of layers: it fails" in found[0].message
    assert not [each for each in read_huggingface({**file, entry: 3}).findings if "it fails" in each.message]


@pytest.mark.parametrize(
    ("name", "entry"),
    [("smollm3", "no_rope_layers"), ("gemma3n_text", "activation_sparsity_pattern")],
)
def test_empty_lists_of_which_a_class_makes_no_configuration(name: str, entry: str) -> None:
    said = f"{entry} is [] in config.json: the class of '{name}' in transformers looks for a value for each layer"
    assert [each for each in _warnings(model_type=name, **{entry: []}) if each.startswith(said)]
    assert not [each for each in _warnings(model_type=name, **{entry: None}) if "for each layer" in each]
    transformers = pytest.importorskip("transformers")
    if name in transformers.CONFIG_MAPPING:
        with pytest.raises((IndexError, ValueError, KeyError)):
            transformers.CONFIG_MAPPING[name](**{entry: []})


def test_an_empty_list_of_layers_without_positions_is_as_none_where_the_class_fills_it() -> None:
    assert not [each for each in _warnings(model_type="llama4_text", no_rope_layers=[]) if "is []" in each]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"model_type": "aria", "text_config": {"model_type": "foo"}, "vision_config": {"model_type": "bar"}}, ["bar"]),
        (
            {"model_type": "llava", "text_config": {"model_type": "llama"}, "vision_config": {"model_type": "bar"}},
            ["bar"],
        ),
        ({"model_type": "llava", "text_config": {"model_type": "internlm2"}}, ["internlm2"]),
        ({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k2"}}, []),
        ({"model_type": "kimi_k25", "text_config": {"model_type": "kimi_k3"}}, ["kimi_k3"]),
        ({"model_type": "cosmos3_omni", "vision_config": {"model_type": "foo"}}, []),
        (
            {"model_type": "llava", "text_config": {"model_type": "opt"}, "vision_config": {"model_type": None}},
            [None],
        ),
        ({"model_type": "llava", "vision_config": {"model_type": "clip_vision_model"}}, []),
        ({"model_type": "llava", "vision_config": {"hidden_size": 64}}, []),
        ({"model_type": "llava", "vision_config": {"model_type": "bar"}, "auto_map": {"AutoConfig": "a.B"}}, []),
        ({"model_type": "internvl_chat", "vision_config": {"model_type": "intern_vit_6b"}}, []),
        ({"model_type": "llava", "text_config": {"model_type": "aria", "vision_config": {"model_type": "b"}}}, ["b"]),
        ({"model_type": "llava", "old_config": {"model_type": "llava", "vision_config": {"model_type": "bar"}}}, []),
        ({"model_type": "llama", "whole": {"model_type": "aria", "vision_config": {"model_type": "bar"}}}, []),
        (
            {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": {"vision_config": {"model_type": "bar"}}}},
            [],
        ),
    ],
)
def test_parts_of_types_that_transformers_does_not_have(content: dict[str, Any], names: list[Any]) -> None:
    """SubConfigSpec.get_config_class refuses them, of parts that no class is fixed for; it reads no other groups."""
    said = [each.message.split(" in '")[0] for each in parts_of_unknown_types(content)]
    assert said == [f"model_type is {in_json(name)}" for name in names]


@pytest.mark.parametrize(
    ("name", "entries", "said"),
    [
        ("xglm", {"d_model": 64, "attention_heads": 3}, "d_model is 64, which is no multiple of attention_heads, 3"),
        ("xglm", {"hidden_size": 100}, "hidden_size is 100, which is no multiple of attention_heads, 16"),
        ("opt", {"hidden_size": 64, "num_attention_heads": 3}, "hidden_size is 64, which is no multiple of num_"),
        ("gpt2", {"n_head": 5}, "n_embd is 768, which is no multiple of n_head, 5"),
        ("bart", {"d_model": 64, "decoder_attention_heads": 3}, "no multiple of decoder_attention_heads, 3"),
        ("t5", {"d_model": 64, "num_heads": 3}, ""),
        ("opt", {"hidden_size": 66, "num_attention_heads": 3}, ""),
    ],
)
def test_heads_that_do_not_divide_the_width_of_a_class_without_rotation(
    name: str, entries: dict[str, Any], said: str, tmp_path: Path
) -> None:
    assert computes(pytest.importorskip("transformers").CONFIG_MAPPING[name], entries) is not bool(said)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name, **entries}), encoding="utf-8")
    for ask in (False, True):
        warnings = [each for each in inspect_model(tmp_path, ask_class=ask).findings if each.severity != "note"]
        is_told = any("no multiple of" in each.message for each in warnings)
        assert any(said in each.message for each in warnings) if is_told else not said or (ask and warnings)
        assert not is_told or said


def test_the_widths_of_classes_are_those_of_the_installed_release() -> None:
    transformers = pytest.importorskip("transformers")
    of_type = {name: each["heads"] for each in json.loads(PATH.read_text("utf-8"))["heads"] for name in each["of"]}
    others = [
        name
        for name in ("gpt2", "t5", "xlnet")
        if whole_heads(transformers.CONFIG_MAPPING[name]) != of_type.get(name, [])
    ]
    assert not others or transformers.__version__ < "5.24"


@pytest.mark.parametrize("name", ["qwen2", "mistral", "nemotron", "llama", "stablelm"])
def test_heads_of_the_whole_part_of_what_divides_the_width(name: str) -> None:
    """q_proj and o_proj are of num_attention_heads * head_dim features, where no check refuses the width."""
    sizes = {**_SMALL, "hidden_size": 66, "num_attention_heads": 4, "num_key_value_heads": 4}
    file = {"model_type": name, **sizes, "vocab_size": 32}
    floors = model_type(name).floors_head
    assert computes(pytest.importorskip("transformers").CONFIG_MAPPING[name], file) is floors
    assert floors is (name not in ("llama", "stablelm"))
    if not floors:
        with pytest.raises(ConfigError, match="that num_attention_heads"):
            read_huggingface(file)
        return
    parsed = read_huggingface(file)
    assert parsed.config.head_dim == 16
    said = "hidden_size is 66, which is no multiple of num_attention_heads, 4: the class of"
    assert any(each.message.startswith(said) and "each head 16 features" in each.message for each in parsed.findings)


@pytest.mark.parametrize("name", ["gemma3_text", "olmo3", "dots3_note_text", "step3p5", "mellum"])
def test_a_null_base_of_a_class_with_groups_by_layer_type(name: str) -> None:
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    groups = mapping[name].from_dict({"model_type": name, "rope_theta": None}).rope_parameters
    fails = any(each["rope_theta"] is None for each in groups.values())
    said = f"rope_theta of the file is null, with which the class of '{name}' in transformers fails"
    found = read_huggingface({"model_type": name, "rope_theta": None}).findings
    assert any(each.message.startswith(said) for each in found) is fails is (name != "mellum")
    inside = {"model_type": name, "rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}
    found = read_huggingface(inside).findings if name == "dots3_note_text" else ()
    assert not any(each.message.startswith(said) for each in found)


def test_a_width_of_0_is_not_compared(tmp_path: Path) -> None:
    """Nemotron's class makes a model of it, whose queries and keys are 0."""
    file = {"model_type": "nemotron", **_SMALL, "hidden_size": 0, "head_dim": 32}
    (tmp_path / "config.json").write_text(json.dumps(file), encoding="utf-8")
    found = inspect_model(tmp_path)
    assert "layers without a feature show nothing" in str(found.not_compared)
    said = " ".join(each.message for each in found.findings)
    assert "or one whose layers have no features" in said
    assert "have no positions" not in said
