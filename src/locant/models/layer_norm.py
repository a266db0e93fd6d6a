"""Layer norm with the dropout and the residual connection before it, on the CPU in one pass.

Source: Ba et al. 2016 (layer normalisation, section 3); Vaswani et al. 2017, sections 3.1 and 5.4.
"""

from __future__ import annotations

from torch import Tensor, nn

from locant.kernels import layer_norm as kernel
from locant.models.dropout import Dropout


def add_and_norm(x: Tensor, residual: Tensor, dropout: Dropout, norm: nn.LayerNorm) -> Tensor:
    """Return ``norm(residual + dropout(x))``.

    Args:
        x: Output of a sub-layer ``[..., E]``.
        residual: Its input, of the same shape.
        dropout: Acts in training mode.
        norm: Over the last dimension, with weight and bias.

    Returns:
        ``[..., E]``, under autocast in the lower precision.
    """
    if kernel.serves(x, residual, norm.weight, norm.bias):
        dropped = dropout.dropped if dropout.training else 0
        return kernel.layer_norm(x, residual, norm.weight, norm.bias, epsilon=norm.eps, dropped=dropped)
    return norm(dropout(x, residual))


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Return ``norm(x)`` of ``x [..., E]``, under autocast on the CPU in the lower precision."""
    if kernel.serves(x, None, norm.weight, norm.bias):
        return kernel.layer_norm(x, None, norm.weight, norm.bias, epsilon=norm.eps)
    return norm(x)
