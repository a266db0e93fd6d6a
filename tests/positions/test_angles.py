"""Exact angles, against mpmath in 60 digits."""

from decimal import Decimal

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.positions import ALiBi, Frequencies, Rotary, Sinusoidal, geometric_frequencies

ROUNDING = 3.1e-8


def exact(position: int, frequency: mpmath.mpf) -> tuple[float, float]:
    with mpmath.workdps(60):
        return float(mpmath.sin(position * frequency)), float(mpmath.cos(position * frequency))


@settings(max_examples=60, deadline=None)
@given(
    position=st.integers(-(2**31) + 1, 2**31 - 1),
    base=st.sampled_from([100.0, 10000.0, 500000.0, 1e6, 12345.678]),
    count=st.sampled_from([1, 5, 32]),
)
def test_every_position_to_the_rounding_of_float32(position: int, base: float, count: int) -> None:
    sine, cosine = Frequencies(geometric_frequencies(count, base)).sine_cosine(torch.tensor([position]))
    with mpmath.workdps(60):
        frequencies = [mpmath.power(base, -mpmath.mpf(i) / count) for i in range(count)]
    for index, frequency in enumerate(frequencies):
        right = exact(position, frequency)
        assert abs(sine[0, index].double().item() - right[0]) <= ROUNDING
        assert abs(cosine[0, index].double().item() - right[1]) <= ROUNDING


def test_a_long_run_equals_its_single_positions_to_rounding() -> None:
    frequencies = Frequencies(geometric_frequencies(8, 10000.0))
    start = 2**31 - 5000
    run = frequencies.sine_cosine(torch.arange(start, start + 4999))
    with mpmath.workdps(60):
        for position in (start, start + 511, start + 512, start + 2600, start + 4998):
            for index, f in enumerate(geometric_frequencies(8, 10000.0)):
                right = exact(position, mpmath.mpf(str(f)))
                assert abs(run[0][position - start, index].double().item() - right[0]) <= ROUNDING
                assert abs(run[1][position - start, index].double().item() - right[1]) <= ROUNDING
    assert run[0].shape == run[1].shape == (4999, 8)


def test_one_position_for_every_pair() -> None:
    frequencies = Frequencies([Decimal(1), Decimal("0.5"), Decimal(0)])
    assert len(frequencies) == 3
    angles = frequencies.angles(torch.tensor([[1, 2, 9]]), each=True)
    torch.testing.assert_close(angles, torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64), atol=1e-15, rtol=0)


def test_positions_are_numbers() -> None:
    with pytest.raises(ConfigError):
        Frequencies([Decimal(1)]).angles(torch.tensor([True]))


def test_compiled_angles_are_the_same() -> None:
    frequencies = Frequencies(geometric_frequencies(4, 10000.0))
    positions = torch.tensor([5, 2**31 - 1])
    compiled = torch.compile(frequencies.sine_cosine, backend="aot_eager")(positions)
    torch.testing.assert_close(compiled, frequencies.sine_cosine(positions), rtol=0, atol=0)


@given(st.floats(-1e6, 1e6) | st.floats(-1, 1), st.sampled_from([10000.0, 100.0]))
def test_fractions_of_positions(position: float, base: float) -> None:
    """Seconds, steps of diffusion, coordinates from -1 to 1: the formula at the very number."""
    at = torch.tensor([position], dtype=torch.float64)
    sine, cosine = Frequencies(geometric_frequencies(4, base)).sine_cosine(at)
    with mpmath.workdps(40):
        for pair in range(4):
            angle = mpmath.mpf(position) * mpmath.mpf(base) ** (-mpmath.mpf(pair) / 4)
            assert abs(mpmath.mpf(float(sine[0, pair])) - mpmath.sin(angle)) < 3.1e-8
            assert abs(mpmath.mpf(float(cosine[0, pair])) - mpmath.cos(angle)) < 3.1e-8


def test_schemes_take_fractions_where_their_formulas_do() -> None:
    half = torch.tensor([998.5])
    code = Sinusoidal(16, dialect="concatenated", cosine_first=True).encode(half)[0]
    angles = 998.5 * 10000.0 ** -(torch.arange(8, dtype=torch.float64) / 8)
    torch.testing.assert_close(code.double(), torch.cat((angles.cos(), angles.sin())), rtol=0, atol=4e-8)
    q = torch.randn(1, 1, 1, 16)
    turned = Rotary(16)(q, q, half)[0]
    back = Rotary(16)(turned, turned, -half)[0]
    torch.testing.assert_close(back, q)
    with pytest.raises(ConfigError):
        ALiBi(1)(q, q, half)
