from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from with_kernels import kernels

from locant.kernels import projected_cross_entropy as objective
from locant.kernels.library import find_compiler
from locant.training import projected_cross_entropy


@pytest.fixture(scope="module", params=["compiled", "torch"], autouse=True)
def _kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run everything with the C++ kernel, and as on machines without a compiler."""
    if request.param == "compiled" and find_compiler() is None:
        pytest.skip("needs a C++ compiler")
    with kernels(request.param == "compiled"):
        yield


@settings(deadline=None, max_examples=30)
@given(
    batch=st.integers(1, 4),
    length=st.integers(1, 5),
    vocabulary=st.integers(3, 40),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    chunk=st.sampled_from([1, 30, 10_000]),
    seed=st.integers(0, 1000),
)
def test_equals_torch_cross_entropy_with_gradients(batch, length, vocabulary, smoothing, chunk, seed):
    torch.manual_seed(seed)
    hidden = torch.randn(batch, length, 6, dtype=torch.float64).float().requires_grad_()
    weight = torch.randn(vocabulary, 6).requires_grad_()
    labels = torch.randint(0, vocabulary, (batch, length))
    before = objective.CHUNK_BYTES
    objective.CHUNK_BYTES = chunk
    try:
        loss, nll = projected_cross_entropy(hidden, weight, labels, smoothing=smoothing, ignore=0)
    finally:
        objective.CHUNK_BYTES = before
    (3 * loss).backward()
    found = hidden.grad, weight.grad

    hidden, weight = hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    logits = (hidden @ weight.T).flatten(0, 1)
    options = {"ignore_index": 0, "reduction": "sum"}
    expected = cross_entropy(logits, labels.flatten(), label_smoothing=smoothing, **options)
    (3 * expected).backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(nll.double(), cross_entropy(logits, labels.flatten(), **options), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[0].double(), hidden.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1].double(), weight.grad, rtol=1e-4, atol=1e-5)


def test_without_gradients_only_the_loss_is_computed():
    hidden, weight = torch.randn(2, 3, 4), torch.randn(7, 4, requires_grad=True)
    with torch.no_grad():
        loss, nll = projected_cross_entropy(hidden, weight, torch.ones(2, 3, dtype=torch.long), smoothing=0.0, ignore=0)
    assert not loss.requires_grad
    assert loss.item() == pytest.approx(nll.item())


def test_all_padding_counts_for_nothing():
    hidden, weight = torch.randn(1, 2, 4, requires_grad=True), torch.randn(7, 4, requires_grad=True)
    loss, _ = projected_cross_entropy(hidden, weight, torch.zeros(1, 2, dtype=torch.long), smoothing=0.1, ignore=0)
    loss.backward()
    assert loss.item() == 0
    assert not hidden.grad.any()
    assert not weight.grad.any()


@pytest.mark.parametrize("chunk", [1, 200, 1 << 20])
def test_bfloat16_rounds_logits_and_their_gradient_alone(chunk, monkeypatch):
    monkeypatch.setattr(objective, "CHUNK_BYTES", chunk)
    torch.manual_seed(1)
    hidden = torch.randn(3, 7, 16).bfloat16().requires_grad_()
    weight = torch.randn(50, 16).requires_grad_()
    labels = torch.randint(0, 50, (3, 7))
    loss, nll = projected_cross_entropy(hidden, weight, labels, smoothing=0.1, ignore=0)
    loss.backward()

    rows, wide = hidden.detach().flatten(0, 1), weight.detach().bfloat16()
    logits = (rows @ wide.T).double().requires_grad_()
    options = {"ignore_index": 0, "reduction": "sum"}
    expected = cross_entropy(logits, labels.flatten(), label_smoothing=0.1, **options)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(nll.double(), cross_entropy(logits, labels.flatten(), **options), rtol=1e-6, atol=0)
    expected.backward()
    gradient = logits.grad.bfloat16().double()
    # The sums of products are rounded to bfloat16, the weight's once a chunk.
    assert weight.grad.dtype == torch.float32
    torch.testing.assert_close(weight.grad.double(), gradient.T @ rows.double(), rtol=2**-7, atol=2**-7)
    torch.testing.assert_close(hidden.grad.flatten(0, 1).double(), gradient @ wide.double(), rtol=2**-7, atol=2**-7)
