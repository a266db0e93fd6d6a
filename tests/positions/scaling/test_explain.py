"""Explanations against facts that papers and published code state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locant.positions import RotaryConfig
from locant.positions.scaling import (
    DynamicNTK,
    Explanation,
    FrequencyScaling,
    Linear,
    Llama3,
    NTKAware,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
    explain_frequencies,
)
from locant.positions.scaling.measured import Measured


def bands(explanation: Explanation) -> list[tuple[int, int, str]]:
    return [(band[0].index, band[-1].index, band[0].fate) for band in explanation.bands]


def test_llama_3_1() -> None:
    # Wavelengths 2 pi 500000^(i/64): 1956 is below 8192/4 for i = 28, 8219 is above 8192 for i = 35.
    explanation = RotaryConfig(
        head_dim=128, base=500000.0, scaling=Llama3(original_length=8192, factor=8), max_length=65536
    ).explain()
    assert bands(explanation) == [(0, 28, "kept"), (29, 34, "blended"), (35, 63, "interpolated")]
    assert explanation.counts == {"kept": 29, "blended": 6, "interpolated": 29}
    assert explanation.incomplete_pairs == tuple(range(35, 64))
    assert (explanation.trained_length, explanation.effective_length) == (8192, 65536)
    assert explanation.attention_temperature == 1
    assert explanation.notes == ()
    pair = explanation.pairs[28]
    assert (pair.wavelength, pair.scaled_wavelength) == (pytest.approx(1956.4, abs=0.1), pytest.approx(1956.4, abs=0.1))
    assert pair.turns == pytest.approx(8192 / 1956.4, rel=1e-4)
    assert explanation.pairs[63].ratio == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("dim", "base", "factor", "low", "high"),
    [
        (128, 10000.0, 32, 20, 46),  # Llama 2 7B: 128 ln(4096 / 64 pi) / 2 ln 10000 = 20.9; 45.03 for one turn
        (64, 10000.0, 40, 10, 23),  # DeepSeek-V2 and V3, as their code works out
    ],
)
def test_yarn(dim: int, base: float, factor: float, low: int, high: int) -> None:
    explanation = explain_frequencies(YaRN(original_length=4096, factor=factor), dim, base)
    last = dim // 2 - 1
    assert bands(explanation) == [(0, low, "kept"), (low + 1, high - 1, "blended"), (high, last, "interpolated")]


def test_linear_and_unscaled() -> None:
    assert bands(explain_frequencies(Linear(factor=4), 64, 10000.0)) == [(0, 31, "interpolated")]
    explanation = explain_frequencies(Unscaled(), 64, 10000.0, max_length=2048)
    assert bands(explanation) == [(0, 31, "kept")]
    assert explanation.incomplete_pairs == tuple(range(21, 32))  # 2 pi 10000^(20/32) = 1987, 10000^(21/32): 2650
    beyond = explain_frequencies(Unscaled(), 64, 10000.0, max_length=2048, length=4096)
    assert bands(beyond) == [(0, 20, "kept"), (21, 31, "extrapolated")]
    assert len(beyond.notes) == 2


def test_ntk_extrapolates_slow_pairs_as_the_yarn_paper_says() -> None:
    explanation = explain_frequencies(NTKAware(original_length=2048, factor=4), 64, 10000.0)
    assert bands(explanation) == [
        (0, 0, "kept"),
        (1, 20, "blended"),
        (21, 30, "extrapolated"),
        (31, 31, "interpolated"),
    ]


def test_notes_on_lengths() -> None:
    yarn = YaRN(original_length=32768, factor=4)
    for max_length, count in ((32768, 1), (65536, 1), (131072, 0), (None, 0)):
        config = RotaryConfig(head_dim=128, base=1e6, scaling=yarn, max_length=max_length)
        assert len(config.explain().notes) == count
    assert len(explain_frequencies(Linear(factor=2), 4, 10.0).notes) == 1  # the trained length is unknown
    # Llama 3.1's config.json: 131,072 positions, factor 8 of 8,192.
    llama = Llama3(original_length=8192, factor=8.0)
    assert len(RotaryConfig(head_dim=128, base=500000.0, scaling=llama, max_length=131072).explain().notes) == 1


def test_any_numbers_are_explained() -> None:
    explanation = RotaryConfig(head_dim=8, scaling=Measured(given=(2.0, 0.1, 0.0, -0.001))).explain()
    assert [pair.fate for pair in explanation.pairs] == ["faster", "kept", "still", "backwards"]
    assert "no turn" in str(explanation)


scalings: st.SearchStrategy[FrequencyScaling] = st.one_of(
    st.builds(lambda factor: Linear(factor=factor), st.floats(1, 100)),
    st.builds(lambda n, factor: NTKByParts(original_length=n, factor=factor), st.integers(1, 10**6), st.floats(1, 99)),
    st.builds(lambda n, factor: NTKAware(original_length=n, factor=factor), st.integers(1, 10**6), st.floats(1, 99)),
    st.builds(lambda n, factor: Llama3(original_length=n, factor=factor), st.integers(1, 10**6), st.floats(1, 99)),
    st.builds(lambda n: DynamicNTK(original_length=n), st.integers(1, 10**6)),
    st.builds(lambda part: Proportional(rotary_fraction=part), st.floats(0, 1)),
)


@given(scaling=scalings, dim=st.sampled_from([4, 64, 256]), base=st.floats(2, 1e9), length=st.integers(1, 10**7))
def test_the_table_is_complete_and_fits(scaling: FrequencyScaling, dim: int, base: float, length: int) -> None:
    explanation = explain_frequencies(scaling, dim, base, length=length)
    assert all(len(line) <= 100 for line in str(explanation).splitlines())
    assert [pair.index for band in explanation.bands for pair in band] == list(range(dim // 2))
    assert sum(explanation.counts.values()) == dim // 2
    assert all(pair.ratio <= 1 + 1e-12 for pair in explanation.pairs)
