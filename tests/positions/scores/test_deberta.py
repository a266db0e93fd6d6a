import math

import pytest
import torch
from content_bias import (
    PLACES,
    SHIFTS,
    SMALL_INTEGERS,
    TEXTS,
    D,
    E,
    H,
    assert_decoding_gives_the_rows_of_a_full_pass,
    assert_gradients,
    assert_loads_and_computes_the_same,
    assert_only_differences_count,
    assert_takes_integers,
    distance_of,
    heads,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from locant.errors import ConfigError
from locant.positions import AttentionShape, DeBERTa


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


@pytest.mark.parametrize(("max_distance", "buckets"), [(512, 256), (128, 32), (40, 8), (64, 4), (10, 16)])
def test_logarithmic_buckets(max_distance: int, buckets: int) -> None:
    pytest.importorskip("transformers")
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    distances = torch.arange(-2 * max_distance, 2 * max_distance + 1)
    expected = make_log_bucket_position(distances, buckets, max_distance).long() + buckets
    scheme = built(max_distance=max_distance, buckets=buckets)
    assert torch.equal(scheme._delta(distances), expected.clamp(0, 2 * buckets - 1))


@settings(max_examples=30, deadline=None)
@given(SHIFTS, TEXTS, st.sampled_from([0, 4]))
def test_only_differences_of_positions_count(shift: int, places: list[int], buckets: int) -> None:
    assert_only_differences_count(built(max_distance=6, buckets=buckets), places, shift)


def test_decoding_with_a_cache_gives_the_rows_of_a_full_pass() -> None:
    assert_decoding_gives_the_rows_of_a_full_pass(built(), 9)


@pytest.mark.parametrize("dtype", SMALL_INTEGERS)
def test_integer_dtypes(dtype: torch.dtype) -> None:
    assert_takes_integers(built(max_distance=80), dtype)


def test_gradients() -> None:
    assert_gradients(built(torch.float64, max_distance=2))


def test_bfloat16_rounds_only_parameters_and_results() -> None:
    scheme, positions = built(torch.bfloat16), torch.arange(6)
    q, k = heads(6, dtype=torch.bfloat16), heads(6, dtype=torch.bfloat16)
    bias = scheme.score_bias(q, k, positions, positions)
    assert bias.dtype == torch.bfloat16
    expected = formula(scheme, q, k, positions, positions)
    torch.testing.assert_close(bias, expected.bfloat16(), rtol=2**-7, atol=1e-5)
    rotated, keys = scheme.rotate(q, k, positions, positions)
    assert keys is k
    assert torch.equal(rotated, (q.double() / math.sqrt(3)).bfloat16())


def test_built_on_the_meta_device() -> None:
    with torch.device("meta"):
        scheme = DeBERTa.for_model(AttentionShape(E, H, causal=False), max_distance=40, buckets=8)
    scheme.to_empty(device="cpu").reset_parameters()
    assert {name: tuple(tensor.shape) for name, tensor in scheme.state_dict().items()} == {
        "embeddings": (16, E),
        "query_projection": (E, E),
        "key_projection": (E, E),
    }
    assert_loads_and_computes_the_same(scheme, built(max_distance=40, buckets=8), 30)


def test_initial_scales() -> None:
    torch.manual_seed(0)
    scheme = DeBERTa(256, 4)
    assert scheme.embeddings.shape == (1024, 256)
    assert scheme.embeddings.std().item() == pytest.approx(0.02, rel=0.02)
    assert scheme.key_projection.std().item() == pytest.approx(256**-0.5, rel=0.02)
    assert scheme.query_projection.std().item() == pytest.approx(256**-0.5, rel=0.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_distance": 0}, "max_distance .* at least 1; got 0"),
        ({"buckets": 7}, "an even number from 4 .*; got buckets=7, max_distance=512"),
        ({"buckets": 2}, "got buckets=2"),
        ({"buckets": -4}, "got buckets=-4"),
        ({"buckets": 16, "max_distance": 9}, "got buckets=16, max_distance=9"),
    ],
)
def test_options_out_of_range(options: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        DeBERTa(E, H, **options)


def test_positions_must_be_integers() -> None:
    with pytest.raises(ConfigError, match="must be integers"):
        built().score_bias(heads(1), heads(1), torch.zeros(1), torch.arange(1))
