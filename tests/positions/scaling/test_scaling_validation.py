from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import (
    DynamicNTK,
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
from locant.positions.scaling.clipped import Clipped
from locant.positions.scaling.measured import Measured

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
    Clipped(pairs=3),
]
YARN = YaRN(original_length=2048, factor=4)

CONTRADICTIONS: list[Callable[[], Any]] = [
    *(lambda kind=kind: kind(factor=4) for kind in (NTKByParts, YaRN, Llama3, DynamicNTK)),  # type: ignore[misc]
    lambda: LongRoPE(factor=4, **LISTS),
    lambda: Linear(),
    lambda: Linear(target_length=8192),
    lambda: Linear(factor=0.5),
    lambda: Linear(factor="4"),  # type: ignore[arg-type]
    lambda: Linear(factor=True),
    lambda: Linear(factor=math.nan),
    lambda: Linear(factor=2, original_length=2048.0),  # type: ignore[arg-type]
    lambda: Linear(factor=2, target_length=0),
    lambda: Linear(factor=1e18, original_length=2048),
    lambda: YaRN(factor=4, original_length=8192, target_length=16384),
    lambda: YaRN(factor=4, original_length=2**20, target_length=2**23),
    lambda: YaRN(original_length=8192, target_length=4096),
    lambda: NTKByParts(factor=2, original_length=8, beta_slow=33),
    lambda: NTKByParts(factor=2, original_length=8, beta_slow=0),
    lambda: NTKByParts(factor=2, original_length=8, truncate="no"),  # type: ignore[arg-type]
    lambda: YaRN(factor=2, original_length=8, mscale=1.0),
    lambda: YaRN(factor=2, original_length=8, mscale=1.0, mscale_all_dim=0),
    lambda: YaRN(factor=2, original_length=8, mscale=1.0, mscale_all_dim=1.0, attention_factor=1.5),
    lambda: YaRN(factor=2, original_length=8, attention_factor=-1),
    lambda: Llama3(factor=2, original_length=8, low_frequency_factor=5),
    lambda: LongRoPE(factor=2, original_length=8, short_factors=[1], long_factors=[1, 2]),
    lambda: LongRoPE(factor=2, original_length=8, short_factors=[1, 0], long_factors=[1, 1]),
    lambda: LongRoPE(factor=2, original_length=1, **LISTS),
    lambda: LongRoPE(factor=2, original_length=8, final_length=-1, **LISTS),
    lambda: LongRoPE(factor=2, original_length=8, **LISTS).frequencies(8, 10.0),
    lambda: DynamicNTK(original_length=2048, target_length=1024),
    lambda: DynamicNTK(original_length=2048, length_step=0),
    lambda: DynamicNTK(original_length=2048, factor=0.9),
    lambda: Proportional(rotary_fraction=1.5),
    lambda: Measured(given=()),
    lambda: Measured(given=(1.0, 0.1)).frequencies(8, 10.0),
    lambda: NTKAware(factor=2).frequencies(2, 10.0),
    lambda: Unscaled().frequencies(5, 10.0),
    lambda: Unscaled().frequencies(4, 1),
    lambda: scaling_from_options("none", {"factor": 2}),
    lambda: scaling_from_options("proportional", {}),
    lambda: RotaryConfig(head_dim=64.0),  # type: ignore[arg-type]
    lambda: RotaryConfig(head_dim=64, rotary_dim=66),
    lambda: RotaryConfig(head_dim=64, base="1e4"),  # type: ignore[arg-type]
    lambda: RotaryConfig(head_dim=64, layout="halves"),  # type: ignore[arg-type]
    lambda: RotaryConfig(head_dim=64, max_length=0),
    lambda: RotaryConfig(head_dim=64, max_length=16384, scaling=YARN),
    lambda: RotaryConfig(head_dim=6, scaling=LongRoPE(original_length=2048, factor=4, **LISTS)),
]


@pytest.mark.parametrize("make", CONTRADICTIONS)
def test_contradictions(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_what_follows_is_filled_in() -> None:
    assert YARN.target_length == 8192
    assert YaRN(original_length=2048, target_length=8192).factor == 4
    assert Linear(factor=4).target_length is None
    both = YaRN(original_length=2048, factor=4, target_length=8192)
    assert both == YARN
    assert hash(both) == hash(YARN)
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


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'yarn'"):
        scaling_from_options("yarm", {})
    with pytest.raises(ConfigError, match="'factor'"):
        scaling_from_options("linear", {"factr": 2})


def test_rotary_config() -> None:
    config = RotaryConfig(head_dim=64, rotary_dim=32, base=500.0, scaling=YARN, max_length=2048)
    assert config.frequencies() == YARN.frequencies(32, 500.0)
    assert config.attention_scale() == YARN.attention_scale()
    assert RotaryConfig(head_dim=64).rotary_dim == 64
    assert hash(config) == hash(RotaryConfig(head_dim=64, rotary_dim=32, base=500.0, scaling=YARN, max_length=2048))
    dynamic = RotaryConfig(head_dim=8, scaling=DynamicNTK(original_length=10))
    assert dynamic.frequencies(1000) != dynamic.frequencies() == RotaryConfig(head_dim=8).frequencies()
