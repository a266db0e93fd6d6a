"""Keys about positions that llama.cpp passes over, by what its loader reads (``keys.json``)."""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.rotary_configs import ParsedConfig, read_gguf
from locant.rotary_configs.gguf import architectures as gguf_architectures
from locant.rotary_configs.gguf.keys import keys_without_effect
from locant.rotary_configs.gguf.layers import LINEAR_BETWEEN, TAKES_ROPE_PATTERN
from locant.rotary_configs.gguf.loader_facts import architectures_that_read, needed_by
from locant.rotary_configs.gguf.loading import refusals
from locant.rotary_configs.gguf.sliding import COMPRESS_RATIOS
from locant.rotary_configs.gguf.windows import PATTERN, WINDOW, WINDOW_EVERYWHERE, WINDOWS

_SIZES = {"embedding_length": 256, "attention.head_count": 2, "block_count": 4, "context_length": 2048}


def _read(architecture: str, **keys: Any) -> ParsedConfig:
    own = _SIZES | {name.replace("__", "."): value for name, value in keys.items()}
    return read_gguf({"general.architecture": architecture} | {f"{architecture}.{key}": own[key] for key in own})


def _said(architecture: str, **keys: Any) -> list[tuple[str, str]]:
    return [(each.severity, each.message) for each in _read(architecture, **keys).findings]


def test_the_tables_of_architectures_name_those_whose_loader_reads_the_key() -> None:
    """phi3.cpp switches its windows off; Laguna reads the betas since b11739 and Ernie and its like read sections that
    no graph of theirs uses."""
    everywhere = WINDOW_EVERYWHERE - {gguf_architectures.DRAFT_OF_DEEPSEEK4}  # whose keys are those of dflash
    assert architectures_that_read(WINDOW) - {"phi3"} == {*WINDOWS, *everywhere}
    assert architectures_that_read(PATTERN) == {*WINDOWS}
    assert architectures_that_read("attention.rope_pattern") == TAKES_ROPE_PATTERN
    assert architectures_that_read("full_attention_interval") == {*LINEAR_BETWEEN}
    assert architectures_that_read("rope.scaling.yarn_beta_fast") == {*gguf_architectures.READS_BETAS} - {"laguna"}
    assert architectures_that_read("rope.scaling.yarn_ext_factor") == gguf_architectures.READS_MIX
    units = gguf_architectures.LOG_MULTIPLIER_UNIT
    assert architectures_that_read("rope.scaling.yarn_log_multiplier") == {*units}
    assert architectures_that_read("attention.max_alibi_bias") == gguf_architectures.ALIBI_BY_FILE
    sections = {*gguf_architectures.SEVERAL_AXES, *gguf_architectures.AXES_BY_SECTIONS}
    assert architectures_that_read("rope.dimension_sections") >= sections
    assert architectures_that_read(COMPRESS_RATIOS) >= {"deepseek4"}


def test_the_tables_of_architectures_name_those_whose_loader_needs_the_key() -> None:
    """rope_multi of b11739 ends without sections in more graphs than those whose loader refuses."""
    every = {*gguf_architectures.KNOWN, *gguf_architectures.WITHOUT_ROTATION}
    needed = {name: {*needed_by(name)} for name in every}
    windows = {name for name, each in WINDOWS.items() if each.needed}
    assert {name for name in every if WINDOW in needed[name]} == {*windows, "deepseek4"}
    listed = {name for name, each in WINDOWS.items() if each.period is None and each.needed}
    assert {name for name in every if PATTERN in needed[name]} == listed
    assert {name for name in every if "rope.dimension_sections" in needed[name]} <= gguf_architectures.NEEDS_SECTIONS


@pytest.mark.parametrize("architecture", sorted(gguf_architectures.KNOWN - {*WINDOWS, *WINDOW_EVERYWHERE, "phi3"}))
def test_windows_that_an_architecture_does_not_have_are_told_in_one_sentence(architecture: str) -> None:
    keys = {WINDOW: 8, PATTERN: [1, 0, 1, 0], "attention.key_length_swa": 64}
    (found,) = keys_without_effect(keys, architecture, ())
    assert found.message == (
        "attention.sliding_window 8, attention.sliding_window_pattern [1, 0, 1, 0] and attention.key_length_swa 64 "
        f"have no effect: llama.cpp passes over them in the architecture '{architecture}'."
    )
    assert found.severity == "note"


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        ("phi3", {WINDOW: 8}),  # which phi3.cpp reads, and switches off
        ("exaone4", {WINDOW: 8, PATTERN: [1, 0, 1, 0]}),  # that of 64 layers alone has windows
        ("gemma3", {PATTERN: [1, 0, 1, 0]}),
    ],
)
def test_keys_of_windows_that_are_off_have_no_effect(architecture: str, keys: dict[str, Any]) -> None:
    (said,) = [each for _, each in _said(architecture, **keys) if "no effect" in each]
    assert all(f"{key} " in said for key in keys)
    if architecture == "exaone4":
        assert "gives layers of 'exaone4' windows in files of 64 blocks alone, and this one has" in said
    off = [each for _, each in _said("gemma3", **{WINDOW: 0, PATTERN: 2}) if "no effect" in each]
    assert off == [
        f"{PATTERN} 2 has no effect: with no {WINDOW} above 0 llama.cpp gives no layer of the architecture 'gemma3' a "
        "window."
    ]
    assert not any("no effect" in each for _, each in _said("gemma3", **{WINDOW: 8, PATTERN: [1, 0, 1, 0]}))


def test_keys_of_other_architectures_and_those_that_no_graph_uses_have_no_effect() -> None:
    assert (
        "note",
        "full_attention_interval 4, attention.rope_pattern [1, 0], rope.scaling.alpha 1000.0 and "
        "rope.scaling.finetuned false have no effect: llama.cpp passes over them in the architecture 'llama'.",
    ) in _said(
        "llama",
        full_attention_interval=4,
        attention__rope_pattern=[1, 0],
        rope__scaling__alpha=1000.0,
        rope__scaling__finetuned=False,
    )
    assert not _said("granite", rope__scaling__finetuned=True)
    assert not any("no effect" in message for _, message in _said("hunyuan-dense", rope__scaling__alpha=1000.0))


def test_a_key_of_a_name_that_is_not_read_leaves_the_table() -> None:
    """``get_key`` is not asked for it; ``hparams.rope_freq_base_train`` is 10000 before."""
    parsed = _read("qwen2", rope__theta=1e6)
    assert parsed.config.base == 10000
    (found,) = parsed.findings
    assert found.severity == "error"
    assert found.message == (
        "rope.theta 1000000.0 has no effect: llama.cpp reads no key of that name, but rope.freq_base, which is "
        "missing: 10000 is taken."
    )
    assert found.remedy == "State qwen2.rope.freq_base, if that is meant."
    name = "has no effect: llama.cpp reads no key of that name"
    beside = _said("qwen2", rope__theta=1e6, rope__freq_base=5e5)
    assert beside == [("warning", f"rope.theta 1000000.0 {name}, but rope.freq_base, which is 500000.0.")]
    for key, meant in {
        "freq_bas": "rope.freq_base, which is missing: 10000 is taken",
        "dimension_count_full": "rope.dimension_count, which is missing",
        "scaling.original_length": "rope.scaling.original_context_length, which is missing",
    }.items():
        assert _said("qwen2", **{f"rope.{key}": 64}) == [("error", f"rope.{key} 64 {name}, but {meant}.")]
    # Not read of Qwen 2 by any name; the factors of Llama 3 are a tensor.
    for key in ("scaling.beta_fast", "scaling.yarn_beta_fas", "scaling.low_freq_factor", "interleaved"):
        assert _said("qwen2", **{f"rope.{key}": 64}) == [("warning", f"rope.{key} 64 {name}.")]
    assert _said("grok", rope__scaling__beta_fast=16.0)[0][1].endswith(
        "but rope.scaling.yarn_beta_fast, which is missing."
    )
    assert _said("qwen2", attention__alibi=True) == [
        ("warning", "attention.alibi true has no effect: llama.cpp reads no key of that name.")
    ]


@pytest.mark.parametrize("architecture", ["dream", "gemma-embedding", "llada", "llada-moe", "rnd1"])
def test_that_the_loader_overrides_causal_attention_is_told(architecture: str) -> None:
    windows: dict[str, Any] = {"attention__sliding_window": 8} if architecture == "gemma-embedding" else {}
    said = f"attention.causal true has no effect: in the architecture '{architecture}' llama.cpp lets every token see"
    assert any(said in message for _, message in _said(architecture, attention__causal=True, **windows))
    assert not any("causal" in message for _, message in _said(architecture, attention__causal=False, **windows))
    assert not _said("llama", attention__causal=True)


@pytest.mark.parametrize("architecture", sorted(gguf_architectures.WITHOUT_ROTATION))
def test_keys_about_rotation_have_no_effect_where_nothing_rotates(architecture: str) -> None:
    """kimi-linear.cpp and its like divide heads by rope.dimension_count, which they do not rotate."""
    with pytest.raises(ConfigError) as caught:
        _read(architecture, rope__freq_base=5e5, rope__dimension_count=64, attention__max_alibi_bias=8.0)
    divides = architecture in ("glm5-next", "kimi-k3", "kimi-linear")
    said = "rope.freq_base 500000.0 has" if divides else "rope.freq_base 500000.0 and rope.dimension_count 64 have"
    assert f"{said} no effect: llama.cpp does not use" in str(caught.value)


@pytest.mark.parametrize(
    ("architecture", "key", "kind", "expected"),
    [
        ("qwen2", "attention.causal", "uint32", "bool"),
        ("qwen2", "rope.scale_linear", "uint32", "float32"),
        ("grok", "rope.scaling.yarn_beta_fast", "uint32", "float32"),
        ("deepseek2", "rope.scaling.yarn_log_multiplier", "float64", "float32"),
        ("qwen3next", "full_attention_interval", "float32", "uint32"),
    ],
)
def test_types_of_keys_that_an_architecture_reads(architecture: str, key: str, kind: str, expected: str) -> None:
    """GKV::get_kv refuses other types; what is not read may have any."""
    metadata = {"general.architecture": architecture} | {f"{architecture}.{name}": _SIZES[name] for name in _SIZES}
    (error,) = refusals(metadata, {f"{architecture}.{key}": kind})
    assert error.message.startswith(f"{architecture}.{key} is stored as {kind}, where {expected} is expected")
    assert not list(refusals(metadata, {f"{architecture}.{key}": expected}))


def test_keys_that_are_not_read_may_have_any_type() -> None:
    metadata = {"general.architecture": "qwen2"} | {f"qwen2.{name}": _SIZES[name] for name in _SIZES}
    types = {
        "rope.scaling.yarn_beta_fast": "uint32",
        "full_attention_interval": "float32",
        "rope.scale_linear": "uint32",
    }
    assert not list(
        refusals(metadata | {"qwen2.rope.scaling.factor": 4.0}, {f"qwen2.{key}": types[key] for key in types})
    )
