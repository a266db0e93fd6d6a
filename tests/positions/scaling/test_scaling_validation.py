from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import (
    SCALINGS,
    DynamicNTK,
    Extension,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
    scaling_from_options,
)

LISTS = {"short_factors": [1, 2], "long_factors": [3, 4]}
EXAMPLES: list[FrequencyScaling] = [
    Unscaled(),
    Linear(factor=4),
    Linear(original_length=3000, target_length=10000),
    NTKAware(original_length=2048, factor=2.3),
    DynamicNTK(original_length=2048, factor=2, length_step=64),
    DynamicNTK(original_length=2048, target_length=4096),
    NTKByParts(original_length=2048, factor=4, beta_fast=16, truncate=False),
    YaRN(original_length=4096, factor=40, mscale=0.707, mscale_all_dim=1.0),
    YaRN(original_length=4096, target_length=16384, attention_factor=1.0),
    LongRoPE(original_length=4096, factor=32, final_length=131072, short_factors=[1, 2.5], long_factors=(3, 4)),
    Llama3(original_length=8192, factor=8, high_frequency_factor=5),
    Proportional(rotary_fraction=0.25),
]


@pytest.mark.parametrize("kind", [NTKByParts, YaRN, Llama3, LongRoPE, DynamicNTK])
def test_without_the_trained_length(kind: type[FrequencyScaling]) -> None:
    options = LISTS if kind is LongRoPE else {}
    message = (
        rf"'{kind.name}' needs original_length, .*, (to|because) .*'original_max_position_embeddings'.*config\.json"
    )
    with pytest.raises(ConfigError, match=message):
        kind(factor=4, **options)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Linear(), "'linear' needs either factor or target_length; neither is given"),
        (lambda: Linear(target_length=8192), "cannot tell its factor from target_length 8192 alone.*original_length"),
        (lambda: Linear(factor=0.5), "factor of the scaling 'linear' must be at least 1; got 0.5"),
        (lambda: Linear(factor="4"), "factor of the scaling 'linear' must be a number; got '4'"),
        (lambda: Linear(factor=True), "must be a number; got True"),
        (lambda: Linear(factor=math.nan), "must be a number; got nan"),
        (lambda: Linear(factor=2, original_length=2048.0), "original_length .* positive whole number; got 2048.0"),
        (lambda: Linear(factor=2, target_length=0), "target_length .* positive whole number; got 0"),
        (
            lambda: YaRN(factor=4, original_length=8192, target_length=16384),
            "factor 4, which makes 32768 of original_length 8192, but target_length is 16384. The factor .* is 2",
        ),
        (
            lambda: YaRN(factor=4, original_length=2**20, target_length=2**23),
            "factor 4, which makes 4194304 of original_length 1048576, but target_length is 8388608",
        ),
        (
            lambda: YaRN(factor=4, original_length=32768, target_length=32768),
            "factor 4, but original_length and target_length are the same, 32768.*: 8192 if 32768 is the extended "
            "length; otherwise target_length should be 131072",
        ),
        (lambda: YaRN(original_length=8192, target_length=4096), "target_length 4096, .* below original_length 8192"),
        (lambda: NTKByParts(factor=2, original_length=8, beta_slow=33), "beta_slow 33 and beta_fast 32"),
        (lambda: NTKByParts(factor=2, original_length=8, beta_slow=0), "beta_slow .* above 0; got 0"),
        (lambda: NTKByParts(factor=2, original_length=8, truncate="no"), "truncate .* true or false; got 'no'"),
        (
            lambda: YaRN(factor=2, original_length=8, mscale=1.0),
            "mscale 1.0 and mscale_all_dim None.*implementations disagree.*attention_factor",
        ),
        (lambda: YaRN(factor=2, original_length=8, mscale_all_dim=1.0), "mscale None and mscale_all_dim 1.0"),
        (lambda: YaRN(factor=2, original_length=8, mscale=1.0, mscale_all_dim=0), "mscale_all_dim .* above 0; got 0"),
        (
            lambda: YaRN(factor=2, original_length=8, mscale=1.0, mscale_all_dim=1.0, attention_factor=1.5),
            "attention_factor 1.5 as well as mscale 1",
        ),
        (lambda: YaRN(factor=2, original_length=8, attention_factor=-1), "attention_factor .* above 0; got -1"),
        (
            lambda: Llama3(factor=2, original_length=8, low_frequency_factor=5),
            "low_frequency_factor 5 and high_frequency_factor 4",
        ),
        (
            lambda: LongRoPE(factor=2, original_length=8, short_factors=[1], long_factors=[1, 2]),
            "1 numbers in short_factors but 2 in long_factors",
        ),
        (lambda: LongRoPE(factor=2, original_length=8, long_factors=[1]), r"short_factors .* must be a list.*got \(\)"),
        (
            lambda: LongRoPE(factor=2, original_length=8, short_factors=[1, 0], long_factors=[1, 1]),
            "short_factors .* above 0; got 0 at index 1",
        ),
        (lambda: LongRoPE(factor=2, original_length=1, **LISTS), "original_length .* at least 2; got 1"),
        (lambda: LongRoPE(factor=2, original_length=8, final_length=-1, **LISTS), "final_length .* got -1"),
        (
            lambda: LongRoPE(factor=2, original_length=8, **LISTS).frequencies(8, 10.0),
            "2 numbers in long_factors.*8 .* 4 pairs",
        ),
        (lambda: DynamicNTK(original_length=2048, target_length=1024), "target_length 1024, .* below .* 2048"),
        (lambda: DynamicNTK(original_length=2048, length_step=0), "length_step .* got 0"),
        (lambda: DynamicNTK(original_length=2048, factor=0.9), "factor .* at least 1; got 0.9"),
        (lambda: Proportional(rotary_fraction=1.5), "rotary_fraction .* from 0 to 1; got 1.5"),
        (lambda: NTKAware(factor=2).frequencies(2, 10.0), "'ntk' needs at least 4 rotated features"),
        (lambda: Unscaled().frequencies(5, 10.0), "pairs, so their number must be even; got 5"),
        (lambda: Unscaled().frequencies(4, 1), "base .* above 1.*; got 1"),
    ],
)
def test_contradictions(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


def test_what_follows_is_filled_in() -> None:
    assert YaRN(original_length=2048, factor=4).target_length == 8192
    assert YaRN(original_length=2048, target_length=8192).factor == 4
    assert Linear(factor=4).target_length is None
    both = YaRN(original_length=2048, factor=4, target_length=8192)
    assert both == YaRN(original_length=2048, factor=4.0)
    assert hash(both) == hash(YaRN(original_length=2048, factor=4.0))
    assert both != NTKByParts(original_length=2048, factor=4)
    with pytest.raises(FrozenInstanceError):
        both.factor = 3  # type: ignore[misc]


@given(original=st.integers(1, 10**7), factor=st.floats(1, 1000))
def test_a_filled_in_length_agrees_with_its_factor(original: int, factor: float) -> None:
    made = Linear(original_length=original, factor=factor)
    assert made.target_length is not None
    again = Linear(original_length=original, factor=factor, target_length=made.target_length)
    assert again == made
    of_lengths = Linear(original_length=original, target_length=made.target_length)
    assert Linear(**of_lengths.as_options()) == of_lengths


@pytest.mark.parametrize("scaling", EXAMPLES, ids=lambda scaling: scaling.name)
def test_options_there_and_back(scaling: FrequencyScaling) -> None:
    options = yaml.safe_load(yaml.safe_dump(scaling.as_options()))
    assert scaling_from_options(scaling.name, options) == scaling


def test_options_leave_out_defaults() -> None:
    assert Unscaled().as_options() == {}
    options = NTKByParts(original_length=2048, factor=4, beta_slow=1.0, beta_fast=20).as_options()
    assert options == {"factor": 4, "target_length": 8192, "original_length": 2048, "beta_fast": 20}
    assert scaling_from_options("none") == Unscaled()


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"frequency scaling 'yarm'\. Did you mean 'yarn'\? Known: none, linear, ntk"):
        scaling_from_options("yarm", {})
    with pytest.raises(ConfigError, match=r"'linear' has no option 'factr'\. Did you mean 'factor'\? Known options: f"):
        scaling_from_options("linear", {"factr": 2})
    with pytest.raises(ConfigError, match=r"'none' has no option 'factor'\. It has no options"):
        scaling_from_options("none", {"factor": 2})
    with pytest.raises(ConfigError, match="'proportional' needs the option 'rotary_fraction'"):
        scaling_from_options("proportional", {})


@pytest.mark.parametrize("name", SCALINGS)
def test_every_scaling_is_documented(name: str) -> None:
    documentation = SCALINGS[name].__doc__ or ""
    assert "20" in documentation, "a scaling's docstring names its paper and year"
    for field in fields(SCALINGS[name]):
        assert f"{field.name}:" in documentation
    assert {scaling.name for scaling in EXAMPLES} == set(SCALINGS)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"head_dim": 5}, "must be even; got 5"),
        ({"head_dim": 64.0}, "must be even; got 64.0"),
        ({"head_dim": 64, "rotary_dim": 31}, "must be even; got 31"),
        ({"head_dim": 64, "rotary_dim": 0}, "must be even; got 0"),
        ({"head_dim": 64, "rotary_dim": 66}, "rotary_dim 66 is more than the head's 64 features"),
        ({"head_dim": 64, "base": 1.0}, "base .* above 1, like 10000; got 1.0"),
        ({"head_dim": 64, "base": "1e4"}, "base .* got '1e4'"),
        ({"head_dim": 64, "layout": "halves"}, r"layout 'halves'\. Did you mean 'half'\? Known: half, interleaved"),
        ({"head_dim": 64, "max_length": 0}, "max_length .* positive whole number; got 0"),
        (
            {"head_dim": 64, "max_length": 16384, "scaling": YaRN(original_length=2048, factor=4)},
            "max_length 16384 is beyond target_length 8192 of the scaling 'yarn'.*[Rr]aise",
        ),
        (
            {"head_dim": 6, "scaling": LongRoPE(original_length=2048, factor=4, **LISTS)},
            "2 numbers in long_factors .* 6 rotated features are 3 pairs",
        ),
    ],
)
def test_rotary_config_refuses(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RotaryConfig(**options)


def test_rotary_config() -> None:
    yarn = YaRN(original_length=2048, factor=4)
    config = RotaryConfig(head_dim=64, rotary_dim=32, base=500.0, scaling=yarn, max_length=2048)
    assert config.frequencies() == yarn.frequencies(32, 500.0)
    assert config.attention_scale() == yarn.attention_scale()
    assert RotaryConfig(head_dim=64).rotary_dim == 64
    assert hash(config) == hash(RotaryConfig(head_dim=64, rotary_dim=32, base=500.0, scaling=yarn, max_length=2048))
    dynamic = RotaryConfig(head_dim=8, scaling=DynamicNTK(original_length=10))
    assert dynamic.frequencies(1000) != dynamic.frequencies() == RotaryConfig(head_dim=8).frequencies()
    assert issubclass(YaRN, Extension)
