from __future__ import annotations

import pytest

from locant.errors import ConfigError
from locant.models import DecodingSettings, SamplingSettings


def test_n_best_needs_a_beam_as_wide() -> None:
    assert DecodingSettings(beam=4, n_best=4).n_best == 4
    with pytest.raises(ConfigError, match="n_best is 5, but a beam of 4"):
        DecodingSettings.parse({"beam": 4, "n_best": 5})


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"length_penalty": -1}, {"n_best": 0}, {"max_length_ratio": 0}])
def test_values_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        DecodingSettings.parse(wrong)


def test_max_target_length_follows_the_paper() -> None:
    assert DecodingSettings().max_target_length(20) == 70
    assert DecodingSettings(max_length_ratio=1.5, max_length_extra=3).max_target_length(5) == 11


def test_every_limit_has_a_limit() -> None:
    assert all(
        any(hasattr(bound, "le") or hasattr(bound, "lt") for bound in about.metadata)
        for settings in (DecodingSettings, SamplingSettings)
        for name, about in settings.model_fields.items()
        if name != "sampling"
    )
