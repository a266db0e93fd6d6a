"""Scalings are read from groups as transformers takes them, and written so that it takes the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from huggingface_peer import assert_same_frequencies
from hypothesis import given, settings
from property_examples import TIMES
from rotary_examples import EXAMPLES

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Linear,
    LongRoPE,
    NTKAware,
    NTKByParts,
    register_scaling,
)
from locant.positions.scaling import frequency as registry
from locant.rotary_configs import scaling as forms
from locant.rotary_configs.scaling import Form, form_of, read_scaling, register_form, write_scaling

_LISTS = {"short_factor": [1.0] * 8, "long_factor": [float(n) for n in range(1, 9)]}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def _written_and_read(scaling: FrequencyScaling) -> FrequencyScaling:
    return read_scaling(
        write_scaling(scaling),
        "rope_parameters",
        max_length=scaling.trained,
        partial_rotary_factor=getattr(scaling, "rotary_fraction", None),
    )


@pytest.mark.parametrize("name", ["none", "linear", "yarn", "longrope", "llama3", "proportional"])
def test_what_is_written_is_read_back(name: str) -> None:
    @settings(max_examples=20 * TIMES, deadline=None)
    @given(EXAMPLES[name])
    def check(scaling: FrequencyScaling) -> None:
        read = _written_and_read(scaling)
        if isinstance(scaling, Linear):  # whose original length has no entry in transformers
            scaling = Linear(factor=scaling.factor)
        if isinstance(scaling, LongRoPE):  # whose attention scale is always written
            assert read.attention_scale() == scaling.attention_scale()
            scaling = LongRoPE(**{**vars(scaling), "attention_factor": scaling.attention_scale()})
        assert read == scaling

    check()


def test_what_has_other_names_is_read_back() -> None:
    dynamic = DynamicNTK(original_length=2048, factor=4, length_step=1)
    assert _written_and_read(dynamic) == dynamic
    two_scales = LongRoPE(
        short_factors=(1,),
        long_factors=(2,),
        original_length=9,
        factor=2,
        attention_factor=1.2,
        short_attention_factor=1.1,
    )
    assert _written_and_read(two_scales) == two_scales
    by_parts = NTKByParts(original_length=2048, factor=4)
    read = _written_and_read(by_parts)
    assert read.name == "yarn"
    assert read.attention_scale() == 1
    assert read.frequencies(16, 1e4) == by_parts.frequencies(16, 1e4)


@pytest.mark.parametrize(
    "scaling",
    [
        NTKAware(factor=4),
        LongRoPE(short_factors=(1,), long_factors=(2,), original_length=9, factor=2, final_length=9),
    ],
)
def test_what_transformers_has_not_is_not_written(scaling: FrequencyScaling) -> None:
    with pytest.raises(ConfigError):
        write_scaling(scaling)


@pytest.mark.parametrize(
    ("group", "beside"),
    [
        ({"rope_type": "default", "factor": 7.0}, {}),
        ({"type": "linear", "factor": 2.5}, {}),
        ({"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 512}, {}),
        ({"type": "yarn", "factor": 4.0}, {}),
        ({"type": "yarn", "factor": None, "original_max_position_embeddings": 1024}, {}),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}, {"original": 1024}),
        ({"type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.7, "attention_factor": None}, {}),
        ({"type": "yarn", "factor": 40.0, "mscale": 1.0}, {}),
        ({"type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.7, "attention_factor": 0.5}, {}),
        ({"rope_type": "yarn", "type": "linear", "factor": 4.0, "beta_fast": 0, "beta_slow": 2, "truncate": False}, {}),
        ({"type": "longrope", **_LISTS, "original_max_position_embeddings": 1024}, {}),
        ({"type": "longrope", **_LISTS, "original_max_position_embeddings": 1024, "factor": 32.0}, {}),
        ({"type": "longrope", **_LISTS, "factor": 2.0, "attention_factor": 1.3}, {"original": 1024}),
        ({**_LLAMA3, "original_max_position_embeddings": 1024}, {}),
        (_LLAMA3, {}),
        ({"rope_type": "proportional", "partial_rotary_factor": 0.25}, {}),
        ({"rope_type": "proportional", "partial_rotary_factor": 0.55, "factor": 3.0}, {}),
    ],
)
@pytest.mark.parametrize("length", [None, 9000])
def test_frequencies_are_those_of_transformers(
    group: dict[str, Any], beside: dict[str, int], length: int | None
) -> None:
    transformers = pytest.importorskip("transformers")
    original = {"original_max_position_embeddings": beside["original"]} if beside else {}
    theirs = transformers.LlamaConfig(
        head_dim=16, max_position_embeddings=4096, rope_theta=5e5, rope_scaling=dict(group), **original
    )
    partial = group.get("partial_rotary_factor")
    ours = read_scaling(
        group, "rope_scaling", max_length=4096, original_length=beside.get("original"), partial_rotary_factor=partial
    )
    assert_same_frequencies(theirs, RotaryConfig(head_dim=16, base=5e5, scaling=ours), None, length)


@pytest.mark.parametrize(
    ("group", "entry"),
    [
        ({"rope_type": "yarm", "factor": 4.0}, "yarn"),
        ({"type": "y" * 100_000}, "rope_type"),
        ({"type": 4}, "type"),
        ({"type": "linear"}, "factor"),
        ({"type": "yarn", "original_max_position_embeddings": 1024}, "factor"),
        ({"type": "yarn", "factor": "4"}, "factor"),
        ({"type": "yarn", "factor": 0.5}, "factor"),
        ({"type": "yarn", "factor": 4.0, "truncate": "false"}, "truncate"),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1.5}, "original_max_position_embeddings"),
        ({"type": "longrope", "short_factor": [1.0], "factor": 4.0}, "long_factor"),
        ({"type": "longrope", "short_factor": [1.0], "long_factor": [-1.0], "factor": 4.0}, "long_factor"),
        ({**_LLAMA3, "low_freq_factor": None}, "low_freq_factor"),
        ({**_LLAMA3, "low_freq_factor": 8.0}, "low_freq_factor"),
        ({"rope_type": "proportional", "factor": 0.5}, "factor"),
    ],
)
def test_what_cannot_be_read_is_named(group: dict[str, Any], entry: str) -> None:
    with pytest.raises(ConfigError, match=entry) as refused:
        read_scaling(group, "rope_scaling", max_length=4096)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("kind", ["yarn", "dynamic", "llama3"])
def test_some_length_is_needed(kind: str) -> None:
    with pytest.raises(ConfigError, match="max_position_embeddings"):
        read_scaling({**_LLAMA3, "rope_type": kind}, "rope_scaling", max_length=None)


def test_mscale_of_short_and_long_texts_counts_before_the_formula() -> None:
    group = {"type": "su", **_LISTS, "short_mscale": 1.1, "long_mscale": 1.2, "factor": 4.0}
    read = read_scaling(group, "rope_scaling", max_length=4096)
    assert (read.attention_scale(10), read.attention_scale(5000)) == (1.1, 1.2)


@pytest.fixture
def third_party() -> Iterator[type[FrequencyScaling]]:
    known = {name: dict(each) for name, each in forms._FORMS.items()}

    @register_scaling("of-mine")
    @dataclass(frozen=True, kw_only=True)
    class OfMine(FrequencyScaling):
        title = "mine"
        strength: float
        steps: int = 2
        weights: tuple[float, ...] = ()

        def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
            return tuple(Decimal(self.strength) for _ in range(dim // 2))

    yield OfMine
    del registry.REGISTERED["of-mine"]
    for name, each in known.items():
        forms._FORMS[name].clear()
        forms._FORMS[name].update(each)


def test_a_third_party_takes_part_with_its_names(third_party: type[FrequencyScaling]) -> None:
    form = Form(("mine",), {"strength": "mine_strength", "steps": "mine_steps", "weights": "mine_weights"})
    register_form("huggingface", "of-mine", form)
    assert form_of("huggingface", "of-mine") == form
    assert form_of("gguf", "of-mine") is None
    written = {"rope_type": "mine", "mine_strength": 0.5, "mine_steps": 3, "mine_weights": [1, 2]}
    scaling = read_scaling(written, "rope_scaling", max_length=None)
    assert scaling == third_party(strength=0.5, steps=3, weights=(1, 2))  # type: ignore[call-arg]
    assert write_scaling(scaling) == written
    with pytest.raises(ConfigError, match="mine_strength"):
        read_scaling({"rope_type": "mine"}, "rope_scaling", max_length=None)


def test_a_form_that_cannot_be_meant_is_refused() -> None:
    for format_name, scaling, kind in (("gguff", "yarn", "y"), ("gguf", "yarm", "y"), ("gguf", "yarn", "linear")):
        with pytest.raises(ConfigError):
            register_form(format_name, scaling, Form((kind,)))
