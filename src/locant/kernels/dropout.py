"""Dropout whose random numbers are made where they are used: nothing is kept for the backward pass but a seed."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.kernels.library import Kernel
from locant.kernels.operator import operator
from locant.kernels.outcomes import require_done
from locant.kernels.tensors import DTYPES, address, is_usable, suits_kernels

CHANCES = 256
"""A random byte decides for an element: so many values has it."""

_FLAGS = (ctypes.c_int,) * 3
_NUMBERS = (ctypes.c_int64, ctypes.c_uint64, ctypes.c_int, ctypes.c_float, ctypes.c_int)
KERNEL = Kernel({"locant_dropout": ([*[ctypes.c_void_p] * 3, *_FLAGS, *_NUMBERS], ctypes.c_char_p)})


def serves(x: Tensor, residual: Tensor | None) -> bool:
    """Return whether the kernel drops elements of ``x`` and adds a residual of the same shape to it."""
    if residual is None:
        return suits_kernels(x) and is_usable(KERNEL)
    return x.shape == residual.shape and suits_kernels(x, residual) and is_usable(KERNEL)


def dropout(x: Tensor, residual: Tensor | None, dropped: int) -> Tensor:
    """Return ``x`` with dropout, plus a residual, with gradients.

    Args:
        x: As :func:`serves` asks for, though of any size.
        residual: Of the same shape, or ``None``.
        dropped: How many of :data:`CHANCES` elements are dropped; the others are scaled to keep the mean.

    Returns:
        Of the shape of ``x``, and of the higher of the two precisions.

    Raises:
        ConfigError: No elements are kept, or fewer than none are dropped.
    """
    dtype = x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype)
    return DROPOUT(x, residual, random_words(), dropped, dtype)


def random_words(*shape: int) -> Tensor:
    """Draw whole numbers of 64 random bits, int64, from PyTorch's generator of the CPU.

    They are the same where a compiler has traced this, unless it replaces PyTorch's generator as Inductor does.
    """
    if torch.compiler.is_compiling():  # nothing random is traced in place
        return torch.randint(-(2**63), 2**63 - 1, shape, device="cpu") ^ -(2**63)
    return torch.empty(shape, dtype=torch.int64, device="cpu").random_(-(2**63), None)


def scale_of(dropped: int, seed: Tensor | None) -> float:
    """Return what the elements that are kept are multiplied by.

    Args:
        dropped: How many of :data:`CHANCES` elements are dropped.
        seed: As from :func:`random_words`, of no dimensions; ``None`` where none are dropped.

    Raises:
        ConfigError: There is no such dropout, or it has no seed.
    """
    if not 0 <= dropped < CHANCES:
        raise ConfigError(f"Dropout takes 0 to {CHANCES - 1} of {CHANCES} elements, not {dropped}.")
    if dropped and seed is None:
        raise ConfigError(f"Dropout of {dropped} of {CHANCES} elements needs a seed.")
    return CHANCES / (CHANCES - dropped)


def keeps(seed: Tensor, shape: torch.Size, dropped: int, device: torch.device) -> Tensor:
    """Return which elements of a tensor the kernels keep: the same, by PyTorch's operations.

    Args:
        seed: As from :func:`random_words`, of no dimensions.
        shape: Of the tensor.
        dropped: How many of :data:`CHANCES` elements are dropped.
        device: Of the tensor.

    Returns:
        Boolean, of the given shape.
    """
    size = shape.numel()
    # The SplitMix64 generator (Steele et al. 2014), in whole numbers of 64 bits that wrap.
    state = seed.to(device) + torch.arange(1, (size + 7) // 8 + 1, device=device) * _signed(0x9E3779B97F4A7C15)
    state = (state ^ _shifted(state, 30)) * _signed(0xBF58476D1CE4E5B9)
    state = (state ^ _shifted(state, 27)) * _signed(0x94D049BB133111EB)
    state = state ^ _shifted(state, 31)
    numbers = (state.unsqueeze(-1) >> torch.arange(0, 64, 8, device=device)) & 255
    return (numbers.flatten()[:size] >= dropped).view(shape)


def drop(x: Tensor, seed: Tensor | None, dropped: int) -> Tensor:
    """Return ``x`` with dropout of the elements that the kernels drop, by PyTorch's operations; see :func:`keeps`.

    Raises:
        ConfigError: As in :func:`scale_of`.
    """
    scale = scale_of(dropped, seed)
    return torch.where(keeps(seed, x.shape, dropped, x.device), x * scale, 0.0) if seed is not None and dropped else x


def _signed(number: int) -> int:
    return number - (number >> 63 << 64)


def _shifted(number: Tensor, by: int) -> Tensor:
    """Shift to the right as numbers without a sign are shifted."""
    return (number >> by) & ((1 << 64 - by) - 1)


def _kernel(x: Tensor, residual: Tensor | None, seed: Tensor, dropped: int, dtype: torch.dtype) -> Tensor:
    x, residual = x.contiguous(), None if residual is None else residual.contiguous()
    out = torch.empty_like(x, dtype=dtype)
    small = (part is not None and part.dtype == torch.bfloat16 for part in (x, residual, out))
    scale, threads = scale_of(dropped, seed), torch.get_num_threads()
    places = map(address, (x, residual, out))
    require_done(KERNEL.library.locant_dropout(*places, *small, x.numel(), seed.item(), dropped, scale, threads))
    return out


def _plain(x: Tensor, residual: Tensor | None, seed: Tensor, dropped: int, dtype: torch.dtype) -> Tensor:
    wide = torch.promote_types(dtype, torch.float32)
    kept = drop(x.to(wide), seed, dropped)
    return (kept if residual is None else residual.to(wide) + kept).to(dtype, copy=True).contiguous()


def _reads(x: Tensor, residual: Tensor | None, seed: Tensor, dropped: int, dtype: torch.dtype) -> bool:
    del seed, dropped
    same = residual is None or (residual.dtype in DTYPES and residual.shape == x.shape and residual.is_cpu)
    return same and x.is_cpu and x.dtype in DTYPES and dtype in DTYPES and KERNEL.usable()


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    x, residual, seed, ctx.dropped, _ = inputs
    ctx.dtypes = x.dtype, None if residual is None else residual.dtype
    ctx.save_for_backward(seed)


def _gradients(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
    of_x, of_residual = ctx.dtypes
    own = DROPOUT(outer, None, *ctx.saved_tensors, ctx.dropped, of_x) if ctx.needs_input_grad[0] else None
    return own, outer.to(of_residual) if ctx.needs_input_grad[1] else None, None, None, None


DROPOUT = operator(
    "dropout(Tensor x, Tensor? residual, Tensor seed, int dropped, ScalarType dtype) -> Tensor",
    kernel=_kernel,
    plain=_plain,
    reads=_reads,
    setup=_setup,
    backward=_gradients,
)
