"""Scaled dot-product attention of short texts.

PyTorch's fused attention is made for long texts: for sentences of some dozens of tokens most of its time goes into what
surrounds the arithmetic, and its gradients in bfloat16 take fifteen times as long (torch 2.13).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from locant.kernels.library import Kernel
from locant.kernels.outcomes import require_done
from locant.kernels.tensors import suits_kernels

LONGEST = {torch.float32: 64, torch.bfloat16: 128}
"""Queries and keys beyond which the gain is small, and the probabilities that are kept are many."""

_LANES = 16  # The widest vector of the kernel.
_SETTINGS = (ctypes.c_int, ctypes.c_float, ctypes.c_int)
KERNEL = Kernel(
    {
        "locant_attention": ([*[ctypes.c_void_p] * 5, *_SETTINGS], ctypes.c_char_p),
        "locant_attention_backward": ([*[ctypes.c_void_p] * 8, *_SETTINGS], ctypes.c_char_p),
    },
)


def serves(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None) -> bool:
    """Return whether the kernel attends with these, all ``[B, H, L, D]``; the mask is as for :func:`attend`."""
    longest = LONGEST.get(q.dtype, 0)
    return (
        suits_kernels(q, k, v)
        and 1 < q.shape[2] <= longest
        and 0 < k.shape[2] <= longest
        and q.shape[3] % _LANES == 0
        and q.shape[:2] == k.shape[:2]
        and q.shape[3] == k.shape[3]
        and k.shape == v.shape
        and all(x.dtype == q.dtype and x.stride(3) == 1 for x in (q, k, v))
        and (key_mask is None or _is_mask(key_mask, q.shape[0], k.shape[2]))
        and KERNEL.usable()
    )


def _is_mask(mask: Tensor, texts: int, keys: int) -> bool:
    return mask.shape == (texts, 1, 1, keys) and mask.dtype == torch.bool and mask.is_cpu


def attend(q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None, causal: bool) -> Tensor:
    """Return ``softmax(q k^T / sqrt(D)) v``, with gradients.

    Args:
        q: Queries ``[B, H, Q, D]``, as :func:`serves` asks for, though of any size.
        k: Keys ``[B, H, K, D]``.
        v: Values ``[B, H, K, D]``.
        key_mask: Boolean ``[B, 1, 1, K]``, true where a key is seen; ``None`` when all are.
        causal: Whether a query sees only keys up to its own index, the queries being the last ones.

    Returns:
        ``[B, H, Q, D]``, laid out as ``[B, Q, H, D]``: merging the heads copies nothing.

    Raises:
        ConfigError: The sizes are not such as the kernel reads.
        MemoryError: Memory does not suffice.
    """
    return _Attention.apply(q, k, v, key_mask, causal)  # type: ignore[no-untyped-call]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, causal: bool) -> Tensor:
        key_mask = None if key_mask is None else key_mask.contiguous()
        out = _like(q)
        batch, heads, queries, _ = q.shape
        room = -(-queries // _LANES) * _LANES
        probabilities = torch.empty(batch, heads, k.shape[2], room)
        work = _work(q, k, key_mask, causal, probabilities)
        require_done(KERNEL.library.locant_attention(work, *map(_heads, (q, k, v, out)), *_settings(q)))
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
        function = KERNEL.library.locant_attention_backward
        require_done(function(work, *map(_heads, (q, k, v, outer, *found)), *_settings(q)))
        return (*found, None, None)


def _like(x: Tensor) -> Tensor:
    """Return an empty tensor of the shape ``[B, H, L, D]`` of another, whose heads can be merged without a copy."""
    batch, heads, length, features = x.shape
    return x.new_empty(batch, length, heads, features).transpose(1, 2)


def _work(q: Tensor, k: Tensor, key_mask: Tensor | None, causal: bool, probabilities: Tensor) -> Any:
    mask = 0 if key_mask is None else key_mask.data_ptr()
    return _numbers(*q.shape[:3], k.shape[2], q.shape[3], mask, int(causal), probabilities.data_ptr())


def _heads(x: Tensor) -> Any:
    return _numbers(x.data_ptr(), *x.stride()[:3])


def _numbers(*values: int) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def _settings(q: Tensor) -> tuple[int, float, int]:
    return q.dtype == torch.bfloat16, q.shape[-1] ** -0.5, torch.get_num_threads()
