"""Dropout whose random mask costs little."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from locant.kernels import dropout as kernel
from locant.kernels.dropout import CHANCES, random_words
from locant.kernels.operator import is_transformed


class Dropout(nn.Module):
    """Zeroes elements with probability ``p`` during training and scales the others so that the mean is kept.

    On CPU the probability is rounded to a multiple of 1/256 (0.1 becomes 0.1016) and the scale follows the rounded
    value, so that the expectation stays exact; one 64-bit random number decides for eight elements, by its bytes. For
    float32 and bfloat16 a C++ kernel makes the numbers in passing, where there is a compiler. Elsewhere this is
    ``torch.nn.functional.dropout``.

    Args:
        p: Probability of dropping an element, 0 <= p < 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Return ``x`` with dropout, plus ``residual`` of the same shape where one is given.

        In evaluation mode that is ``x`` itself, or ``residual + x``.
        """
        if self.training and self.p > 0:
            if x.device.type != "cpu":
                x = nn.functional.dropout(x, self.p)
            elif kernel.serves(x, residual):
                return kernel.dropout(x, residual, self.dropped)
            elif is_transformed():
                keep, scale = _mask(x, self.dropped)
                x = torch.where(keep, x * scale, 0.0)
            else:
                x = _ByteMaskDropout.apply(x.contiguous(), self.dropped)  # type: ignore[no-untyped-call]
        return x if residual is None else residual + x

    @property
    def dropped(self) -> int:
        """How many of 256 elements are dropped on CPU; 0 where ``p`` is 0."""
        return min(CHANCES - 1, max(1, round(self.p * CHANCES))) if self.p > 0 else 0

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"p={self.p}"


def _mask(x: Tensor, dropped: int) -> tuple[Tensor, float]:
    """Return which elements of ``x`` are kept, and by what these are multiplied."""
    words = random_words((x.numel() + 7) // 8)
    return (words.view(torch.uint8)[: x.numel()] >= dropped).view(x.shape), CHANCES / (CHANCES - dropped)


class _ByteMaskDropout(torch.autograd.Function):
    """Without the kernel: a mask of bytes, at an eighth of the random numbers of ``torch.nn.Dropout``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        keep, ctx.scale = _mask(x, dropped)
        ctx.save_for_backward(keep)
        return torch.ops.aten.native_dropout_backward(x, keep, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return torch.ops.aten.native_dropout_backward(gradients[0], keep, ctx.scale), None
