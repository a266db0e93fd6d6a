"""Attributes of CTranslate2's attention layers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotary_examples import assert_same, configs

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import SCALINGS, DynamicNTK, LongRoPE, NTKAware, Proportional, Unscaled, YaRN
from locant.positions.scaling.clipped import Clipped
from locant.rotary_configs.ctranslate2 import read_ctranslate2, write_ctranslate2
from locant.rotary_configs.scaling import scaling_types

_LISTS = LongRoPE(short_factors=[1, 1], long_factors=[1, 2], original_length=8, factor=2)
_LAYER = {"rotary_dim": 32, "head_dim": 32, "rotary_interleave": False}


@pytest.mark.parametrize("name", sorted(set(SCALINGS) - {"yarn", "ntk-by-parts", "proportional", "clipped"}))
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_scaling_is_read_as_it_is_written(name: str, data: st.DataObject) -> None:
    config = data.draw(configs(name, ("half", "interleaved")))
    if isinstance(config.scaling, LongRoPE):  # its attention scale follows from a whole number of lengths
        config = replace(config, scaling=replace(config.scaling, factor=8.0, target_length=None))
    assert_same(read_ctranslate2(write_ctranslate2(config)).config, config)


@pytest.mark.parametrize(
    "scaling",
    [
        YaRN(factor=4.0, original_length=2048),
        Proportional(rotary_fraction=0.5),
        Clipped(pairs=2),
        DynamicNTK(original_length=8),
        replace(_LISTS, attention_factor=1.01),
        replace(_LISTS, final_length=9),
        replace(_LISTS, short_attention_factor=1.5),
    ],
)
def test_what_the_engine_does_not_have_is_refused(scaling: Any) -> None:
    with pytest.raises(ConfigError):
        write_ctranslate2(RotaryConfig(head_dim=4, scaling=scaling))
    with pytest.raises(ConfigError):
        write_ctranslate2({"full_attention": RotaryConfig(head_dim=4), "sliding_attention": RotaryConfig(head_dim=4)})


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"rotary_dim": 0},  # of a head of unknown size
        {**_LAYER, "rotary_bas": 1e6},
        {**_LAYER, "rotary_scaling_type": 3},
        {**_LAYER, "rotary_scaling_type": 1},
        {**_LAYER, "rotary_scaling_type": 2, "rotary_low_freq_factor": 1.0},  # as its converter writes Llama 3.1
        {**_LAYER, "original_max_position_embeddings": 1024, "max_position_embeddings": 2048},
    ],
)
def test_what_is_wrong_in_a_layer_is_refused(attributes: Any) -> None:
    with pytest.raises(ConfigError):
        read_ctranslate2(attributes)


def test_what_a_layer_leaves_out() -> None:
    whole = read_ctranslate2({"rotary_dim": 0, "rotary_scaling_type": -1}, 64).config
    assert whole == RotaryConfig(head_dim=64, layout="interleaved", scaling=Unscaled())
    linear = read_ctranslate2({**_LAYER, "rotary_scaling_type": 0, "num_heads_kv": 8}).config
    assert (linear.scaling.name, linear.scaling.stretch) == ("linear", 1.0)


def test_scales_are_those_of_the_engine() -> None:
    written = write_ctranslate2(RotaryConfig(head_dim=64, scaling=NTKAware(factor=2.0)))
    assert written["rotary_base"] == pytest.approx(10000 * 2 ** (64 / 62))
    # attention_layer.cc divides whole numbers: 20000 // 8192 is 2
    lists = {"rotary_scaling_short_factor": [1.0] * 16, "rotary_scaling_long_factor": [2.0] * 16}
    lengths = {"original_max_position_embeddings": 8192, "max_position_embeddings": 20000}
    read = read_ctranslate2({**_LAYER, "rotary_scaling_type": 1, **lists, **lengths}).config
    assert read.attention_scale() == pytest.approx(math.sqrt(1 + math.log(2) / math.log(8192)))


def test_types_are_those_of_the_installed_package() -> None:
    spec = pytest.importorskip("ctranslate2").specs.attention_spec
    theirs = {str(int(each)): each.name for each in spec.RotaryScalingType}
    ours = scaling_types("ctranslate2")
    assert {theirs[number]: ours[number] for number in theirs} == {
        "Linear": "linear",
        "Su": "longrope",
        "Llama3": "llama3",
    }
