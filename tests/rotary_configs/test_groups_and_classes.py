"""What classes with groups by layer type fill in, pass over and fail with, compared with the class in transformers."""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from locant.extension import inspect_model
from locant.rotary_configs import ParsedConfig, read_huggingface
from locant.rotary_configs.classes.families import model_type

_SIZES = {
    **{"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 6},
    **{"max_position_embeddings": 512, "head_dim": 64, "vocab_size": 32, "intermediate_size": 64},
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "truncate": False}


def _warnings(parsed: ParsedConfig) -> str:
    return " ".join(finding.message for finding in parsed.findings if finding.severity == "warning")


def _config_of(file: dict[str, Any]) -> Any:
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    if file["model_type"] not in mapping:
        pytest.skip(f"this transformers has no '{file['model_type']}'")
    return mapping[file["model_type"]].from_dict(copy.deepcopy(file))


@pytest.mark.parametrize(
    ("name", "layer"), [("dory", "full_attention"), ("lfm3", "sliding_attention"), ("ultrabert", "full_attention")]
)
def test_a_group_without_a_base_has_that_of_every_group(name: str, layer: str) -> None:
    """standardize_rope_params: rope_theta beside the groups, or default_theta."""
    kind = model_type(name)
    assert kind is not None
    groups = copy.deepcopy(dict(kind.rope or {}))
    own = groups[layer].pop("rope_theta")
    file = {"model_type": name, "rope_parameters": groups}
    parsed = read_huggingface(file)
    base = parsed.configs[layer].base
    assert base == _config_of(file).rope_parameters[layer]["rope_theta"] != own
    assert f"fills in {base:.10g} there, not the {own:.10g} of its own group" in _warnings(parsed)


def test_a_group_of_deepseek_v4_without_a_base_has_the_main_one() -> None:
    groups = {"main": {"rope_type": "default", "rope_theta": 1e4}, "compress": {"rope_type": "default"}}
    parsed = read_huggingface({"model_type": "deepseek_v4", "rope_parameters": groups})
    assert {config.base for config in parsed.configs.values()} == {1e4}
    assert "fills in 10000 there, not the 160000 of its own group" in _warnings(parsed)


@pytest.mark.parametrize("name", ["gemma3_text", "olmo3", "modernbert"])
def test_truncate_in_a_scaling_that_is_merged_into_groups(name: str) -> None:
    """_compute_yarn_parameters looks for truncate beside the groups of layer types."""
    file = {"model_type": name, **_SIZES, "rope_scaling": _YARN}
    parsed = read_huggingface(file)
    assert parsed.configs["full_attention"].scaling.truncate  # type: ignore[attr-defined]
    assert "truncate false stands in the groups that the class" in _warnings(parsed)
    assert "truncate" not in {**_config_of(file).rope_parameters, "full_attention": None}


@pytest.mark.parametrize("name", ["gemma4_text", "lfm3"])
def test_a_share_beside_a_scaling_of_whole_heads(name: str) -> None:
    full = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6, "partial_rotary_factor": 0.5}
    local = {"rope_type": "default", "rope_theta": 1e4}
    file = {"model_type": name, **_SIZES, "rope_parameters": {"full_attention": full, "sliding_attention": local}}
    said = "frequencies for that part of a head then, rotates whole heads, and fails"
    assert said in _warnings(read_huggingface(file))
    file["rope_parameters"]["full_attention"] = {**full, "rope_type": "proportional", "factor": 1.0}
    assert said not in _warnings(read_huggingface(file))


@pytest.mark.parametrize("name", ["laguna", "modernbert"])
@pytest.mark.parametrize("scaled", [None, "full_attention", "sliding_attention"])
def test_the_scaling_of_one_group_fills_the_share_beside_them_in(name: str, scaled: str | None) -> None:
    """standardize_rope_params, which the functions of scalings call: the types come in the order of their names."""
    groups = {each: {"rope_type": "default", "rope_theta": 1e4} for each in ("full_attention", "sliding_attention")}
    if scaled is not None:
        groups[scaled] |= {"rope_type": "linear", "factor": 2.0}
    types = ["full_attention", "sliding_attention"] * 3
    file = {"model_type": name, **_SIZES, "layer_types": types, "rope_parameters": groups}
    file["partial_rotary_factor"] = 0.25
    parsed = read_huggingface(copy.deepcopy(file))
    config = _config_of(file)
    modeling = importlib.import_module(type(config).__module__.replace("configuration", "modeling"))
    made = next(each for at, each in vars(modeling).items() if at.endswith("RotaryEmbedding"))(config)
    taken = {each: 2 * getattr(made, f"{each}_inv_freq").numel() for each in groups}
    assert {each: parsed.configs[each].rotary_dim for each in groups} == taken
    for each, rotated in taken.items():
        assert (f"takes it for '{each}', whose group has none" in _warnings(parsed)) == (rotated < 64)


def test_windows_of_an_entry_are_told_without_those_of_another() -> None:
    """NeoMME gives every second sliding layer default_long_sliding_window, whatever sliding_window is."""
    types = ["sliding_attention"] * 5 + ["full_attention"]
    said = [
        each.message for each in read_huggingface({"model_type": "neomme", **_SIZES, "sliding_window": 96}).findings
    ]
    assert any("Of sliding_window 96 in config.json" in each and "windows of 97 tokens" in each for each in said)
    beside = {"sliding_window": 96, "layer_types": types, "default_long_sliding_window": 192}
    parsed = read_huggingface({"model_type": "neomme", **_SIZES, **beside})
    assert not any("windows of 97 and" in each.message for each in parsed.findings)


def test_sections_of_a_class_for_heads_of_another_size() -> None:
    """CohereCompassTextRotaryEmbedding has [24, 20, 20] where the group has no mrope_section, and cuts it."""
    group = {"sliding_attention": {"rope_type": "default", "rope_theta": 2e4}, "full_attention": None}
    file = {"model_type": "cohere_compass_text", **_SIZES, "head_dim": 96, "rope_parameters": group}
    file["layer_types"] = ["sliding_attention"] * 5 + ["full_attention"]
    parsed = read_huggingface(file)
    axes = parsed.multimodal["sliding_attention"]["axis_of_pair"]
    assert [axes.count(axis) for axis in range(3)] == [16, 16, 16]
    assert any("with 16, 16, 16 pairs each" in each.message for each in parsed.findings)
    (found,) = (each for each in parsed.findings if "sums to 64 pairs" in each.message)
    assert found.message.startswith("The file has no mrope_section, and that of its class, [24, 20, 20], sums to")
    assert found.remedy.startswith("State mrope_section")
    group["sliding_attention"]["mrope_section"] = [24, 20, 20]
    assert any(each.message.startswith("mrope_section [24, 20, 20] sums") for each in read_huggingface(file).findings)


def test_a_base_beside_one_for_every_layer_is_told_with_the_reason() -> None:
    """GraniteSWAConfig: layer_rope_theta stands in the place of rope_theta in every layer."""
    rope = {"rope_type": "default", "rope_theta": 3e4}
    file = {"model_type": "granite_swa", **_SIZES, "layer_rope_theta": [1e4, 1e4, 5e5] * 2, "rope_parameters": rope}
    said = _warnings(read_huggingface(file))
    assert "rope_theta 30000 of config.json has no effect: the class of 'granite_swa'" in said
    assert "nothing known here reads it" not in said
    assert "has no effect" not in _warnings(read_huggingface({**file, "layer_rope_theta": [3e4] * 6}))


@pytest.mark.parametrize(("name", "is_by_type"), [("mellum", True), ("dory", True), ("zaya", True), ("olmo", False)])
def test_a_base_that_is_passed_over_is_to_be_stated_where_the_class_takes_it(name: str, is_by_type: bool) -> None:
    """A class that looks for the groups of layer types fails with one group for all."""
    kind = model_type(name)
    assert kind is not None
    group = {"rope_type": "default", "rope_theta": 3e5}
    groups = dict.fromkeys(kind.rope or {}, group) if is_by_type else group
    remedies = {each.remedy for each in read_huggingface({"model_type": name, **_SIZES, "rope_theta": 3e5}).findings}
    said = "State rope_theta in rope_parameters, with rope_type, in a group for each of "
    assert any(each.startswith(said) for each in remedies) == is_by_type
    taken = {
        config.base
        for config in read_huggingface({"model_type": name, **_SIZES, "rope_parameters": groups}).configs.values()
    }
    assert taken == {3e5}


@pytest.mark.parametrize(
    ("name", "remedy", "entries"),
    [
        ("flint", "Load the model with the code", {}),
        ("gemma2", "State full_attention for all", {"layer_types": ["full_attention"] * 6}),
        ("mistral", "State null for the window", {"sliding_window": None}),
    ],
)
def test_how_to_have_no_windows_where_the_switch_is_not_read(name: str, remedy: str, entries: dict[str, Any]) -> None:
    """Masks of sliding layers without a number raise ValueError; some classes make them without such layers."""
    file = {"model_type": name, **_SIZES, "sliding_window": 64}
    switch = "use_sliding_window is false in config.json, which the class"
    (found,) = (
        each for each in read_huggingface({**file, "use_sliding_window": False}).findings if switch in each.message
    )
    assert found.remedy.startswith(remedy)
    if entries:
        parsed = read_huggingface(file | entries)
        assert {each.window for each in parsed.layers} == {None}
        assert "fails" not in _warnings(parsed)


def test_a_class_that_reads_a_group_under_its_new_name_alone() -> None:
    """Cohere2MoeConfig has a field rope_scaling, and brings rope_parameters in order before they are there."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING["cohere2_moe"]
    group = {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e5}
    plain = {"rope_type": "default"}
    file = {"model_type": "cohere2_moe", **_SIZES}
    assert config_class.from_dict({**file, "rope_parameters": dict(group)}).rope_parameters == group
    parsed = read_huggingface({**file, "rope_parameters": group})
    assert (parsed.config.base, parsed.config.scaling.name) == (5e5, "linear")
    assert "passes over" not in _warnings(parsed)
    assert config_class.from_dict({**file, "rope_parameters": dict(plain)}).rope_parameters == plain
    assert "fills in no rope_theta" in _warnings(read_huggingface({**file, "rope_parameters": plain}))
    parsed = read_huggingface({**file, "rope_scaling": group})
    assert config_class.from_dict({**file, "rope_scaling": dict(group)}).rope_parameters["rope_type"] == "default"
    assert (parsed.config.base, parsed.config.scaling.name) == (1e4, "none")
    assert "passes over: it reads rope_parameters alone" in _warnings(parsed)
    groups = {"full_attention": plain, "sliding_attention": plain}
    said = _warnings(read_huggingface({**file, "rope_parameters": groups}))
    assert said.count("and fails") == 1


def test_an_entry_that_is_null_beside_groups_is_no_type_of_layers() -> None:
    plain = {"rope_type": "default", "rope_theta": 1e4}
    groups = {"full_attention": plain, "sliding_attention": plain, "factor": None}
    said = _warnings(read_huggingface({"model_type": "gemma3_text", **_SIZES, "rope_parameters": groups}))
    assert "factor is null in rope_parameters" in said
    assert "how such layers rotate" not in said


@pytest.mark.parametrize("name", ["modernbert", "laguna"])
def test_bases_of_groups_that_a_class_fills_in(name: str) -> None:
    """ModernBERT's class puts its own bases into groups without one; others that convert groups themselves do not."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING[name]
    groups = {label: {"rope_type": "default"} for label in ("full_attention", "sliding_attention")}
    said = _warnings(read_huggingface({"model_type": name, **_SIZES, "rope_parameters": copy.deepcopy(groups)}))
    taken = {each.get("rope_theta") for each in config_class(rope_parameters=groups).rope_parameters.values()}
    if name == "modernbert":
        assert "fails there" not in said
        assert all(f"fills in {base:.10g} there" in said for base in taken)
    else:
        assert taken == {None}
        assert "fills none in: it fails there" in said


@pytest.mark.parametrize(
    ("entries", "is_told"),
    [
        ({"model_type": "neomme", "rope_theta": 500000.0}, True),
        ({"model_type": "neomme", "rope_theta": 500000.0, "layer_types": ["full_attention"] * 4}, False),
        ({"model_type": "neomme"}, False),
        ({"model_type": "neomme", "rope_theta": 500000.0, "rope_parameters": {"rope_type": "default"}}, False),
        ({"model_type": "llama", "rope_theta": 500000.0}, False),
        ({"model_type": "gemma3_text", "rope_theta": 500000.0}, False),  # which is that of full attention alone
    ],
)
def test_one_base_in_the_place_of_several_of_the_class(entries: dict[str, Any], is_told: bool) -> None:
    """configuration_neomme.py fills its rope_theta into the groups of both types of layers."""
    parsed = read_huggingface({"num_hidden_layers": 4, **entries})
    told = "rope_theta 500000 of config.json is the base of layers of all types: the class of 'neomme' in transformers"
    own = "takes it in the place of its own, 1000000 for full_attention and 10000 for sliding_attention."
    assert (f"{told} {own}" in [each.message for each in parsed.findings]) is is_told
    if is_told:
        assert {each.base for each in parsed.configs.values()} == {500000.0}


def test_a_base_beside_groups_is_taken_late() -> None:
    """In computing a scaling, transformers brings the groups in order again, now with the entries beside them."""
    local, full = {"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}
    file = {"model_type": "embedding_gemma2_text", **_SIZES, "rope_theta": 55555.0}
    parsed = read_huggingface({**file, "rope_parameters": {"full_attention": full, "sliding_attention": local}})
    assert parsed.configs["sliding_attention"].base == 55555.0
    assert "fills in 55555 there" in _warnings(parsed)
    assert "passes over" not in _warnings(parsed)
    config = pytest.importorskip("transformers").CONFIG_MAPPING["embedding_gemma2_text"](
        **_SIZES, rope_theta=55555.0, rope_parameters={"full_attention": full, "sliding_attention": dict(local)}
    )
    assert "rope_theta" not in config.rope_parameters["sliding_attention"]
    config.standardize_rope_params()
    assert config.rope_parameters["sliding_attention"]["rope_theta"] == 55555.0
    full = {**full, "rope_type": "default"}
    said = _warnings(
        read_huggingface({**file, "rope_parameters": {"full_attention": full, "sliding_attention": local}})
    )
    assert "fills none in: it fails there" in said


def test_original_lengths_that_transformers_fills_in_for_queries() -> None:
    """``standardize_rope_params`` puts max_position_embeddings into groups of 'yarn', and of no plain ones."""
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING["ministral3"]
    for group in ({"rope_type": "yarn", "factor": 4.0}, {"rope_type": "default"}):
        group = {**group, "rope_theta": 1e6, "llama_4_scaling_beta": 0.1}
        made = config_class(rope_parameters=dict(group)).rope_parameters
        said = _warnings(read_huggingface({"model_type": "ministral3", **_SIZES, "rope_parameters": group}))
        is_filled = "original_max_position_embeddings" in made
        assert is_filled is (group["rope_type"] == "yarn")
        assert ("scales queries by it, and fails without" in said) is not is_filled


def test_layers_of_one_type_with_other_heads() -> None:
    """configuration_utils.py of transformers 5.24: "is not homogeneous across layers"."""
    types = ["sliding_attention"] * 5 + ["full_attention"]
    file = {"model_type": "embedding_gemma2_text", **_SIZES, "per_layer_config": {"5": {"head_dim": 128}}}
    assert "both of the type" not in _warnings(read_huggingface({**file, "layer_types": types}))
    wrong = {**file, "layer_types": ["full_attention", *types[1:]]}
    said = "per_layer_config of config.json tells layers 0 and 5 apart, both of the type 'full_attention'"
    assert said in _warnings(read_huggingface(wrong))
    alike = {"0": {"head_dim": 128}, "5": {"head_dim": 128}}
    assert "both of the type" not in _warnings(read_huggingface({**wrong, "per_layer_config": alike}))


_LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 12345.0}


@pytest.mark.parametrize("entry", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize(
    "name", ["mellum", "laguna", "dory", "zaya", "modernbert", "olmo3", "dots3_note_text", "step3p5", "deepseek_v4"]
)
def test_one_group_in_the_place_of_those_for_types_of_layers(name: str, entry: str) -> None:
    """It is taken for some types, the class has its own beside it, or none: then it fails where it looks for one."""
    file = {"model_type": name, entry: dict(_LINEAR)}
    said = _warnings(read_huggingface(file))
    try:
        rope = _config_of(file).rope_parameters
    except Exception:  # ModernBERT's field is one of groups
        rope = {}
    groups = [each for each in rope.values() if isinstance(each, dict)]
    is_taken = any(each.get("factor") == 2.0 for each in groups)
    assert ("looks for these, and fails" in said) is (not groups)
    assert ("passes over it, and" in said) is (bool(groups) and not is_taken)


@pytest.mark.parametrize("name", ["mellum", "laguna", "gemma4_text", "zaya"])
def test_a_base_beside_one_group_with_which_a_class_fails(name: str) -> None:
    """``convert_rope_params_to_dict`` of these looks into groups alone, and none of their own takes the place."""
    group = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    parsed = read_huggingface({"model_type": name, "rope_theta": 123456.0, "rope_scaling": group})
    assert {each.base for each in parsed.configs.values()} == {123456.0}
    assert {each.scaling.name for each in parsed.configs.values()} == {"yarn"}
    said = _warnings(parsed)
    assert "rope_theta is 123456 in config.json, beside rope_scaling" in said
    assert "its own groups" not in said


@pytest.mark.parametrize("name", ["modernbert", "gemma3_text", "dory", "gemma4_text", "lfm3"])
def test_null_in_the_place_of_a_group(name: str, tmp_path: Path) -> None:
    kind = model_type(name)
    assert kind is not None
    groups = {**(kind.rope or {}), "full_attention": None}
    file = {"model_type": name, "rope_parameters": groups, "num_hidden_layers": 6}
    said = _warnings(read_huggingface(file))
    is_filled = f"The class of '{name}' in transformers takes its own there, as is shown" in said
    assert is_filled is (name == "gemma3_text")
    assert (f"The class of '{name}' in transformers fails there, or refuses the file" in said) is not is_filled
    (tmp_path / "config.json").write_text(json.dumps(file), encoding="utf-8")
    assert (inspect_model(tmp_path).checked_against is not None) is is_filled


@pytest.mark.parametrize("lacking", [True, False])
def test_groups_of_step_count_where_all_types_have_one(lacking: bool) -> None:
    """Step3p7TextConfig makes all groups anew where one is missing, by what stands beside them."""
    group = {"rope_type": "default", "rope_theta": 7e4}
    groups = {"full_attention": group} | ({} if lacking else {"sliding_attention": {**group, "rope_theta": 9e4}})
    file = {"model_type": "step3p5", **_SIZES, "layer_types": ["full_attention", "sliding_attention"] * 3}
    file |= {"sliding_window": 8, "rope_parameters": groups, "rope_theta": 5e5}
    parsed = read_huggingface(file)
    made = _config_of(file).rope_parameters
    assert {name: config.base for name, config in parsed.configs.items()} == {
        name: each["rope_theta"] for name, each in made.items()
    }
    said = _warnings(parsed)
    assert ("rope_parameters of config.json has no group for 'sliding_attention'" in said) is lacking
    assert ("rope_theta is 500000.0 in config.json beside groups of rope_parameters" in said) is not lacking


def test_a_group_of_the_class_for_layers_that_a_file_does_not_have_is_not_read() -> None:
    """BeamConfig has none for full attention, of which no layer rotates; LagunaConfig one for both types."""
    beam = {"model_type": "beam", "hidden_size": 512, "num_attention_heads": 8, "head_dim": 64, "num_hidden_layers": 8}
    assert {*read_huggingface(beam).configs} == {"sliding_attention"}
    laguna = {**beam, "model_type": "laguna", "num_hidden_layers": 1}
    for types in (["sliding_attention"], ["full_attention"]):
        assert [*read_huggingface({**laguna, "layer_types": types}).configs] == types
    group = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    stated = {**laguna, "layer_types": ["sliding_attention"]}
    stated["rope_parameters"] = dict.fromkeys(("full_attention", "sliding_attention"), group)
    assert {*read_huggingface(stated).configs} == {"full_attention", "sliding_attention"}


def test_a_base_that_only_groups_of_other_layers_have_is_told_to_be_passed_over() -> None:
    """The base of Laguna's own group of full attention, where all layers are sliding ones with another base."""
    laguna = {"model_type": "laguna", "hidden_size": 512, "num_attention_heads": 8, "head_dim": 64}
    for types, is_told in ((["sliding_attention"], True), (["full_attention"], False)):
        file = {**laguna, "num_hidden_layers": 1, "layer_types": types, "rope_theta": 500000}
        warned = [each.message for each in read_huggingface(file).findings if each.severity == "warning"]
        assert any(each.startswith("rope_theta is 500000 in config.json") for each in warned) is is_told


@pytest.mark.parametrize("name", ["mellum", "laguna", "modernbert"])
def test_groups_with_which_a_class_fails_leave_nothing_to_be_taken(name: str, tmp_path: Path) -> None:
    """What is shown then is what the class has for other files, and nothing that it takes for this one."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": name, "rope_parameters": {"rope_type": "default"}}))
    said = " ".join(each.message for each in inspect_model(tmp_path, ask_class=False).findings)
    assert "looks for these, and fails. What is shown are those that it has for files without any." in said
    assert "theta" not in said
