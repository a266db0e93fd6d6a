from __future__ import annotations

import pytest
import torch

from locant.positions import ALiBi, Mask, attend_with_positions
from locant.positions.scores.alibi import alibi_slopes


def test_the_slopes_printed_in_the_paper() -> None:
    """Section 3: 1/2 to 1/2^8 for 8 heads, and for 16 the geometric means between them too."""
    assert alibi_slopes(8) == tuple(0.5**n for n in range(1, 9))
    assert alibi_slopes(16)[1::2] == tuple(0.5**n for n in range(1, 9))
    assert alibi_slopes(16)[::2] == pytest.approx([0.5 ** (n - 0.5) for n in range(1, 9)], rel=1e-15)
    assert alibi_slopes(1) == (2**-8,)


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 8, 12, 16, 20, 24, 32, 40, 48, 71, 112])
def test_equal_to_bloom_up_to_a_constant_of_each_row(heads: int) -> None:
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    length = 50
    theirs = bloom.build_alibi_tensor(torch.ones(1, length, dtype=torch.long), heads, torch.float32)
    positions, q = torch.arange(length), torch.zeros(1, heads, length, 4)
    ours = ALiBi(heads).score_bias(q, q, positions, positions)[0]
    visible = torch.ones(length, length).tril().bool()
    difference = (theirs - ours).masked_fill(~visible, torch.nan)
    torch.testing.assert_close(
        difference,
        difference[:, :, :1].expand_as(difference).masked_fill(~visible, torch.nan),
        rtol=0,
        atol=1e-5,
        equal_nan=True,
    )
    attention = theirs.expand_as(ours).masked_fill(~visible, -torch.inf).softmax(-1)
    torch.testing.assert_close(ours.masked_fill(~visible, -torch.inf).softmax(-1), attention, rtol=1e-5, atol=1e-6)


def test_symmetric_and_exact_far_away() -> None:
    q = torch.zeros(1, 8, 2, 4, dtype=torch.bfloat16)
    far = torch.tensor([1_000_000, 1_000_003])
    bias = ALiBi(8).score_bias(q, q, far, far)
    assert bias[0, :, 0, 1].tolist() == bias[0, :, 1, 0].tolist() == [-3 * 0.5**n for n in range(1, 9)]


@pytest.mark.parametrize("heads", [4, 6])
def test_the_feature_is_the_bias(heads: int) -> None:
    """Causal attention with the bias as a feature, against the bias written out in float64; far and near positions."""
    q, k, v = (torch.randn(2, heads, 300, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    for positions in (torch.arange(300), torch.arange(300) + 10**6, torch.stack([torch.arange(300) * 2] * 2)):
        found = attend_with_positions(q, k, v, ALiBi(heads), positions, positions, Mask(causal=True))
        distance = (positions.unsqueeze(-1) - positions.unsqueeze(-2)).double().reshape(-1, 1, 300, 300)
        slopes = torch.tensor(alibi_slopes(heads), dtype=torch.float64).view(1, -1, 1, 1)
        scores = q.double() @ k.double().mT * 8**-0.5 - slopes * distance
        scores = scores.masked_fill(torch.ones(300, 300, dtype=torch.bool).triu(1), float("-inf"))
        torch.testing.assert_close(found.double(), scores.softmax(-1) @ v.double(), atol=2e-5, rtol=0)
