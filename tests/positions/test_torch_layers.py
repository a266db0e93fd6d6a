"""Attention with positions in the layers of ``torch.nn``, against torch's own and against Locant's attention."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from locant.positions import (
    SCHEMES,
    AttentionShape,
    Mask,
    NoPositions,
    PositionedAttention,
    PositionScheme,
    Rotary,
    add_positions,
    attend_with_positions,
    build_scheme,
)

OPTIONS: dict[str, dict[str, Any]] = {
    "self-extend": {"group": 2, "window": 3},
    "rerope": {"window": 3},
    "temperature": {"length": 3},
}
CAUSAL = torch.ones(7, 7, dtype=torch.bool).triu(1)
PADDING = torch.arange(7).expand(3, 7) >= torch.tensor([[7], [4], [5]])
INSIDE = [name for name, kind in SCHEMES.items() if name != "randomised" and kind.acts_on != {"embedding"}]


def attention(**options: Any) -> nn.MultiheadAttention:
    torch.manual_seed(0)
    return nn.MultiheadAttention(16, 4, **options).eval()


def lively(name: str, causal: bool) -> PositionScheme:
    scheme = build_scheme(name, AttentionShape(16, 4, causal), OPTIONS.get(name, {}))
    for parameter in scheme.parameters():
        nn.init.normal_(parameter, std=0.3)
    return scheme.eval()


def some(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("attn_mask", [None, CAUSAL, some(7, 7), some(12, 7, 7), some(12, 7, 7) > 2])
@pytest.mark.parametrize("padding", [None, PADDING, PADDING * -9.0])
@pytest.mark.parametrize("need_weights", [True, False])
def test_without_positions_it_is_torch_s(batch_first: bool, attn_mask: Any, padding: Any, need_weights: bool) -> None:
    theirs, x = attention(batch_first=batch_first), some(3, 7, 16) if batch_first else some(7, 3, 16)
    if padding is not None and attn_mask is not None:
        padding = padding if padding.dtype == attn_mask.dtype else padding.float()
    given = {"attn_mask": attn_mask, "key_padding_mask": padding, "need_weights": need_weights}
    for average in (True, False):
        expected = theirs(x, x, x, average_attn_weights=average, **given)
        found = PositionedAttention.from_attention(theirs, NoPositions())(
            x, x, x, average_attn_weights=average, **given
        )
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if b is not None:
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("causal", [True, False])
def test_with_positions_it_is_locant_s(name: str, causal: bool) -> None:
    if name == "fox" and not causal:
        pytest.skip("an encoder cannot have it")
    scheme, x = lively(name, causal), some(3, 7, 16)
    ours = PositionedAttention.from_attention(attention(batch_first=True), scheme)
    projected = nn.functional.linear(x, ours.in_proj_weight, ours.in_proj_bias)
    q, k, v = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in projected.chunk(3, dim=-1))
    positions = torch.arange(7)
    state = scheme.prepare(x, positions)
    expected = ours.out_proj(
        attend_with_positions(q, k, v, scheme, positions, positions, Mask(causal), state=state)
        .transpose(1, 2)
        .flatten(2)
    )
    mask = CAUSAL if causal else None
    for need_weights in (True, False):
        found, _ = ours(x, x, x, attn_mask=mask, need_weights=need_weights)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_frequencies_that_follow_the_length() -> None:
    scheme = Rotary(4, scaling={"kind": "dynamic", "factor": 2, "original_length": 4, "length_step": 1})
    ours, x = PositionedAttention.from_attention(attention(batch_first=True), scheme), some(2, 7, 16)
    whole, weights = ours(x, x, x, attn_mask=CAUSAL)
    assert weights is not None
    assert weights.shape == (2, 7, 7)
    for length in (3, 5):
        first, mask = x[:, :length], CAUSAL[:length, :length]
        torch.testing.assert_close(
            ours(first, first, first, attn_mask=mask)[0], whole[:, :length], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_layers_know_positions_in_training_and_in_evaluation(kind: str, norm_first: bool) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first}
    model: nn.Module
    if kind == "encoder":
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, **options), 2)
        given: tuple[Tensor, ...] = (some(3, 7, 16),)
        masks = {"src_key_padding_mask": PADDING}
    else:
        model = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, **options), 2)
        given, masks = (some(3, 7, 16), some(3, 5, 16)), {"tgt_mask": CAUSAL}
    names = list(model.state_dict())
    plain = model.eval()(*given, **masks)
    add_positions(model, NoPositions())
    assert list(model.state_dict()) == names
    with torch.no_grad():  # where torch's own layers take their fast path
        found = model(*given, **masks)
    torch.testing.assert_close(found[~PADDING], plain[~PADDING], rtol=1e-4, atol=1e-5)
    add_positions(model, Rotary(4))
    trained = model.train()(*given, **masks)
    assert not torch.allclose(trained[~PADDING], plain[~PADDING], atol=1e-2)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(*given, **masks)[~PADDING], trained[~PADDING], rtol=1e-4, atol=1e-5)
