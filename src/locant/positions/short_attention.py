"""Attention of short texts by a C++ kernel, for training on the CPU.

PyTorch's fused attention is made for long texts: for sentences of some dozens of tokens most of its time goes into what
surrounds the arithmetic, and its gradients in bfloat16 take fifteen times as long (torch 2.13).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from locant.kernels.library import load_library

if TYPE_CHECKING:
    from locant.positions.attention import Mask


# Queries and keys beyond which the gain is small, and the probabilities that are kept are many.
LONGEST = {torch.float32: 64, torch.bfloat16: 128}
_LANES = 16  # The widest vector of the kernel.

_enabled = False


def compile_short_attention(enabled: bool = True) -> None:
    """Let :func:`~locant.positions.attend` use a C++ kernel for short texts.

    The kernel is built once, in some seconds, and kept in the user's cache folder. It serves texts of at most 64 tokens
    in float32 and 128 in bfloat16, on the CPU, where heads have a multiple of 16 features and nothing is added to the
    scores; everything else goes on as before. It computes in float32, and results agree with those of PyTorch to the
    rounding of their type.

    Args:
        enabled: False goes back to PyTorch.

    Raises:
        ConfigError: There is no C++ compiler, it fails, or the cache folder cannot be written.
    """
    global _enabled
    if enabled:
        _library()
    _enabled = enabled


def serves(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> bool:
    """Return whether the kernel is switched on and can attend with these, all ``[B, H, L, D]``."""
    if not _enabled or torch.compiler.is_compiling():
        return False
    longest = LONGEST.get(q.dtype, 0)
    return (
        1 < q.shape[2] <= longest
        and 0 < k.shape[2] <= longest
        and q.shape[3] % _LANES == 0
        and q.shape[:2] == k.shape[:2]
        and q.shape[3] == k.shape[3]
        and k.shape == v.shape
        and all(x.dtype == q.dtype and x.device.type == "cpu" and x.stride(3) == 1 for x in (q, k, v))
        and (mask.keys is None or mask.keys.shape == (q.shape[0], 1, 1, k.shape[2]))
    )


def short_attention(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
    """Attend as :func:`~locant.positions.attend` does, to what :func:`serves` allows.

    Returns:
        ``[B, H, Q, D]``, laid out as ``[B, Q, H, D]``: merging the heads copies nothing.
    """
    return _ShortAttention.apply(q, k, v, mask.keys, mask.causal)  # type: ignore[no-untyped-call]


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, keys: Tensor | None, causal: bool) -> Tensor:
        keys = None if keys is None else keys.contiguous()
        out = _like(q)
        batch, heads, queries, _ = q.shape
        room = -(-queries // _LANES) * _LANES
        probabilities = torch.empty(batch, heads, k.shape[2], room)
        work = _work(q, k, keys, causal, probabilities)
        _library().locant_short_attention(work, *map(_heads, (q, k, v, out)), *_settings(q))
        ctx.save_for_backward(q, k, v, probabilities)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, probabilities = ctx.saved_tensors
        (outer,) = gradients
        if outer.stride(3) != 1:
            outer = outer.contiguous()
        found = tuple(map(_like, (q, k, v)))
        work = _work(q, k, None, False, probabilities)  # what is not seen has probability 0
        _library().locant_short_attention_backward(work, *map(_heads, (q, k, v, outer, *found)), *_settings(q))
        return (*found, None, None)


def _like(x: Tensor) -> Tensor:
    """Return an empty tensor of the shape ``[B, H, L, D]`` of another, whose heads can be merged without a copy."""
    batch, heads, length, features = x.shape
    return x.new_empty(batch, length, heads, features).transpose(1, 2)


def _work(q: Tensor, k: Tensor, keys: Tensor | None, causal: bool, probabilities: Tensor) -> Any:
    address = 0 if keys is None else keys.data_ptr()
    return _numbers(*q.shape[:3], k.shape[2], q.shape[3], address, int(causal), probabilities.data_ptr())


def _heads(x: Tensor) -> Any:
    return _numbers(x.data_ptr(), *x.stride()[:3])


def _numbers(*values: int) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def _settings(q: Tensor) -> tuple[int, float, int]:
    return q.dtype == torch.bfloat16, q.shape[-1] ** -0.5, torch.get_num_threads()


@cache
def _library() -> ctypes.CDLL:
    library = load_library("short_attention.cpp")
    for function, tensors in ((library.locant_short_attention, 4), (library.locant_short_attention_backward, 7)):
        function.argtypes = [ctypes.c_void_p] * (1 + tensors) + [ctypes.c_int, ctypes.c_float, ctypes.c_int]
        function.restype = None
    return library
