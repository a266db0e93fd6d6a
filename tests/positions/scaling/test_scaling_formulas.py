"""Frequencies against the papers' formulas in 60 digits of mpmath."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterator
from decimal import Decimal

import mpmath
import pytest

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
)
from locant.positions.scaling.clipped import Clipped

MODELS = [(128, 10000.0), (64, 150000.0), (96, 500000.0), (6, 100.5)]
DIGITS = mpmath.mpf(10) ** -40


@pytest.fixture(autouse=True)
def _many_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


def plain(dim: int, base: float) -> list[mpmath.mpf]:
    return [mpmath.power(base, -mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]


def worst(
    scaling: FrequencyScaling, expected: list[mpmath.mpf], dim: int, base: float, length: int | None = None
) -> float:
    frequencies = scaling.frequencies(dim, base, length)
    assert len(frequencies) == len(expected) == dim // 2
    return max(abs(mpmath.mpf(str(ours)) / theirs - 1) for ours, theirs in zip(frequencies, expected, strict=True))


def by_parts(
    dim: int, base: float, original: int, factor: float, fast: float = 32, slow: float = 1, *, truncate: bool = True
) -> list[mpmath.mpf]:
    def index(turns: float) -> mpmath.mpf:
        return dim * mpmath.log(original / (2 * mpmath.pi * turns)) / (2 * mpmath.log(base))

    low, high = index(fast), index(slow)
    if truncate:
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    kept = [1 - min(max((i - low) / (high - low), 0), 1) for i in range(dim // 2)]
    return [(1 - g) * f / mpmath.mpf(factor) + g * f for f, g in zip(plain(dim, base), kept, strict=True)]


def llama3(dim: int, base: float, original: int, factor: float, low: float, high: float) -> list[mpmath.mpf]:
    scaled = []
    for frequency in plain(dim, base):
        wavelength = 2 * mpmath.pi / frequency
        if wavelength < mpmath.mpf(original) / high:
            scaled.append(frequency)
        elif wavelength > mpmath.mpf(original) / low:
            scaled.append(frequency / factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            scaled.append((1 - smooth) * frequency / factor + smooth * frequency)
    return scaled


@pytest.mark.parametrize(("dim", "base"), MODELS)
@pytest.mark.parametrize("factor", [1, 2.5, 32])
def test_unscaled_linear_and_ntk(dim: int, base: float, factor: float) -> None:
    assert worst(Unscaled(), plain(dim, base), dim, base) < DIGITS
    assert worst(Linear(factor=factor), [f / factor for f in plain(dim, base)], dim, base) < DIGITS
    larger = base * mpmath.power(factor, mpmath.mpf(dim) / (dim - 2))
    expected = [mpmath.power(larger, -mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]
    assert worst(NTKAware(factor=factor), expected, dim, base) < DIGITS
    # Section 3.1 chooses the base so that the slowest pair is interpolated by just the factor.
    assert abs(expected[-1] * factor / plain(dim, base)[-1] - 1) < DIGITS


def test_a_ratio_of_lengths_is_not_rounded() -> None:
    for scaling in (
        Linear(original_length=3000, target_length=10000),
        Linear(original_length=3000, factor=10000 / 3000),
    ):
        assert worst(scaling, [f * 3 / 10 for f in plain(64, 10000.0)], 64, 10000.0) < DIGITS
    assert worst(Linear(factor=10000 / 3000), [f / (10000 / 3000) for f in plain(64, 10000.0)], 64, 10000.0) < DIGITS
    # A target that is only the nearest whole number of tokens does not replace the factor.
    scaling = Linear(original_length=2048, factor=2.3)
    assert scaling.target_length == 4710
    assert worst(scaling, [f / mpmath.mpf(2.3) for f in plain(64, 10000.0)], 64, 10000.0) < DIGITS


@pytest.mark.parametrize(("dim", "base"), MODELS)
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_dynamic(dim: int, base: float, factor: float) -> None:
    def expected(length: int) -> list[mpmath.mpf]:
        scale = factor * mpmath.mpf(length) / 2048 - (factor - 1)
        larger = base * mpmath.power(scale, mpmath.mpf(dim) / (dim - 2))
        return [mpmath.power(larger, -mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]

    by_token = DynamicNTK(original_length=2048, factor=factor, length_step=1)
    assert worst(by_token, expected(2049), dim, base, 2049) < DIGITS
    stepwise = DynamicNTK(original_length=2048, factor=factor, length_step=1000)
    for length, counted_as in [(1, 2048), (2048, 2048), (2049, 3000), (3000, 3000), (3001, 4000)]:
        assert worst(stepwise, expected(counted_as), dim, base, length) < DIGITS
    assert worst(stepwise, plain(dim, base), dim, base) < DIGITS
    final = DynamicNTK(original_length=2048, factor=factor, target_length=5001)
    for length in (None, 1, 2049, 99999):
        assert worst(final, expected(5001), dim, base, length) < DIGITS


@pytest.mark.parametrize(("dim", "base"), MODELS)
@pytest.mark.parametrize("options", [{}, {"truncate": False}, {"beta_fast": 16, "beta_slow": 0.5}])
@pytest.mark.parametrize("scaling", [NTKByParts, YaRN])
def test_ntk_by_parts_and_yarn(scaling: type[NTKByParts], dim: int, base: float, options: dict[str, float]) -> None:
    ours = scaling(original_length=4096, factor=32, **options)  # type: ignore[arg-type]
    names = {"beta_fast": "fast", "beta_slow": "slow"}
    expected = by_parts(dim, base, 4096, 32, **{names.get(k, k): v for k, v in options.items()})  # type: ignore[arg-type]
    assert worst(ours, expected, dim, base) < DIGITS


@pytest.mark.parametrize(("original", "truncate"), [(1, True), (6, True), (6, False)])
def test_pairs_without_a_slow_turn_are_interpolated(original: int, truncate: bool) -> None:
    # Less than a turn even of the fastest pair; only the guard against a ramp of no width keeps that one.
    scaling = NTKByParts(original_length=original, factor=4, truncate=truncate)
    assert worst(scaling, [f / (4 if i else 1) for i, f in enumerate(plain(16, 1e4))], 16, 1e4) < DIGITS


@pytest.mark.parametrize(("dim", "base"), MODELS)
@pytest.mark.parametrize(("original", "factor", "low", "high"), [(8192, 8, 1, 4), (2048, 32, 0.5, 7)])
def test_llama3(dim: int, base: float, original: int, factor: float, low: float, high: float) -> None:
    scaling = Llama3(original_length=original, factor=factor, low_frequency_factor=low, high_frequency_factor=high)
    assert worst(scaling, llama3(dim, base, original, factor, low, high), dim, base) < DIGITS


def test_longrope() -> None:
    short, long = [1.0, 1.05, 1.2], [1.1, 4.25, 30.5]
    scaling = LongRoPE(short_factors=short, long_factors=long, original_length=4096, target_length=131072)
    by_list = {
        0: [f / s for f, s in zip(plain(6, 1e4), short, strict=True)],
        1: [f / s for f, s in zip(plain(6, 1e4), long, strict=True)],
    }
    for length, kind in [(None, 0), (4096, 0), (4097, 1), (10**6, 1)]:
        assert worst(scaling, by_list[kind], 6, 1e4, length) < DIGITS
        assert length is None or scaling.length_class(length) == kind
    for final, kind in [(4096, 0), (4097, 1)]:
        decided = LongRoPE(short_factors=short, long_factors=long, original_length=4096, factor=32, final_length=final)
        for length in (None, 1, 4096, 4097):
            assert worst(decided, by_list[kind], 6, 1e4, length) < DIGITS
            assert length is None or decided.length_class(length) == 0


@pytest.mark.parametrize(("fraction", "turning"), [(0, 0), (0.25, 16), (0.3, 19), (1, 64)])
def test_proportional(fraction: float, turning: int) -> None:
    frequencies = Proportional(rotary_fraction=fraction, factor=2).frequencies(128, 1e6)
    assert all(frequency == 0 for frequency in frequencies[turning:])
    expected = plain(128, 1e6)[:turning]
    assert all(abs(mpmath.mpf(str(f)) * 2 / e - 1) < DIGITS for f, e in zip(frequencies, expected, strict=False))


def test_attention_scales() -> None:
    assert YaRN(original_length=4096, factor=16).attention_scale() == pytest.approx(
        float(0.1 * mpmath.log(16) + 1), rel=1e-15
    )
    assert YaRN(original_length=4096, factor=1).attention_scale() == 1
    assert YaRN(original_length=4096, factor=4, attention_factor=1).attention_scale() == 1
    pair = YaRN(original_length=4096, factor=40, mscale=0.5, mscale_all_dim=1.0)
    assert pair.attention_scale() == pytest.approx(
        float((mpmath.log(40) / 20 + 1) / (mpmath.log(40) / 10 + 1)), rel=1e-15
    )
    longrope = LongRoPE(short_factors=[1], long_factors=[1], original_length=4096, factor=32)
    assert longrope.attention_scale(1) == pytest.approx(math.sqrt(17 / 12), rel=1e-15)  # ln 32 / ln 4096 = 5/12
    for scaling in (NTKByParts(original_length=4096, factor=8), Linear(factor=8), Llama3(original_length=1, factor=8)):
        assert scaling.attention_scale() == 1


def test_the_callers_decimal_context_has_no_say() -> None:
    scaling = NTKByParts(original_length=4096, factor=3.7)
    with decimal.localcontext(decimal.Context(prec=3, traps=[decimal.Inexact])):
        frequencies = scaling.frequencies(128, 12345.5)
        assert all(isinstance(frequency, Decimal) for frequency in frequencies)
        YaRN(original_length=4096, factor=3.7).attention_scale()
    assert worst(scaling, by_parts(128, 12345.5, 4096, 3.7), 128, 12345.5) < DIGITS


@pytest.mark.parametrize(("dim", "base"), MODELS)
@pytest.mark.parametrize("pairs", [2, 3, 20])
def test_clipped(dim: int, base: float, pairs: int) -> None:
    expected = plain(dim, base)
    count = min(pairs, dim // 2)
    for j in range(count):
        expected[dim // 2 - count + j] *= (1 + mpmath.cos(mpmath.pi * j / (count - 1))) / 2
    found = Clipped(pairs=pairs).frequencies(dim, base)
    assert found[-1] == 0
    assert max(abs(mpmath.mpf(str(ours)) - theirs) for ours, theirs in zip(found, expected, strict=True)) < DIGITS
