"""A stack's trace against the model itself, and every change of it against another way to the same numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from test_introspection import OPTIONS, SOURCE, TARGET, model_with
from tiny_models import tiny_model
from torch import Tensor

from locant.analysis import StackChanges, StackTrace, hidden_states, introspect, trace_stack, trace_states
from locant.errors import ConfigError, DataError
from locant.models import Transformer
from locant.positions import SCHEMES, Mask


def source_words(model: Transformer, ids: list[int] = SOURCE) -> Tensor:
    return model.source_embedding.weight[ids].detach() * math.sqrt(24)


def traces(model: Transformer, **changes: Any) -> tuple[StackTrace, StackTrace]:
    """Encoder and decoder; changes are made in both."""
    encoder = trace_stack(model.encoder, source_words(model), changes=StackChanges(**changes))
    words = model.target_embedding.weight[TARGET].detach() * math.sqrt(24)
    return encoder, trace_stack(model.decoder, words, encoder.output, changes=StackChanges(**changes))


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_trace_is_what_the_model_computes(scheme: str) -> None:
    model = model_with(scheme, position_options=OPTIONS.get(scheme, {}), norm="pre" if len(scheme) % 2 else "post")
    seen = introspect(model, SOURCE, TARGET)
    encoder, decoder = traces(model)
    for trace, states, weights in (
        (encoder, seen.encoder, seen.encoder_attention),
        (decoder, seen.decoder, seen.decoder_attention),
    ):
        for found, expected in zip(trace.states, (states.words, *states.layers), strict=True):
            close(found, expected)
        for layer, expected in zip(trace.layers, weights, strict=True):
            close(layer.attention.weights, expected)
    for layer, expected in zip(decoder.layers, seen.cross_attention, strict=True):
        assert layer.cross_weights is not None
        close(layer.cross_weights, expected)
    ids = torch.tensor([SOURCE]), torch.tensor([len(SOURCE)]), torch.tensor([TARGET])
    with torch.no_grad():
        close(decoder.output, model.hidden(*ids)[0])


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_sub_layers(norm: str) -> None:
    model = model_with("sinusoidal", norm=norm)
    encoder, decoder = traces(model)
    assert [one.kind for one in encoder.layers[0].sublayers] == ["self-attention", "feed-forward"]
    assert [one.kind for one in decoder.layers[0].sublayers] == ["self-attention", "cross-attention", "feed-forward"]
    for trace, stack in ((encoder, model.encoder), (decoder, model.decoder)):
        x = trace.told
        for layer, module in zip(trace.layers, stack.layers, strict=True):
            residuals: Any = module.residuals
            for one, residual in zip(layer.sublayers, residuals, strict=True):
                close(one.received, x)
                # Vaswani et al. 2017, section 3.1, and the pre-norm variant.
                with torch.no_grad():
                    close(one.read, residual.norm(x) if norm == "pre" else x)
                    added = x + one.computed
                    close(one.passed, added if norm == "pre" else residual.norm(added))
                x = one.passed
            close(layer.attention.output, layer.sublayers[0].computed)


def test_without_residual_connections() -> None:
    model = model_with("rotary")
    ids = torch.tensor([SOURCE]), torch.tensor([len(SOURCE)]), torch.tensor([TARGET])
    for trace, states in zip(traces(model, residuals=False), hidden_states(model, *ids, residuals=False), strict=True):
        for found, expected in zip(trace.states[1:], states.layers, strict=True):
            close(found, expected[0])


@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary"])
def test_another_number_of_heads_is_a_model_of_so_many_heads(scheme: str) -> None:
    model = model_with(scheme)
    other = tiny_model(40, heads=6, d_model=24, encoder_layers=2, position=scheme)
    other.load_state_dict(model.state_dict())
    schemes = list(other.encoder.schemes)
    found = trace_stack(model.encoder, source_words(model), changes=StackChanges(heads=6, schemes=schemes))  # type: ignore[arg-type]
    assert found.layers[0].attention.weights.shape[0] == 6
    for state, expected in zip(found.states, trace_stack(other.encoder, source_words(other)).states, strict=True):
        close(state, expected)


def test_products_that_are_not_divided_are_those_of_longer_queries() -> None:
    model = model_with("none")
    found = traces(model, scaled=False)
    with torch.no_grad():
        for layer in (*model.encoder.layers, *model.decoder.layers):
            attention: Any = layer.self_attention
            for part in (attention.query_key_value.weight, attention.query_key_value.bias):
                part[:24].mul_(math.sqrt(12))
        for layer in model.decoder.layers:
            cross: Any = layer.cross_attention
            cross.query.weight.mul_(math.sqrt(12))
            cross.query.bias.mul_(math.sqrt(12))
    for trace, expected in zip(found, traces(model), strict=True):
        close(trace.output, expected.output)


@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary", "alibi"])
def test_masks(scheme: str) -> None:
    model = model_with(scheme)
    words = source_words(model)
    first = trace_stack(model.encoder, words[:4], changes=StackChanges(mask=Mask(causal=True)))
    causal = trace_stack(model.encoder, words, changes=StackChanges(mask=Mask(causal=True)))
    close(causal.output[:4], first.output)  # what comes later is not seen
    padding = Mask.from_lengths(torch.tensor([4]), len(words))
    padded = trace_stack(model.encoder, words, changes=StackChanges(mask=padding))
    close(padded.output[:4], trace_stack(model.encoder, words[:4]).output)
    decoder = trace_stack(model.decoder, words, words, changes=StackChanges(mask=Mask()))
    assert decoder.layers[0].attention.weights.triu(1).any()


def test_without_positions_a_sentence_is_a_bag_of_words() -> None:
    model = model_with("none")
    order = torch.randperm(len(SOURCE))
    words = source_words(model)
    plain, moved = trace_stack(model.encoder, words), trace_stack(model.encoder, words[order])
    close(moved.output, plain.output[order])
    both = trace_states(model.encoder, torch.stack((words, words[order])))
    for found, *expected in zip(both, plain.states, moved.states, strict=True):
        close(found, torch.stack(expected))
    schemes = list(model_with("sinusoidal").encoder.schemes)
    told = trace_stack(model.encoder, words[order], changes=StackChanges(schemes=schemes))  # type: ignore[arg-type]
    assert (told.output - plain.output[order]).abs().max() > 0.1


def test_the_model_is_left_as_it_was() -> None:
    model = model_with("sinusoidal").train()
    trace_stack(model.encoder, source_words(model))
    assert model.encoder.layers[0].training


def test_mistakes() -> None:
    model = model_with("learned", position_options={"max_positions": 5})
    words = source_words(model)
    with pytest.raises(DataError, match="has 11 tokens, but the scheme knows 5 positions"):
        trace_stack(model.encoder, words)
    with pytest.raises(DataError, match="is empty"):
        trace_stack(model.encoder, words[:0])
    with pytest.raises(DataError, match="reads the encoder's output"):
        trace_stack(model.decoder, words[:4])
    with pytest.raises(ConfigError, match="24 features cannot be divided among 5 heads"):
        trace_stack(model.encoder, words[:4], changes=StackChanges(heads=5))
