"""Numbers of GGUF files and flags that cannot be meant, with which llama.cpp computes all the same: a table, and an
error."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.extension.source import Source
from locant.positions import Unscaled, YaRN
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling.fields import Finding
from locant.rotary_configs import ParsedConfig, read_gguf, read_llamacpp
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.gguf.architectures import READS_BETAS
from locant.rotary_configs.gguf.loading import refusals

_SIZES = {"attention.key_length": 32, "context_length": 2048, "block_count": 4}
_YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 512}
_WINDOW = {"attention.sliding_window": 8, "attention.sliding_window_pattern": [1, 0, 1, 0]}
_DIVISORS, _SHORT, _LONG = "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"


def _metadata(architecture: str, keys: dict[str, Any]) -> dict[str, Any]:
    own = {**_SIZES, **keys}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": own[key] for key in own}


def _read(architecture: str, keys: dict[str, Any], tensors: dict[str, list[float]] | None = None) -> ParsedConfig:
    return read_gguf(_metadata(architecture, keys), tensors)


def _errors(parsed: ParsedConfig) -> list[Finding]:
    return [each for each in parsed.findings if each.severity == "error"]


@pytest.mark.parametrize("base", [1.0, 0.5])
def test_a_base_up_to_1_is_computed(base: float) -> None:
    """ggml_compute_forward_rope: theta_scale = powf(freq_base, -2.0f/n_dims)."""
    parsed = _read("qwen2", {"rope.freq_base": base})
    assert [float(each) for each in parsed.config.frequencies()] == pytest.approx(
        [base ** (-i / 16) for i in range(16)]
    )
    (found,) = _errors(parsed)
    assert found.message.startswith(f"rope.freq_base in the GGUF metadata of 'qwen2' is {base:g}, with which")
    sliding = _read("gemma3", {"rope.freq_base_swa": base, **_WINDOW})
    assert sliding.configs["sliding_attention"].base == base
    assert sliding.configs["full_attention"].base == 10000
    assert _errors(sliding)[0].message.startswith("rope.freq_base_swa in")
    run = read_llamacpp(f"--rope-freq-base {base}", _read("qwen2", {}).configs)
    assert run.config.base == base
    assert _errors(run)[0].message.startswith(f"--rope-freq-base is {base:g}, with which")


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        ("qwen2", {"rope.freq_base": 0.5}),
        ("qwen2", {"rope.freq_base": 1.0}),
        ("grok", {"rope.scaling.yarn_ext_factor": 0.5}),
    ],
)
def test_flags_change_yarn_that_is_shown_as_a_list(architecture: str, keys: dict[str, Any]) -> None:
    """With a base up to 1, and in part, YaRN is a list of factors, which no tensor of the file makes."""
    metadata = _metadata(architecture, {**_YARN, **keys})
    file = read_gguf(metadata)
    assert file.config.scaling.name == "longrope"

    def run(flags: str) -> RotaryConfig:
        return read_llamacpp(flags, file.configs, metadata=metadata).config

    assert run("-c 2048").scaling == replace(file.config.scaling, final_length=2048)
    assert run("--rope-scaling none").scaling == Unscaled()
    full = "--rope-freq-base 10000 --yarn-ext-factor 1"
    fast = READS_BETAS.get(architecture, 32.0)
    assert run(full).scaling == YaRN(factor=4.0, original_length=512, beta_fast=fast)
    assert run(f"{full} --rope-scale 8").scaling == YaRN(factor=8.0, original_length=512, beta_fast=fast)
    plain, whole = (config.frequencies(2048) for config in (RotaryConfig(head_dim=32), run(full)))
    expected = [(float(one) / 4 + float(other)) / 2 for one, other in zip(plain, whole, strict=True)]
    part = run("--rope-freq-base 10000 --yarn-ext-factor 0.5").frequencies(2048)
    assert [float(each) for each in part] == pytest.approx(expected)


@pytest.mark.parametrize("base", [0.5, 1.0])
def test_yarn_of_a_file_with_a_base_up_to_1_by_a_flag(base: float) -> None:
    metadata = _metadata("qwen2", _YARN)
    run = read_llamacpp(f"--rope-freq-base {base}", read_gguf(metadata).configs, metadata=metadata)
    expected = _read("qwen2", {"rope.freq_base": base, **_YARN}).config.frequencies(2048)
    assert [float(each) for each in run.config.frequencies(2048)] == pytest.approx([float(each) for each in expected])
    assert any("by which YaRN's ramp finds its corners" in each.message for each in run.findings)
    magnified = read_llamacpp(f"--rope-freq-base {base} --yarn-attn-factor 1.2", _read("qwen2", {}).configs)
    assert magnified.config.attention_scale() == 1.2


def test_yarn_with_a_base_below_1_has_the_ramp_of_ggml() -> None:
    """ggml_rope_yarn_corr_dims: the corners are below 0, so that the first pair is kept and the others interpolated."""
    parsed = _read("qwen2", {"rope.freq_base": 0.5, **_YARN})
    expected = [0.5 ** (-i / 16) / (4 if i else 1) for i in range(16)]
    assert [float(each) for each in parsed.config.frequencies(2048)] == pytest.approx(expected)


_BLENDED = [0.25 + 0.75 * (1 - pair / 31) for pair in range(16)]


@pytest.mark.parametrize(
    ("base", "original", "ratios"),
    [
        (1.0, 64, _BLENDED),  # the corners are infinitely far away, on either side
        (1.0, 4, [1.0] + [0.25] * 15),  # both are before the first pair
        (1.0, 2048, [1.0] * 16),  # both are behind the last
        (0.5, 64, [1.0] * 16),  # the corner of slow pairs is before that of fast ones
    ],
)
def test_yarn_with_a_base_up_to_1_has_the_ramp_of_ggml(base: float, original: int, ratios: list[float]) -> None:
    """ggml_rope_yarn_corr_dims: MAX(0, start) and MIN(n_dims - 1, end); b11739 was run with these numbers."""
    expected = [ratio * base ** (-i / 16) for i, ratio in enumerate(ratios)]
    keys = {"rope.freq_base": base, **_YARN, "rope.scaling.original_context_length": original}
    parsed = _read("qwen2", keys)
    assert [float(each) for each in parsed.config.frequencies(2048)] == pytest.approx(expected)
    assert any(each.message.startswith(f"The base {base:g} has a logarithm that is not") for each in parsed.findings)
    flags = f"--rope-freq-base {base} --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx {original}"
    run = read_llamacpp(flags, _read("qwen2", {}).configs)
    assert [float(each) for each in run.config.frequencies(2048)] == pytest.approx(expected)


def test_yarn_by_flags_with_a_base_below_1() -> None:
    yarn = "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 512"
    below = read_llamacpp(f"--rope-freq-base 0.5 {yarn}", _read("qwen2", {}).configs).config
    expected = [0.5 ** (-i / 16) / (4 if i else 1) for i in range(16)]
    assert [float(each) for each in below.frequencies(2048)] == pytest.approx(expected)


@pytest.mark.parametrize("base", [0.0, -2.0])
def test_a_base_with_which_nothing_is_computed_is_refused(base: float) -> None:
    with pytest.raises(ConfigError, match=f"rope.freq_base in .* is {base:g}"):
        _read("qwen2", {"rope.freq_base": base})


def test_factors_below_0_turn_pairs_backwards() -> None:
    """rope_yarn is given theta/ff."""
    parsed = _read("llama", {}, {_DIVISORS: [1.0] * 15 + [-2.0]})
    plain = [1e4 ** (-i / 16) for i in range(16)]
    frequencies = [float(each) for each in parsed.config.frequencies()]
    assert frequencies == pytest.approx([*plain[:15], -plain[15] / 2])
    assert "rope_freqs.weight holds -2 for pair 15: llama.cpp divides the frequency by it" in _errors(parsed)[0].message
    parsed.explain()
    lists = {_SHORT: [1.5] * 16, _LONG: [4.0] * 15 + [-4.0]}
    long = _read("phi3", {"rope.scaling.original_context_length": 512}, lists)
    assert float(long.config.frequencies(2048)[-1]) == pytest.approx(-plain[15] / 4)
    both = _read("phi3", {"rope.scaling.factor": -2.0}, {_SHORT: [1.5] * 16, _LONG: [4.0] * 16})
    assert float(both.config.frequencies(512)[0]) == pytest.approx(-1 / 3)


def test_an_attention_factor_below_0_changes_the_sign_of_queries_and_keys() -> None:
    parsed = _read("qwen2", {"rope.scaling.attn_factor": -1.2})
    assert parsed.config.attention_scale() == 1.2
    assert "rope.scaling.attn_factor -1.2 is below 0" in _errors(parsed)[0].message
    windows = _read("gemma3", {"rope.scaling.attn_factor": -1.2, **_WINDOW}).configs
    assert {each.attention_scale() for each in windows.values()} == {1.2}


@pytest.mark.parametrize(
    ("architecture", "multiplier", "factor", "scale"),
    [
        ("mistral3", -1.0, 4.0, (0.1 * math.log(4) + 1) / (1 - 0.1 * math.log(4))),
        ("deepseek2", -0.1, 4.0, 1.0),  # mscale is mscale_all_dim there
        ("mistral3", -1.0, 0.5, 1.0),  # get_mscale
    ],
)
def test_a_multiplier_of_the_logarithm_below_0(
    architecture: str, multiplier: float, factor: float, scale: float
) -> None:
    """llama_context: get_mscale(factor, mscale) / get_mscale(factor, mscale_all_dims)."""
    keys = {**_YARN, "rope.scaling.factor": factor, "rope.scaling.yarn_log_multiplier": multiplier}
    keys |= {"rope.dimension_count": 32}
    parsed = _read(architecture, keys)
    assert parsed.config.attention_scale() == pytest.approx(scale)
    assert f"rope.scaling.yarn_log_multiplier {multiplier:g} is below 0" in _errors(parsed)[0].message
    with pytest.raises(ConfigError, match=r"is not known here\. Leave the flag out"):
        read_llamacpp("--rope-scale 8", parsed.configs, metadata=_metadata(architecture, keys))


def test_an_alpha_below_0_has_no_effect() -> None:
    parsed = _read("hunyuan-dense", {"rope.scaling.alpha": -2.0})
    assert parsed.config.base == 10000
    assert "rope.scaling.alpha -2 has no effect" in parsed.findings[0].message


def test_nothing_rotates_where_a_file_states_no_feature_or_no_layer() -> None:
    """ggml_compute_forward_rope_flt steps back by 2 - n_dims behind its features; granite-swa.cpp asks has_rope."""
    with pytest.raises(ConfigError, match=r"rope.dimension_count in .* is 0: llama.cpp never comes to the end of"):
        _read("stablelm", {"rope.dimension_count": 0})
    with pytest.raises(ConfigError, match=r"'rope.dimension_count' in .* must be a positive whole number"):
        _read("qwen2", {"rope.dimension_count": 0})
    with pytest.raises(NoRotaryPositionsError, match=r"attention.rope_pattern in .* lists no layer"):
        _read("granite_swa", {**_WINDOW, "attention.rope_pattern": [0] * 4})


@pytest.mark.parametrize(
    ("architecture", "keys"),
    [
        ("lfm2", {"attention.head_count_kv": [0] * 4}),
        ("qwen3next", {"attention.recurrent_layers": [1] * 4}),
        ("qwen3next", {"full_attention_interval": 5}),
        ("minimax-01", {}),
    ],
)
def test_a_file_without_a_layer_of_attention_is_refused(architecture: str, keys: dict[str, Any]) -> None:
    """ggml_backend_buffer_is_host: GGML_ASSERT(buffer), of the places in a cache that no layer asks for."""
    name = next(iter(keys), "block_count")
    with pytest.raises(ConfigError, match=rf"By {name} in .* no layer has attention: llama.cpp ends before") as raised:
        _read(architecture, keys)
    assert not isinstance(raised.value, NoRotaryPositionsError)


def test_layers_that_a_pattern_leaves_out_have_no_window() -> None:
    """get_arr copies what is there into zeros."""
    parsed = _read("gemma3", {"attention.sliding_window": 8, "attention.sliding_window_pattern": [1, 0]})
    assert [(each.layers, each.window) for each in parsed.layers] == [((0,), 8), ((1, 2, 3), None)]
    said = "attention.sliding_window_pattern lists 2 of 4 layers: llama.cpp gives the others no window."
    assert said in [each.message for each in parsed.findings]


def test_more_layers_than_llama_cpp_takes_are_an_error() -> None:
    """GGML_ASSERT(hparams.n_layer_all <= LLAMA_MAX_LAYERS)."""
    source = Source(Path("model.gguf"), "gguf", _metadata("qwen2", {"block_count": 513}))
    found = next(each for each in refusals(source.content, source.types) if "block_count" in each.message)
    assert found.message == "qwen2.block_count 513 is above 512: llama.cpp refuses to load the file."
