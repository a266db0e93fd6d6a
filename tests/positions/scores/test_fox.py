"""Forget gates against their sum written out, x-transformers, ALiBi and float64."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions import AttentionShape, DataDependentALiBi, FoX, Prepared, build_scheme

WIDTH, HEADS = 16, 4
POSITIONS = torch.arange(9)


def built(causal: bool = True) -> DataDependentALiBi:
    torch.manual_seed(0)
    scheme = DataDependentALiBi(WIDTH, HEADS, causal)
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter)
    return scheme.requires_grad_(False)


def bias_of(scheme: DataDependentALiBi, x: Tensor, queries: int | None = None) -> Tensor:
    """The bias of the last queries, of all unless given."""
    length = x.shape[1]
    first = 0 if queries is None else length - queries
    q, positions, state = torch.zeros(len(x), HEADS, length, 4), torch.arange(length), scheme.prepare(x, POSITIONS)
    assert state is not None
    state = state.part(slice(first, None), slice(None))
    found: Any = scheme(q[:, :, first:], q, positions[first:], positions, state=state)
    return found


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries", [None, 2])
def test_it_is_the_sum_over_the_tokens_between(causal: bool, queries: int | None) -> None:
    scheme, x = built(causal), torch.randn(2, 9, WIDTH)
    found = bias_of(scheme, x, queries)
    weight, bias = scheme.weight.double(), scheme.bias.double()

    def log_gate(row: int, gate: int, token: int) -> float:
        return -math.log1p(math.exp(-float(weight[gate] @ x[row, token].double() + bias[gate])))

    for b, h, i, j in torch.cartesian_prod(*(torch.arange(size) for size in found.shape)).tolist():
        at = i + 9 - found.shape[2]
        if j <= at:
            expected = sum(log_gate(b, h, token) for token in range(j + 1, at + 1))
        elif causal:
            continue
        else:
            expected = sum(log_gate(b, HEADS + h, token) for token in range(at + 1, j + 1))
        assert float(found[b, h, i, j]) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_against_x_transformers(causal: bool) -> None:
    theirs = pytest.importorskip("x_transformers.x_transformers").DataDependentAlibi(WIDTH, HEADS, causal=causal)
    scheme, x = DataDependentALiBi(WIDTH, HEADS, causal), torch.randn(2, 9, WIDTH)
    linear = theirs.to_forget_gates[0]
    assert torch.equal(linear.bias, scheme.bias), "heads begin alike"
    with torch.no_grad():
        linear.bias.add_(torch.randn(linear.bias.shape))
    scheme.load_state_dict(linear.state_dict())
    seen = torch.ones(9, 9, dtype=torch.bool)
    seen = seen.tril() if causal else seen
    torch.testing.assert_close(bias_of(scheme, x)[..., seen], theirs(x)[..., seen], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_near_keys_of_long_texts_keep_exact_biases(causal: bool) -> None:
    """The sums are far beyond what float32 tells apart."""
    length, near = 200_000, 40
    gates = torch.nn.functional.logsigmoid(torch.randn(1, 1, length, generator=torch.Generator().manual_seed(0)))
    sums = gates.double().cumsum(-1)
    assert float(torch.finfo(torch.float32).eps * sums.abs().max()) > 1e-2
    both = torch.stack((sums, -sums), -1)
    state = Prepared(keys=gates) if causal else Prepared(both[:, :, -3:], both)
    q, k = torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, length, 1)
    found = DataDependentALiBi(4, 1, causal).score_bias(q, k, torch.arange(3), torch.arange(length), state)
    expected = sums[..., -3:, None] - sums[..., None, :]
    expected = expected if causal else -expected.abs()
    torch.testing.assert_close(found[..., -near:].double(), expected[..., -near:], rtol=3e-7, atol=1e-9)
    torch.testing.assert_close(found.double(), expected, rtol=3e-7, atol=1e-9)


def test_the_authors_gates_are_for_decoders_and_begin_at_one_half() -> None:
    shape = AttentionShape(WIDTH, HEADS, causal=True)
    scheme = build_scheme("fox", shape)
    assert isinstance(scheme, FoX)
    assert not scheme.bias.any()
    torch.testing.assert_close(bias_of(scheme, torch.zeros(1, 9, WIDTH))[0, 0, -1], (POSITIONS - 8) * math.log(2))
    with pytest.raises(ConfigError, match="data-dependent-alibi"):
        build_scheme("fox", AttentionShape(WIDTH, HEADS, causal=False))
    with pytest.raises(ConfigError, match="state"):
        scheme(torch.zeros(1, HEADS, 9, 4), torch.zeros(1, HEADS, 9, 4), POSITIONS)
