"""A scaling that somebody else registers: one file is enough to read, write, extend and explain it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest

from locant.errors import ConfigError
from locant.extension.extend.methods import apply_method, extension_methods
from locant.positions import RotaryConfig
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling import (
    SCALINGS,
    Extension,
    ExtensionMethod,
    FrequencyScaling,
    register_scaling,
    scaling_from_options,
)
from locant.positions.scaling.contexts import RopeContext
from locant.positions.scaling.fields import Fields
from locant.positions.scaling.frequency import REGISTERED
from locant.rotary_configs import read_huggingface, write_ctranslate2, write_gguf, write_huggingface, write_vllm


@pytest.fixture
def slow_half() -> Iterator[type[FrequencyScaling]]:
    """A scaling that interpolates the slower half of the pairs."""

    @register_scaling("slower-half")
    @dataclass(frozen=True, kw_only=True)
    class SlowHalf(Extension):
        title: ClassVar[str] = "slow half"
        paper: ClassVar[str] = "nobody, never"
        method: ClassVar[ExtensionMethod | None] = ExtensionMethod("the slower half", "Half of it is as before.")
        rope_types: ClassVar[tuple[str, ...]] = ("slow_half",)
        rope_entries: ClassVar[tuple[str, ...]] = ("factor", "original_max_position_embeddings")

        def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
            plain = geometric_frequencies(dim // 2, base)
            factor = Decimal(self.stretch or 1)
            return tuple(f / factor if index >= dim // 4 else f for index, f in enumerate(plain))

        @classmethod
        def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
            original = context.original_length_of(rope)
            return cls(**context.lengths_of(rope, cls, original))

        def rope_parameters(self, engine: str) -> dict[str, Any] | None:
            lengths = {"factor": self.factor, "original_max_position_embeddings": self.original_length}
            return {"rope_type": "slow_half", **lengths}

    yield SlowHalf
    del REGISTERED["slower-half"]


def test_it_is_known(slow_half: type[FrequencyScaling]) -> None:
    assert SCALINGS["slower-half"] is slow_half
    assert list(SCALINGS)[-1] == "slower-half"
    assert scaling_from_options("slower-half", {"factor": 2.0}).title == "slow half"
    options = slow_half.options_for_lengths(rotary_dim=8, trained=2048, longest=4096)
    assert scaling_from_options("slower-half", options).stretch == 2


def test_a_name_is_taken_once(slow_half: type[FrequencyScaling]) -> None:
    with pytest.raises(ConfigError, match="'slower-half' is registered already"):

        @register_scaling("slower-half")
        class Another(slow_half):  # type: ignore[misc, valid-type]
            pass


def test_it_is_extended_written_and_read(slow_half: type[FrequencyScaling]) -> None:
    assert "slower-half" in extension_methods()
    old = {"model_type": "llama", "head_dim": 8, "max_position_embeddings": 2048, "rope_theta": 1e4}
    new = apply_method(old, "slower-half", 8192)
    config = read_huggingface(new).config
    assert config.scaling == slow_half(original_length=2048, factor=4.0)  # type: ignore[call-arg]
    assert config.max_length == 8192
    assert [float(f) for f in config.frequencies()] == pytest.approx([1, 0.1, 0.01 / 4, 0.001 / 4])
    for version in ("4", "5"):
        assert read_huggingface({"model_type": "llama"} | write_huggingface(config, version)).config == config
    assert '"rope_type": "slow_half"' in write_vllm(config)


def test_gguf_holds_any_static_scaling(slow_half: type[FrequencyScaling]) -> None:
    config = RotaryConfig(head_dim=8, scaling=slow_half(original_length=2048, factor=4.0))  # type: ignore[call-arg]
    written = write_gguf(config, "apertus")
    assert np.allclose(written.tensors["rope_freqs.weight"], [1, 1, 4, 4])
    with pytest.raises(ConfigError, match=r"CTranslate2 .* cannot express the scaling 'slower-half'"):
        write_ctranslate2(config)


def test_it_is_explained(slow_half: type[FrequencyScaling]) -> None:
    config = RotaryConfig(head_dim=8, scaling=slow_half(original_length=2048, factor=4.0))  # type: ignore[call-arg]
    explanation = config.explain()
    assert explanation.counts == {"kept": 2, "interpolated": 2}
    assert "scaling slower-half (factor 4" in config.describe()
