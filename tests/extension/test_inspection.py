"""Inspection of models: who reads them, what is found, and options of engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from locant.errors import ConfigError, UsageError
from locant.extension.inspect import inspection as inspecting
from locant.extension.inspect.inspection import inspect_model
from locant.positions import Linear, RotaryConfig, YaRN
from locant.rotary_configs.gguf import write_gguf

_LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}


@pytest.fixture
def inspect(tmp_path):
    def inspected(content, **options):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
        return inspect_model(tmp_path, **options)

    return inspected


def _codes(inspection):
    return {each.code: each.severity for each in inspection.findings}


def test_the_class_is_asked(inspect):
    found = inspect({**_LLAMA, "rope_scaling": _YARN})
    assert found.parsed.config == RotaryConfig(
        head_dim=64, base=500000.0, max_length=8192, scaling=YaRN(factor=4.0, original_length=2048, target_length=8192)
    )
    assert found.parsed.source == found.checked_against
    assert found.checked_against.startswith("LlamaModel of transformers ")
    assert found.not_compared is None
    assert not found.has_errors
    data = found.as_data()
    assert data["source"] == found.checked_against
    assert data["assumed"] == []
    assert data["layers"]["all"]["scaling"]["name"] == "yarn"
    assert data["layer_types"][0]["layers"] == (0, 1)


def test_without_a_class_the_entries_are_read_and_that_is_said(inspect):
    found = inspect(_LLAMA, ask_class=False)
    assert found.parsed.source == "entries"
    assert found.not_compared
    assert found.checked_against is None
    own = inspect({**_LLAMA, "model_type": "somebodys_llama", "auto_map": {"AutoConfig": "configuration.Own"}})
    assert own.parsed.source == "entries"
    assert "somebodys_llama" in own.not_compared
    assert _codes(own) | {"unknown-model-type": "warning", "pairing-assumed": "warning"} == _codes(own)
    named = inspect({**_LLAMA, "auto_map": {"AutoConfig": "configuration.Own"}})
    assert named.checked_against
    assert named.not_compared  # that code may do something else


def test_what_the_class_raises_is_the_error_beside_the_reading_by_the_entries(inspect):
    found = inspect({**_LLAMA, "rope_scaling": {"rope_type": "llama3", "factor": 4.0}})
    assert _codes(found)["class-refuses"] == "error"
    assert found.parsed is None
    heads = inspect({**_LLAMA, "head_dim": 64, "num_attention_heads": "4"})
    assert heads.findings[0].code == "class-refuses"
    assert heads.parsed.source == "entries"


@pytest.mark.parametrize("content", [{"model_type": "opt"}, {**_LLAMA, "model_type": "bloom"}])
def test_models_without_rope_are_a_note(inspect, content):
    for ask_class in (True, False):
        found = inspect(content, ask_class=ask_class)
        assert found.parsed is None
        assert _codes(found)["no-rope"] == "note"
        assert not found.has_errors


def test_the_text_config_is_read_and_named(inspect):
    text = {**_LLAMA, "model_type": "gemma3_text", "head_dim": 64, "num_hidden_layers": 12, "sliding_window": 512}
    found = inspect({"model_type": "gemma3", "text_config": text})
    assert found.text_part == ("text_config",)
    assert found.content == text
    assert found.whole["model_type"] == "gemma3"
    assert found.model_type == "gemma3_text"
    assert found.parsed.of_layer(0).base != found.parsed.of_layer(5).base
    assert "layers-differ" in _codes(found)


def test_a_misspelt_entry_is_found_by_asking_again(inspect):
    found = inspect({**_LLAMA, "rope_tetha": 1e6, "partial_rotary_factor": 0.5})
    told = {each.entry: each.code for each in found.findings}
    assert told == {"rope_tetha": "misspelt", "partial_rotary_factor": "entry-without-effect"}


def test_overrides_are_merged_as_vllm_does_and_what_goes_is_told(inspect):
    overrides = json.dumps({"rope_parameters": {"rope_type": "linear", "factor": 4.0}})
    for ask_class in (True, False):
        found = inspect(_LLAMA, hf_overrides=overrides, ask_class=ask_class)
        assert found.engine == "vLLM"
        assert isinstance(found.parsed.config.scaling, Linear)
        assert found.parsed.config.base == 10000.0
        (dropped,) = [each for each in found.findings if each.code == "override-drops"]
        assert dropped.entry.endswith("rope_theta")
        assert _codes(found)["served-length"] == "warning"


@pytest.fixture
def gguf(tmp_path, monkeypatch):
    """A GGUF file, as its reader returns it."""
    from locant.extension.source import Source

    def written(config, **metadata):
        made = write_gguf(config, "llama")
        content = {"general.architecture": "llama", "llama.block_count": 2, **made.metadata, **metadata}
        source = Source(tmp_path / "model.gguf", "gguf", content, made.tensors)
        monkeypatch.setattr(inspecting, "resolve_model", lambda model, weights: model)
        monkeypatch.setattr(inspecting, "load_source", lambda model: source)
        return "model.gguf"

    return written


def test_gguf_files_are_read_and_flags_of_llamacpp_counted(gguf):
    model = gguf(RotaryConfig(head_dim=64, base=500000.0, max_length=8192, layout="interleaved"))
    found = inspect_model(model)
    assert found.kind == "gguf"
    assert found.model_type == "llama"
    assert found.declared_length == 8192
    assert found.parsed.config.base == 500000.0
    assert found.not_compared is None
    run = inspect_model(model, llamacpp="--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 8192 -c 32768")
    assert run.engine == "llama.cpp"
    assert run.parsed.config.scaling.name == "yarn"
    with pytest.raises(ConfigError):
        inspect_model(model, llamacpp="--rope-scaling")
    with pytest.raises(UsageError):
        inspect_model(model, hf_overrides="{}")


@pytest.mark.parametrize("ask_class", [True, False])
def test_weights_that_were_converted_to_the_other_layout(tmp_path: Path, ask_class: bool) -> None:
    content = {"model_type": "llama", "head_dim": 64, "num_hidden_layers": 2, "locant_rotary_layout": "interleaved"}
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    inspection = inspect_model(tmp_path, ask_class=ask_class)
    assert inspection.parsed is not None
    assert inspection.parsed.config.layout == "interleaved"
    assert not any("locant_rotary_layout" in finding.message for finding in inspection.findings)


def test_what_cannot_be_read_is_an_error(inspect):
    found = inspect({**_LLAMA, "rope_scaling": {"rope_type": "yarnn", "factor": 4.0}}, ask_class=False)
    assert found.parsed is None
    assert _codes(found)["cannot-be-read"] == "error"


def test_repeated_keys_are_found(inspect):
    found = inspect('{"rope_theta": 1e4, ' + json.dumps(_LLAMA)[1:], ask_class=False)
    assert _codes(found)["repeated-key"] == "warning"
