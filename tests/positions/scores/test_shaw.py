from __future__ import annotations

import math

import pytest
import torch

from locant.positions import Shaw


def test_equation_4_by_loops() -> None:
    torch.manual_seed(0)
    scheme, q = Shaw(6, max_distance=2).double(), torch.randn(2, 3, 4, 6, dtype=torch.float64)
    queries, keys = [[0, 1, 2, 3], [0, 0, 7, 1]], [[0, 1, 2, 3, 9], [3, 0, 7, 6, -2]]
    k = torch.zeros(2, 3, 5, 6, dtype=torch.float64)
    bias = scheme.score_bias(q, k, torch.tensor(queries), torch.tensor(keys))
    assert bias.shape == (2, 3, 4, 5)
    table, vectors = scheme.weight.tolist(), q.tolist()
    for b in range(2):
        for h in range(3):
            for i, query in enumerate(queries[b]):
                for j, key in enumerate(keys[b]):
                    a = table[max(-2, min(2, key - query)) + 2]
                    product = sum(x * y for x, y in zip(vectors[b][h][i], a, strict=True))
                    assert bias[b, h, i, j].item() == pytest.approx(product / math.sqrt(6), rel=1e-12, abs=1e-12)


def test_equal_to_relative_key_of_wav2vec2_bert() -> None:
    peer = pytest.importorskip("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    config = peer.Wav2Vec2BertConfig(
        hidden_size=32,
        num_attention_heads=4,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=16,
        right_max_position_embeddings=16,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    attention = peer.Wav2Vec2BertSelfAttention(config).eval()
    scheme = Shaw(8)
    scheme.load_state_dict(attention.distance_embedding.state_dict())
    x, positions = torch.randn(2, 50, 32), torch.arange(50)
    q, k, v = (
        layer(x).unflatten(-1, (4, 8)).transpose(1, 2)
        for layer in (attention.linear_q, attention.linear_k, attention.linear_v)
    )
    bias = scheme.score_bias(q, k, positions, positions)
    context = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    ours = attention.linear_out(context.transpose(1, 2).flatten(2))
    torch.testing.assert_close(ours, attention(x)[0], rtol=1e-5, atol=1e-6)
