from __future__ import annotations

from typing import Any

import mpmath
import pytest
import torch

from locant.positions import KERPLE

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
