import math

import pytest
import torch
from content_bias import (
    PLACES,
    D,
    E,
    H,
    distance_of,
    heads,
)
from torch import Tensor

from locant.positions import DeBERTa


def built(dtype: torch.dtype = torch.float32, max_distance: int = 4, buckets: int = 0) -> DeBERTa:
    torch.manual_seed(0)
    scheme = DeBERTa(E, H, max_distance=max_distance, buckets=buckets)
    torch.nn.init.normal_(scheme.embeddings)
    return scheme.to(dtype)


def formula(scheme: DeBERTa, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """Equations 3 and 4 with ``delta(i, j)`` in both terms, pair by pair, in float64."""
    projections = scheme.embeddings, scheme.key_projection, scheme.query_projection
    p, w_k, w_q = (parameter.detach().double() for parameter in projections)
    q, k, limit = q.detach().double(), k.detach().double(), len(p) // 2
    bias = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in bias.shape)).tolist():
        distance = distance_of(q_positions, k_positions, len(q), (b, i, j))
        row = 0 if distance <= -limit else 2 * limit - 1 if distance >= limit else distance + limit
        own = slice(h * D, (h + 1) * D)
        both = q[b, h, i] @ (p[row] @ w_k)[own] + k[b, h, j] @ (p[row] @ w_q)[own]
        bias[b, h, i, j] = both / math.sqrt(3 * D)
    return bias


@pytest.mark.parametrize(
    ("q_positions", "k_positions"),
    [
        (torch.arange(11), torch.arange(11)),
        *PLACES,
        (torch.tensor([0, 2**40]), torch.tensor([-(2**40), 1, 2])),
    ],
)
def test_formula_of_the_paper(q_positions: Tensor, k_positions: Tensor) -> None:
    scheme = built()
    q, k = heads(q_positions.shape[-1]), heads(k_positions.shape[-1])
    bias = scheme.score_bias(q, k, q_positions, k_positions)
    assert bias.dtype == torch.float32
    torch.testing.assert_close(bias.double(), formula(scheme, q, k, q_positions, k_positions), rtol=1e-5, atol=1e-5)


def scores(scheme: DeBERTa, q: Tensor, k: Tensor) -> Tensor:
    """Whole scores, as attention computes them."""
    positions = torch.arange(q.shape[2])
    rotated, keys = scheme.rotate(q, k, positions, positions)
    return rotated @ keys.transpose(-1, -2) / math.sqrt(D) + scheme.score_bias(q, k, positions, positions)


@pytest.mark.parametrize(("max_distance", "length"), [(4, 3), (4, 11), (16, 11)])
def test_deberta_v1(max_distance: int, length: int) -> None:
    pytest.importorskip("transformers")
    from transformers import DebertaConfig
    from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention, build_relative_position

    peer = DisentangledSelfAttention(
        DebertaConfig(
            hidden_size=E,
            num_attention_heads=H,
            relative_attention=True,
            max_relative_positions=max_distance,
            pos_att_type=["c2p", "p2c"],
        )
    ).eval()
    scheme = built(max_distance=max_distance)
    with torch.no_grad():
        peer.pos_proj.weight.copy_(scheme.key_projection.t())
        peer.pos_q_proj.weight.copy_(scheme.query_projection.t())
        peer.pos_q_proj.bias.zero_()
    q, k = heads(length), heads(length)
    scaled = q / math.sqrt(3 * D)
    bias = peer.disentangled_att_bias(scaled, k, build_relative_position(q, k), scheme.embeddings, 3)
    torch.testing.assert_close(scores(scheme, q, k), scaled @ k.transpose(-1, -2) + bias, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("max_distance", "buckets", "length"), [(4, 0, 11), (16, 0, 11), (24, 8, 40), (64, 16, 80)])
def test_deberta_v2(max_distance: int, buckets: int, length: int) -> None:
    pytest.importorskip("transformers")
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    peer = DisentangledSelfAttention(
        DebertaV2Config(
            hidden_size=E,
            num_attention_heads=H,
            relative_attention=True,
            max_relative_positions=max_distance,
            position_buckets=buckets or -1,
            pos_att_type=["c2p", "p2c"],
        )
    ).eval()
    scheme = built(max_distance=max_distance, buckets=buckets)
    with torch.no_grad():
        for linear, projection in (
            (peer.pos_key_proj, scheme.key_projection),
            (peer.pos_query_proj, scheme.query_projection),
        ):
            linear.weight.copy_(projection.t())
            linear.bias.zero_()
    q, k = heads(length), heads(length)
    bias = peer.disentangled_attention_bias(q.flatten(0, 1), k.flatten(0, 1), None, scheme.embeddings, 3)
    expected = q @ k.transpose(-1, -2) / math.sqrt(3 * D) + bias.view(2, H, length, length)
    torch.testing.assert_close(scores(scheme, q, k), expected, rtol=1e-5, atol=1e-5)
