"""Polar positions against the formula of their paper and against x-transformers."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from locant.positions import Mask, PoPE, attend_with_positions


def lively(dim: int = 8, heads: int = 3) -> PoPE:
    scheme = PoPE(dim, heads)
    torch.nn.init.uniform_(scheme.delta, -7, 0.5, generator=torch.Generator().manual_seed(0))
    return scheme.requires_grad_(False)


def some(seed: int, length: int, heads: int = 3) -> Tensor:
    return torch.randn(2, heads, length, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "at", [torch.arange(9), torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3], [3, 9, 4, 70, 5, 6, 7, 2, 1]])]
)
def test_the_formula_of_the_paper(at: Tensor) -> None:
    scheme, q, k = lively(), some(1, 9), some(2, 9)
    found_q, found_k = scheme.rotate(q, k, at, at)
    assert found_q.shape == found_k.shape == (2, 3, 9, 16)
    frequencies = 10000.0 ** -(torch.arange(8).double() / 8)
    rows = at.expand(2, 9).double()
    distance = rows[:, None, None, :, None] - rows[:, None, :, None, None]
    delta = scheme.delta.double().clamp(-2 * math.pi, 0)[:, None, None]
    products = softplus(q.double())[..., :, None, :] * softplus(k.double())[..., None, :, :]
    expected = (products * torch.cos(distance * frequencies + delta)).sum(-1) / math.sqrt(8)
    torch.testing.assert_close((found_q @ found_k.mT / 4).double(), expected, rtol=1e-5, atol=1e-5)


def test_x_transformers() -> None:
    theirs = pytest.importorskip("x_transformers.x_transformers")
    scheme, q, k, at = lively(), some(1, 9), some(2, 9), torch.arange(9)
    polar = theirs.PolarEmbedding(8, 3)
    polar.learned_bias.data = scheme.delta[:, None]
    frequencies, bias = polar(at)
    turned = theirs.apply_polar_pos_emb(q, frequencies), theirs.apply_polar_pos_emb(k, frequencies[:, None] + bias)
    expected = turned[0] @ turned[1].mT / math.sqrt(8)
    q, k = scheme.rotate(q, k, at, at)
    torch.testing.assert_close(q @ k.mT / math.sqrt(16), expected, rtol=1e-5, atol=1e-5)


def test_keys_of_fewer_heads() -> None:
    scheme, at, mask = lively(heads=4), torch.arange(9), Mask(causal=True)
    q, k, v = some(1, 9, 4), some(2, 9, 2), some(3, 9, 2)
    every = attend_with_positions(q, *(x.repeat_interleave(2, dim=1) for x in (k, v)), scheme, at, at, mask)
    torch.testing.assert_close(attend_with_positions(q, k, v, scheme, at, at, mask), every, rtol=1e-5, atol=1e-5)
