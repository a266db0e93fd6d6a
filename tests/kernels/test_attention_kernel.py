"""Attention by the C++ kernel against PyTorch's in float64."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from with_kernels import kernels, needs_compiler

from locant.kernels import attention as kernel
from locant.positions import Mask, attend

pytestmark = needs_compiler


@pytest.fixture(autouse=True, scope="module")
def _of_any_size() -> Iterator[None]:
    with kernels(True):
        yield


def _inputs(seed: int, shape: tuple[int, int, int, int, int], *, fused: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return q [B, H, Q, D], k and v [B, H, K, D]; fused ones are parts of one projection, as in a model."""
    batch, heads, queries, keys, features = shape
    generator = torch.Generator().manual_seed(seed)

    def parts(length: int, count: int) -> list[Tensor]:
        if not fused:
            return [torch.randn(batch, heads, length, features, generator=generator) for _ in range(count)]
        whole = torch.randn(batch, length, count * heads * features, generator=generator)
        return [part.unflatten(-1, (heads, features)).transpose(1, 2) for part in whole.chunk(count, dim=-1)]

    return (*parts(queries, 1), *parts(keys, 2))


def _with_gradients(inputs: tuple[Tensor, ...], mask: Mask, outer: Tensor) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = attend(*leaves, mask)
    return [out.detach(), *torch.autograd.grad(out, leaves, outer.to(out.dtype))]


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    queries=st.integers(2, 128),
    keys=st.integers(1, 128),
    features=st.sampled_from([16, 32, 48, 64, 96]),
    causal=st.booleans(),
    masked=st.booleans(),
    fused=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 2**31),
)
def test_it_is_attention(
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    features: int,
    causal: bool,
    masked: bool,
    fused: bool,
    dtype: torch.dtype,
    seed: int,
) -> None:
    longest = kernel.LONGEST[dtype]
    queries, keys = min(queries, longest), min(keys, longest)
    keys = max(keys, queries) if causal else keys
    inputs = tuple(x.to(dtype) for x in _inputs(seed, (batch, heads, queries, keys, features), fused=fused))
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, keys + 1, (batch,), generator=generator)
    mask = Mask(causal, Mask.from_lengths(lengths, keys).keys if masked else None)
    assert kernel.serves(*inputs, mask.keys)
    outer = torch.randn(inputs[0].shape, generator=generator).to(dtype)
    found = _with_gradients(inputs, mask, outer)
    expected = _with_gradients(tuple(x.double() for x in inputs), mask, outer)
    # Only what comes out is rounded to bfloat16, which keeps 8 bits.
    rounding = 2**-8 if dtype == torch.bfloat16 else 0
    for one, right in zip(found, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one.double(), right, atol=2e-6, rtol=2e-5 + rounding)


def test_it_agrees_with_pytorch_to_float32_on_a_training_batch() -> None:
    inputs = _inputs(0, (40, 4, 25, 25, 32), fused=True)
    mask = Mask.from_lengths(torch.arange(40) % 25 + 1, 25)
    outer = torch.randn(inputs[0].shape)
    found = _with_gradients(inputs, mask, outer)
    with kernels(False):
        expected = _with_gradients(inputs, mask, outer)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_what_is_no_number_does_not_become_one() -> None:
    q, k, v = _inputs(2, (1, 1, 5, 5, 16), fused=False)
    q[0, 0, 2, 3] = float("nan")
    out = attend(q, k, v, Mask())
    assert bool(out[0, 0, 2].isnan().all())
    assert bool(out[0, 0, [0, 1, 3, 4]].isfinite().all())


def test_merging_the_heads_copies_nothing() -> None:
    out = attend(*_inputs(4, (2, 4, 6, 6, 16), fused=True), Mask())
    assert out.transpose(1, 2).is_contiguous()


def test_gradients_of_any_layout_are_read() -> None:
    inputs = _inputs(5, (2, 2, 6, 6, 16), fused=False)
    plain = torch.randn(2, 2, 6, 16)
    other = plain.transpose(2, 3).contiguous().transpose(2, 3)
    for one, same in zip(_with_gradients(inputs, Mask(), plain), _with_gradients(inputs, Mask(), other), strict=True):
        assert torch.equal(one, same)


def test_it_leaves_the_rest_to_pytorch() -> None:
    inputs = _inputs(6, (2, 2, 6, 6, 16), fused=False)
    q, k, v = inputs
    assert kernel.serves(q, k, v, None)
    several_texts = Mask(keys=torch.ones(2, 1, 6, 6, dtype=torch.bool))
    narrow = _inputs(6, (2, 2, 6, 6, 8), fused=False)
    long = _inputs(6, (1, 1, 65, 65, 16), fused=False)
    longer = tuple(x.bfloat16() for x in _inputs(6, (1, 1, 129, 129, 16), fused=False))
    for others, mask in (
        (inputs, several_texts),
        (narrow, Mask()),
        (long, Mask()),
        (longer, Mask()),
        ((q.double(), k.double(), v.double()), Mask()),
        ((q.bfloat16(), k, v), Mask()),
        ((q[:, :, :1], k, v), Mask()),
        ((q, k[:, :, :0], v[:, :, :0]), Mask()),
        ((q.mT.contiguous().mT, k, v), Mask()),
    ):
        assert not kernel.serves(*others, mask.keys)
    with kernels(False):
        assert not kernel.serves(q, k, v, None)
    with kernels(True, smallest=q.numel() + 1):
        assert not kernel.serves(q, k, v, None)
