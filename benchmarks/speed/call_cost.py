"""What a call of each kernel costs where there is next to nothing to compute: microseconds of processor time.

    python benchmarks/speed/call_cost.py [--repeat 400]

Forward alone without gradients, and forward with backward. The least of many short runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.kernels import attention, cross_entropy, dropout, layer_norm, rotation
from locant.positions import Rotary
from measure import machine

CALLS = 50


def microseconds(function: Callable[[], object], repeat: int) -> float:
    """Return the processor time of a call."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        for _ in range(CALLS):
            function()
        best = min(best, time.process_time() - start)
    return best / CALLS * 1e6


def calls() -> Iterator[tuple[str, Callable[[], Tensor], list[Tensor]]]:
    """Yield each kernel's smallest call, and what it may be differentiated by."""
    q, k, v = (torch.randn(1, 1, 2, 16) for _ in range(3))
    yield "attention", lambda: attention.attend(q, k, v, key_mask=None, causal=True), [q, k, v]
    x, residual, weight, bias = torch.randn(1, 64), torch.randn(1, 64), torch.ones(64), torch.zeros(64)
    yield "layer norm", lambda: layer_norm.layer_norm(x, residual, weight, bias, epsilon=1e-5), [x, residual, weight]
    yield (
        "layer norm with dropout",
        lambda: layer_norm.layer_norm(x, residual, weight, bias, epsilon=1e-5, dropped=26),
        [x, residual, weight],
    )
    yield "dropout", lambda: dropout.dropout(x, residual, 26), [x, residual]
    table = torch.randn(2, 8)
    yield "rotation (kernel)", lambda: rotation.rotate((q, k), table, table, interleaved=False)[0], []
    rope, positions = Rotary(16), torch.arange(2)
    yield "rotation (Rotary)", lambda: rope.rotate(q, k, positions, positions)[0], [q, k]
    logits, labels = torch.randn(1, 64), torch.zeros(1, dtype=torch.long)
    yield "cross-entropy", lambda: cross_entropy.cross_entropy(logits, labels, smoothing=0.1, gradient=True), []
    total, product = torch.zeros(64), torch.ones(64).bfloat16()
    yield "accumulate", lambda: cross_entropy.accumulate(total, product) or total, []


def main() -> None:
    """Print one line for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=400)
    repeat = parser.parse_args().repeat
    torch.set_num_threads(1)
    # Of any size, as these functions are called once their tensors are seen to suit.
    rotation.suits_kernels.__globals__["SMALLEST"] = 0
    print(machine())
    print(f"{'':26} {'forward':>9} {'with backward':>14}   microseconds")
    for name, call, leaves in calls():
        with torch.no_grad():
            alone = microseconds(call, repeat)
        both = ""
        if leaves:
            for leaf in leaves:
                leaf.requires_grad_()
            outer = torch.ones_like(call())
            both = f"{microseconds(lambda: torch.autograd.grad(call(), leaves, outer), repeat):14.1f}"  # noqa: B023
            for leaf in leaves:
                leaf.requires_grad_(False)
        print(f"{name:26} {alone:9.1f} {both}")


if __name__ == "__main__":
    main()
