"""The threads of the kernels: their number never shows in what is elementwise, and its results repeat to the bit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor
from with_kernels import kernels, needs_compiler

from locant.kernels import attention, layer_norm, rotation
from locant.kernels import projected_cross_entropy as loss
from locant.training import projected_cross_entropy

pytestmark = needs_compiler


@pytest.fixture(autouse=True)
def _as_many_threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    with kernels(True):
        yield
    torch.set_num_threads(before)


def everything() -> list[Tensor]:
    """Return what each kernel of training makes of the same float32 inputs, with gradients."""
    random = torch.Generator().manual_seed(0)

    def some(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float32, device="cpu", generator=random)

    torch.manual_seed(0)  # of what is dropped
    heads = [some(5, 3, 21, 16).requires_grad_() for _ in range(3)]
    attended = attention.attend(heads[0], heads[1], heads[2], key_mask=None, causal=True)
    found = [attended.detach(), *torch.autograd.grad(attended.square().sum(), heads)]
    x, residual, weight, bias = (some(*shape).requires_grad_() for shape in ((700, 192), (700, 192), (192,), (192,)))
    normed = layer_norm.layer_norm(x, residual, weight, bias, epsilon=1e-5, dropped=26)
    found += [normed.detach(), *torch.autograd.grad(normed.square().sum(), (x, residual, weight, bias))]
    logits, labels = some(333, 1001), torch.arange(333, device="cpu")
    found += [each for each in loss.cross_entropy(logits, labels, smoothing=0.1, trains=True) if each is not None]
    hidden, matrix = some(2, 5, 64).requires_grad_(), some(30, 64).requires_grad_()
    total, _ = projected_cross_entropy(hidden, matrix, labels[:10].view(2, 5), smoothing=0.1, ignore=0)
    found += [total.detach(), *torch.autograd.grad(total, (hidden, matrix))]
    tables = some(300, 8), some(300, 8)
    return [*found, *rotation.rotate((some(3, 7, 300, 24), some(3, 2, 300, 24)), *tables, interleaved=True)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_is_that_of_nothing_that_kernels_write(dtype: torch.dtype) -> None:
    expected = everything()
    torch.set_default_dtype(dtype)
    try:
        found = everything()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_repeat_to_the_bit(threads: int) -> None:
    torch.set_num_threads(threads)
    first = everything()
    for _ in range(3):
        assert all(map(torch.equal, everything(), first))


def test_only_sums_over_rows_depend_on_the_number_of_threads() -> None:
    torch.set_num_threads(1)
    alone = everything()
    torch.set_num_threads(4)
    together = everything()
    for one, other in zip(alone, together, strict=True):
        if one.shape == (192,):  # gradients of weight and bias: a sum over all rows
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
        else:
            assert torch.equal(one, other)


def test_many_callers_at_once() -> None:
    torch.set_num_threads(3)
    logits = torch.randn(200, 500)
    expected, _ = loss.cross_entropy(logits.clone(), torch.arange(200), smoothing=0.1, trains=True)

    def call(_: int) -> Tensor:
        torch.set_num_threads(3)  # each thread has a number of its own
        return loss.cross_entropy(logits.clone(), torch.arange(200), smoothing=0.1, trains=True)[0]

    with ThreadPoolExecutor(12) as callers:
        assert all(torch.equal(found, expected) for found in callers.map(call, range(120)))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_child_of_fork_has_threads_of_its_own() -> None:
    code = (
        "import os, torch\n"
        "from locant.kernels import rotation\n"
        "torch.set_num_threads(3)\n"
        "x, angles = torch.ones(2, 4, 600, 32), torch.ones(600, 16)\n"
        # Compared without PyTorch, whose own threads do not survive a fork.
        "def turn(): return rotation.rotate((x,), angles, angles, interleaved=False)[0].numpy().tobytes()\n"
        "before = turn()\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if turn() == before else 3)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert turn() == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
