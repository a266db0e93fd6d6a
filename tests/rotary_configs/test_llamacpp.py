"""Flags of llama.cpp about rotary positions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions import Linear, Llama3, LongRoPE, NTKByParts, RotaryConfig, Unscaled, YaRN
from locant.positions.scaling import FrequencyScaling
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.gguf import read_llamacpp, write_gguf, write_llamacpp
from locant.rotary_configs.reading import ParsedConfig

_MODEL = RotaryConfig(head_dim=32, max_length=2048)
_SIZES = {"attention.key_length": 64, "context_length": 4096, "block_count": 4}


def _run(flags: str, architecture: str, **keys: Any) -> ParsedConfig:
    own = {f"{architecture}.{key}": value for key, value in {**_SIZES, **keys}.items()}
    metadata = {"general.architecture": architecture, **own}
    return read_llamacpp(flags, metadata)


def _of(config: RotaryConfig, flags: str | list[str]) -> RotaryConfig:
    """Return what llama.cpp runs of a file that was written with a configuration."""
    made = write_gguf(replace(config, layout="interleaved"), "llama")
    return replace(read_llamacpp(flags, made.metadata, made.tensors).config, layout=config.layout)


@pytest.mark.parametrize(
    ("flags", "scaling"),
    [
        ("llama-cli -m /models/yarn-rope.gguf -p 'what is rope?' --host europe.example -ctk q8_0", Unscaled()),
        ("--rope-scaling linear --rope-scale 4", Linear(factor=4.0, original_length=2048)),
        ("--rope-scale 4", Linear(factor=4.0, original_length=2048)),
        ("--rope_scale 8 --rope-freq-scale 0.25", Linear(factor=4.0, original_length=2048)),  # the last counts
        ("--rope-scaling yarn --rope-scale 4", YaRN(factor=4.0, original_length=2048)),
        ("--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 1024", YaRN(factor=4.0, original_length=1024)),
        ("--rope-scaling yarn", Unscaled()),
        ("--rope-scaling none --rope-scale 4", Unscaled()),
        ("--rope-freq-scale 0", Unscaled()),  # what the file has
    ],
)
def test_flags_of_an_unscaled_file(flags: str, scaling: FrequencyScaling) -> None:
    assert _run(flags, "llama", context_length=2048).config.scaling == scaling


def test_a_scale_below_1_is_measured() -> None:
    scaling = _of(_MODEL, "--rope-scaling linear --rope-scale 0.5").scaling
    assert isinstance(scaling, Measured)
    assert scaling.given[0] == 2.0


def test_the_context_is_the_length_that_is_read() -> None:
    assert _of(_MODEL, "-c 8192 --rope-scaling linear --rope-scale 4").max_length == 8192
    assert (
        _of(_MODEL, "-c 16384 --rope-scaling linear --rope-scale 4").max_length == 8192
    )  # the scaling reaches no further
    assert _of(_MODEL, "-c 1024").max_length == 2048  # which the file states
    scaling = LongRoPE(short_factors=[1.0] * 4, long_factors=[2.0] * 4, original_length=4096, factor=32)
    model = RotaryConfig(head_dim=8, max_length=131072, scaling=scaling)
    for flags, frequency in (("-c 4096", 1.0), ("-c 4097", 0.5), ("-c 0", 0.5)):
        run = _of(model, flags)
        assert (float(run.frequencies()[0]), run.max_length) == (frequency, 131072)


@pytest.mark.parametrize(
    "flags",
    [
        "--yarn-ext-factor 0",
        "--yarn-beta-fast 64",
        "--rope-scales 4",
        "--rope-scale=4",
        "-c=4096",
        "--override-kv llama.rope.freq_base=float:1e6",
        "--rope-scaling longrope",
        "--rope-scale 0",
        "--rope-scale -4",
        "--rope-scale k4",
        "--rope-scale",
        "--rope-freq-base 1e999",
        "--rope-scale '4",
    ],
)
def test_other_flags_about_positions_are_refused(flags: str) -> None:
    with pytest.raises(ConfigError):
        _of(_MODEL, flags)


def test_the_file_counts_where_flags_are_silent() -> None:
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    assert _run("--rope-scale 8", "qwen2", **yarn).config.scaling == YaRN(factor=8.0, original_length=1024)
    assert _run("--rope-scaling linear", "qwen2", **yarn).config.scaling == Linear(factor=4.0, original_length=1024)
    assert _run("--rope-freq-base 500000", "qwen2", **yarn).config.base == 500000.0
    betas = {"rope.scaling.yarn_beta_fast": 64.0}
    assert _run("--rope-scale 8", "mistral3", **yarn, **betas).config.scaling == YaRN(
        factor=8.0, original_length=1024, beta_fast=64.0
    )


def test_factors_of_the_file_stay() -> None:
    config = RotaryConfig(head_dim=64, base=5e5, scaling=Llama3(factor=8.0, original_length=512), max_length=4096)
    divisor = write_gguf(config, "llama").tensors["rope_freqs.weight"][-1]
    run = _of(config, "--rope-scaling linear --rope-scale 2")
    assert isinstance(run.scaling, Measured)
    assert float(run.frequencies()[-1]) == pytest.approx(5e5 ** (-62 / 64) / divisor / 2)
    based = _of(config, "--rope-freq-base 1000000")
    assert float(based.frequencies()[-1]) == pytest.approx(1e6 ** (-62 / 64) / divisor)
    lists = LongRoPE(short_factors=[1.0] * 32, long_factors=[2.0] * 32, original_length=512, factor=8)
    with pytest.raises(ConfigError):
        _of(RotaryConfig(head_dim=64, scaling=lists), "--rope-scale 4")


def test_layers_with_a_window_keep_their_own() -> None:
    keys = {"attention.sliding_window": 512, "attention.sliding_window_pattern": 2}
    flags = "--rope-freq-base 500000 --rope-scaling linear --rope-scale 4"
    for architecture, base in (("gemma3", 10000.0), ("gpt-oss", 10000.0), ("olmo2", 500000.0)):
        run = _run(flags, architecture, **keys)
        full, sliding = (run.configs[name] for name in ("full_attention", "sliding_attention"))
        assert (full.base, full.scaling) == (500000.0, Linear(factor=4.0, original_length=4096)), architecture
        assert (sliding.base, sliding.scaling) == (base, Unscaled()), architecture
        assert run.of_layer(0) == sliding


@pytest.mark.parametrize("kind", [Linear, YaRN])
def test_what_is_written_is_read(kind: type[Linear | YaRN]) -> None:
    scaling = kind(factor=4.0, original_length=2048)
    config = RotaryConfig(head_dim=64, base=1e6, scaling=scaling, max_length=8192)
    assert _of(RotaryConfig(head_dim=64, max_length=2048), write_llamacpp(config)) == config
    assert write_llamacpp(_MODEL)[-2:] == ["--rope-scaling", "none"]


def test_other_corners_are_written_as_flags() -> None:
    flags = write_llamacpp(RotaryConfig(head_dim=64, scaling=YaRN(factor=4.0, original_length=512, beta_fast=64.0)))
    assert flags[flags.index("--yarn-beta-fast") + 1] == "64.0"


@pytest.mark.parametrize(
    "scaling",
    [
        Llama3(factor=8.0, original_length=512),
        YaRN(factor=4.0, original_length=512, attention_factor=1.0),
        YaRN(factor=4.0, original_length=512, truncate=False),
        NTKByParts(factor=4.0, original_length=512),
    ],
)
def test_what_flags_cannot_express_is_refused(scaling: FrequencyScaling) -> None:
    with pytest.raises(ConfigError):
        write_llamacpp(RotaryConfig(head_dim=64, scaling=scaling))


def test_configurations_of_several_layer_types_have_no_flags() -> None:
    with pytest.raises(ConfigError):
        write_llamacpp({"full_attention": _MODEL, "sliding_attention": RotaryConfig(head_dim=32, base=1e6)})
