"""Self-Extend and ReRoPE, against RoPE at the distances that their papers state."""

import pytest
import torch
from torch import Tensor

from locant.positions import PositionScheme, RectifiedRotary, Rotary, SelfExtend


def heads(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scores(scheme: PositionScheme, q: Tensor, k: Tensor, positions: Tensor) -> Tensor:
    rotated_q, rotated_k = scheme.rotate(q, k, positions, positions)
    bias = scheme.score_bias(q, k, positions, positions)
    plain = rotated_q @ rotated_k.mT * q.shape[-1] ** -0.5
    return plain if bias is None else plain + bias


def seen_at(distance: int, q: Tensor, k: Tensor) -> float:
    """The score of RoPE for one query and one key at a distance."""
    rotated_q, rotated_k = Rotary(8).rotate(
        q.view(1, 1, 1, 8), k.view(1, 1, 1, 8), torch.tensor([distance]), torch.tensor([0])
    )
    return float((rotated_q * rotated_k).sum() * 8**-0.5)


def self_extend_distance(m: int, n: int, group: int, window: int) -> int:
    sign, m, n = (1, m, n) if m >= n else (-1, n, m)
    if m - n < window:
        return sign * (m - n)
    if sign > 0:
        return m // group - n // group + window - window // group
    return -(m // group - n // group + window - window // group)


@pytest.mark.parametrize(("group", "window"), [(4, 8), (3, 7)])
def test_self_extend(group: int, window: int) -> None:
    q, k, positions = heads(1, 1, 40, 8), heads(1, 1, 40, 8, seed=1), torch.arange(40)
    found = scores(SelfExtend(8, group=group, window=window), q, k, positions)
    for m in (0, 6, 7, 8, 20, 39):
        for n in range(40):
            expected = seen_at(self_extend_distance(m, n, group, window), q[0, 0, m], k[0, 0, n])
            assert found[0, 0, m, n].item() == pytest.approx(expected, abs=1e-5)


def test_rerope() -> None:
    q, k, positions = heads(1, 1, 30, 8), heads(1, 1, 30, 8, seed=1), torch.arange(30)
    found = scores(RectifiedRotary(8, window=10), q, k, positions)
    for m in (0, 9, 10, 11, 29):
        for n in range(30):
            expected = seen_at(max(-10, min(m - n, 10)), q[0, 0, m], k[0, 0, n])
            assert found[0, 0, m, n].item() == pytest.approx(expected, abs=1e-5)
