"""Layer norm with the dropout and the residual connection before it, in one pass.

Source: Ba et al. 2016 (layer normalisation, section 3); Vaswani et al. 2017, sections 3.1 and 5.4.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from locant.kernels.dropout import CHANCES, new_seed
from locant.kernels.library import Kernel
from locant.kernels.outcomes import require_done
from locant.kernels.tensors import DTYPES, address, suits_kernels

_BLOCK = 64  # Features that share a block of random numbers.


class _Work(ctypes.Structure):
    """The fields as ``layer_norm.cpp`` reads them."""

    _fields_ = (
        ("rows", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("dropped", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    )


_ADDRESSES = (ctypes.POINTER(_Work), *[ctypes.c_void_p] * 7)
_FLAGS = (ctypes.c_int, ctypes.c_int)
KERNEL = Kernel(
    {
        "locant_layer_norm": ([*_ADDRESSES, ctypes.c_float, ctypes.c_float, *_FLAGS], ctypes.c_char_p),
        "locant_layer_norm_backward": ([*_ADDRESSES, ctypes.c_float, *_FLAGS], ctypes.c_char_p),
    },
)


def serves(x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> bool:
    """Return whether the kernel normalises ``x [..., E]``, plus a residual, with a weight and a bias ``[E]``."""
    return (
        torch.is_grad_enabled()  # else there is nothing to save
        and suits_kernels(x)
        and x.dim() > 0
        and x.shape[-1] % _BLOCK == 0
        and _scales(weight, x.shape[-1])
        and _scales(bias, x.shape[-1])
        and (residual is None or (residual.dtype == x.dtype and residual.shape == x.shape and residual.is_cpu))
        and KERNEL.usable()
    )


def _scales(x: Tensor | None, width: int) -> bool:
    return x is not None and x.dtype == torch.float32 and x.shape == (width,) and x.is_cpu


def layer_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, *, epsilon: float, dropped: int = 0
) -> Tensor:
    """Return the layer norm of ``residual + dropout(x)``, with gradients.

    Args:
        x: ``[..., E]``, as :func:`serves` asks for, though of any size.
        residual: Of the same shape and dtype, or ``None``.
        weight: ``[E]``, float32.
        bias: Likewise.
        epsilon: Added to the variance.
        dropped: How many of :data:`~locant.kernels.dropout.CHANCES` elements of ``x`` are dropped.

    Returns:
        ``[..., E]``, under autocast in the lower precision.
    """
    return _LayerNorm.apply(x, residual, weight, bias, epsilon, dropped, _out_dtype(x))  # type: ignore[no-untyped-call]


def _out_dtype(x: Tensor) -> torch.dtype:
    if x.dtype == torch.float32 and torch.is_autocast_enabled("cpu"):
        lower = torch.get_autocast_dtype("cpu")
        return lower if lower in DTYPES else x.dtype
    return x.dtype


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        residual: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        epsilon: float,
        dropped: int,
        dtype: torch.dtype,
    ) -> Tensor:
        x, residual = x.contiguous(), None if residual is None else residual.contiguous()
        weight, bias = weight.contiguous(), bias.contiguous()
        out, normalised = (torch.empty(x.shape, dtype=dtype) for _ in range(2))
        inverse = torch.empty(x.shape[:-1])
        ctx.work = _work(x, new_seed() if dropped else 0, dropped)
        ctx.scale, ctx.x_dtype, ctx.adds = CHANCES / (CHANCES - dropped), x.dtype, residual is not None
        places = map(address, (x, residual, weight, bias, out, normalised, inverse))
        small = x.dtype == torch.bfloat16, dtype == torch.bfloat16
        require_done(KERNEL.library.locant_layer_norm(ctx.work, *places, ctx.scale, epsilon, *small))
        ctx.save_for_backward(normalised, inverse, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        normalised, inverse, weight = ctx.saved_tensors
        outer = gradients[0].contiguous()
        of_x = torch.empty(outer.shape, dtype=ctx.x_dtype)
        # Without dropout both have the same gradient.
        of_residual = torch.empty_like(of_x) if ctx.adds and ctx.work.dropped else None
        sums = torch.zeros(ctx.work.threads, 2, outer.shape[-1])
        places = map(address, (outer, normalised, inverse, weight, of_x, of_residual, sums))
        small = of_x.dtype == torch.bfloat16, outer.dtype == torch.bfloat16
        require_done(KERNEL.library.locant_layer_norm_backward(ctx.work, *places, ctx.scale, *small))
        of_weight, of_bias = sums.sum(0)
        if ctx.adds and of_residual is None:
            of_residual = of_x
        return of_x, of_residual, of_weight, of_bias, None, None, None


def _work(x: Tensor, seed: int, dropped: int) -> _Work:
    return _Work(x.numel() // x.shape[-1], x.shape[-1], seed, dropped, torch.get_num_threads())
