"""Dropout whose random numbers are made where they are used: nothing is kept for the backward pass but a seed."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from locant.kernels.library import Kernel
from locant.kernels.outcomes import require_done
from locant.kernels.tensors import address, suits_kernels

CHANCES = 256
"""A random byte decides for an element: so many values has it."""

_FLAGS = (ctypes.c_int,) * 3
_NUMBERS = (ctypes.c_int64, ctypes.c_uint64, ctypes.c_int, ctypes.c_float, ctypes.c_int)
KERNEL = Kernel({"locant_dropout": ([*[ctypes.c_void_p] * 3, *_FLAGS, *_NUMBERS], ctypes.c_char_p)})


def serves(x: Tensor, residual: Tensor | None) -> bool:
    """Return whether the kernel drops elements of ``x`` and adds a residual of the same shape to it."""
    if residual is None:
        return suits_kernels(x) and KERNEL.usable()
    return x.shape == residual.shape and suits_kernels(x, residual) and KERNEL.usable()


def dropout(x: Tensor, residual: Tensor | None, dropped: int) -> Tensor:
    """Return ``x`` with dropout, plus a residual, with gradients.

    Args:
        x: As :func:`serves` asks for, though of any size.
        residual: Of the same shape, or ``None``.
        dropped: How many of :data:`CHANCES` elements are dropped; the others are scaled to keep the mean.

    Returns:
        Of the shape of ``x``, and of the higher of the two precisions.
    """
    dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
    return _Dropout.apply(x, residual, dropped, new_seed(), dtype)  # type: ignore[no-untyped-call]


def new_seed() -> int:
    """Draw a seed of 64 bits for the kernels from PyTorch's generator of the CPU."""
    return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) & (2**64 - 1)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, dropped: int, seed: int, dtype: torch.dtype) -> Tensor:
        ctx.settings, ctx.dtypes = (dropped, seed), (x.dtype, None if residual is None else residual.dtype)
        x, residual = x.contiguous(), None if residual is None else residual.contiguous()
        out = torch.empty_like(x, dtype=dtype)
        small = (part is not None and part.dtype == torch.bfloat16 for part in (x, residual, out))
        scale, threads = CHANCES / (CHANCES - dropped), torch.get_num_threads()
        places = map(address, (x, residual, out))
        function = KERNEL.library.locant_dropout
        require_done(function(*places, *small, x.numel(), seed, dropped, scale, threads))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (outer,) = gradients
        own = _Dropout.apply(outer, None, *ctx.settings, ctx.dtypes[0]) if ctx.needs_input_grad[0] else None  # type: ignore[no-untyped-call]
        return own, outer.to(ctx.dtypes[1]) if ctx.needs_input_grad[1] else None, None, None, None
