"""A scaling that somebody else registers: one class is enough to choose and to explain it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import pytest

from locant.errors import ConfigError
from locant.positions import RotaryConfig
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling import SCALINGS, Extension, FrequencyScaling, register_scaling, scaling_from_options
from locant.positions.scaling.frequency import REGISTERED


@pytest.fixture
def slow_half() -> Iterator[type[FrequencyScaling]]:
    """A scaling that interpolates the slower half of the pairs."""

    @register_scaling("slower-half")
    @dataclass(frozen=True, kw_only=True)
    class SlowHalf(Extension):
        title: ClassVar[str] = "slow half"
        paper: ClassVar[str] = "nobody, never"

        def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
            plain = geometric_frequencies(dim // 2, base)
            return tuple(f / self.exact_factor if index >= dim // 4 else f for index, f in enumerate(plain))

    yield SlowHalf
    del REGISTERED["slower-half"]


def test_it_is_known_and_explained(slow_half: type[FrequencyScaling]) -> None:
    assert SCALINGS["slower-half"] is slow_half
    assert list(SCALINGS)[-1] == "slower-half"
    options = slow_half.options_for_lengths(rotary_dim=8, trained=2048, longest=4096)
    scaling = scaling_from_options("slower-half", options)
    assert scaling.stretch == 2
    config = RotaryConfig(head_dim=8, scaling=scaling)
    assert [float(f) for f in config.frequencies()] == pytest.approx([1, 0.1, 0.005, 0.0005])
    assert config.explain().counts == {"kept": 2, "interpolated": 2}
    assert "scaling slower-half (factor 2" in config.describe()


def test_a_name_is_taken_once(slow_half: type[FrequencyScaling]) -> None:
    with pytest.raises(ConfigError):

        @register_scaling("slower-half")
        class Another(slow_half):  # type: ignore[misc, valid-type]
            pass
