"""Score biases through FlexAttention on CUDA, with gradients; skipped where there is no GPU."""

import pytest
import torch

from locant.positions import AttentionShape, Mask, attend_with_positions, build_scheme

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.mark.parametrize("name", ["alibi", "t5", "kerple", "fire", "sandwich"])
def test_results_and_gradients_equal_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    scheme = build_scheme(name, AttentionShape(256, 4, causal=True))
    q, k, v = (torch.randn(2, 4, 256, 64) for _ in range(3))
    found = []
    for device in ("cpu", "cuda"):
        scheme = scheme.to(device)
        inputs = [part.to(device).requires_grad_() for part in (q, k, v)]
        positions = torch.arange(256, device=device)
        out = attend_with_positions(*inputs, scheme, positions, positions, Mask(causal=True))
        grads = torch.autograd.grad(out.square().sum(), [*inputs, *scheme.parameters()])
        found.append([out.detach().cpu(), *(grad.cpu() for grad in grads)])
    for cpu, cuda in zip(*found, strict=True):
        torch.testing.assert_close(cuda, cpu, atol=5e-3, rtol=1e-2)
