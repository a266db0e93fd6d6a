from __future__ import annotations

import mpmath
import pytest
import torch

from locant.positions import Sandwich


def embedding(position: int, width: int) -> list[mpmath.mpf]:
    angles = [position / mpmath.power(10000, mpmath.mpf(2 * n) / width) for n in range(width // 2)]
    return [mpmath.sin(a) for a in angles] + [mpmath.cos(a) for a in angles]


@pytest.mark.parametrize(("heads", "width"), [(12, 128), (8, 6), (1, 2)])
def test_the_inner_products_of_the_papers_listing(heads: int, width: int) -> None:
    """Sinusoidal embeddings of both positions, multiplied, over 8 h / H for head h = 1 .. H."""
    queries, keys = [0, 5, 8191], [0, 1, 700, 100_000]
    q = torch.zeros(1, heads, 3, 2, dtype=torch.float64)
    k = q[:, :, :1].expand(-1, -1, 4, -1)
    bias = Sandwich(heads, sinusoid_dim=width).score_bias(q, k, torch.tensor(queries), torch.tensor(keys))
    with mpmath.workdps(30):
        p, s = [embedding(i, width) for i in queries], [embedding(j, width) for j in keys]
        for head in range(heads):
            expected = [[float(mpmath.fdot(a, b) / (mpmath.mpf(8 * (head + 1)) / heads)) for b in s] for a in p]
            exact = torch.tensor(expected, dtype=torch.float64)
            torch.testing.assert_close(bias[0, head], exact, rtol=0, atol=1e-8 * width)


def test_rows_longer_than_a_block_of_offsets() -> None:
    q, scheme = torch.zeros(1, 2, 1, 2), Sandwich(2, sinusoid_dim=4)
    keys = torch.arange(40_000)
    k = q.expand(-1, -1, 40_000, -1)
    row = scheme.score_bias(q, k, torch.tensor([39_999]), keys)[0, 0, 0]
    some = torch.tensor([0, 16_383, 16_384, 39_999])
    torch.testing.assert_close(row[some], scheme.score_bias(q, k[:, :, :4], torch.tensor([39_999]), some)[0, 0, 0])
