"""Temperatures that grow with the text: against models that have them, and against published formulas."""

import math

import pytest
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions import (
    ALiBi,
    AttentionShape,
    Mask,
    NoPositions,
    NTKByParts,
    PositionScheme,
    Rotary,
    Shaw,
    Temperature,
    YaRN,
    attend_with_positions,
    build_scheme,
)

SIZES = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 9}
AT = torch.arange(40)


def states(length: int = 40) -> Tensor:
    return torch.randn(2, length, 32, generator=torch.Generator().manual_seed(1)) * 2


def ours(attention: torch.nn.Module, x: Tensor, scheme: PositionScheme, positions: Tensor) -> Tensor:
    """What an attention layer of transformers gives whose positions are those of a scheme."""
    q, k, v = (
        projection(x).unflatten(-1, (-1, 8)).transpose(1, 2)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    out = attend_with_positions(q, k, v, scheme, positions, positions, Mask(causal=True))
    return attention.o_proj(out.transpose(1, 2).flatten(2))


def causal(length: int) -> Tensor:
    return torch.full((length, length), float("-inf")).triu(1)[None, None]


@torch.no_grad()
def test_layers_without_positions_of_llama_4() -> None:
    llama4 = pytest.importorskip("transformers.models.llama4.modeling_llama4")
    config = llama4.Llama4TextConfig(
        **SIZES, num_hidden_layers=1, no_rope_layers=[0], floor_scale=5, attn_scale=0.7, attn_implementation="eager"
    )
    torch.manual_seed(0)
    theirs, x = llama4.Llama4TextAttention(config, 0).eval(), states()
    scheme = Temperature(NoPositions(), factor=0.7, length=5, first=1)
    expected, _ = theirs(x, None, causal(40))
    torch.testing.assert_close(ours(theirs, x, scheme, AT), expected, rtol=0, atol=1e-6)
    assert (ours(theirs, x, NoPositions(), AT) - expected).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("start", [0, 1_000_003])
def test_rotary_layers_of_ministral_3(start: int) -> None:
    ministral = pytest.importorskip("transformers.models.ministral3.modeling_ministral3")
    rope = {"rope_type": "default", "rope_theta": 1e4}
    scaling = {"llama_4_scaling_beta": 0.3, "original_max_position_embeddings": 7}
    config = ministral.Ministral3Config(**SIZES, rope_parameters={**rope, **scaling}, attn_implementation="eager")
    torch.manual_seed(0)
    theirs, x, positions = ministral.Ministral3Attention(config, 0).eval(), states(), AT + start
    angles = Rotary(8).sine_cosine(positions)
    sine, cosine = (torch.cat((part, part), dim=-1)[None] for part in angles)
    expected, _ = theirs(x, (cosine, sine), causal(40), positions[None])
    scheme = Temperature(Rotary(8), factor=0.3, length=7)
    torch.testing.assert_close(ours(theirs, x, scheme, positions), expected, rtol=0, atol=1e-5)


def test_the_constant_of_yarn() -> None:
    """YaRN (Peng et al. 2023, section 3.4) is NTK-by-parts at a temperature of its own."""
    q, k = torch.randn(1, 2, 40, 8), torch.randn(1, 2, 40, 8)
    parts = Rotary(8, scaling=NTKByParts(factor=8.0, original_length=10))
    scheme = Temperature(parts, form="constant", factor=(0.1 * math.log(8) + 1) ** 2)
    yarn = Rotary(8, scaling=YaRN(factor=8.0, original_length=10))
    found, expected = (one @ other.mT for one, other in (each(q, k, AT) for each in (scheme, yarn)))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("learned", [False, True])
def test_scalable_softmax(learned: bool) -> None:
    """Nakanishi 2025, equation 2: n^(s z_i) over the sum of n^(s z_j), of n keys."""
    scheme = build_scheme(
        "temperature",
        AttentionShape(16, 2, causal=True),
        {"scheme": "none", "form": "logarithm", "factor": 0.43, "learned": learned},
    )
    s = torch.full((2,), 0.43)
    if learned:
        s = torch.tensor([0.6, 1.5])
        next(scheme.parameters()).data = s.view(2, 1, 1)
        assert scheme.per_layer
    q, k, v = (torch.randn(1, 2, 12, 8) for _ in range(3))
    at = torch.arange(12)
    found = attend_with_positions(q, k, v, scheme, at, at, Mask(causal=True))
    for n in range(1, 13):
        z = (q[0, :, n - 1, None] @ k[0, :, :n].mT)[:, 0] / math.sqrt(8)
        powers = float(n) ** (s[:, None] * z)
        expected = (powers / powers.sum(-1, keepdim=True))[:, None] @ v[0, :, :n]
        torch.testing.assert_close(found[0, :, n - 1], expected[:, 0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [AT, torch.stack((AT, AT % 9))])
def test_a_bias_of_positions_is_not_multiplied(rows: Tensor) -> None:
    q, k, v = (torch.randn(2, 4, 40, 8) for _ in range(3))
    scheme = Temperature(ALiBi(4), factor=2.0, length=4)
    temperature = (1 + 2 * torch.log1p(torch.floor(rows / 4))).expand(2, 40)[:, None, :, None]
    scores = temperature * (q @ k.mT) / math.sqrt(8) + ALiBi(4).score_bias(q, k, rows, rows)
    mask = Mask.packed(rows) if rows.dim() == 2 else Mask(causal=True)
    seen = torch.ones(40, 40, dtype=torch.bool).tril() & (True if mask.keys is None else mask.keys)
    expected = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v
    found = attend_with_positions(q, k, v, scheme, rows, rows, mask)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_bias_that_reads_queries_reads_the_multiplied_ones() -> None:
    q, k = torch.randn(2, 4, 40, 8), torch.randn(2, 4, 40, 8)
    shaw = Shaw(8, max_distance=4)
    scheme = Temperature(shaw, form="constant", factor=3.0)
    torch.testing.assert_close(scheme.score_bias(q, k, AT, AT), 3 * shaw.score_bias(q, k, AT, AT))


def test_an_encoder_does_not_count_its_keys() -> None:
    with pytest.raises(ConfigError, match="logarithm"):
        build_scheme("temperature", AttentionShape(16, 2, causal=False), {"form": "logarithm"})
