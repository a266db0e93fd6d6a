"""Dropout whose random mask costs little."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from locant.kernels.library import find_library

CHANCES = 256  # A random byte decides for an element.
# What the C++ kernel reads and writes.
_COMPILED = (torch.float32, torch.bfloat16)


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
            if x.device.type == "cpu":
                return self._on_cpu(x, residual)
            x = nn.functional.dropout(x, self.p)
        return x if residual is None else residual + x

    @property
    def dropped(self) -> int:
        """How many of 256 elements are dropped on CPU; 0 where ``p`` is 0."""
        return min(CHANCES - 1, max(1, round(self.p * CHANCES))) if self.p > 0 else 0

    def extra_repr(self) -> str:
        """Show the probability."""
        return f"p={self.p}"

    def _on_cpu(self, x: Tensor, residual: Tensor | None) -> Tensor:
        dropped = self.dropped
        both = (x,) if residual is None else (x, residual)
        if all(part.dtype in _COMPILED for part in both) and not torch.compiler.is_compiling() and _kernel():
            return _CompiledDropout.apply(x, residual, dropped)  # type: ignore[no-untyped-call]
        x = _ByteMaskDropout.apply(x.contiguous(), dropped)  # type: ignore[no-untyped-call]
        return x if residual is None else residual + x


def new_seed() -> int:
    """Draw a seed of 64 bits for the kernels from PyTorch's generator of the CPU."""
    return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None)) & (2**64 - 1)


class _CompiledDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor | None, dropped: int) -> Tensor:
        ctx.seed = new_seed()
        ctx.dropped, ctx.dtypes = dropped, (x.dtype, None if residual is None else residual.dtype)
        dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
        return _dropped(x, residual, dtype, ctx.seed, dropped)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (outer,) = gradients
        own = _dropped(outer, None, ctx.dtypes[0], ctx.seed, ctx.dropped) if ctx.needs_input_grad[0] else None
        return own, outer.to(ctx.dtypes[1]) if ctx.needs_input_grad[1] else None, None


def _dropped(x: Tensor, residual: Tensor | None, dtype: torch.dtype, seed: int, dropped: int) -> Tensor:
    x = x.contiguous()
    residual = None if residual is None else residual.contiguous()
    out = torch.empty_like(x, dtype=dtype)
    small = (part is not None and part.dtype == torch.bfloat16 for part in (x, residual, out))
    _kernel()(
        x.data_ptr(),
        None if residual is None else residual.data_ptr(),
        out.data_ptr(),
        *small,
        x.numel(),
        seed,
        dropped,
        CHANCES / (CHANCES - dropped),
        torch.get_num_threads(),
    )
    return out


@cache
def _kernel() -> Any:
    library = find_library("dropout.cpp")
    if library is None:
        return None
    address = ctypes.c_void_p
    numbers: list[Any] = [ctypes.c_int64, ctypes.c_uint64, ctypes.c_int, ctypes.c_float, ctypes.c_int]
    library.locant_dropout.argtypes = [address, address, address, *[ctypes.c_int] * 3, *numbers]
    library.locant_dropout.restype = None
    return library.locant_dropout


class _ByteMaskDropout(torch.autograd.Function):
    """Without a compiler: a mask of bytes, at an eighth of the random numbers of ``torch.nn.Dropout``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        keep = (words.view(torch.uint8)[: x.numel()] >= dropped).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = CHANCES / (CHANCES - dropped)
        return torch.ops.aten.native_dropout_backward(x, keep, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return torch.ops.aten.native_dropout_backward(gradients[0], keep, ctx.scale), None
