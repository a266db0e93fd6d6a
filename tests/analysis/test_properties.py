import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from locant.analysis import PROPERTIES, Property, check_properties, measure_geometry, shift_matrix
from locant.errors import DataError
from locant.positions import SCHEMES, AttentionShape, PositionScheme, sinusoid_table


def exact_row(position: int, dim: int, base: int, dialect: str) -> list[float]:
    """The sinusoids of a position in 40 digits."""
    with mpmath.workdps(40):
        pairs = dim // 2
        steps = pairs - 1 if dialect == "tensor2tensor" else pairs
        angles = [position * mpmath.power(base, -mpmath.mpf(i) / steps) for i in range(pairs)]
        sines, cosines = [float(mpmath.sin(a)) for a in angles], [float(mpmath.cos(a)) for a in angles]
    if dialect == "paper":
        return [value for pair in zip(sines, cosines, strict=True) for value in pair]
    return sines + cosines


@pytest.mark.parametrize(("dim", "rise"), [(64, 6), (512, 44)])
def test_sinusoids_have_one_norm_and_products_of_the_offset_alone(dim: int, rise: int) -> None:
    geometry = measure_geometry(sinusoid_table(torch.arange(150), dim))
    assert geometry.smallest_norm == pytest.approx(math.sqrt(dim / 2), rel=1e-7)
    assert geometry.largest_norm == pytest.approx(math.sqrt(dim / 2), rel=1e-7)
    assert geometry.dot_deviation < 1e-5
    assert geometry.first_rise == rise


def test_geometry_of_a_small_table_by_hand() -> None:
    geometry = measure_geometry(torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]]))
    # Products: diagonal 1, 1, 25; one apart 0 and 4; two apart 3.
    assert (geometry.smallest_norm, geometry.largest_norm) == (1.0, 5.0)
    assert geometry.dot_deviation == 24.0
    assert geometry.first_rise == 2
    assert measure_geometry(torch.tensor([[2.0], [1.0], [0.0]])).first_rise is None


@pytest.mark.parametrize("dialect", ["paper", "concatenated", "tensor2tensor"])
@given(position=st.integers(-1000, 1_000_000), k=st.integers(-1_000_000, 1_000_000))
@settings(max_examples=15, deadline=None)
def test_a_shift_is_a_rotation(dialect: str, position: int, k: int) -> None:
    matrix = shift_matrix(10, k, 500, dialect)  # type: ignore[arg-type]
    here = torch.tensor(exact_row(position, 10, 500, dialect), dtype=torch.float64)
    there = torch.tensor(exact_row(position + k, 10, 500, dialect), dtype=torch.float64)
    assert matrix.dtype == torch.float64
    assert (matrix @ here - there).abs().max() < 1e-11
    assert (matrix @ matrix.T - torch.eye(10)).abs().max() < 1e-14


def by_name(name: str) -> dict[str, Property]:
    return {entry.name: entry for entry in check_properties(name)}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_can_be_checked(name: str) -> None:
    properties = check_properties(name)
    assert tuple(entry.name for entry in properties) == PROPERTIES
    assert all(math.isfinite(entry.measured) and entry.reason for entry in properties)


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("name", "property_name", "verdict"),
    [
        ("none", "unique", "no"),
        ("sinusoidal", "unique", "yes"),
        ("learned", "unique", "yes"),
        ("learned", "defined beyond training length", "no"),
        ("learned", "consistent distance", "no"),
        ("index", "bounded", "no"),
        ("index", "consistent distance", "yes"),
        ("normalised-index", "consistent distance", "no"),
        ("normalised-index", "bounded", "yes"),
        ("binary", "consistent distance", "no"),
        ("binary", "bounded", "yes"),
        ("rotary", "consistent distance", "yes"),
        ("rotary", "bounded", "yes"),
        ("rotary", "unique", "yes"),
        ("randomised", "deterministic", "partly"),
        ("alibi", "bounded", "no"),
        ("alibi", "consistent distance", "yes"),
        ("t5", "unique", "partly"),
        ("t5", "bounded", "yes"),
        ("kerple", "bounded", "partly"),
        ("axial-rotary", "bounded", "yes"),
        ("axial-rotary", "consistent distance", "no"),
        ("xpos", "bounded", "yes"),
        ("self-extend", "consistent distance", "partly"),
    ],
)
def test_known_verdicts(name: str, property_name: str, verdict: str) -> None:
    if name not in SCHEMES:
        pytest.skip(f"there is no scheme '{name}'")
    assert by_name(name)[property_name].verdict == verdict


def test_measured_numbers() -> None:
    learned = by_name("learned")
    assert learned["defined beyond training length"].measured == 1024
    # The index is 1,023 after 1,024 tokens and 65,535 after 65,536.
    assert by_name("index")["bounded"].measured == pytest.approx(65535 / 1023)
    # A share of 1,024 positions steps by 1/1023, of 2,048 by 1/2047.
    assert by_name("normalised-index")["consistent distance"].measured == pytest.approx(1 - 1023 / 2047, rel=1e-3)
    assert by_name("none")["unique"].measured == 1


class Made(PositionScheme):
    """A bias made of a function of query and key positions; the limit counts positions."""

    limit: int | None = None
    random = False

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: object) -> "Made":
        return cls()

    def value(self, q: Tensor, k: Tensor) -> Tensor:
        raise NotImplementedError

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return self.value(q_positions.unsqueeze(-1).double(), k_positions.double())


class Clipped(Made):
    def value(self, q: Tensor, k: Tensor) -> Tensor:
        return (q - k).clamp(-9, 9)


class Logarithm(Made):
    def value(self, q: Tensor, k: Tensor) -> Tensor:
        return (1 + (q - k).abs()).log()


class OfTheQuery(Made):
    def value(self, q: Tensor, k: Tensor) -> Tensor:
        return (q - k) / (q + 1)


class Noise(Made):
    def value(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.rand(4, q.shape[-2], k.shape[-1])


class Ends(Made):
    def value(self, q: Tensor, k: Tensor) -> Tensor:
        if q.max() >= 3000:
            raise DataError("too far")
        return (q - k) / 10


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (Clipped, ["partly", "yes", "yes", "yes", "yes"]),
        (Logarithm, ["yes", "yes", "yes", "partly", "yes"]),
        (OfTheQuery, ["yes", "no", "yes", "yes", "yes"]),
        (Noise, ["yes", "no", "yes", "yes", "no"]),
        (Ends, ["yes", "yes", "no", "yes", "yes"]),
    ],
)
def test_verdicts_come_from_what_a_scheme_does(
    scheme: type[Made], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCHEMES, "made", scheme)
    properties = check_properties("made")
    assert [entry.verdict for entry in properties] == expected
    if scheme is Clipped:
        assert properties[0].measured == 10  # distances 0 to 9
    if scheme is Ends:
        assert properties[2].measured == 2048  # the last power of two below 3,000


def test_parameters_and_random_numbers_are_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = check_properties("learned")
    assert torch.equal(torch.rand(3), expected)
    assert check_properties("learned") == first
