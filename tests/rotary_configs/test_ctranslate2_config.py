"""Attributes of CTranslate2's attention layers."""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import DynamicNTK, Llama3, LongRoPE, NTKAware, Proportional, YaRN
from locant.positions.scaling.clipped import Clipped
from locant.rotary_configs.ctranslate2 import write_ctranslate2
from locant.rotary_configs.scaling import scaling_types


@pytest.mark.parametrize(
    "scaling",
    [
        YaRN(factor=4.0, original_length=2048),
        Proportional(rotary_fraction=0.5),
        Clipped(pairs=2),
        DynamicNTK(original_length=8),
        LongRoPE(short_factors=[1, 1], long_factors=[1, 2], original_length=8, factor=2),
    ],
)
def test_what_the_engine_does_not_have_is_refused(scaling: Any) -> None:
    with pytest.raises(ConfigError):
        write_ctranslate2(RotaryConfig(head_dim=4, scaling=scaling))
    with pytest.raises(ConfigError):
        write_ctranslate2({"full_attention": RotaryConfig(head_dim=4), "sliding_attention": RotaryConfig(head_dim=4)})


def test_what_is_written() -> None:
    written = write_ctranslate2(RotaryConfig(head_dim=64, scaling=NTKAware(factor=2.0)))
    assert written["rotary_base"] == pytest.approx(10000 * 2 ** (64 / 62))
    llama3 = write_ctranslate2(RotaryConfig(head_dim=64, base=5e5, scaling=Llama3(factor=8.0, original_length=8192)))
    assert llama3 == {
        **{"head_dim": 64, "rotary_dim": 64, "rotary_interleave": False, "rotary_base": 5e5},
        **{"rotary_scaling_type": 2, "rotary_scaling_factor": 8.0, "original_max_position_embeddings": 8192},
        **{"rotary_low_freq_factor": 1.0, "rotary_high_freq_factor": 4.0},
    }


def test_types_are_those_of_the_installed_package() -> None:
    spec = pytest.importorskip("ctranslate2").specs.attention_spec
    theirs = {str(int(each)): each.name for each in spec.RotaryScalingType}
    assert {theirs[number]: name for number, name in scaling_types("ctranslate2").items()} == {
        "Linear": "linear",
        "Llama3": "llama3",
    }
