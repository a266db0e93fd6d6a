"""Every kernel against PyTorch's own functions in float64: values and gradients, in both dtypes, at odd sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional
from with_kernels import kernels, needs_compiler

from locant.kernels import attention, layer_norm, rotation
from locant.kernels import projected_cross_entropy as loss_module
from locant.models.dropout import Dropout
from locant.models.layer_norm import add_and_norm
from locant.models.layer_norm import layer_norm as norm_alone
from locant.positions import Mask, Rotary, attend
from locant.positions.rotary.rotation import RotaryAngles, apply_rotation
from locant.training import projected_cross_entropy

FLOAT32, BFLOAT16 = torch.float32, torch.bfloat16
DTYPES = [FLOAT32, BFLOAT16]
pytestmark = needs_compiler
dtypes, seeds, flags = st.sampled_from(DTYPES), st.integers(0, 2**31), st.booleans()
drawn = settings(max_examples=40, deadline=None)


@pytest.fixture(autouse=True, scope="module")
def _of_any_size() -> Iterator[None]:
    with kernels(True):
        yield


def random(*shape: int, seed: int = 0, dtype: torch.dtype = FLOAT32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def compare(
    ours: Callable[..., Tensor],
    theirs: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    *,
    apart: bool = False,
    **close: float,
) -> Tensor:
    """Compare values and gradients with those in float64; the gradient of the output may lie in memory otherwise."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    found, right = ours(*leaves), theirs(*wide)
    outer = random(*right.shape, seed=1, dtype=found.dtype)
    outer = outer.mT.contiguous().mT if apart else outer
    gradients = torch.autograd.grad(found, leaves, outer), torch.autograd.grad(right, wide, outer.double())
    for one, other in zip((found, *gradients[0]), (right, *gradients[1]), strict=True):
        torch.testing.assert_close(one.double(), other, **close)
    assert [x.dtype for x in gradients[0]] == [x.dtype for x in inputs]
    return found


@drawn
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 3),
    queries=st.integers(2, 128),
    keys=st.integers(1, 128),
    features=st.sampled_from([16, 32, 48, 64, 96]),
    causal=flags,
    masked=flags,
    fused=flags,
    apart=flags,
    dtype=dtypes,
    seed=seeds,
)
def test_attention(
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    features: int,
    causal: bool,
    masked: bool,
    fused: bool,
    apart: bool,
    dtype: torch.dtype,
    seed: int,
) -> None:
    queries, keys = (min(length, attention.LONGEST[dtype]) for length in (queries, keys))
    keys = max(keys, queries) if causal else keys
    q = random(batch, queries, heads, features, seed=seed, dtype=dtype).transpose(1, 2)
    both = random(batch, keys, 2 * heads, features, seed=seed + 1, dtype=dtype).transpose(1, 2)
    k, v = both.chunk(2, dim=1) if fused else (both[:, :heads].contiguous(), both[:, heads:].contiguous())
    lengths = torch.randint(1, keys + 1, (batch,), generator=torch.Generator().manual_seed(seed))
    mask = Mask(causal, Mask.from_lengths(lengths, keys).keys if masked else None)
    assert attention.serves(q, k, v, mask.keys)
    seen = torch.ones(queries, keys, dtype=torch.bool)
    seen = seen.tril(keys - queries) if causal else seen
    seen = seen & (torch.arange(keys) < lengths[:, None, None, None]) if masked else seen

    def theirs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    rounding = 0 if dtype == FLOAT32 else 2**-8  # only what comes out is rounded to bfloat16, which keeps 8 bits
    found = compare(lambda *x: attend(*x, mask), theirs, (q, k, v), apart=apart, atol=2e-6, rtol=2e-5 + rounding)
    assert found.transpose(1, 2).is_contiguous(), "merging the heads copies nothing"


@drawn
@given(
    rows=st.integers(0, 9),
    width=st.sampled_from([64, 128, 320]),
    dropped=st.sampled_from([0, 26, 128]),
    adds=flags,
    apart=flags,
    dtype=dtypes,
    seed=seeds,
)
def test_layer_norm(
    rows: int, width: int, dropped: int, adds: bool, apart: bool, dtype: torch.dtype, seed: int
) -> None:
    x, residual = (3 * random(2, rows, width, seed=seed + part, dtype=dtype) + 1 for part in range(2))
    weight, bias = random(width, seed=seed).abs() + 0.5, random(width, seed=seed + 1)
    if apart:
        weight, bias = (torch.stack((part, torch.full_like(part, 1e9)), 1)[:, 0] for part in (weight, bias))
    inputs = [x, weight, bias, *([residual] if adds else [])]

    def ours(x: Tensor, weight: Tensor, bias: Tensor, *residual: Tensor) -> Tensor:
        torch.manual_seed(seed)
        return layer_norm.layer_norm(x, *residual or (None,), weight, bias, epsilon=1e-5, dropped=dropped)

    leaf = x.clone().requires_grad_()
    out = ours(leaf, *inputs[1:])
    kept = torch.autograd.grad(out, leaf, random(2, rows, width, seed=7, dtype=dtype))[0] != 0  # it shows there

    def theirs(x: Tensor, weight: Tensor, bias: Tensor, *residual: Tensor) -> Tensor:
        return functional.layer_norm(sum(residual, x * kept * 256 / (256 - dropped)), (width,), weight, bias)

    close = 1e-5 if dtype == FLOAT32 else 2**-7
    compare(ours, theirs, inputs, apart=apart, rtol=close, atol=close * (2 + rows))  # rows add up


def test_dropout_has_its_rate_and_other_elements_each_time() -> None:
    norm, dropout = nn.LayerNorm(256), Dropout(0.3)
    x, residual = torch.ones(4, 500, 256, requires_grad=True), random(4, 500, 256)

    def kept() -> Tensor:
        out = add_and_norm(x, residual, dropout, norm)
        return torch.autograd.grad(out, x, torch.randn_like(out))[0] != 0

    torch.manual_seed(1)
    one, other = kept(), kept()
    near = 5 * 0.5 / one.numel() ** 0.5
    assert one.float().mean().item() == pytest.approx(1 - 77 / 256, abs=near)
    assert (one & other).float().mean().item() == pytest.approx((1 - 77 / 256) ** 2, abs=near)
    torch.manual_seed(1)
    assert torch.equal(kept(), one)


def test_under_autocast_a_norm_ends_in_the_lower_precision() -> None:
    x, norm = random(3, 64), nn.LayerNorm(64)

    def ours(x: Tensor) -> Tensor:
        with torch.autocast("cpu", BFLOAT16):
            return norm_alone(x, norm)

    found = compare(ours, lambda x: functional.layer_norm(x, (64,)), [x], rtol=2**-7, atol=2**-7)
    assert found.dtype == BFLOAT16


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("rotated", [32, 20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rotation(layout: Any, rotated: int, dtype: torch.dtype) -> None:
    """RoFormer, equation 34: pairs as complex numbers; bfloat16 is rounded once."""
    rope, pairs = Rotary(32, rotary_dim=rotated, layout=layout), rotated // 2
    dense = random(2, 3, 130, 32, dtype=dtype)
    part_of_more = random(2, 130, 3, 96, dtype=dtype).transpose(1, 2)[..., 32:64]
    for x in (dense, part_of_more, dense[:, :, :1], dense[:0]):
        shared = torch.arange(x.shape[2]) + 70
        assert rotation.serves((x,), torch.ones(len(shared), pairs), torch.zeros(len(shared), pairs))
        for positions in (shared, torch.stack((shared, shared + 9))[: len(x)]):
            angles = positions.double().unsqueeze(-1) * 10000.0 ** (-torch.arange(pairs).double() / pairs)
            turn = torch.polar(torch.ones_like(angles), angles)
            turn = turn.unsqueeze(1) if turn.dim() == 3 else turn
            turned = x[..., :rotated].double().unflatten(-1, (2, -1) if layout == "half" else (-1, 2))
            turned = turned.mT if layout == "half" else turned
            turned = torch.view_as_real(torch.complex(turned[..., 0], turned[..., 1]) * turn)
            expected = (turned.mT if layout == "half" else turned).flatten(-2)
            found, _ = rope.rotate(x, x, positions, positions)
            assert (found.shape, found.dtype) == (x.shape, dtype)
            rounding = 0 if dtype == FLOAT32 else 2**-8
            torch.testing.assert_close(found[..., :rotated].double(), expected, atol=2e-6, rtol=rounding)
            assert torch.equal(found[..., rotated:], x[..., rotated:])


@pytest.mark.parametrize("of", ["features", "angles", "both"])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_rotation_has_gradients_of_gradients(of: str, layout: Any) -> None:
    x, angles = random(1, 2, 3, 6).double(), random(3, 2).double()
    x, angles = x.requires_grad_(of != "angles"), angles.requires_grad_(of != "features")

    def rotated(x: Tensor, angles: Tensor) -> Tensor:
        return apply_rotation((x,), RotaryAngles(angles.cos(), angles.sin(), layout))[0]

    assert torch.autograd.gradcheck(rotated, (x, angles))
    assert torch.autograd.gradgradcheck(rotated, (x, angles))


def test_transforms_and_tracing_of_a_rotation_see_pytorch() -> None:
    rope, positions = Rotary(8), torch.arange(6)

    def rotate(x: Tensor) -> Tensor:
        return rope.rotate(x, x, positions, positions)[0]

    x, tangent = random(2, 3, 6, 8), random(2, 3, 6, 8, seed=1)
    expected, turned = rotate(x), rotate(tangent)  # a rotation is linear: it is its own derivative
    torch.testing.assert_close(torch.func.vmap(rotate)(x.unsqueeze(0))[0], expected)
    torch.testing.assert_close(torch.func.jvp(rotate, (x,), (tangent,)), (expected, turned))
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(rotate(forward_ad.make_dual(x, tangent)))
    torch.testing.assert_close((dual.primal, dual.tangent), (expected, turned))
    traced = torch.jit.trace(rotate, x, check_trace=False)
    torch.testing.assert_close(traced(tangent), turned)


def of_logits(hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    logits = (hidden @ weight.T).flatten(0, 1)
    options: dict[str, Any] = {"label_smoothing": smoothing, "ignore_index": 0, "reduction": "sum"}
    return functional.cross_entropy(logits, labels.flatten(), **options)


@drawn
@given(
    batch=st.integers(1, 4),
    length=st.integers(1, 5),
    vocabulary=st.integers(3, 40),
    smoothing=st.sampled_from([0.0, 0.1, 0.5]),
    chunk=st.sampled_from([1, 30, 10_000]),
    compiled=flags,
    seed=seeds,
)
def test_cross_entropy(
    batch: int, length: int, vocabulary: int, smoothing: float, chunk: int, compiled: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, vocabulary, (batch, length), generator=generator)  # 0 is padding, perhaps all of them
    inputs = [random(batch, length, 6, seed=seed), random(vocabulary, 6, seed=seed)]
    with pytest.MonkeyPatch.context() as patch, kernels(compiled):
        patch.setattr(loss_module, "CHUNK_BYTES", chunk)

        def ours(hidden: Tensor, weight: Tensor) -> Tensor:
            return projected_cross_entropy(hidden, weight, labels, smoothing=smoothing, ignore=0)[0]

        compare(ours, lambda *x: of_logits(*x, labels, smoothing), inputs, rtol=1e-4, atol=2e-5)
        with torch.no_grad():
            _, nll = projected_cross_entropy(*inputs, labels, smoothing=smoothing, ignore=0)
    torch.testing.assert_close(nll, of_logits(*inputs, labels, 0.0), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(("chunk", "compiled"), [(1, True), (200, True), (200, False), (1 << 20, True)])
def test_cross_entropy_in_bfloat16_rounds_logits_and_their_gradient_alone(
    chunk: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "CHUNK_BYTES", chunk)
    hidden, weight = random(3, 7, 16, dtype=BFLOAT16).requires_grad_(), random(50, 16).requires_grad_()
    labels = torch.randint(0, 50, (3, 7), generator=torch.Generator().manual_seed(1))
    with kernels(compiled):
        loss, nll = projected_cross_entropy(hidden, weight, labels, smoothing=0.1, ignore=0)
    found = torch.autograd.grad(loss, (hidden, weight))
    rows, wide = hidden.detach().flatten(0, 1), weight.detach().bfloat16()
    logits = (rows @ wide.T).double().requires_grad_()
    one = torch.eye(50, dtype=torch.float64)
    expected = of_logits(logits.unflatten(0, (3, 7)), one, labels, 0.1)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    plain = of_logits(logits.unflatten(0, (3, 7)), one, labels, 0.0)
    torch.testing.assert_close(nll.double(), plain, rtol=1e-6, atol=0)
    gradient = torch.autograd.grad(expected, logits)[0].bfloat16().double()
    # The sums of products are rounded to bfloat16, the weight's once a chunk.
    right = (gradient @ wide.double()).unflatten(0, (3, 7)), gradient.T @ rows.double()
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=2**-7, atol=2**-7)


def test_what_is_no_number_does_not_become_one() -> None:
    q, k, v = (random(1, 1, 5, 16, seed=seed) for seed in range(3))
    q[0, 0, 2, 3] = float("nan")
    out = attend(q, k, v, Mask())
    assert bool(out[0, 0, 2].isnan().all())
    assert bool(out[0, 0, [0, 1, 3, 4]].isfinite().all())
    bits = torch.arange(2**16).to(torch.uint16).view(BFLOAT16)
    every = bits[bits.isnan()]
    x, still = torch.stack((every, torch.full_like(every, 0.5)), dim=-1)[None, None], torch.zeros(len(every)).long()
    assert Rotary(2).rotate(x, x, still + 5, still)[0].isnan().all()
    infinite = torch.tensor([[[[float("inf"), 1.0]]]]).bfloat16()
    assert Rotary(2).rotate(infinite, infinite, still[:1], still[:1])[0][..., 0] == float("inf")
    # Rounding by adding to the bits would carry this one over into zero.
    carried = torch.full((1, 64), -1, dtype=torch.int32).view(FLOAT32).requires_grad_()
    with torch.autocast("cpu", BFLOAT16):
        normed = layer_norm.layer_norm(carried, None, torch.ones(64), torch.zeros(64), epsilon=1e-5)
    assert bool(normed.isnan().all())


def test_the_rest_is_left_to_pytorch() -> None:
    q, k, v = (random(2, 2, 6, 16, seed=seed) for seed in range(3))
    attends = attention.serves
    assert attends(q, k, v, None)
    long, longer = random(1, 1, 65, 16), random(1, 1, 129, 16, dtype=BFLOAT16)
    for others in (
        (q, k, v, torch.ones(2, 1, 6, 6, dtype=torch.bool)),  # several texts in a row
        (q[..., :8], k[..., :8], v[..., :8], None),
        (long, long, long, None),
        (longer, longer, longer, None),
        (q.double(), k.double(), v.double(), None),
        (q.bfloat16(), k, v, None),
        (q[:, :, :1], k, v, None),
        (q, k[:, :, :0], v[:, :, :0], None),
        (q.mT.contiguous().mT, k, v, None),
    ):
        assert not attends(*others)
    x, weight = random(3, 64).requires_grad_(), torch.ones(64)
    norms = layer_norm.serves
    assert norms(x, x, weight, weight)
    for parts in (
        (x[:, :32], None, weight[:32], weight[:32]),
        (x.double(), None, weight, weight),
        (x, x.bfloat16(), weight, weight),
        (x, None, torch.ones(128), torch.ones(128)),
        (x, None, weight, None),
    ):
        assert not norms(*parts)
    with torch.no_grad():
        assert not norms(x, None, weight, weight)
    angles = torch.ones(6, 8)
    assert not rotation.serves((q.clone().requires_grad_(),), angles, angles)
    assert not rotation.serves((q,), angles.clone().requires_grad_(), angles)
    with kernels(True, smallest=q.numel() + 1):
        assert not attends(q, k, v, None)
        assert not rotation.serves((q,), angles, angles)
