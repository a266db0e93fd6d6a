"""Files changed by hand, next to what the classes of transformers do with them; ``make zoo-changes`` has them all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from zoo.architectures import architecture
from zoo.changed import changed_verdicts
from zoo.changed_wholes import changed_whole_verdicts
from zoo.changes import changes

from locant.errors import ConfigError
from locant.extension.inspect.model_class.small_model import build
from locant.rotary_configs import read_huggingface
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.families import known_model_types
from locant.rotary_configs.classes.model_types import ModelType

_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "head_dim": 32,
}


def _warnings(content: dict[str, Any]) -> list[str]:
    try:
        return [each.message for each in read_huggingface(content).findings if each.severity != "note"]
    except ConfigError as error:
        return [str(error)]


@pytest.mark.parametrize(
    ("model_type", "types"), [("llama", "sliding_attention"), ("stablelm", "conv"), ("mixtral", "linear_attention")]
)
def test_types_of_layers_that_a_class_passes_over_leave_them_alike(model_type: str, types: str) -> None:
    """Neither class reads layer_types: all its layers attend and rotate."""
    content = {"model_type": model_type, **_SMALL, "layer_types": [types, "full_attention"] * 2, "sliding_window": 3}
    layers = read_huggingface(content).layers
    assert [(each.layers, each.attends) for each in layers] == [((0, 1, 2, 3), True)]
    assert layers[0].window == (3 if model_type == "mixtral" else None)
    assert any(
        message.startswith("layer_types of config.json has layers of the type") for message in _warnings(content)
    )
    content["layer_types"] = ["full_attention"] * 4
    assert not any(message.startswith("layer_types") for message in _warnings(content))


@pytest.mark.parametrize(
    ("model_type", "entries"),
    [
        ("llama", {"position_embedding_type": "alibi"}),
        ("llama", {"cross_attention_layers": [1]}),
        ("llama", {"nope_interval": 2}),
        ("llama", {"d_head": 64}),
        ("llama", {"n_rot": 32}),
        ("qwen2", {"swa_layers": 2}),
        ("deepseek_v2", {"partial_rotary_factor": 0.75}),
    ],
)
def test_entries_that_a_class_does_not_have_are_told(model_type: str, entries: dict[str, Any]) -> None:
    usual = {"model_type": model_type, **_SMALL}
    if model_type == "deepseek_v2":
        del usual["head_dim"]
    plain, parsed = read_huggingface(usual), read_huggingface(usual | entries)
    assert (parsed.configs, parsed.layers) == (plain.configs, plain.layers)
    (said,) = {*_warnings(usual | entries)} - {*_warnings(usual)}
    assert next(iter(entries)) in said
    assert "passes over" in said


def test_positions_that_are_said_to_be_rotary_are_no_warning() -> None:
    assert _warnings({"model_type": "llama", **_SMALL, "position_embedding_type": "rope"}) == []


@pytest.mark.parametrize("name", ["num_heads_attention", "num_attn_heads"])
def test_other_words_for_a_number_are_told(name: str) -> None:
    said = _warnings({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4, name: 2})
    assert any(f"'{name}'" in each and "'num_attention_heads'" in each for each in said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"model_type": "exaone4", "sliding_window": None}, "makes no types of layers"),
        ({"model_type": "iquestcoder", "clip_qkv": 8.0}, "clip_qkv is 8.0"),
        ({"model_type": "cohere2_moe", "layer_types": ["full_attention", "mamba"] * 2}, "'mamba' in layer_types"),
        ({"model_type": "cohere2_moe", "rope_parameters": "default"}, "rope_parameters is 'default'"),
        ({"model_type": "gemma2", "layer_types": ["mamba"] * 4}, "'mamba' in layer_types"),
        ({"model_type": "glm", "head_dim": None}, "head_dim is null"),
        ({"model_type": "mimo_v2_flash", "mlp_layer_types": ["dense"] * 3}, "mlp_layer_types in config.json tells"),
        ({"model_type": "gpt_neox_japanese", "rotary_pct": None}, "rotary_pct of the file is null"),
    ],
)
def test_entries_with_which_a_class_fails_are_told(content: dict[str, Any], said: str) -> None:
    content = _SMALL | content
    config_class = pytest.importorskip("transformers").CONFIG_MAPPING[content["model_type"]]
    with pytest.raises(Exception), torch.no_grad():  # noqa: B017, PT011 - each class has errors of its own
        build(config_class.from_dict(dict(content)))(torch.zeros((1, 4), dtype=torch.long))
    assert any(said in message for message in _warnings(content))


@pytest.mark.parametrize("model_type", ["mistral", "deepseek_v3"])
def test_heads_of_keys_that_are_left_out_are_those_of_the_class(model_type: str) -> None:
    """Its own number of them does not go with fewer heads of queries."""
    content = {"model_type": model_type, "hidden_size": 48, "num_attention_heads": 3, "num_hidden_layers": 2}
    own = pytest.importorskip("transformers").CONFIG_MAPPING[model_type].from_dict(dict(content)).num_key_value_heads
    assert own not in (1, 3)
    assert any(
        f"num_key_value_heads is left out of config.json, and is {own} then" in each for each in _warnings(content)
    )
    assert not any("num_key_value_heads" in each for each in _warnings(content | {"num_key_value_heads": 3}))


def test_a_number_of_layers_in_capitals_is_told() -> None:
    said = _warnings({"model_type": "longcat_flash", "NUM_LAYERS": 4})
    assert any("'NUM_LAYERS'" in each and "'num_layers'" in each for each in said)


@pytest.mark.parametrize("model_type", ["gemma3_text", "olmo3", "modernbert", "t5gemma2_text"])
def test_groups_for_types_of_layers_by_the_name_of_one_group_are_passed_over(model_type: str) -> None:
    """Its configuration merges ``rope_scaling`` as a whole into its own groups."""
    groups = {name: {"rope_type": "linear", "factor": 3.0} for name in ("full_attention", "sliding_attention")}
    content = {"model_type": model_type, **_SMALL, "rope_scaling": groups}
    made = pytest.importorskip("transformers").CONFIG_MAPPING[model_type].from_dict(json.loads(json.dumps(content)))
    parsed = read_huggingface(content)
    assert {name: each.base for name, each in parsed.configs.items()} == {
        name: group["rope_theta"] for name, group in made.rope_parameters.items()
    }
    assert {each.scaling.name for each in parsed.configs.values()} == {"none"}
    assert any("passes over groups within" in each for each in _warnings(content))
    assert not any(
        "groups within" in each for each in _warnings({**content, "rope_parameters": content.pop("rope_scaling")})
    )


def test_windows_of_single_layers_are_theirs() -> None:
    types = ["sliding_attention"] * 3 + ["full_attention"]
    content = {"model_type": "neomme", **_SMALL, "layer_types": types, "sliding_window": 8}
    content["per_layer_config"] = {"1": {"sliding_window": 32}, "3": {"sliding_window": None}}
    windows = {index: kind.window for kind in read_huggingface(content).layers for index in kind.layers}
    assert windows == {0: 9, 1: 33, 2: 9, 3: None}


def test_a_type_of_layers_with_no_group_in_its_place_is_an_error() -> None:
    groups = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": True}
    with pytest.raises(ConfigError, match=r"'full_attention' in rope_parameters of .* must be a group"):
        read_huggingface({"model_type": "gemma3_text", **_SMALL, "rope_parameters": groups})


def _in_reverse(kind: ModelType) -> ModelType:
    def reverse(given: Mapping[str, Any]) -> dict[str, Any]:
        return dict(reversed(given.items())) if isinstance(given, dict) else dict(given)

    rope = reverse(kind.rope) if kind.rope is not None and kind.rope_by_layer else kind.rope
    return replace(kind, rope=rope, behaviour=reverse(kind.behaviour), features=reverse(kind.features))


@pytest.mark.parametrize(
    "entries", [{}, {"rope_theta": 777.0}, {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "rope_theta": 5e4}]
)
def test_a_reading_does_not_go_by_the_order_of_the_facts(
    entries: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classes make their groups from sets of types, which have no order."""
    kinds = [kind for name in known_model_types() if (kind := families.model_type(name)) and kind.rope_by_layer]
    assert "deepseek_v4" in {kind.name for kind in kinds}
    files = [{"model_type": kind.name, **_SMALL, **entries} for kind in kinds]
    read = [_read(content) for content in files]
    turned = {kind.name: _in_reverse(kind) for kind in kinds}
    monkeypatch.setattr(families, "_all_types", lambda: turned)
    assert [_read(content) for content in files] == read


def _read(content: dict[str, Any]) -> Any:
    try:
        parsed = read_huggingface(content)
    except ConfigError as error:
        return str(error)
    return parsed.configs, parsed.layers, {each.message for each in parsed.findings}


@pytest.mark.slow
def test_the_search_changes_files_and_judges_them() -> None:
    pytest.importorskip("transformers")
    content = {"model_type": "llama", **_SMALL, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    found = list(changes(content, 32))
    assert len({each.name for each in found}) == len(found) > 200
    assert all(json.dumps(each.content) != json.dumps(content) for each in found)
    outcomes = {each.outcome for each in changed_verdicts(architecture("llama"), 0, 6)}
    assert outcomes <= {"right", "warned", "refused", "not built"}


def test_the_search_changes_what_stands_around_a_text_part() -> None:
    pytest.importorskip("transformers")
    for name in ("llava", "colqwen2"):
        found = list(changed_whole_verdicts(architecture(name)))
        assert len({each.change for each in found}) == len(found) > 50
        assert {each.outcome for each in found} <= {"right", "warned", "refused"}, found
