"""Rotation by one kernel of ``torch.compile`` on CUDA."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from locant.positions import Rotary, fuse_rotations


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    fuse_rotations(False)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_rotations_and_gradients_are_the_same(layout: str, dtype: torch.dtype) -> None:
    rope, positions = Rotary(32, rotary_dim=16, layout=layout), torch.arange(40, device="cuda")  # type: ignore[arg-type]
    x = torch.randn(2, 3, 40, 32, device="cuda").to(dtype)

    def both() -> tuple[Tensor, Tensor]:
        leaf = x.clone().requires_grad_()
        out = rope.rotate(leaf, leaf, positions, positions)[0]
        return out.detach(), torch.autograd.grad(out.float().pow(3).sum(), leaf)[0]

    expected = both()
    fuse_rotations()
    for one, other in zip(both(), expected, strict=True):
        torch.testing.assert_close(one, other)
