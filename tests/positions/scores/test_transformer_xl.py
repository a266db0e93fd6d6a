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

from locant.positions import TransformerXL


def built(seed: int = 0, dtype: torch.dtype = torch.float32) -> TransformerXL:
    torch.manual_seed(seed)
    scheme = TransformerXL(E, H)
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.normal_()
    return scheme.to(dtype)


def formula(scheme: TransformerXL, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """Terms (b), (c) and (d) of section 3.3, pair by pair, in float64."""
    u, v, w = (p.detach().double() for p in (scheme.content_bias, scheme.position_bias, scheme.projection))
    q, k = q.detach().double(), k.detach().double()
    bias = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in bias.shape)).tolist():
        distance = distance_of(q_positions, k_positions, len(q), (b, i, j))
        angles = [distance / 10000 ** (2 * m / E) for m in range(E // 2)]
        sinusoid = torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)
        r = sinusoid @ w[:, h * D : (h + 1) * D]
        bias[b, h, i, j] = (q[b, h, i] @ r + u[h] @ k[b, h, j] + v[h] @ r) / math.sqrt(D)
    return bias


@pytest.mark.parametrize(
    ("q_positions", "k_positions"),
    [
        (torch.arange(5), torch.arange(5)),
        *PLACES,
        (torch.tensor([0, 1, 70_000, 3_000_000]), torch.tensor([1, 2_000_000])),
    ],
)
def test_formula_of_the_paper(q_positions: Tensor, k_positions: Tensor) -> None:
    scheme = built()
    q, k = heads(q_positions.shape[-1]), heads(k_positions.shape[-1])
    bias = scheme.score_bias(q, k, q_positions, k_positions)
    assert bias.dtype == torch.float32
    torch.testing.assert_close(bias.double(), formula(scheme, q, k, q_positions, k_positions), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("attention", "queries", "keys"), [("bi", 5, 5), ("bi", 3, 8), ("uni", 6, 6), ("uni", 1, 9)])
def test_xlnet(attention: str, queries: int, keys: int) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.XLNetConfig(
        vocab_size=4, d_model=E, n_head=H, d_inner=8, n_layer=1, attn_type=attention, dropout=0.0
    )
    model = transformers.XLNetModel(config).eval()
    peer, scheme = model.layer[0].rel_attn, built()
    with torch.no_grad():
        peer.r.copy_(scheme.projection.view(E, H, D))
        peer.r_w_bias.copy_(scheme.content_bias)
        peer.r_r_bias.copy_(scheme.position_bias)
    q, k, v = heads(queries), heads(keys), heads(keys)
    hidden = torch.zeros(queries, keys, 1, 1)
    if attention == "uni":
        hidden = torch.ones(queries, keys).triu(1 + keys - queries)[..., None, None]
    sinusoids = model.relative_positional_encoding(queries, keys, bsz=2)
    rows = torch.einsum("ibh,hnd->ibnd", sinusoids, peer.r)
    sequence_first = [x.permute(2, 0, 1, 3) for x in (q, k, v)]
    _, expected = peer.rel_attn_core(*sequence_first, rows, attn_mask=hidden, output_attentions=True)

    bias = scheme.score_bias(q, k, torch.arange(keys - queries, keys), torch.arange(keys))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(D) + bias).masked_fill(hidden[..., 0, 0].bool(), -math.inf)
    torch.testing.assert_close(scores.softmax(-1), expected.permute(2, 3, 0, 1), rtol=1e-5, atol=1e-6)
