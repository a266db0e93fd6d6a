"""Attention and feed-forward against plain formulas in float64."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from locant.models import TransformerConfig
from locant.models.blocks import FeedForward
from locant.positions import Mask, attend


def attention_formula(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, lengths: list[int] | None, bias: Any) -> Any:
    """Equation 1, one query at a time, over the keys it may see."""
    q_, k_, v_ = (x.double().numpy() for x in (q, k, v))
    batch, heads, queries, dim = q_.shape
    keys = k_.shape[2]
    added = np.zeros((batch, heads, queries, keys))
    added += 0 if bias is None else bias.double().numpy()
    result = np.zeros_like(q_)
    for b, h, i in np.ndindex(batch, heads, queries):
        last = i + keys - queries if causal else keys - 1
        seen = [j for j in range(keys) if j <= last and (lengths is None or j < lengths[b])]
        if not seen:
            continue
        scores = np.array([q_[b, h, i] @ k_[b, h, j] / math.sqrt(dim) + added[b, h, i, j] for j in seen])
        weights = np.exp(scores - scores.max())
        result[b, h, i] = (weights / weights.sum()) @ v_[b, h, seen]
    return torch.from_numpy(result)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_attend_against_the_formula(data: st.DataObject) -> None:
    draw = data.draw
    batch, heads, dim = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 6))
    causal = draw(st.booleans())
    queries = draw(st.integers(1, 6))
    keys = draw(st.integers(queries, 9)) if causal else draw(st.integers(1, 9))
    lengths = draw(st.none() | st.lists(st.integers(1, keys), min_size=batch, max_size=batch))
    torch.manual_seed(draw(st.integers(0, 9)))
    q, k, v = (torch.randn(batch, heads, n, dim) for n in (queries, keys, keys))
    shape = draw(st.sampled_from([None, (1, 1), (1, heads), (batch, heads)]))
    bias = None if shape is None else torch.randn(*shape, queries, keys)
    mask = Mask(causal, None if lengths is None else Mask.from_lengths(torch.tensor(lengths), keys).keys)
    expected = attention_formula(q, k, v, causal=causal, lengths=lengths, bias=bias)
    assert torch.allclose(attend(q, k, v, mask, bias).double(), expected, rtol=0, atol=2e-6)


def test_a_row_without_a_single_key_gives_no_nan() -> None:
    q = torch.randn(2, 1, 3, 4)
    mask = Mask.from_lengths(torch.tensor([3, 0]), 3)
    assert attend(q, q, q, mask).isfinite().all()
    assert attend(q, q, q, mask, torch.zeros(1, 1, 3, 3)).isfinite().all()


def test_a_bias_does_not_change_the_dtype_and_is_trained() -> None:
    q = torch.randn(1, 2, 3, 4, dtype=torch.bfloat16)
    bias = torch.randn(1, 2, 3, 3, requires_grad=True)
    result = attend(q, q, q, Mask(causal=True), bias)
    assert result.dtype == torch.bfloat16
    result.float().square().sum().backward()
    assert bias.grad is not None
    assert bias.grad.tril().abs().sum() > 0
    assert bias.grad.triu(1).abs().sum() == 0


def test_attention_dropout_is_applied_to_the_weights() -> None:
    torch.manual_seed(0)
    q, v = torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 4000, 2)
    k = torch.zeros(1, 1, 4000, 2)
    results = torch.stack([attend(q, k, v, Mask(), dropout=0.5)[0, 0, 0] for _ in range(5)])
    assert (results[:, 0] == results[:, 1]).all()
    assert ((results - 1).abs() < 0.1).all()
    assert (results != 1).any()


def gelu(x: Any) -> Any:
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_tanh(x: Any) -> Any:
    """Hendrycks and Gimpel 2016, section 2."""
    return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# Shazeer 2020, equations 1-3 (plain) and 5-6 (gated); the activation of x W, which V gates.
FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": lambda x: x * sigmoid(x),
    "glu": sigmoid,
    "reglu": lambda x: np.maximum(x, 0),
    "geglu": gelu,
    "geglu_tanh": gelu_tanh,
    "swiglu": lambda x: x * sigmoid(x),
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_feed_forward_against_the_formula(kind: Any) -> None:
    assert set(TransformerConfig.model_fields["feed_forward"].annotation.__args__) == set(FORMULAS)  # type: ignore[union-attr]
    torch.manual_seed(0)
    sizes = {"d_model": 6, "d_ff": 10, "heads": 1}
    block = FeedForward(TransformerConfig(source_vocab_size=5, target_vocab_size=5, feed_forward=kind, **sizes))
    x = torch.randn(2, 3, 6)
    w1, b1, w2, b2 = (p.detach().double().numpy() for p in block.parameters())
    activation, x_ = FORMULAS[kind], x.double().numpy()
    if "glu" in kind:
        assert w1.shape == (20, 6)
        hidden = activation(x_ @ w1[:10].T + b1[:10]) * (x_ @ w1[10:].T + b1[10:])
    else:
        assert w1.shape == (10, 6)
        hidden = activation(x_ @ w1.T + b1)
    expected = torch.from_numpy(hidden @ w2.T + b2)
    assert torch.allclose(block(x).double(), expected, rtol=0, atol=1e-6)
