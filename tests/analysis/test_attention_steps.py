"""The steps of attention against torch's own attention, and against what the model's fused attention returns."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from test_introspection import OPTIONS, SOURCE, TARGET, model_with, peer

from locant.analysis import attention_steps, introspect
from locant.errors import DataError, UsageError
from locant.positions import SCHEMES

STACKS: tuple[Literal["encoder", "decoder"], ...] = ("encoder", "decoder")


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_steps_are_those_of_torchs_attention(norm: str, stack: Literal["encoder", "decoder"]) -> None:
    model = model_with("sinusoidal", norm=norm)
    steps = attention_steps(model, SOURCE, TARGET, stack=stack, layer=1)
    states = getattr(introspect(model, SOURCE, TARGET), stack)
    layer: Any = getattr(model, stack).layers[1]
    own = layer.self_attention
    torch.testing.assert_close(steps.words, states.words)
    torch.testing.assert_close(steps.received, states.layers[1])
    with torch.no_grad():
        x = layer.residuals[0].norm(steps.received) if norm == "pre" else steps.received
        torch.testing.assert_close(steps.x, x, rtol=1e-5, atol=1e-6)
        theirs = peer(own.query_key_value.weight, own.query_key_value.bias, own.output, own.heads)
        length = len(x)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1) if stack == "decoder" else None
        out, weights = theirs(x[None], x[None], x[None], attn_mask=hidden, average_attn_weights=False)
        projected = torch.nn.functional.linear(x, own.query_key_value.weight, own.query_key_value.bias)
    torch.testing.assert_close(steps.weights, weights[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(steps.output, out[0], rtol=1e-4, atol=1e-5)
    # Head h has features 12 h to 12 h + 11 of each third.
    for third, part in enumerate((steps.q, steps.k, steps.v)):
        for head in range(2):
            first = 24 * third + 12 * head
            torch.testing.assert_close(part[head], projected[:, first : first + 12], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(steps.products[1, 2, 3], steps.q[1, 2] @ steps.k[1, 3])
    torch.testing.assert_close(steps.scaled, steps.products / 12**0.5)
    assert steps.rotated is None
    assert steps.bias is None
    above = torch.ones(length, length, dtype=torch.bool).triu(1)
    assert (steps.masked == -torch.inf).equal((above if stack == "decoder" else above & False).expand(2, -1, -1))
    torch.testing.assert_close(steps.joined, torch.cat(list(steps.contexts), dim=1))
    torch.testing.assert_close(steps.joined @ steps.output_weight + own.output.bias, steps.output)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scheme", sorted(set(SCHEMES) - {"fox"}))  # which an encoder cannot have
def test_every_scheme(scheme: str) -> None:
    model = model_with(scheme, position_options=OPTIONS.get(scheme, {}))
    for stack in STACKS:
        returned: list[torch.Tensor] = []
        layer: Any = getattr(model, stack).layers[0]
        hook = layer.self_attention.register_forward_hook(lambda _, given, output, kept=returned: kept.append(output))
        steps = attention_steps(model, SOURCE, TARGET, stack=stack)
        hook.remove()
        torch.testing.assert_close(steps.output, returned[0][0], rtol=1e-4, atol=1e-5)
        seen = introspect(model, SOURCE, TARGET)
        weights = seen.encoder_attention if stack == "encoder" else seen.decoder_attention
        torch.testing.assert_close(weights[0], steps.weights, rtol=1e-4, atol=1e-6)
        assert (steps.bias is not None) == ("scores" in getattr(model, stack).scheme(0).acts_on)
        if scheme in ("rotary", "xpos"):
            assert steps.rotated is not None
            torch.testing.assert_close(steps.products, steps.rotated[0] @ steps.rotated[1].mT, rtol=1e-4, atol=1e-5)


def test_mistakes() -> None:
    model = model_with("none")
    with pytest.raises(UsageError, match="The encoder has 2 layers; there is no layer 3"):
        attention_steps(model, SOURCE, TARGET, layer=2)
    with pytest.raises(DataError, match="target sentence is empty"):
        attention_steps(model, SOURCE, [])
