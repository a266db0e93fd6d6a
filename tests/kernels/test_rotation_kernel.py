"""The compiled rotation, against the formula in float64."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from with_kernels import kernels, needs_compiler

from locant.kernels import rotation as kernel
from locant.positions import Rotary, rotate_pairs
from locant.positions.rotary.rotation import RotaryAngles, apply_rotation

pytestmark = needs_compiler
LAYOUTS = ["half", "interleaved"]


@pytest.fixture(autouse=True, scope="module")
def _of_any_size() -> Iterator[None]:
    with kernels(True):
        yield


def served(x: Tensor, length: int, pairs: int) -> bool:
    """Whether the kernel rotates these features by a plain table of angles."""
    return kernel.serves((x,), torch.ones(length, pairs), torch.zeros(length, pairs))


def heads(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def formula(x: Tensor, positions: Tensor, rotated: int, layout: str) -> Tensor:
    """RoFormer, equation 34, in float64; exact enough at these positions."""
    x, pairs = x.double(), rotated // 2
    angles = positions.double().unsqueeze(-1) * 10000.0 ** (-torch.arange(pairs).double() / pairs)
    sine, cosine = angles.sin(), angles.cos()
    if sine.dim() == 3:
        sine, cosine = sine.unsqueeze(1), cosine.unsqueeze(1)
    out = x.clone()
    one = slice(0, pairs) if layout == "half" else slice(0, rotated, 2)
    two = slice(pairs, rotated) if layout == "half" else slice(1, rotated, 2)
    out[..., one] = x[..., one] * cosine - x[..., two] * sine
    out[..., two] = x[..., one] * sine + x[..., two] * cosine
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotated", [32, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_formula(layout: Any, rotated: int, dtype: torch.dtype) -> None:
    rope = Rotary(32, rotary_dim=rotated, layout=layout)
    dense = heads(2, 3, 130, 32).to(dtype)
    transposed = heads(2, 130, 3, 32).to(dtype).transpose(1, 2)
    part_of_more = heads(2, 130, 3, 96).to(dtype).transpose(1, 2)[..., 32:64]
    for x in (dense, transposed, part_of_more, dense[:, :, :1], dense[:0]):
        for positions in (torch.arange(x.shape[2]) + 70, torch.stack([torch.arange(x.shape[2]) + i for i in (0, 9)])):
            positions = positions[: x.shape[0]] if positions.dim() == 2 else positions
            assert served(x, x.shape[2], rotated // 2)
            found, _ = rope.rotate(x, x, positions, positions)
            expected = formula(x, positions, rotated, layout)
            assert (found.shape, found.dtype) == (x.shape, dtype)
            tolerance = 2e-6 if dtype == torch.float32 else 2**-8 * 5
            torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=0)


def test_bfloat16_is_rounded_once_and_to_even() -> None:
    x = heads(1, 4, 64, 64).bfloat16()
    found, _ = Rotary(64).rotate(x, x, torch.arange(64), torch.arange(64))
    exact = formula(x, torch.arange(64), 64, "half")
    off = (found.double() - exact).abs()
    assert (off <= exact.abs() * 2**-8 + 1e-6).all(), "half a unit in the last place"
    still, _ = Rotary(64).rotate(x, x, torch.zeros(64, dtype=torch.long), torch.zeros(64, dtype=torch.long))
    assert torch.equal(still, x)


def test_not_a_number_and_infinity_stay() -> None:
    """Every bfloat16 that is not a number stays one, beside anything, and so does what infinities become."""
    bits = torch.arange(2**16).to(torch.uint16).view(torch.bfloat16)
    every = bits[bits.isnan()]
    x = torch.stack((every, torch.full_like(every, 0.5)), dim=-1)[None, None]
    still = torch.zeros(len(every), dtype=torch.long)
    assert Rotary(2).rotate(x, x, still + 5, still)[0].isnan().all()
    infinite = torch.tensor([[[[float("inf"), 1.0]]]]).bfloat16()
    assert Rotary(2).rotate(infinite, infinite, still[:1], still[:1])[0][..., 0] == float("inf")


def test_what_has_gradients_is_left_to_pytorch() -> None:
    x, angles = heads(1, 2, 6, 8).requires_grad_(), heads(6, 4, seed=1)
    assert not kernel.serves((x,), angles.cos(), angles.sin())
    assert not kernel.serves((x.detach(),), angles.cos().requires_grad_(), angles.sin())
    with torch.no_grad():
        assert kernel.serves((x,), angles.cos(), angles.sin())
        found = rotate_pairs(x, angles.sin(), angles.cos(), "half")
    torch.testing.assert_close(found, rotate_pairs(x, angles.sin(), angles.cos(), "half"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("of", ["features", "angles", "both"])
def test_gradients_are_right_to_the_second(layout: Any, of: str) -> None:
    x, angles = heads(1, 2, 3, 6).double(), heads(3, 2, seed=1).double()
    x, angles = x.requires_grad_(of != "angles"), angles.requires_grad_(of != "features")

    def rotated(x: Tensor, angles: Tensor) -> Tensor:
        return apply_rotation((x,), RotaryAngles(angles.cos(), angles.sin(), layout))[0]

    assert torch.autograd.gradcheck(rotated, (x, angles))
    assert torch.autograd.gradgradcheck(rotated, (x, angles))


def test_transforms_and_tracing_see_pytorch() -> None:
    rope, positions = Rotary(8), torch.arange(6)

    def rotate(x: Tensor) -> Tensor:
        return rope.rotate(x, x, positions, positions)[0]

    x, tangent = heads(2, 3, 6, 8), heads(2, 3, 6, 8, seed=1)
    expected, turned = rotate(x), rotate(tangent)  # a rotation is linear: it is its own derivative
    torch.testing.assert_close(torch.func.vmap(rotate)(x.unsqueeze(0))[0], expected)
    torch.testing.assert_close(torch.func.jvp(rotate, (x,), (tangent,)), (expected, turned))
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(rotate(forward_ad.make_dual(x, tangent)))
    torch.testing.assert_close((dual.primal, dual.tangent), (expected, turned))
    traced = torch.jit.trace(rotate, x, check_trace=False)
    torch.testing.assert_close(traced(tangent), turned)
