"""Dropout whose random mask costs little."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from locant.kernels.layer_norm import CHANCES, random_words


class Dropout(nn.Module):
    """Zeroes elements with probability ``p`` during training and scales the others so that the mean is kept.

    On CPU the probability is rounded to a multiple of 1/256 (0.1 becomes 0.1016) and the scale follows the rounded
    value, so that the expectation stays exact; one 64-bit random number of PyTorch's generator decides for eight
    elements, by its bytes. Elsewhere this is ``torch.nn.functional.dropout``.

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
            if x.device.type == "cpu":
                numbers = random_words((x.numel() + 7) // 8).view(torch.uint8)
                keep = (numbers[: x.numel()] >= self.dropped).view(x.shape)
                # Dropout by a mask is its own gradient.
                x = torch.ops.aten.native_dropout_backward(x, keep, CHANCES / (CHANCES - self.dropped))
            else:
                x = nn.functional.dropout(x, self.p)
        return x if residual is None else residual + x

    @property
    def dropped(self) -> int:
        """How many of 256 elements are dropped on CPU; 0 where ``p`` is 0."""
        return min(CHANCES - 1, max(1, round(self.p * CHANCES))) if self.p > 0 else 0

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"p={self.p}"
