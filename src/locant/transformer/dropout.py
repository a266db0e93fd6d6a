"""Dropout whose random mask costs an eighth of the random numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class _ByteMaskDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        # One 64-bit random number decides for eight elements, by its bytes. On CPU the generator is serial, and a
        # number for each element (as in torch.nn.Dropout) costs more than everything else in a small block.
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        keep = (words.view(torch.uint8)[: x.numel()] >= dropped).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = 256 / (256 - dropped)
        return torch.ops.aten.native_dropout_backward(x, keep, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return torch.ops.aten.native_dropout_backward(gradients[0], keep, ctx.scale), None


class Dropout(nn.Module):
    """Zeroes elements with probability ``p`` during training and scales the others so that the mean is kept.

    On CPU the probability is rounded to a multiple of 1/256 (0.1 becomes 0.1016) and the scale follows the rounded
    value, so that the expectation stays exact; elsewhere this is ``torch.nn.functional.dropout``.

    Args:
        p: Probability of dropping an element, 0 <= p < 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` with dropout, of the same shape and dtype; ``x`` itself in evaluation mode."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.p)
        dropped = min(255, max(1, round(self.p * 256)))
        return _ByteMaskDropout.apply(x.contiguous(), dropped)  # type: ignore[no-untyped-call]

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"p={self.p}"
