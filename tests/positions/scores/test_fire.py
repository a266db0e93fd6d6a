from __future__ import annotations

import pytest
import torch
from mpmath import log, mpf

from locant.positions import FIRE


def paper(scheme: FIRE, head: int, i: int, j: int) -> float:
    """f(log(c |i - j| + 1) / log(c max(L, i, j) + 1)), one hidden unit after the other."""
    c, threshold = mpf(scheme.raw_log_scale.exp().item()), mpf(scheme.threshold.item())
    x = log(c * abs(i - j) + 1) / log(c * max(threshold, i, j) + 1)
    weights, offsets = scheme.hidden.weight[:, 0].tolist(), scheme.hidden.bias.tolist()
    units = [max(mpf(0), w * x + b) for w, b in zip(weights, offsets, strict=True)]
    outputs = sum(w * u for w, u in zip(scheme.output.weight[head].tolist(), units, strict=True))
    return float(outputs + scheme.output.bias[head].item())


@pytest.mark.parametrize("threshold", [512.0, 9.5, 5.0])
@pytest.mark.parametrize("places", [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [4, 0, 30, 7, 7, 12]])
def test_the_formula(threshold: float, places: list[int]) -> None:
    torch.manual_seed(0)
    scheme = FIRE(3, hidden=5, threshold=threshold, log_scale=0.3).double()
    with torch.no_grad():
        scheme.raw_threshold.add_(0.01)
    q, positions = torch.zeros(1, 3, len(places), 2, dtype=torch.float64), torch.tensor(places)
    bias = scheme.score_bias(q, q, positions, positions)[0]
    for head in range(3):
        expected = [[paper(scheme, head, i, j) for j in places] for i in places]
        torch.testing.assert_close(bias[head].tolist(), expected, rtol=1e-12, atol=1e-13)


def test_blocks_of_queries_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    scheme, q = FIRE(2, threshold=3.0), torch.zeros(2, 2, 7, 2)
    batch = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 2, 3, 4]])
    for positions in (torch.arange(7), batch):
        whole = scheme.score_bias(q, q, positions, positions)
        (wanted,) = torch.autograd.grad(whole.square().sum(), scheme.raw_threshold)
        with monkeypatch.context() as patch:
            patch.setattr("locant.positions.scores.fire._PAIRS_AT_A_TIME", 20)
            blocks = scheme.score_bias(q, q, positions, positions)
        torch.testing.assert_close(blocks, whole)
        (given,) = torch.autograd.grad(blocks.square().sum(), scheme.raw_threshold)
        torch.testing.assert_close(given, wanted)


def test_autocast_leaves_the_distances_apart() -> None:
    torch.manual_seed(0)
    scheme, q, positions = FIRE(2), torch.zeros(1, 2, 300, 2), torch.arange(300)
    plain = scheme.score_bias(q, q, positions, positions)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(scheme.score_bias(q, q, positions, positions), plain)
