"""The conformance kit on every scheme, and on schemes that are broken in one way each."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from locant.positions import (
    FIRE,
    KERPLE,
    SCHEMES,
    AttentionShape,
    CoPE,
    FoX,
    PositionScheme,
    Prepared,
    Rotary,
    RotaryConfig,
    Sandwich,
    Shaw,
    Sinusoidal,
    XPos,
    register_scheme,
)
from locant.testing import CHECKS, SchemeCheckError, check_scheme, examine_scheme

# Options that let texts of 20 tokens reach what a scheme does with long ones.
OPTIONS: dict[str, dict[str, Any]] = {
    "learned": {"max_positions": 40},
    "mixed-rotary": {"grid": [8, 5]},
    "rerope": {"window": 4},
    "self-extend": {"group": 2, "window": 4},
    "fire": {"threshold": 8.0},
    "xpos": {"scale_base": 16},
    "relative-profiles": {"reach": 6, "clip": 0.5, "grows_from": 5},
    "temperature": {"length": 4},
}
SCALINGS: dict[str, dict[str, Any]] = {
    "dynamic": {"kind": "dynamic", "original_length": 8, "length_step": 4},
    "yarn": {"kind": "yarn", "original_length": 8, "factor": 4},
}


class RotaryWithContent(Rotary):
    """Rotates, and adds a bias of the contents of queries and keys as they were before."""

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        nearness = 1 / (1 + (q_positions.unsqueeze(-1) - k_positions.unsqueeze(-2)).abs())
        nearness = nearness if nearness.dim() == 2 else nearness.unsqueeze(1)
        return ((q[..., :2] @ k[..., :2].mT + k[..., 0].unsqueeze(-2)) * nearness).to(q.dtype)


@pytest.fixture
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks but that of compiling, which takes most of their time."""
    monkeypatch.delitem(CHECKS, "compiling")


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_conforms(name: str) -> None:
    check_scheme(SCHEMES[name], **OPTIONS.get(name, {}))


@pytest.mark.sampled(8)
@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_conforms_but_for_compiling(name: str) -> None:
    check_scheme(SCHEMES[name], **OPTIONS.get(name, {}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCALINGS)
def test_scaled_rotary_embeddings_conform(kind: str) -> None:
    check_scheme(Rotary, scaling=SCALINGS[kind])


@pytest.mark.slow
def test_a_scheme_that_rotates_and_biases_by_content_conforms() -> None:
    assert examine_scheme(RotaryWithContent).problems == {}


@pytest.mark.usefixtures("not_compiled")
def test_a_scheme_around_another_conforms() -> None:
    check_scheme(SCHEMES["randomised"], scheme="t5", scheme_options={"num_buckets": 8, "max_distance": 16})


def in_first_feature(values: Tensor, x: Tensor) -> Tensor:
    """Return codes in which one feature differs: a layer norm takes away what all of them share."""
    return nn.functional.pad(values.unsqueeze(-1), (0, x.shape[-1] - 1)).to(x.dtype)


class ForModel(PositionScheme):
    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> "ForModel":
        return cls()


class Widens(ForModel):
    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x.float() + 1


class ActsInSecret(ForModel):
    acts_on = frozenset()

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + 1


class ByItsOwnLength(ForModel):
    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + in_first_feature(positions / positions.max().clamp(min=1), x)


class ByTheColumn(ForModel):
    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + in_first_feature(torch.arange(x.shape[1]), x)


class SeesPaddingOnTheRight(ForModel):
    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return -(k_positions.max() - k_positions).to(q.dtype).pow(2)[..., None, None, :]


class PacksItCannot(CoPE):
    packs_texts = True


class ClaimsNotToReadContent(RotaryWithContent):
    @property
    def bias_reads_content(self) -> bool:
        return False


class CachesWhatDependsOnTheQuery(ForModel):
    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        return q, (k * (1 + 0.1 * q_positions.amax())).to(k.dtype)


class FrequenciesInABuffer(ForModel):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", 10000.0 ** -(torch.arange(4) / 4))

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.turn(q, q_positions), self.turn(k, k_positions)

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = positions.unsqueeze(-1).to(self.frequencies.dtype) * self.frequencies
        angles = angles if angles.dim() == 2 else angles.unsqueeze(1)
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1).to(x.dtype)


class CarriesItsNeighbours(FoX):
    def prepare(self, x: Tensor, positions: Tensor) -> Prepared | None:
        return super().prepare(x.cumsum(1), positions)


class CarriesByTheRow(FoX):
    def prepare(self, x: Tensor, positions: Tensor) -> Prepared | None:
        prepared = super().prepare(x, positions)
        return prepared and Prepared(keys=prepared.keys[:, 0])  # type: ignore[index]


class CarriesConstants(FoX):
    def prepare(self, x: Tensor, positions: Tensor) -> Prepared | None:
        prepared = super().prepare(x.detach(), positions)
        return prepared and Prepared(keys=prepared.keys.detach())  # type: ignore[union-attr]


class UnusedParameter(ForModel):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))


class EndlessGradient(ForModel):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(32))

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + (self.weight * 0).clamp(min=0).sqrt() + self.weight.to(x.dtype)


class ForgetsItsTable(ForModel):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.randn(64, 32)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.table[positions % 64].to(x.dtype)


class HoldsAFunction(ForModel):
    def __init__(self) -> None:
        super().__init__()
        self.function = lambda x: x


class ReadsNumbers(ForModel):
    traceable = True

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + 1 if int(positions.min()) < 0 else x * 1


class GraphForEachLength(ForModel):
    traceable = True

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + sum(in_first_feature(positions * 0 + i, x) for i in range(x.shape[1])) * 0


class Tempered(Rotary):
    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        q, k = super().rotate(q, k, q_positions, k_positions)
        scale = (1 + torch.log1p((q_positions // 4).float())).unsqueeze(-1)
        return (q * (scale.unsqueeze(1) if scale.dim() == 3 else scale)).to(q.dtype), k


class OtherAngles(Rotary):
    def sine_cosine(self, positions: Tensor, *, length: int = 1) -> tuple[Tensor, Tensor]:
        return super().sine_cosine(3 * positions, length=length)


class MixedIn:
    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        return -q, k


class WithMixin(MixedIn, XPos):
    pass


class Louder(Sinusoidal):
    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return 2 * super().embed(x, positions)


class LouderCode(Sinusoidal):
    def encode(self, positions: Tensor) -> Tensor:
        return 2 * super().encode(positions)


class ByContent(KERPLE):
    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return super().score_bias(q, k, q_positions, k_positions) + (q @ k.mT).tanh()


class DoubleSandwich(Sandwich):
    def bias(self, offsets: Tensor) -> Tensor:
        return 2 * super().bias(offsets)


class DoubleFIRE(FIRE):
    def bias(self, offsets: Tensor) -> Tensor:
        return 2 * super().bias(offsets)


DERIVED: list[tuple[type[PositionScheme], dict[str, Any], str | None]] = [
    (Tempered, {}, "rotary_config"),
    (OtherAngles, {}, "rotary_config"),
    (WithMixin, {"causal": False}, "rotary_config"),
    (Louder, {}, "code"),
    (LouderCode, {}, None),
    (ByContent, {}, "distance_bias"),
    (DoubleSandwich, {}, None),
    (DoubleFIRE, {"threshold": 8.0}, None),
]


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize(("scheme", "options", "lost"), DERIVED, ids=lambda value: getattr(value, "__name__", None))
def test_a_claim_does_not_outlive_its_hook(
    scheme: type[PositionScheme], options: dict[str, Any], lost: str | None
) -> None:
    problems = examine_scheme(scheme, options).problems
    assert problems.keys() <= {"hooks"}, "what it inherits describes what it does"
    made = scheme.for_model(AttentionShape(32, 4, causal=True), **options)
    positions = torch.arange(6)
    if lost == "rotary_config":
        assert made.rotary_config is None
    elif lost == "code":
        assert made.code(positions) is None
    elif lost == "distance_bias":
        assert made.distance_bias(positions, positions) is None


class ClaimsAnotherCode(Sinusoidal):
    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return 2 * super().embed(x, positions)

    def code(self, positions: Tensor) -> Tensor | None:
        return super().code(positions)


class ClaimsOtherAngles(Rotary):
    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        return super().rotate(q, k, 2 * q_positions, 2 * k_positions)

    @property
    def rotary_config(self) -> RotaryConfig | None:
        return self.config


class ClaimsOtherDistances(KERPLE):
    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        return 2 * super().score_bias(q, k, q_positions, k_positions)

    def distance_bias(self, *positions: Tensor, max_length: int | None = None) -> tuple[Tensor, int] | None:
        return super().distance_bias(*positions, max_length=max_length)


BROKEN: list[tuple[type[PositionScheme], str]] = [
    (Widens, "hooks"),
    (ActsInSecret, "hooks"),
    (ByItsOwnLength, "causality"),
    (ByTheColumn, "padding"),
    (SeesPaddingOnTheRight, "padding"),
    (PacksItCannot, "packing"),
    (ClaimsNotToReadContent, "claims"),
    (ClaimsAnotherCode, "claims"),
    (ClaimsOtherAngles, "claims"),
    (ClaimsOtherDistances, "claims"),
    (CarriesItsNeighbours, "cached decoding"),
    (CarriesByTheRow, "hooks"),
    (CarriesConstants, "gradients"),
    (CachesWhatDependsOnTheQuery, "cached decoding"),
    (FrequenciesInABuffer, "precision"),
    (UnusedParameter, "gradients"),
    (EndlessGradient, "gradients"),
    (ForgetsItsTable, "saving"),
    (HoldsAFunction, "copying"),
    (ReadsNumbers, "compiling"),
    (GraphForEachLength, "compiling"),
]


@pytest.mark.parametrize(("scheme", "check"), BROKEN)
def test_a_broken_scheme_is_found_out(
    scheme: type[PositionScheme], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if check != "compiling":
        monkeypatch.delitem(CHECKS, "compiling")
    with pytest.raises(SchemeCheckError, match=scheme.__name__) as found:
        check_scheme(scheme)
    assert check in found.value.report.problems


def test_every_check_finds_something() -> None:
    assert {check for _, check in BROKEN} == set(CHECKS)


@pytest.mark.usefixtures("not_compiled")
@pytest.mark.parametrize("scheme", [PacksItCannot, ClaimsNotToReadContent, HoldsAFunction])
def test_only_what_is_broken_is_named(scheme: type[PositionScheme]) -> None:
    assert list(examine_scheme(scheme).problems) == [check for kind, check in BROKEN if kind is scheme]


def test_a_scheme_that_raises_is_reported() -> None:
    problems = examine_scheme(Shaw, {"max_distance": 0}).problems
    assert len(problems) == len(CHECKS)
    assert "max_distance of Shaw's relative positions must be at least 1" in problems["causality"]


def test_the_registry_and_the_random_numbers_are_left_alone() -> None:
    names = list(SCHEMES)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    report = examine_scheme(ActsInSecret)
    assert torch.equal(torch.rand(2), expected)
    assert list(SCHEMES) == names
    assert (report.scheme, report.passed) == ("ActsInSecret", False)


@pytest.mark.usefixtures("not_compiled")
def test_a_registered_scheme_is_checked_under_its_name() -> None:
    register_scheme("content-rotary")(RotaryWithContent)
    try:
        assert examine_scheme(RotaryWithContent).passed
        assert RotaryWithContent.name == "content-rotary"
    finally:
        del SCHEMES["content-rotary"]
