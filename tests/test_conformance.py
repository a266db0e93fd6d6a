"""The conformance kit on every scheme, and on schemes that are broken in one way each."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from locant.positions import SCHEMES, AttentionShape, CoPE, PositionScheme, Rotary, Shaw, register_scheme
from locant.testing import CHECKS, SchemeCheckError, check_scheme, examine_scheme

# Options that let texts of 20 tokens reach what a scheme does with long ones.
OPTIONS: dict[str, dict[str, Any]] = {
    "learned": {"max_positions": 40},
    "rerope": {"window": 4},
    "self-extend": {"group": 2, "window": 4},
    "fire": {"threshold": 8.0},
    "xpos": {"scale_base": 16},
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_conforms(name: str) -> None:
    check_scheme(SCHEMES[name], **OPTIONS.get(name, {}))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", SCALINGS)
def test_scaled_rotary_embeddings_conform(kind: str) -> None:
    check_scheme(Rotary, scaling=SCALINGS[kind])


@pytest.mark.slow
def test_a_scheme_that_rotates_and_biases_by_content_conforms() -> None:
    assert examine_scheme(RotaryWithContent).problems == {}


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


class ClaimsNotToReadKeys(RotaryWithContent):
    @property
    def bias_reads_keys(self) -> bool:
        return False


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


BROKEN: list[tuple[type[PositionScheme], str, str]] = [
    (Widens, "hooks", r"embed got \[2, 6, 32\] of torch.bfloat16 and returned .*torch.float32"),
    (ActsInSecret, "hooks", "acts on embedding, but acts_on does not name it"),
    (ByItsOwnLength, "causality", "the first 7 tokens change when later tokens are left out"),
    (ByTheColumn, "padding", "padding on the left"),
    (SeesPaddingOnTheRight, "padding", "padding on the (right|left)"),
    (PacksItCannot, "packing", "texts packed in one row change each other"),
    (ClaimsNotToReadKeys, "cached decoding", "decoding token by token with a cache differs from one pass"),
    (FrequenciesInABuffer, "precision", "after a cast to bfloat16 positions from 4000 on are wrong"),
    (UnusedParameter, "gradients", r"no gradient reaches the parameter 'stack.schemes.0.weight'"),
    (EndlessGradient, "gradients", r"the gradient of the parameter .* is not finite"),
    (ForgetsItsTable, "saving", "a model with the saved weights gives other outputs"),
    (HoldsAFunction, "copying", "cannot be pickled"),
    (ReadsNumbers, "compiling", "raised"),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("scheme", "check", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_a_broken_scheme_is_found_out(scheme: type[PositionScheme], check: str, said: str) -> None:
    with pytest.raises(SchemeCheckError, match=rf"{scheme.__name__} failed \d+ of \d+ checks:(.|\n)*{check}: .*{said}"):
        check_scheme(scheme)


def test_every_check_finds_something() -> None:
    assert {check for _, check, _ in BROKEN} == set(CHECKS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheme", [PacksItCannot, ClaimsNotToReadKeys, HoldsAFunction, ReadsNumbers])
def test_only_what_is_broken_is_named(scheme: type[PositionScheme]) -> None:
    assert list(examine_scheme(scheme).problems) == [check for kind, check, _ in BROKEN if kind is scheme]


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


def test_a_registered_scheme_is_checked_under_its_name() -> None:
    register_scheme("content-rotary")(RotaryWithContent)
    try:
        assert examine_scheme(RotaryWithContent).passed
        assert RotaryWithContent.name == "content-rotary"
    finally:
        del SCHEMES["content-rotary"]
