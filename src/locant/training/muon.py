"""Muon: momentum whose update of each matrix is orthogonalised by a Newton-Schulz iteration.

Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"
(https://kellerjordan.github.io/posts/muon/); the size of the update follows Liu et al. 2025, "Muon is Scalable for LLM
Training", arXiv:2502.16982, equation 4, so that learning rate and weight decay mean what they mean in AdamW.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim import Optimizer

from locant.runtime import has_fast_bfloat16

_A, _B, _C = 3.4445, -4.7750, 2.0315
"""Coefficients of the quintic iteration (Jordan et al. 2024): steep at zero, singular values end near one."""
_ITERATIONS = 5
_SMALLEST_NORM = 1e-7


def orthogonalized(matrices: Tensor) -> Tensor:
    """Return matrices ``[N, R, C]`` with singular values moved to about one (0.7 to 1.2), in float32.

    The iteration runs in bfloat16 where the hardware is quick with it, and in float32 elsewhere.
    """
    x = matrices.bfloat16() if has_fast_bfloat16(matrices.device) else matrices.float()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / x.flatten(1).norm(dim=1).clamp(min=_SMALLEST_NORM)[:, None, None]
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return (x.mT if tall else x).float()


class Muon(Optimizer):
    """Muon for matrices, equal to ``torch.optim.Muon`` with ``adjust_lr_fn="match_rms_adamw"``.

    PyTorch's takes one matrix after the other, in bfloat16 on any processor, which on a CPU without bfloat16 takes
    longer than the rest of a training step. This one takes all matrices of a shape together, in the type that the
    machine computes fast, and the matrices stacked in one parameter each for itself.

    Args:
        params: Groups whose ``params`` are matrices. A group may say in ``blocks`` how many matrices are stacked in
            each of its parameters.
        lr: Learning rate.
        weight_decay: Decoupled, times the learning rate.
        momentum: Decay of the momentum, which is Nesterov's.
    """

    def __init__(
        self,
        params: Iterable[dict[str, Any]],
        lr: float = 1e-3,
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "blocks": 1})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update the parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        waiting: dict[tuple[int, ...], list[tuple[Tensor, Tensor, dict[str, Any]]]] = defaultdict(list)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                update = self._momentum(parameter, group["momentum"])
                blocks = group["blocks"]
                for block, change in zip(parameter.chunk(blocks), update.chunk(blocks), strict=True):
                    waiting[tuple(block.shape)].append((block, change, group))
        for shape, members in waiting.items():
            updates = orthogonalized(torch.stack([change for _, change, _ in members]))
            for (block, _, group), update in zip(members, updates, strict=True):
                if group["weight_decay"]:
                    block.mul_(1 - group["lr"] * group["weight_decay"])
                block.add_(update, alpha=-0.2 * group["lr"] * math.sqrt(max(shape)))
        return loss

    def _momentum(self, parameter: Tensor, decay: float) -> Tensor:
        """Return the gradient after Nesterov momentum."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        buffer: Tensor = state["momentum_buffer"].lerp_(parameter.grad, 1 - decay)
        return parameter.grad.lerp(buffer, decay)
