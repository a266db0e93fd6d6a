"""Models that differ in nothing but their scheme."""

from typing import Any

import pytest
import torch

from locant.errors import ConfigError
from locant.lab import all_schemes
from locant.lab.variants import (
    ModelSettings,
    build_fairly,
    check_scheme,
    initial_facts,
    options_for_lengths,
    position_fields,
    split_variant,
    weights_outside_schemes,
)
from locant.models import LanguageModel
from locant.positions import SCHEMES, AttentionShape, check_options

SETTINGS = ModelSettings(layers=2, d_model=32, d_ff=48, heads=2)


def build(variant: str, seed: int = 1, trained: int = 24) -> LanguageModel:
    return build_fairly(LanguageModel, SETTINGS.config(variant, 20, trained=trained, longest=48), seed)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("variant", [*all_schemes(), "sinusoidal:combine=concatenate", "LG:L=t5:L.window=3:G=rope"])
def test_initial_weights_are_the_same_wherever_shapes_allow(variant: str) -> None:
    plain, model = build("none"), build(variant)
    shared, own = plain.state_dict(), weights_outside_schemes(model)
    assert set(own) == set(weights_outside_schemes(plain))
    for name, weight in own.items():
        assert torch.equal(weight, shared[name]), name
    assert initial_facts(model)["initial_weights"] == initial_facts(plain)["initial_weights"]
    assert initial_facts(model)["initial_weights"] != initial_facts(build(variant, seed=2))["initial_weights"]


@pytest.mark.parametrize(
    ("variant", "parameters"),
    [
        ("none", 0),
        ("rotary", 0),
        ("learned", 24 * 32),  # a vector for every trained position
        ("t5", 32 * 2),  # buckets and heads, shared by the layers
        ("kerple", 2 * 2),  # two numbers a head
    ],
)
def test_parameters_of_the_scheme(variant: str, parameters: int) -> None:
    assert initial_facts(build(variant))["scheme_parameters"] == parameters


def test_a_quarter_of_the_head_is_rotated() -> None:
    rotary: Any = build("rotary-25").stack.scheme(0)
    assert (rotary.config.head_dim, rotary.config.rotary_dim) == (16, 4)


def test_lengths_that_schemes_must_know() -> None:
    fields = {name: position_fields(name, head_dim=16, trained=24, longest=48) for name in all_schemes()}
    assert fields["learned"]["position_options"] == {"max_positions": 24}
    assert fields["rotary"] == {"position": "rotary", "position_options": {}}
    assert fields["randomised"]["position_options"]["evaluation_length"] == 48
    # Farthest distance of the longest test: 12 as they are, then (47 - 12) / 3 rounded down, within what was trained.
    extend = fields["self-extend"]["position_options"]
    assert extend == {"window": 12, "group": 3}
    assert 12 + (47 - 12) // 3 <= 23
    for name, scheme in SCHEMES.items():
        check_options(name, AttentionShape(64, 4, causal=True), options_for_lengths(scheme, trained=40, longest=100))
    assert options_for_lengths(SCHEMES["temperature"], trained=40, longest=100) == {"length": 40}
    own = position_fields("learned:max_positions=99", head_dim=16, trained=24, longest=48)
    assert own["position_options"] == {"max_positions": 99}


def test_options_of_variants() -> None:
    assert split_variant("rotary:base=500000.0:layout=half") == ("rotary", {"base": 500000.0, "layout": "half"})
    for variant in SCHEMES:
        check_scheme(variant)
    mix = position_fields("LLG:L=rope:L.window=16:L.base=500:G=rotary-25", head_dim=16, trained=24, longest=48)
    local = {"position": "rotary", "position_options": {"base": 500}, "window": 16}
    far = {"position": "rotary", "position_options": {"rotary_dim": 4}}
    assert mix == {"pattern": "LLG", "kinds": {"L": local, "G": far}}


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        ("rotery", "'rotary'"),
        ("rotary:bas=3", "'base'"),
        ("alibi:x=3", "'x'"),
        ("learned:x=3", "max_positions"),
        ("rotary:base", "'base'"),
        ("rotary:base=-1", "base"),
        ("rotary:base=hello", "hello"),
        ("LLLG", "LLLG:L=rotary"),
        ("LG:L=rotary", "'G'"),
        ("LG:L=rotary:G=alibi:X=t5", "'X'"),
        ("LG:L=rotery:G=alibi", "'rotary'"),
        ("LG:L=rotary:L.windw=3:G=none", "'window'"),
        ("LG:L=rotary:L.window=0:G=none", "kinds.L.window"),
    ],
)
def test_variants_that_cannot_be(variant: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_scheme(variant)
