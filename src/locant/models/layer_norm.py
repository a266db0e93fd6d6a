"""Layer norm with the dropout and the residual connection before it, in one pass on the CPU.

Source: Ba et al. 2016 (layer normalisation, section 3); Vaswani et al. 2017, sections 3.1 and 5.4.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from locant.kernels.library import find_library
from locant.models.dropout import CHANCES, Dropout, new_seed

_DTYPES = (torch.float32, torch.bfloat16)
_BLOCK = 64  # Features that share a block of random numbers.


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
    dropped = dropout.dropped if dropout.training else 0
    if x.dtype == residual.dtype and _serves(x, norm):
        return _LayerNorm.apply(x, residual, norm.weight, norm.bias, norm.eps, dropped, _out_dtype(x))  # type: ignore[no-untyped-call]
    return norm(dropout(x, residual))


def layer_norm(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Return ``norm(x)`` of ``x [..., E]``, under autocast on the CPU in the lower precision."""
    if _serves(x, norm):
        return _LayerNorm.apply(x, None, norm.weight, norm.bias, norm.eps, 0, _out_dtype(x))  # type: ignore[no-untyped-call]
    return norm(x)


def _serves(x: Tensor, norm: nn.LayerNorm) -> bool:
    return (
        torch.is_grad_enabled()  # else there is nothing to save
        and x.device.type == "cpu"
        and x.dtype in _DTYPES
        and x.shape[-1] % _BLOCK == 0
        and norm.weight.dtype == torch.float32
        and not torch.compiler.is_compiling()
        and _library() is not None
    )


def _out_dtype(x: Tensor) -> torch.dtype:
    if x.dtype == torch.float32 and torch.is_autocast_enabled("cpu"):
        lower = torch.get_autocast_dtype("cpu")
        return lower if lower in _DTYPES else x.dtype
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
        _library().locant_layer_norm(
            ctx.work, _address(x), _address(residual), *map(_address, (weight, bias, out, normalised, inverse)),
            ctx.scale, epsilon, x.dtype == torch.bfloat16, dtype == torch.bfloat16,
        )  # fmt: skip
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
        _library().locant_layer_norm_backward(
            ctx.work, *map(_address, (outer, normalised, inverse, weight, of_x, of_residual, sums)),
            ctx.scale, of_x.dtype == torch.bfloat16, outer.dtype == torch.bfloat16,
        )  # fmt: skip
        of_weight, of_bias = sums.sum(0)
        if ctx.adds and of_residual is None:
            of_residual = of_x
        return of_x, of_residual, of_weight, of_bias, None, None, None


class _Work(ctypes.Structure):
    """The fields as ``layer_norm.cpp`` reads them."""

    _fields_ = (
        ("rows", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("dropped", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    )


def _work(x: Tensor, seed: int, dropped: int) -> _Work:
    return _Work(x.numel() // x.shape[-1], x.shape[-1], seed, dropped, torch.get_num_threads())


def _address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


@cache
def _library() -> Any:
    library = find_library("layer_norm.cpp")
    if library is None:
        return None
    work, address, number, flag = ctypes.POINTER(_Work), ctypes.c_void_p, ctypes.c_float, ctypes.c_int
    library.locant_layer_norm.argtypes = [work, *[address] * 7, number, number, flag, flag]
    library.locant_layer_norm_backward.argtypes = [work, *[address] * 7, number, flag, flag]
    library.locant_layer_norm.restype = library.locant_layer_norm_backward.restype = None
    return library
