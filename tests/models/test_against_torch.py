"""The blocks against ``torch.nn.Transformer`` with the same weights."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import pytest
import torch
from torch import Tensor, nn

from locant.models import Transformer

SOURCE_LENGTHS = torch.tensor([7, 4, 1])
CHOICES = [(norm, activation) for norm in ("post", "pre") for activation in ("relu", "gelu")]


def reference_for(model: Transformer) -> nn.Transformer:
    """torch's own model of the same dimensions; its stacks end in a norm only with pre-norm, as in the paper."""
    c = model.config
    pre = c.norm == "pre"
    sizes = (c.d_model, c.heads, c.d_ff, 0.0, c.feed_forward)
    encoder_layer = nn.TransformerEncoderLayer(*sizes, batch_first=True, norm_first=pre)
    decoder_layer = nn.TransformerDecoderLayer(*sizes, batch_first=True, norm_first=pre)

    def final() -> nn.LayerNorm | None:
        return nn.LayerNorm(c.d_model) if pre else None

    encoder = nn.TransformerEncoder(encoder_layer, c.encoder_layers, final(), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(decoder_layer, c.decoder_layers, final())
    result = nn.Transformer(
        c.d_model, c.heads, dropout=0.0, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    ).eval()
    with torch.no_grad():
        for theirs, ours in weights(result, model):
            theirs.copy_(ours())
    return result


def weights(theirs: nn.Transformer, ours: Transformer) -> Iterator[tuple[nn.Parameter, Callable[..., Tensor]]]:
    """Yield every weight of torch's model and a function that gives ours (or its gradient) in the same shape."""

    def whole(parameter: Any) -> Callable[..., Tensor]:
        return lambda of=lambda p: p: of(parameter)

    def stacked(*parameters: Any) -> Callable[..., Tensor]:
        return lambda of=lambda p: p: torch.cat([of(p) for p in parameters])

    def linear(a: Any, b: Any) -> Iterator[tuple[nn.Parameter, Callable[..., Tensor]]]:
        yield a.weight, whole(b.weight)
        yield a.bias, whole(b.bias)

    for a_stack, b_stack in ((theirs.encoder, ours.encoder), (theirs.decoder, ours.decoder)):
        if a_stack.norm is not None:
            yield from linear(a_stack.norm, b_stack.norm)
        for a, b in zip(a_stack.layers, b_stack.layers, strict=True):
            norms = [a.norm1, a.norm2] if b_stack is ours.encoder else [a.norm1, a.norm2, a.norm3]
            for norm, residual in zip(norms, b.residuals, strict=True):
                yield from linear(norm, residual.norm)
            yield from linear(a.linear1, b.feed_forward.inner)
            yield from linear(a.linear2, b.feed_forward.outer)
            yield a.self_attn.in_proj_weight, whole(b.self_attention.query_key_value.weight)
            yield a.self_attn.in_proj_bias, whole(b.self_attention.query_key_value.bias)
            yield from linear(a.self_attn.out_proj, b.self_attention.output)
            if b_stack is ours.decoder:
                cross = b.cross_attention
                yield a.multihead_attn.in_proj_weight, stacked(cross.query.weight, cross.key_value.weight)
                yield a.multihead_attn.in_proj_bias, stacked(cross.query.bias, cross.key_value.bias)
                yield from linear(a.multihead_attn.out_proj, cross.output)


def sinusoids(length: int, dim: int) -> Tensor:
    """Section 3.5 once more, away from the library."""
    rows = [
        [
            (mpmath.cos if d % 2 else mpmath.sin)(p / mpmath.mpf(10000) ** (mpmath.mpf(d - d % 2) / dim))
            for d in range(dim)
        ]
        for p in range(length)
    ]
    return torch.tensor([[float(value) for value in row] for row in rows])


def reference_logits(reference: nn.Transformer, model: Transformer, source: Tensor, target: Tensor) -> Tensor:
    """Figure 1 and section 3.4 around torch's stacks."""
    table, dim = model.target_embedding.weight, model.config.d_model
    embedded = [table[ids] * math.sqrt(dim) + sinusoids(ids.shape[1], dim) for ids in (source, target)]
    padding = torch.arange(source.shape[1]) >= SOURCE_LENGTHS.unsqueeze(1)
    causal = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    hidden = reference(
        *embedded, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding, tgt_is_causal=True
    )
    return hidden @ table.T


def ids(rows: int, length: int) -> Tensor:
    return torch.randint(1, 30, (rows, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize(("norm", "activation"), CHOICES)
def test_whole_model_and_every_gradient(build_model: Any, norm: str, activation: str) -> None:
    model = build_model(norm=norm, feed_forward=activation)
    reference = reference_for(model)
    source, target = ids(3, 7), ids(3, 5)
    ours = model(source, SOURCE_LENGTHS, target)
    theirs = reference_logits(reference, model, source, target)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-5)

    direction = torch.randn_like(ours)
    (theirs * direction).sum().backward()
    embedding = model.target_embedding.weight
    expected_embedding, embedding.grad = embedding.grad, None
    (ours * direction).sum().backward()
    assert torch.allclose(embedding.grad, expected_embedding, rtol=1e-4, atol=1e-4)
    pairs = list(weights(reference, model))
    assert sum(a.numel() for a, _ in pairs) == sum(p.numel() for p in reference.parameters())
    for parameter, ours_of in pairs:
        assert parameter.grad is not None
        assert torch.allclose(ours_of(lambda p: p.grad), parameter.grad, rtol=1e-4, atol=1e-4)
