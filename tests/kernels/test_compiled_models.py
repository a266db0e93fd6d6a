"""Models under ``torch.compile`` and ``torch.export``, which must see PyTorch's operations alone."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from with_kernels import kernels

from locant.models.dropout import Dropout
from locant.models.layer_norm import add_and_norm
from locant.positions import Mask, Rotary, attend
from locant.training import projected_cross_entropy


@pytest.fixture(autouse=True, scope="module")
def _of_any_size() -> Iterator[None]:
    with kernels(True):
        yield


class Layer(nn.Module):
    """Everything that has a kernel, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rope, self.dropout, self.norm = Rotary(16), Dropout(0.0), nn.LayerNorm(64)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        heads = x.unflatten(-1, (4, 16)).transpose(1, 2)
        q, k = self.rope.rotate(heads, heads, positions, positions)
        attended = attend(q, k, heads, Mask(causal=True)).transpose(1, 2).flatten(2)
        return add_and_norm(attended, x, self.dropout, self.norm)


def test_compiled_in_one_graph() -> None:
    layer, positions = Layer(), torch.arange(5)
    x = torch.randn(2, 5, 64, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    out, expected = compiled(x, positions), layer(x, positions)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    found = torch.autograd.grad(out.pow(2).sum(), x), torch.autograd.grad(expected.pow(2).sum(), x)
    torch.testing.assert_close(*found, atol=1e-4, rtol=1e-4)


def test_exported() -> None:
    layer, positions, x = Layer().eval(), torch.arange(5), torch.randn(2, 5, 64)
    exported = torch.export.export(layer, (x, positions)).module()
    torch.testing.assert_close(exported(x, positions), layer(x, positions), atol=1e-5, rtol=1e-5)


def test_the_loss_in_one_graph() -> None:
    hidden, weight = torch.randn(2, 5, 16, requires_grad=True), torch.randn(9, 16)
    labels = torch.randint(1, 9, (2, 5))

    def loss(hidden: Tensor) -> Tensor:
        return projected_cross_entropy(hidden, weight, labels, smoothing=0.1, ignore=0)[0]

    torch.testing.assert_close(torch.compile(loss, backend="eager")(hidden), loss(hidden), atol=1e-4, rtol=1e-5)
