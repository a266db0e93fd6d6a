"""Scaled dot-product attention of short texts.

PyTorch's fused attention is made for long texts: for sentences of some dozens of tokens most of its time goes into what
surrounds the arithmetic, and its gradients in bfloat16 take fifteen times as long (torch 2.13).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from locant.kernels.library import LIBRARY, require_done
from locant.kernels.operator import no_gradient, of_first_alone, operator
from locant.kernels.tensors import DTYPES, address, always, int64s, is_usable, suits_kernels

LONGEST = {torch.float32: 64, torch.bfloat16: 128}
"""Queries and keys beyond which the gain is small, and the probabilities that are kept are many."""

_LANES = 16  # The widest vector of the kernel.
_SETTINGS = (ctypes.c_int, ctypes.c_float, ctypes.c_int)
LIBRARY.declare(
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
        and not (q.dtype == torch.float32 and torch.is_autocast_enabled("cpu"))  # PyTorch's attention would lower it
        and always(q.shape[2] > 1)
        and always(q.shape[2] <= longest)
        and always(k.shape[2] <= longest)
        and _reads(q, k, v, key_mask)
    )


def attend(q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None, causal: bool) -> Tensor:
    """Return ``softmax(q k^T / sqrt(D)) v``, with gradients: ``[B, H, Q, D]`` whose heads are merged without a copy.

    Queries ``[B, H, Q, D]``, keys and values ``[B, H, K, D]`` are as :func:`serves` asks for, though of any size. The
    mask, boolean ``[B, 1, 1, K]``, is true where a key is seen. A ``causal`` query sees only keys up to its own index,
    the queries being the last ones. MemoryError where memory does not suffice.
    """
    return ATTENTION(q, k, v, key_mask, causal)[0]


def _kernel(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    mask = None if key_mask is None else key_mask.contiguous()
    out, probabilities = _like(q), q.new_empty(*k.shape[:3], _room(q), dtype=torch.float32)
    _call("locant_attention", q, k, mask, causal, probabilities, (q, k, v, out))
    return out, probabilities


def _plain(q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    queries, keys = q.shape[2], k.shape[2]
    scores = (q.float() @ k.float().mT) * _scale(q)
    seen = torch.ones((), dtype=torch.bool, device=q.device) if key_mask is None else key_mask
    if causal:
        newest = torch.arange(queries, device=q.device) + (keys - queries)
        seen = seen & (torch.arange(keys, device=q.device) <= newest.unsqueeze(1))
    probabilities = torch.where(seen, scores.masked_fill(~seen, float("-inf")).softmax(-1), 0.0)
    out = _laid_out((probabilities @ v.float()).to(q.dtype))
    return out, torch.nn.functional.pad(probabilities.mT, (0, _room(q) - queries)).contiguous()


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    of_first_alone(ctx, output)
    ctx.save_for_backward(*inputs[:3], output[1])


def _gradients(ctx: Any, outer: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
    if outer is None:
        return (None,) * 5
    return (*ATTENTION_BACKWARD(outer, *ctx.saved_tensors), None, None)


def _kernel_backward(outer: Tensor, q: Tensor, k: Tensor, v: Tensor, probabilities: Tensor) -> tuple[Tensor, ...]:
    outer = outer if outer.stride(3) == 1 else outer.contiguous()
    found = _like(q), _like(k), _like(v)
    # What is not seen has probability 0.
    _call("locant_attention_backward", q, k, None, False, probabilities, (q, k, v, outer, *found))
    return found


def _plain_backward(outer: Tensor, q: Tensor, k: Tensor, v: Tensor, probabilities: Tensor) -> tuple[Tensor, ...]:
    weights, above = probabilities[..., : q.shape[2]].mT, outer.float()
    of_weights = above @ v.float().mT
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdim=True)) * _scale(q)
    found = of_scores @ k.float(), of_scores.mT @ q.float(), weights.mT @ above
    return tuple(_laid_out(x.to(q.dtype)) for x in found)


def _reads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False) -> bool:
    del causal
    (batch, heads, queries, features), keys = q.shape, k.shape[2]
    return (
        q.dtype in DTYPES
        and q.dtype == k.dtype == v.dtype
        and q.is_cpu
        and k.is_cpu
        and v.is_cpu
        and features > 0
        and features % _LANES == 0
        and always(queries > 0)
        and always(keys > 0)
        and k.shape == v.shape
        and (batch, heads, features) == (k.shape[0], k.shape[1], k.shape[3])
        and q.stride(3) == k.stride(3) == v.stride(3) == 1
        and (mask is None or (mask.shape == (batch, 1, 1, keys) and mask.dtype == torch.bool and mask.is_cpu))
        and is_usable()
    )


def _reads_backward(outer: Tensor, q: Tensor, k: Tensor, v: Tensor, probabilities: Tensor) -> bool:
    return (
        outer.is_cpu
        and (outer.dtype, outer.shape) == (q.dtype, q.shape)
        and probabilities.is_cpu
        and (probabilities.dtype, probabilities.shape) == (torch.float32, (*k.shape[:3], _room(q)))
        and probabilities.is_contiguous()
        and _reads(q, k, v, None)
    )


ATTENTION_BACKWARD = operator(
    "attention_backward(Tensor outer, Tensor q, Tensor k, Tensor v, Tensor probabilities) -> (Tensor, Tensor, Tensor)",
    kernel=_kernel_backward,
    plain=_plain_backward,
    reads=_reads_backward,
    backward=no_gradient(
        "The attention of short texts has no second derivatives; LOCANT_KERNELS=0 takes PyTorch's instead."
    ),
)
ATTENTION = operator(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? key_mask, bool causal) -> (Tensor, Tensor)",
    kernel=_kernel,
    plain=_plain,
    reads=_reads,
    setup=_setup,
    backward=_gradients,
    autocast=True,
)
"""Returns the output and the probabilities, which are for the backward pass: ``[B, H, K, Q]``, padded to 16 queries."""


def _like(x: Tensor) -> Tensor:
    """Return an empty tensor of the shape ``[B, H, L, D]`` of another, whose heads can be merged without a copy."""
    batch, heads, length, features = x.shape
    return x.new_empty(batch, length, heads, features).transpose(1, 2)


def _laid_out(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _room(q: Tensor) -> int:
    """Return for how many queries the probabilities have room."""
    return -(-q.shape[2] // _LANES) * _LANES


def _call(
    name: str, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, probabilities: Tensor, heads: tuple[Tensor, ...]
) -> None:
    sizes = *q.shape[:3], k.shape[2], q.shape[3]
    work = int64s(*sizes, address(mask) or 0, causal, probabilities.data_ptr())
    tensors = [int64s(x.data_ptr(), *x.stride()[:3]) for x in heads]
    settings = q.dtype == torch.bfloat16, _scale(q), torch.get_num_threads()
    require_done(getattr(LIBRARY.load(), name)(work, *tensors, *settings))


def _scale(q: Tensor) -> float:
    """Return what scores are multiplied by; those of no features are 0, whatever it is."""
    return max(q.shape[3], 1) ** -0.5
