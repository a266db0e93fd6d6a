"""R-Drop's loss and gradients, against the paper's formula in float64 by PyTorch's own functions."""

import pytest
import torch
from torch.nn.functional import cross_entropy, kl_div

from locant.training import losses
from locant.training.losses import projected_r_drop


def by_formula(one, other, weight, labels, smoothing, alpha):
    logits = [(hidden @ weight.T).flatten(0, 1) for hidden in (one, other)]
    options = {"ignore_index": 0, "reduction": "sum"}
    entropy = sum(cross_entropy(z, labels.flatten(), label_smoothing=smoothing, **options) for z in logits) / 2
    nll = sum(cross_entropy(z, labels.flatten(), **options) for z in logits) / 2
    p, q = (z[labels.flatten() != 0].log_softmax(-1) for z in logits)
    divergence = sum(kl_div(a, b, log_target=True, reduction="sum") for a, b in ((p, q), (q, p)))
    return entropy + alpha / 4 * divergence, nll


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 300, 1 << 20])
def test_equals_the_formula_with_gradients(smoothing, chunk, monkeypatch):
    monkeypatch.setattr(losses, "CHUNK_BYTES", chunk)
    torch.manual_seed(0)
    labels = torch.randint(0, 11, (3, 5))
    inputs = [torch.randn(3, 5, 6), torch.randn(3, 5, 6), torch.randn(11, 6)]
    ours = [tensor.clone().requires_grad_() for tensor in inputs]
    loss, nll = projected_r_drop(*ours, labels, smoothing=smoothing, alpha=3.0, ignore=0)
    (2 * loss).backward()
    theirs = [tensor.double().requires_grad_() for tensor in inputs]
    expected, expected_nll = by_formula(*theirs, labels, smoothing, 3.0)
    (2 * expected).backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(nll.double(), expected_nll, rtol=1e-5, atol=1e-5)
    for mine, peer in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), peer.grad, rtol=1e-4, atol=1e-5)
