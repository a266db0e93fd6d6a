"""Every positional scheme on CUDA: equal to the CPU, forward and backward, and as exact in low precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from locant.positions import SCHEMES, AttentionShape, Mask, PositionScheme, Rotary, attend_with_positions, build_scheme

HEADS, DIM = 4, 32
WIDTH = HEADS * DIM


def built(name: str, *, causal: bool) -> PositionScheme:
    torch.manual_seed(0)
    options: dict[str, Any] = {"randomised": {"max_positions": 512, "evaluation_length": 128}}.get(name, {})
    scheme = build_scheme(name, AttentionShape(WIDTH, HEADS, causal=causal), options).eval()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return scheme


def passed(scheme: PositionScheme, device: str, *, causal: bool, rows: Tensor | None = None) -> list[Tensor]:
    """Output and all gradients of embedding and attention with the scheme."""
    torch.manual_seed(1)
    inputs = [torch.randn(2, HEADS, 96, DIM) for _ in range(3)]
    x = torch.randn(2, 96, WIDTH)
    scheme = scheme.to(device)
    leaves = [part.to(device).requires_grad_() for part in (*inputs, x)]
    positions = torch.arange(96, device=device)
    keys = None if rows is None else rows.to(device)
    state = scheme.prepare(leaves[3], positions)
    out = attend_with_positions(*leaves[:3], scheme, positions, positions, Mask(causal=causal, keys=keys), state=state)
    total = out.square().sum() + scheme.embed(leaves[3], positions).square().sum()
    parameters = list(scheme.parameters())
    gradients = torch.autograd.grad(total, [*leaves, *parameters], allow_unused=True)
    return [out.detach().cpu(), *(torch.zeros(()) if one is None else one.cpu() for one in gradients)]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", SCHEMES)
def test_output_and_gradients_equal_the_cpu(name: str, causal: bool) -> None:
    if name == "fox" and not causal:
        pytest.skip("an encoder cannot have it")
    scheme = built(name, causal=causal)
    for cpu, cuda in zip(passed(scheme, "cpu", causal=causal), passed(scheme, "cuda", causal=causal), strict=True):
        torch.testing.assert_close(cuda, cpu, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", SCHEMES)
def test_padding_equals_the_cpu(name: str) -> None:
    scheme = built(name, causal=True)
    keys = torch.ones(2, 1, 1, 96, dtype=torch.bool)
    keys[1, ..., 70:] = False
    for cpu, cuda in zip(
        passed(scheme, "cpu", causal=True, rows=keys), passed(scheme, "cuda", causal=True, rows=keys), strict=True
    ):
        torch.testing.assert_close(cuda, cpu, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_near_float32(name: str, dtype: torch.dtype) -> None:
    scheme = built(name, causal=True).cuda()
    torch.manual_seed(2)
    q, k, v = (torch.randn(2, HEADS, 128, DIM, device="cuda") for _ in range(3))
    x = torch.randn(2, 128, WIDTH, device="cuda")
    positions = torch.arange(128, device="cuda")
    mask = Mask(causal=True)
    state = scheme.prepare(x, positions)
    exact = attend_with_positions(q, k, v, scheme, positions, positions, mask, state=state)
    low = scheme.to(dtype)
    state = low.prepare(x.to(dtype), positions)
    found = attend_with_positions(q.to(dtype), k.to(dtype), v.to(dtype), low, positions, positions, mask, state=state)
    assert found.dtype == dtype
    error = ((found.float() - exact).norm() / exact.norm()).item()
    assert error < (0.03 if dtype == torch.bfloat16 else 0.005)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_angles_are_exact_at_far_positions(dtype: torch.dtype) -> None:
    """Sines and cosines within 3.1e-8 of exact ones, also after the module is cast."""
    rope = Rotary(64).to("cuda").to(dtype)
    positions = torch.tensor([0, 1, 4095, 1_000_003, 2**31 - 1])
    sine, cosine = rope.sine_cosine(positions.cuda())
    import mpmath

    with mpmath.workdps(60):
        for row, position in enumerate(positions.tolist()):
            for pair in range(32):
                angle = position * mpmath.mpf(10000) ** (-mpmath.mpf(2 * pair) / 64)
                assert abs(float(sine[row, pair]) - float(mpmath.sin(angle))) < 6e-8
                assert abs(float(cosine[row, pair]) - float(mpmath.cos(angle))) < 6e-8


@pytest.mark.parametrize("name", ["rotary", "alibi", "t5", "sinusoidal"])
def test_a_compiled_attention_equals_the_plain_one(name: str) -> None:
    scheme = built(name, causal=True).cuda()
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, HEADS, 256, DIM, device="cuda") for _ in range(3))
    positions = torch.arange(256, device="cuda")

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend_with_positions(q, k, v, scheme, positions, positions, Mask(causal=True))

    torch.testing.assert_close(torch.compile(attention)(q, k, v), attention(q, k, v), atol=1e-3, rtol=1e-3)
