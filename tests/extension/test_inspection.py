"""Published configurations are read without a false alarm, and every planted fault is found."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from published_corpus import CORPUS, MEANT
from published_models import GEMMA_3, MODELS
from safetensors.torch import save_file

from locant.extension import Inspection, inspect_model
from locant.rotary_configs.classes.families import is_in_transformers


def _inspected(tmp_path: Path, content: Any) -> Inspection:
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return inspect_model(tmp_path, ask_class=False)


def _changed(name: str, /, **entries: Any) -> dict[str, Any]:
    """A published configuration with entries replaced, those of ``rope`` within rope_scaling; ``...`` removes one."""
    rope = dict(MODELS[name].get("rope_scaling") or {}) | entries.pop("rope", {})
    config = MODELS[name] | ({"rope_scaling": rope} if rope else {}) | entries
    for group in (config, rope):
        for key in [key for key, value in group.items() if value is ...]:
            del group[key]
    return config


_QWEN_YARN_FINDINGS = {"are both 32768, with factor 4"}
_LONGROPE_FINDINGS = {
    "changes from the short to the long factors",
    "Since October 2025 vLLM serves 4096 tokens by default, with the short",
}
_SOUND: dict[str, set[str]] = {
    "LLaMA-2-7B-32K": {"vLLM: serves 262144 by default"},
    "Qwen2.5 7B with YaRN": _QWEN_YARN_FINDINGS,
    "Phi-3 mini 128k": _LONGROPE_FINDINGS,
    "gpt-oss 20B": {"llama.cpp, which always rounds the corners"},
    "DeepSeek Coder 6.7B": {"vLLM: serves 65536 by default"},
    "Vicuna 7B v1.5 16k": {"vLLM: serves 16384 by default"},
    "Yarn-Mistral 7B 128k": {"factor 16 makes 131072 of .* 8192, but"},
    "InternLM3 8B": {"cached keys keep older ones: beyond 32768", "though 196608 are served by default"},
    "Phi-4 mini": _LONGROPE_FINDINGS,
    "Qwen2.5 7B 1M": {"passes over dual_chunk_attention_config: beyond the trained 262144 tokens"},
}


@pytest.mark.parametrize("name", CORPUS)
def test_published_models_give_no_false_alarm(name: str, tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, CORPUS[name])
    assert not inspection.has_errors
    warnings = [diagnosis.message for diagnosis in inspection.findings if diagnosis.severity == "warning"]
    sound = _SOUND.get(name, set())
    assert len(warnings) == len(sound), warnings
    assert all(any(re.search(part, message) for message in warnings) for part in sound)
    text = CORPUS[name].get("text_config", CORPUS[name])
    assert inspection.model_type == text["model_type"]
    assert inspection.declared_length == text.get("max_position_embeddings", text.get("n_positions"))
    assert inspection.parsed is not None
    assert inspection.parsed.configs == MEANT[name]


def test_layer_types_of_the_text_part_are_told_apart(tmp_path: Path) -> None:
    declared = {**GEMMA_3["text_config"], "max_position_embeddings": 131072}
    inspection = _inspected(tmp_path, {**GEMMA_3, "text_config": declared})
    assert inspection.parsed is not None
    assert list(inspection.parsed.configs) == ["full_attention", "sliding_attention"]
    assert (inspection.model_type, inspection.declared_length) == ("gemma3_text", 131072)
    # vLLM takes the length of Gemma 3 as it is; CTranslate2's converter does not read the scaling.
    said = [finding.message for finding in inspection.findings]
    assert any("CTranslate2 " in each for each in said)
    assert any(each.startswith("Left out of config.json") and "head_dim 256" in each for each in said)
    assert {finding.severity for finding in inspection.findings} == {"note"}


_LLAMA3, _YARN, _LONGROPE = "Llama 3.1 8B", "Qwen2.5 7B with YaRN", "Phi-3 mini 128k"
_DYNAMIC = {"type": "dynamic", "factor": 4.0}
_SIXTEEN = {"rope": {"factor": 16.0}}


@pytest.mark.parametrize(
    ("content", "severity", "found"),
    [
        # original length missing, contradictory, or the extended one
        (_changed(_LLAMA3, rope={"original_max_position_embeddings": ...}), "error", "is missing in rope_scaling"),
        (_changed(_LONGROPE, original_max_position_embeddings=...), "warning", "takes its own, 4096"),
        (_changed(_YARN, rope={"original_max_position_embeddings": ...}), "warning", "silently takes max_position"),
        (_changed(_YARN, original_max_position_embeddings=8192), "error", "32768 in rope_scaling .* 8192 next to it"),
        (_changed(_YARN, rope={"original_max_position_embeddings": 131072}), "error", "the extended length stands"),
        (_changed(_LLAMA3, rope={"original_max_position_embeddings": 131072 * 8}), "error", "the extended length"),
        (_changed(_LLAMA3, max_position_embeddings=8192), "warning", "are both 8192, with factor 8"),
        # factor and lengths
        (_changed("gpt-oss 20B", **_SIXTEEN), "warning", "declared for 131072 tokens, but .* extends it to 65536"),
        (_changed("gpt-oss 20B", rope={"factor": 64.0}), "warning", "factor 64 makes 262144 of .* but .* is 131072"),
        (_changed(_LONGROPE, rope={"factor": 16.0}), "error", "is 16, but max_position_embeddings 131072 is 32 times"),
        (_changed("LLaMA-2-7B-32K", rope={"factor": 0.125}), "error", "which turns all pairs 8 times as fast"),
        (_changed("LLaMA-2-7B-32K", rope={"factor": ...}), "error", "'factor' is missing"),
        (_changed("LLaMA-2-7B-32K", rope={"factor": "8"}), "error", "must be a number; got '8'"),
        (_changed("LLaMA-2-7B-32K", rope={"type": ...}), "error", "factor 8 but rope_type 'default'"),
        (
            _changed("Llama 2 7B", rope={"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 2048}),
            "error",
            "takes the original length from max_position_embeddings",
        ),
        # names
        (_changed(_YARN, rope={"type": "yarm"}), "error", "Did you mean 'yarn'"),
        (_changed(_YARN, rope={"rope_type": "linear"}), "error", "rope_type 'linear' and type 'yarn'"),
        (_changed(_YARN, rope={"beta_fats": 32}), "error", "Did you mean 'beta_fast'"),
        (_changed(_YARN, rope_theta=..., rope_tetha=1e6), "error", "Did you mean 'rope_theta'"),
        (_changed("Mistral 7B", max_position_embeddings=..., max_position_embedings=32768), "error", "Did you mean"),
        # two places
        (_changed(_YARN, rope_parameters={"rope_type": "default"}), "error", "as well as rope_scaling"),
        (_changed("Mistral 7B", rope_parameters={"rope_theta": 1e6}), "error", "rope_theta is 1000000.* but 10000"),
        (_changed("GPT-NeoX 20B", rope_theta=5e5), "warning", "rope_theta is 500000 .* takes rotary_emb_base, 10000"),
        ({**GEMMA_3, "rope_theta": 5e5}, "error", "beside 'text_config'"),
        (_changed("DeepSeek-V3", head_dim=128), "warning", "head_dim 128 and qk_rope_head_dim 64"),
        (_changed("DeepSeek-V3", model_type="mistral4", head_dim=96), "error", "head_dim 96 and qk_rope_head_dim 64"),
        # attention scale
        (_changed("DeepSeek-V3", rope={"mscale": ...}), "warning", "neither without the other"),
        (_changed(_YARN, rope={"attention_factor": 1.0}), "note", "scale 1, as .* up to 0.25, .* mscale: 1.13863"),
        (_changed(_YARN, rope={"attn_factor": 1.0}), "error", "Did you mean 'attention_factor'"),
        (
            _changed(_LONGROPE, rope={"short_mscale": 1.0, "long_mscale": 1.2}),
            "warning",
            "passes over short_mscale 1 and long_mscale 1.2",
        ),
        # lists and sizes
        (
            _changed(_LONGROPE, rope={"long_factor": [1.0] * 47}),
            "error",
            "48 numbers in short_factor but 47 in long_factor",
        ),
        (_changed("GPT-NeoX 20B", rotary_pct=0.305), "warning", "an odd number"),
        (_changed("Llama 2 7B", num_attention_heads=33), "error", "that num_attention_heads .33. divides"),
        (_changed("Llama 2 7B", head_dim=2_000_000_000), "error", "2e.09 features"),
        (_changed("Llama 2 7B", hidden_size=2**40, num_attention_heads=1), "error", "1.09951e.12 features"),
        (_changed("Llama 2 7B", rope_parameters={f"layer {n}": {} for n in range(99)}), "error", "has 99 entries"),
        # generation and engines
        (_changed("Llama 2 7B", rope=_DYNAMIC), "warning", "cached keys keep older ones: beyond 4096 tokens"),
        (
            _changed("Llama 2 7B", rope=_DYNAMIC),
            "warning",
            "fixed for 16384 tokens.* vLLM since then: nothing is scaled",
        ),
        (_changed("Llama 2 7B", rope={"rope_type": "ntk", "factor": 2.0}), "error", "Unknown rope_type 'ntk'"),
        (_changed(_LLAMA3), "note", "CTranslate2 after its own converter: no scaling"),
        (_changed("DeepSeek-V2-Lite"), "note", "multiply all scores by 1.58963"),
        # models
        (_changed("Llama 2 7B", model_type="novel", rope_theta=1e4), "warning", "'novel' is not known here"),
        ({}, "error", "says nothing about rotary"),
        # numbers beyond any range
        (_changed("Llama 2 7B", max_position_embeddings=10**400), "error", "must be a positive whole number; got 1"),
        (_changed("Llama 2 7B", rope_theta=-1.0), "error", "base of rotary positions"),
        (_changed("Llama 2 7B", rope_theta=math.nan), "error", "'rope_theta' in config.json must be a number"),
    ],
)
def test_planted_faults_are_found(content: dict[str, Any], severity: str, found: str, tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, content)
    assert [each for each in inspection.findings if each.severity == severity and re.search(found, each.message)]
    assert inspection.has_errors is (severity == "error" or inspection.parsed is None)
    assert all(diagnosis.remedy for diagnosis in inspection.findings)
    if severity != "error":
        return
    assert inspection.findings[0].severity == "error"


def test_the_static_base_for_dynamic_is_that_of_the_formula(tmp_path: Path) -> None:
    inspection = _inspected(tmp_path, _changed("Llama 2 7B", rope=_DYNAMIC))
    # transformers: ((factor * length / original) - (factor - 1)) ** (dim / (dim - 2)) at length 4 * original
    base = 10000 * (4 * 4 - 3) ** (128 / 126)
    assert any(f"rope_theta {base:.10g} " in diagnosis.remedy for diagnosis in inspection.findings)


def _frequencies(base: float = 10000.0) -> torch.Tensor:
    return (1 / base ** (torch.arange(0, 128, 2, dtype=torch.float64) / 128)).float()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kept_as", ["low", "float32"])
def test_frequencies_stored_in_low_precision_are_found(dtype: torch.dtype, kept_as: str, tmp_path: Path) -> None:
    stored = _frequencies().to(dtype)
    stored = stored if kept_as == "low" else stored.float()
    layers = {f"model.layers.{layer}.self_attn.rotary_emb.inv_freq": stored.clone() for layer in range(3)}
    save_file({**layers, "weight": torch.zeros(4)}, tmp_path / "model.safetensors")
    (diagnosis,) = [d for d in _inspected(tmp_path, MODELS["Mistral 7B"]).findings if "inv_freq" in d.message]
    assert diagnosis.severity == "warning"
    assert "and 2 others with the same numbers" in diagnosis.message
    turned = float((stored.double() - _frequencies().double()).abs().max()) * 32768
    assert f"rounded to {str(dtype)[6:]}" in diagnosis.message
    assert f"at position 32768 a pair is turned by up to {turned:.2g} radians" in diagnosis.message


def test_frequencies_that_lose_nothing_in_low_precision_are_right(tmp_path: Path) -> None:
    exact = torch.tensor([2.0**-power for power in (0, 4, 8, 12)])  # 65536^(-2i/8)
    save_file({"inv_freq": exact.bfloat16()}, tmp_path / "model.safetensors")
    small = _changed("Mistral 7B", head_dim=8, rope_theta=65536.0)
    assert not _inspected(tmp_path, small).findings


def test_other_frequencies_than_the_configuration_says_are_an_error(tmp_path: Path) -> None:
    save_file({"rotary_emb.inv_freq": _frequencies(1e6)}, tmp_path / "model.safetensors")
    inspection = _inspected(tmp_path, MODELS["Mistral 7B"])
    (error,) = [diagnosis for diagnosis in inspection.findings if diagnosis.severity == "error"]
    assert "other frequencies than the configuration says" in error.message
    assert "base 1000000" in error.message
    assert not _inspected(tmp_path, MODELS["Code Llama 7B"]).has_errors


@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_frequencies_from_before_interpolation_or_after_it_are_right(factor: float, tmp_path: Path) -> None:
    save_file({"inv_freq": _frequencies() / factor}, tmp_path / "model.safetensors")
    messages = [diagnosis.message for diagnosis in _inspected(tmp_path, MODELS["LLaMA-2-7B-32K"]).findings]
    assert not any("inv_freq" in message for message in messages)


def test_damaged_weights_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    (diagnosis,) = _inspected(tmp_path, MODELS["Mistral 7B"]).findings
    assert diagnosis.severity == "warning"
    assert "model.safetensors cannot be read" in diagnosis.message


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"model_type": "llama", "head_dim": 64, "rope_theta": 1e4, "rope_theta": 5e5}', ["rope_theta"]),
        (
            '{"model_type": "llama", "head_dim": 32, "head_dim": 64, "rope_theta": 1e4, "rope_theta": 5e5}',
            ["head_dim", "rope_theta"],
        ),
        (
            '{"model_type": "llama", "head_dim": 64, "rope_theta": 5e5, "rope_scaling": '
            '{"rope_type": "linear", "factor": 2.0, "factor": 4.0}}',
            ["factor"],
        ),
    ],
)
def test_entries_that_stand_twice_are_found(text: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    inspection = inspect_model(tmp_path)
    found = [finding.message for finding in inspection.findings if "stands twice" in finding.message]
    assert [message.split("'")[1] for message in found] == names
    assert inspection.parsed is not None
    assert (inspection.parsed.config.base, inspection.parsed.config.head_dim) == (5e5, 64)


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "hunyuan_v1_dense", "head_dim": 128,
         "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1000.0}},
        {"model_type": "new", "hidden_size": 1024, "rope_scaling": {"type": "ntk", "factor": 2.0}},
        {"model_type": "new", "hidden_size": 1024, "logn_attention_scale": False, "logn_attention_clip1": False},
        {"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.125,
         "high_freq_factor": 0.5, "original_max_position_embeddings": 1024}},
    ],
)  # fmt: skip
def test_what_is_as_the_publisher_means_it_is_no_warning(content: dict[str, Any], tmp_path: Path) -> None:
    sizes = {"hidden_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 2, "max_position_embeddings": 32768}
    code = {} if is_in_transformers(content["model_type"]) else {"auto_map": {"AutoConfig": "configuration.Config"}}
    inspection = _inspected(tmp_path, sizes | {"rope_theta": 1e4} | code | content)
    assert inspection.parsed is not None
    assert [each.message for each in inspection.findings if each.severity != "note"] == []


def test_entries_of_other_code_are_told_once(tmp_path: Path) -> None:
    """modeling_stablelm_epoch.py reads rope_pct, Nomic's code rotary_scaling_factor; those of vLLM read neither."""
    file = {"model_type": "stablelm", "rope_pct": 1.0, "rotary_scaling_factor": 4.0, "rope_theta": 1e4}
    (tmp_path / "config.json").write_text(json.dumps(file), encoding="utf-8")
    said = [each.message for each in inspect_model(tmp_path, ask_class=False).findings]
    assert not any("nothing known here reads it" in each for each in said)
    assert sum("rotary_scaling_factor" in each for each in said) == 1
    (share,) = [each for each in said if "rope_pct" in each]
    assert share.endswith("passes over; the code of 'stablelm_epoch' reads it.")
