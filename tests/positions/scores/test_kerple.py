from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
import torch

from locant.positions import KERPLE, ALiBi
from locant.positions.scores.alibi import alibi_slopes

R1, R2 = torch.tensor([0.3, 1.9, 0.01], dtype=torch.float64), torch.tensor([0.7, 0.011, 1.5], dtype=torch.float64)


def paper(kind: str, r1: float, r2: float, distance: int) -> float:
    if kind == "logarithmic":
        return float(-mpmath.mpf(r1) * mpmath.log(1 + mpmath.mpf(r2) * distance))
    return float(-mpmath.mpf(r1) * mpmath.mpf(distance) ** mpmath.mpf(r2))


@pytest.mark.parametrize("kind", ["logarithmic", "power"])
def test_the_formula(kind: Any) -> None:
    q = torch.zeros(1, 3, 4, 2, dtype=torch.float64)
    queries, keys = torch.tensor([0, 3, 17, 100_000]), torch.tensor([0, 2, 30])
    for dtype, tolerance in ((torch.float64, 1e-14), (torch.float32, 3e-6)):
        scheme = KERPLE(3, kind=kind).to(dtype)
        scheme.set_kernel(R1, R2)
        bias = scheme.score_bias(q, q[:, :, :3], queries, keys)
        expected = [
            [[paper(kind, r1, r2, abs(i - j)) for j in keys.tolist()] for i in queries.tolist()]
            for r1, r2 in zip(R1.tolist(), R2.tolist(), strict=True)
        ]
        exact = torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(bias[0].detach(), exact, rtol=tolerance, atol=0)


def test_a_power_of_one_is_alibi() -> None:
    scheme, q, positions = KERPLE(8, kind="power"), torch.zeros(1, 8, 5, 2), torch.arange(5)
    scheme.set_kernel(torch.tensor(alibi_slopes(8)), torch.ones(8))
    torch.testing.assert_close(
        scheme.score_bias(q, q, positions, positions), ALiBi(8).score_bias(q, q, positions, positions)
    )


@pytest.mark.parametrize(("kind", "tops"), [("logarithmic", (2, 1)), ("power", (1, 2))])
def test_initial_values(kind: Any, tops: tuple[float, float]) -> None:
    """Uniform from 0.01, as the authors' code clamps, to 1 or 2."""
    torch.manual_seed(0)
    for values, top in zip(KERPLE(4000, kind=kind).kernel(), tops, strict=True):
        assert 0.0099 <= values.min() < 0.02
        assert 0.99 * top < values.max() <= top
        assert values.mean().item() == pytest.approx(top / 2, rel=0.05)


def test_the_gradient_at_distance_zero_is_a_number() -> None:
    scheme, q = KERPLE(2, kind="power"), torch.zeros(1, 2, 1, 2)
    scheme.score_bias(q, torch.zeros(1, 2, 2, 2), torch.tensor([4]), torch.tensor([4, 5])).sum().backward()
    for parameter in scheme.parameters():
        assert parameter.grad is not None
        assert all(math.isfinite(value) for value in parameter.grad.tolist())
