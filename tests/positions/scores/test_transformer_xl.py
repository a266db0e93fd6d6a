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
from torch import Tensor

from locant.errors import ConfigError
from locant.positions import AttentionShape, TransformerXL


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


@settings(max_examples=30, deadline=None)
@given(SHIFTS, TEXTS)
def test_only_differences_of_positions_count(shift: int, places: list[int]) -> None:
    assert_only_differences_count(built(), places, shift)


def test_decoding_with_a_cache_gives_the_rows_of_a_full_pass() -> None:
    assert_decoding_gives_the_rows_of_a_full_pass(built(), 7)


@pytest.mark.parametrize("dtype", SMALL_INTEGERS)
def test_integer_dtypes(dtype: torch.dtype) -> None:
    assert_takes_integers(built(), dtype)


def test_gradients() -> None:
    assert_gradients(built(dtype=torch.float64))


def test_bfloat16_rounds_only_parameters_and_results() -> None:
    scheme = built().bfloat16()
    positions = torch.tensor([0, 60_001])
    q, k = heads(2, dtype=torch.bfloat16), heads(2, dtype=torch.bfloat16)
    bias = scheme.score_bias(q, k, positions, positions)
    assert bias.dtype == torch.bfloat16
    torch.testing.assert_close(bias, formula(scheme, q, k, positions, positions).bfloat16(), rtol=2**-7, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(scheme.score_bias(q, k, positions, positions), bias)


def test_built_on_the_meta_device() -> None:
    with torch.device("meta"):
        scheme = TransformerXL.for_model(AttentionShape(E, H, causal=False))
    scheme.to_empty(device="cpu").reset_parameters()
    assert {name: tuple(p.shape) for name, p in scheme.named_parameters()} == {
        "content_bias": (H, D),
        "position_bias": (H, D),
        "projection": (E, H * D),
    }
    assert list(scheme.state_dict()) == ["content_bias", "position_bias", "projection"]
    assert_loads_and_computes_the_same(scheme, built(), 4)


def test_errors() -> None:
    with pytest.raises(ConfigError, match=r"even width.*got 9"):
        TransformerXL(9, 3)
    with pytest.raises(ConfigError, match="must be integers"):
        built().score_bias(heads(1), heads(1), torch.zeros(1), torch.arange(1))
