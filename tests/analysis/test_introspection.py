"""Attention weights and hidden states against torch's own modules and a softmax written out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tiny_models import tiny_model
from torch import Tensor, nn

from locant.analysis import hidden_states, introspect, token_pair
from locant.errors import DataError
from locant.models import SelfAttention, Transformer
from locant.positions import AttentionPlan, Mask
from locant.text import TokenizerPair

SOURCE, TARGET = [5, 9, 4, 11, 7, 8, 30, 12, 6, 21, 3], [2, 6, 20, 10, 5, 13, 13]
OPTIONS: dict[str, dict[str, Any]] = {
    "learned": {"max_positions": 20},
    "normalised-index": {"max_positions": 20},
    "randomised": {"max_positions": 40, "evaluation_length": 20},
    "rerope": {"window": 3},
    "self-extend": {"group": 2, "window": 4},
}


def model_with(scheme: str, **changes: Any) -> Transformer:
    """A model whose heads differ in what they see: larger weights make attention uneven."""
    model = tiny_model(40, heads=2, d_model=24, encoder_layers=2, position=scheme, **changes)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, SelfAttention):
                module.query_key_value.weight.mul_(2.0)
                module.query_key_value.bias.normal_()
        for scheme_module in (*model.encoder.schemes, *model.decoder.schemes):
            for parameter in scheme_module.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def peer(query_key_value: Tensor, biases: Tensor, output: nn.Linear, heads: int) -> nn.MultiheadAttention:
    """torch's own attention with the given weights."""
    module = nn.MultiheadAttention(output.in_features, heads, batch_first=True).eval()
    with torch.no_grad():
        module.in_proj_weight.copy_(query_key_value)
        module.in_proj_bias.copy_(biases)
        module.out_proj.weight.copy_(output.weight)
        module.out_proj.bias.copy_(output.bias)
    return module


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_weights_are_those_of_torchs_attention(norm: str) -> None:
    model = model_with("sinusoidal", norm=norm)
    seen = introspect(model, SOURCE, TARGET)
    future = torch.ones(len(TARGET), len(TARGET), dtype=torch.bool).triu(1)
    memory = model.encoder.norm(seen.encoder.layers[-1])[None]
    for stack, states, attention, mask in (
        (model.encoder, seen.encoder, seen.encoder_attention, None),
        (model.decoder, seen.decoder, seen.decoder_attention, future),
    ):
        for index, layer in enumerate(stack.layers):
            own: Any = layer.self_attention
            theirs = peer(own.query_key_value.weight, own.query_key_value.bias, own.output, own.heads)
            x = states.layers[index][None]
            residuals: Any = layer.residuals
            normed = residuals[0].norm(x) if norm == "pre" else x
            with torch.no_grad():
                out, expected = theirs(normed, normed, normed, attn_mask=mask, average_attn_weights=False)
            torch.testing.assert_close(attention[index], expected[0], rtol=1e-4, atol=1e-6)
            if stack is model.encoder:
                continue
            cross: Any = layer.cross_attention
            theirs = peer(
                torch.cat([cross.query.weight, cross.key_value.weight]),
                torch.cat([cross.query.bias, cross.key_value.bias]),
                cross.output,
                cross.heads,
            )
            with torch.no_grad():
                x = x + out if norm == "pre" else residuals[0].norm(x + out)
                x = residuals[1].norm(x) if norm == "pre" else x
                expected = theirs(x, memory, memory, average_attn_weights=False)[1]
            torch.testing.assert_close(seen.cross_attention[index], expected[0], rtol=1e-4, atol=1e-6)


def test_states_lead_to_the_output() -> None:
    model = model_with("rotary", norm="pre")
    seen = introspect(model, SOURCE, TARGET)
    lengths = torch.tensor([len(SOURCE)])
    with torch.no_grad():
        memory = model.encode(torch.tensor([SOURCE]), lengths)
        hidden = model.hidden(torch.tensor([SOURCE]), lengths, torch.tensor([TARGET]))
        first = model.encoder.layers[0](seen.encoder.layers[0][None], *layer_arguments(model, len(SOURCE)))
    assert len(seen.encoder.layers) == len(seen.decoder.layers) == 3
    torch.testing.assert_close(model.encoder.norm(seen.encoder.layers[-1]), memory[0])
    torch.testing.assert_close(model.decoder.norm(seen.decoder.layers[-1]), hidden[0])
    torch.testing.assert_close(seen.encoder.layers[1], first[0])
    words = model.source_embedding.weight[SOURCE].detach() * math.sqrt(24)
    torch.testing.assert_close(seen.encoder.words, words)


def layer_arguments(model: Transformer, length: int) -> tuple[Any, ...]:
    like = torch.zeros(1, 2, length, 12)
    return (AttentionPlan(model.encoder.scheme(0), torch.arange(length), Mask(), like=like),)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_without_residual_connections(norm: str) -> None:
    model = model_with("sinusoidal", norm=norm)
    source, target = torch.tensor([SOURCE]), torch.tensor([TARGET])
    encoder, _ = hidden_states(model, source, torch.tensor([len(SOURCE)]), target, residuals=False)
    x = encoder.layers[0]
    arguments = layer_arguments(model, len(SOURCE))
    with torch.no_grad():
        for index, layer in enumerate(model.encoder.layers):
            parts: Any = layer
            for norm_module, sublayer in (
                (parts.residuals[0].norm, lambda y, own=parts.self_attention: own(y, *arguments)),
                (parts.residuals[1].norm, parts.feed_forward),
            ):
                x = sublayer(norm_module(x)) if norm == "pre" else norm_module(sublayer(x))
            torch.testing.assert_close(encoder.layers[index + 1], x, rtol=1e-4, atol=1e-5)
    # The model itself is as it was.
    again, _ = hidden_states(model, source, torch.tensor([len(SOURCE)]), target)
    torch.testing.assert_close(again.layers[-1][0], introspect(model, SOURCE, TARGET).encoder.layers[-1])
    assert not torch.allclose(again.layers[-1], encoder.layers[-1], atol=0.1)


def test_padding_changes_nothing() -> None:
    model = model_with("alibi")
    padded = torch.tensor([[*SOURCE, 0, 0], [*SOURCE[:4], *[0] * 9]])
    targets = torch.tensor([TARGET, TARGET])
    encoder, decoder = hidden_states(model, padded, torch.tensor([len(SOURCE), 4]), targets)
    alone = introspect(model, SOURCE, TARGET)
    torch.testing.assert_close(encoder.layers[-1][0, : len(SOURCE)], alone.encoder.layers[-1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(decoder.layers[-1][0], alone.decoder.layers[-1], rtol=1e-4, atol=1e-5)


def test_nothing_of_the_model_is_changed() -> None:
    model = model_with("t5").train()
    introspect(model, SOURCE, TARGET)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ([], TARGET, "source sentence is empty"),
        (SOURCE, [], "target sentence is empty"),
        (SOURCE, [2, 40], "target sentence has an id outside the vocabulary of 40 tokens"),
        ([5] * 21, TARGET, "source sentence has 21 tokens, but the model knows 20 positions"),
    ],
)
def test_impossible_sentences(source: list[int], target: list[int], message: str) -> None:
    model = model_with("learned", position_options={"max_positions": 20})
    with pytest.raises(DataError, match=message):
        introspect(model, source, target)


def test_tokens_of_a_pair(tokenizers: TokenizerPair) -> None:
    pair = token_pair(tokenizers, "alpha beta", "beta alpha")
    assert pair.source[-1] == 3
    assert pair.target[0] == 2
    assert pair.source_tokens[-1] == "</s>"
    assert pair.target_tokens[0] == "<s>"
    assert "".join(pair.source_tokens[:-1]).replace("▁", " ").strip() == "alpha beta"
    assert tokenizers.target.decode([pair.target]) == ["beta alpha"]
