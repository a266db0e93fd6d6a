"""What must hold for every positional scheme in a decoder-only model, before and after the norm."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from small_models import language_model as build
from small_models import text_ids as ids
from torch import nn

from locant.positions import SCHEMES

every_scheme = pytest.mark.parametrize("position", SCHEMES)
both_norms = pytest.mark.parametrize("norm", ["post", "pre"])


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.mark.sampled(15)
@every_scheme
@both_norms
def test_no_output_depends_on_a_later_token(position: str, norm: str) -> None:
    model, text = build(position=position, norm=norm), ids(3, 8)
    expected = model(text)
    for changed in range(1, 8):
        other = text.clone()
        other[:, changed] = (other[:, changed] + 1) % 30
        logits = model(other)
        assert torch.allclose(logits[:, :changed], expected[:, :changed], rtol=0, atol=1e-6)
        assert not torch.allclose(logits[:, changed], expected[:, changed], atol=1e-3)


@pytest.mark.sampled(10)
@every_scheme
@both_norms
@pytest.mark.parametrize("chunks", [[1] * 20, [3, 1, 14, 2]], ids=["tokens", "chunks"])
def test_reading_with_a_cache_equals_reading_at_once(position: str, norm: str, chunks: list[int]) -> None:
    model, text = build(position=position, norm=norm), ids(3, 20)
    cache = model.start()
    logits = torch.cat([model.step(part, cache) for part in torch.split(text, chunks, dim=1)], dim=1)
    assert cache.length == 20
    assert torch.allclose(logits, model(text), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["dynamic", "yarn"])
def test_a_cache_across_the_original_length_of_a_scaling(kind: str) -> None:
    scaling = {"kind": kind, "original_length": 8}
    scaling |= {"length_step": 4} if kind == "dynamic" else {"factor": 4}
    model, text = build(position_options={"scaling": scaling}, d_model=32), ids(2, 20)
    cache = model.start()
    logits = torch.cat([model.step(part, cache) for part in torch.split(text, 1, dim=1)], dim=1)
    assert torch.allclose(logits, model(text), rtol=0, atol=1e-4)


def test_against_torch() -> None:
    """torch.nn.TransformerEncoder with a causal mask is the same function of the same weights."""
    model: Any = build(position="none", norm="pre", feed_forward="gelu")
    layer = nn.TransformerEncoderLayer(16, 4, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    peer: Any = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16), enable_nested_tensor=False).eval()
    for ours, theirs in zip(model.stack.layers, peer.layers, strict=True):
        weights = {
            "self_attn.in_proj_weight": ours.self_attention.query_key_value.weight,
            "self_attn.in_proj_bias": ours.self_attention.query_key_value.bias,
            "self_attn.out_proj.weight": ours.self_attention.output.weight,
            "self_attn.out_proj.bias": ours.self_attention.output.bias,
            "linear1.weight": ours.feed_forward.inner.weight,
            "linear1.bias": ours.feed_forward.inner.bias,
            "linear2.weight": ours.feed_forward.outer.weight,
            "linear2.bias": ours.feed_forward.outer.bias,
        }
        for number in (1, 2):
            norm = ours.residuals[number - 1].norm
            weights |= {f"norm{number}.weight": norm.weight, f"norm{number}.bias": norm.bias}
        theirs.load_state_dict(weights)
    peer.norm.load_state_dict(model.stack.norm.state_dict())
    text = ids(3, 9)
    x = model.embedding(text) * 4
    causal = nn.Transformer.generate_square_subsequent_mask(9)
    expected = peer(x, mask=causal, is_causal=True) @ model.embedding.weight.T
    assert torch.allclose(model(text), expected, rtol=1e-5, atol=1e-5)
