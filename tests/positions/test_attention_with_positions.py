"""Attention with every scheme of the registry, in blocks and packed."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

import locant.positions.attention as attention
from locant.positions import (
    SCHEMES,
    AttentionShape,
    Mask,
    PositionScheme,
    attend,
    attend_with_positions,
    build_scheme,
    score_mod,
)
from locant.positions.flex_attention import flex_attend
from locant.positions.relative import RelativeBias

OPTIONS: dict[str, dict[str, Any]] = {"self-extend": {"group": 2, "window": 4}, "rerope": {"window": 4}}


def lively(name: str, *, causal: bool = True) -> PositionScheme:
    """A scheme whose trained parameters are not at their first values, which may do nothing."""
    torch.manual_seed(0)
    scheme = build_scheme(name, AttentionShape(32, 4, causal=causal), OPTIONS.get(name, {}))
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return scheme.eval()


def heads(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("causal", [True, False])
def test_blocks_change_neither_results_nor_gradients(name: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "fox" and not causal:
        pytest.skip("an encoder cannot have it")
    scheme, positions = lively(name, causal=causal), torch.arange(13)
    keys = torch.ones(2, 1, 1, 13, dtype=torch.bool)
    keys[1, ..., 10:] = False

    def outputs() -> list[Tensor]:
        q, k, v = (heads(2, 4, 13, 8, seed=i).requires_grad_() for i in range(3))
        x = heads(2, 13, 32).requires_grad_()
        state = scheme.prepare(x, positions)
        out = attend_with_positions(q, k, v, scheme, positions, positions, Mask(causal, keys), state=state)
        wanted = [q, k, v, x, *scheme.parameters()]
        grads = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True)
        return [out, *(torch.zeros(()) if grad is None else grad for grad in grads)]

    whole = outputs()
    monkeypatch.setattr(attention, "_SCORES_AT_ONCE", 2 * 4 * 13 * 3)
    for a, b in zip(outputs(), whole, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", ["alibi", "t5", "kerple", "fire", "sandwich"])
@pytest.mark.parametrize("causal", [True, False])
def test_the_flex_kernel_gives_the_same(name: str, causal: bool) -> None:
    """FlexAttention as it runs on a CPU, uncompiled and forward only, against the bias written out."""
    scheme = lively(name, causal=causal).requires_grad_(False)
    assert isinstance(scheme, RelativeBias)
    q, k, v = heads(2, 4, 7, 16), heads(2, 4, 12, 16, seed=1), heads(2, 4, 12, 16, seed=2)
    for k_positions in (torch.arange(12), torch.stack((torch.arange(12), torch.arange(12) + 3))):
        q_positions = k_positions[..., 5:]
        expected = attend_with_positions(q, k, v, scheme, q_positions, k_positions, Mask(causal))
        score = score_mod(scheme, q, k, q_positions, k_positions)
        assert score is not None
        found = flex_attend(q, k, v, score, Mask(causal), attention=flex_attention)
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


@settings(max_examples=20, deadline=None)
@given(
    queries=st.integers(1, 700),
    before=st.one_of(st.just(0), st.integers(0, 500)),
    window=st.one_of(st.none(), st.integers(1, 600)),
)
def test_blocks_of_a_causal_mask_are_those_of_pytorch(queries: int, before: int, window: int | None) -> None:
    masks: list[BlockMask] = []

    def kernel(q: Tensor, k: Tensor, v: Tensor, *, block_mask: BlockMask, **_: object) -> Tensor:
        masks.append(block_mask)
        return q

    keys = queries + before
    q, k, positions = heads(1, 4, queries, 16), heads(1, 4, keys, 16), torch.arange(keys)
    score = score_mod(lively("alibi"), q, k, positions[before:], positions)
    assert score is not None
    mask = Mask(True, window=window)
    flex_attend(q, k, k, score, mask, attention=kernel)
    found = masks[0]

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i + before) & (j > i + before - (window or keys))

    expected = create_block_mask(seen, None, None, queries, keys, device="cpu")
    names = [
        f"{full}{side}_{what}" for full in ("", "full_") for side in ["kv", "q"] for what in ("num_blocks", "indices")
    ]
    for name in names:
        one, other = getattr(found, name), getattr(expected, name)
        assert torch.equal(one, other), name
        assert one.dtype == other.dtype
    assert (found.shape, found.BLOCK_SIZE) == (expected.shape, expected.BLOCK_SIZE)
    index = torch.tensor(0)
    for i, j in ((0, before), (0, before + 1), (queries - 1, keys - 1)):
        pair = index + i, index + j
        assert bool(found.mask_mod(index, index, *pair)) == bool(expected.mask_mod(index, index, *pair))


@pytest.mark.parametrize("name", ["alibi", "sandwich"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_fused_kernel_gets_no_bias_in_float64(name: str, dtype: torch.dtype) -> None:
    """Its scores are float32, and with a bias in float64, as some are computed, it does not compile."""
    q, index = heads(1, 4, 9, 16).to(dtype), torch.tensor(0)
    score = score_mod(lively(name), q, q, torch.arange(9))
    assert score is not None
    assert score(torch.tensor(0.0), index, index, index, index).dtype == torch.float32


def test_against_softmax_written_out() -> None:
    q, k, v = (heads(2, 3, 5, 8, seed=i) for i in range(3))
    bias = heads(1, 3, 5, 5, seed=4)
    scores = q @ k.mT * 8**-0.5 + bias + torch.full((5, 5), float("-inf")).triu(1)
    torch.testing.assert_close(attend(q, k, v, Mask(causal=True), bias), scores.softmax(-1) @ v)
    last = attend(q[:, :, 3:], k, v, Mask(causal=True), bias[:, :, 3:])
    torch.testing.assert_close(last, (scores.softmax(-1) @ v)[:, :, 3:])


def test_one_query_in_bfloat16_is_rounded_once() -> None:
    """As a decoder with a cache attends: PyTorch is slow in bfloat16 there, and rounds the weights."""
    q, k, v = (heads(8, 4, length, 16, seed=i) for i, length in enumerate((1, 9, 9)))
    seen = Mask(keys=(torch.arange(9) < torch.arange(2, 10)[:, None])[:, None, None])
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    found = attend(q, k, v, seen)
    assert torch.equal(found, attend(q.float(), k.float(), v.float(), seen).bfloat16())
    with torch.autocast("cpu"):
        assert attend(q, k, v, seen).dtype == torch.bfloat16
