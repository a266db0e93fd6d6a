"""Norm, residual connection and dropout in one pass against PyTorch's in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from with_kernels import kernels, needs_compiler

from locant.kernels import layer_norm as kernel
from locant.models.dropout import Dropout
from locant.models.layer_norm import add_and_norm, layer_norm

ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2**-7}


pytestmark = needs_compiler


@pytest.fixture(autouse=True, scope="module")
def _of_any_size() -> Iterator[None]:
    with kernels(True):
        yield


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Count what the kernel does."""
    made: list[object] = []
    original = kernel.layer_norm
    monkeypatch.setattr(kernel, "layer_norm", lambda *given, **more: (made.append(given), original(*given, **more))[1])
    return made


def _norm(width: int, seed: int) -> nn.LayerNorm:
    generator = torch.Generator().manual_seed(seed)
    norm = nn.LayerNorm(width)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(width, generator=generator) + 0.5)
        norm.bias.copy_(torch.randn(width, generator=generator))
    return norm


def _inputs(rows: int, width: int, seed: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x, residual = (3 * torch.randn(2, rows, width, generator=generator) + 1 for _ in range(2))
    return [part.to(dtype) for part in (x, residual, torch.randn(2, rows, width, generator=generator))]


def _expected(leaves: list[Tensor], norm: nn.LayerNorm, outer: Tensor) -> list[Tensor]:
    """Return the norm of the leaves' sum and its gradients, all in float64."""
    wide = [x.detach().double().requires_grad_() for x in leaves]
    parameters = [x.detach().double().requires_grad_() for x in (norm.weight, norm.bias)]
    out = nn.functional.layer_norm(sum(wide), (outer.shape[-1],), *parameters, eps=norm.eps)
    return [out, *torch.autograd.grad(out, [*wide, *parameters], outer.double())]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(0, 9),
    width=st.sampled_from([64, 128, 320]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    p=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 1000),
)
def test_it_is_the_norm_of_the_sum_with_its_gradients(
    rows: int, width: int, dtype: torch.dtype, p: float, seed: int
) -> None:
    norm, dropout = _norm(width, seed), Dropout(p)
    x, residual, outer = _inputs(rows, width, seed, dtype)
    leaves = [x.requires_grad_(), residual.requires_grad_()]
    torch.manual_seed(seed)
    out = add_and_norm(*leaves, dropout, norm)
    of_x, of_residual, of_weight, of_bias = torch.autograd.grad(out, [*leaves, norm.weight, norm.bias], outer)
    assert {out.dtype, of_x.dtype, of_residual.dtype} == {dtype}

    # What was dropped shows in the gradient.
    kept = (of_x != 0) * (256 / (256 - dropout.dropped))
    expected = _expected([x.detach().double() * kept, residual], norm, outer)
    close = {"rtol": ROUNDING[dtype], "atol": ROUNDING[dtype] * (2 + rows)}  # rows add up
    torch.testing.assert_close(out.double(), expected[0], **close)
    torch.testing.assert_close(of_x.double(), expected[1] * kept, **close)
    torch.testing.assert_close(of_residual.double(), expected[2], **close)
    torch.testing.assert_close(of_weight.double(), expected[3], **close)
    torch.testing.assert_close(of_bias.double(), expected[4], **close)


def test_dropout_has_its_rate_and_other_elements_each_time() -> None:
    norm, dropout = _norm(256, 0), Dropout(0.3)
    x = torch.ones(4, 500, 256, requires_grad=True)
    residual = torch.randn(4, 500, 256)

    def kept() -> Tensor:
        out = add_and_norm(x, residual, dropout, norm)
        return torch.autograd.grad(out, x, torch.randn_like(out))[0] != 0

    torch.manual_seed(1)
    one, other = kept(), kept()
    size = one.numel()
    assert one.float().mean().item() == pytest.approx(1 - 77 / 256, abs=5 * 0.5 / size**0.5)
    assert (one & other).float().mean().item() == pytest.approx((1 - 77 / 256) ** 2, abs=5 * 0.5 / size**0.5)
    torch.manual_seed(1)
    assert torch.equal(kept(), one)


def test_under_autocast_it_ends_in_the_lower_precision(calls: list[object]) -> None:
    norm = _norm(64, 0)
    x = torch.randn(3, 64, requires_grad=True)
    outer = torch.randn(3, 64)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer_norm(x, norm)
    assert calls
    assert out.dtype == torch.bfloat16
    (gradient,) = torch.autograd.grad(out, x, outer.bfloat16())
    right, expected, *_ = _expected([x], norm, outer.bfloat16())
    torch.testing.assert_close(out.double(), right, rtol=2**-8, atol=1e-6)
    assert gradient.dtype == torch.float32
    # The normalised rows are kept in bfloat16 for the backward pass.
    torch.testing.assert_close(gradient.double(), expected, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("kind", ["narrow", "float64", "mixed", "no gradients"])
def test_the_rest_is_left_to_pytorch(kind: str, calls: list[object]) -> None:
    width = 32 if kind == "narrow" else 64
    dtype = torch.float64 if kind == "float64" else torch.float32
    norm, dropout = _norm(width, 0).to(dtype), Dropout(0.0)
    x, residual = (torch.randn(3, width, dtype=dtype, requires_grad=True) for _ in range(2))
    if kind == "mixed":
        x = x.detach().bfloat16().requires_grad_()
    with torch.set_grad_enabled(kind != "no gradients"):
        torch.testing.assert_close(add_and_norm(x, residual, dropout, norm), norm(x + residual))
        if kind != "mixed":
            torch.testing.assert_close(layer_norm(x, norm), norm(x))
    assert not calls


def test_scales_that_lie_apart_in_memory() -> None:
    x, residual, outer = _inputs(40, 64, 3, torch.float32)
    norm = _norm(64, 4)
    with torch.no_grad():
        apart = [torch.stack([part, torch.full_like(part, 1e9)], 1)[:, 0] for part in (norm.weight, norm.bias)]
    assert not any(part.is_contiguous() for part in apart)
    leaves = [part.requires_grad_() for part in (x, residual)]
    out = add_and_norm(*leaves, Dropout(0.0), _apart(norm, apart))
    found = [out, *torch.autograd.grad(out, leaves, outer)]
    for one, other in zip(found, _expected(leaves, norm, outer), strict=False):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def _apart(norm: nn.LayerNorm, parts: list[Tensor]) -> nn.LayerNorm:
    """Return a norm with the same values at other places in memory."""
    other = nn.LayerNorm(norm.normalized_shape, eps=norm.eps)
    other.weight, other.bias = (nn.Parameter(part) for part in parts)
    return other
