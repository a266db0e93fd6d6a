"""Norms of layers, and layer norm with the dropout and the residual connection before it, on the CPU in one pass.

Source: Ba et al. 2016 (layer normalisation, section 3); Vaswani et al. 2017, sections 3.1 and 5.4; Zhang and Sennrich
2019 (RMSNorm, equation 4).
"""

from __future__ import annotations

from torch import Tensor, nn

from locant.kernels import layer_norm as kernel
from locant.models.config import BlockSettings
from locant.models.dropout import Dropout

Norm = nn.LayerNorm | nn.RMSNorm
"""A norm over the last dimension."""


def build_norm(settings: BlockSettings, width: int) -> Norm:
    """Return the norm of a model's blocks over ``width`` features."""
    if settings.norm_kind == "rms":
        return nn.RMSNorm(width, eps=settings.norm_epsilon)
    return nn.LayerNorm(width, eps=settings.norm_epsilon, bias=settings.bias)


def add_and_norm(x: Tensor, residual: Tensor, dropout: Dropout, norm: Norm) -> Tensor:
    """Return ``norm(residual + dropout(x))``.

    Args:
        x: Output of a sub-layer ``[..., E]``.
        residual: Its input, of the same shape.
        dropout: Acts in training mode.
        norm: Over the last dimension.

    Returns:
        ``[..., E]``, under autocast in the lower precision.
    """
    if isinstance(norm, nn.LayerNorm) and kernel.serves(x, residual, norm.weight, norm.bias):
        dropped = dropout.dropped if dropout.training else 0
        return kernel.layer_norm(x, residual, norm.weight, norm.bias, epsilon=norm.eps, dropped=dropped)
    return norm(dropout(x, residual))


def layer_norm(x: Tensor, norm: Norm) -> Tensor:
    """Return ``norm(x)`` of ``x [..., E]``, under autocast on the CPU in the lower precision."""
    if isinstance(norm, nn.LayerNorm) and kernel.serves(x, None, norm.weight, norm.bias):
        return kernel.layer_norm(x, None, norm.weight, norm.bias, epsilon=norm.eps)
    return norm(x)
