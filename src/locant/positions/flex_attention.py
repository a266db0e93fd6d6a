"""Attention with a relative bias through FlexAttention, for CUDA: one fused kernel, no bias for any pair.

FlexAttention computes the bias of a pair inside the kernel, from the row of values that a scheme has for the distinct
relative positions; gradients of learned biases flow into that row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from locant.positions.attention import Mask
from locant.positions.scheme import ScoreMod

_BLOCK = 128
"""Queries, and keys, of a block that is seen or left out as a whole: FlexAttention's own size."""


def flex_attend(
    q: Tensor, k: Tensor, v: Tensor, score: ScoreMod | None, mask: Mask, *, attention: Callable[..., Any] | None = None
) -> Tensor:
    """Attend with a bias that is computed pair by pair.

    Args:
        q: Queries ``[B, H, Q, D]``, on CUDA unless ``attention`` is given.
        k: Keys ``[B, H, K, D]``, or of fewer heads.
        v: Values, likewise.
        score: What is done to a score, if anything.
        mask: Causal or not, perhaps with a window; without padding.
        attention: The kernel; FlexAttention, compiled, unless given.

    Returns:
        ``[B, H, Q, D]`` of the dtype of ``q``.
    """
    blocks = _causal_blocks(q.shape[2], k.shape[2], mask.window, str(q.device)) if mask.causal else None
    return (attention or _compiled())(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=q.shape[1] > k.shape[1])


@lru_cache(maxsize=32)
def _causal_blocks(queries: int, keys: int, window: int | None, device: str) -> BlockMask:
    """Return what ``create_block_mask`` returns of a causal mask, which would write out all pairs first."""
    ahead, window = keys - queries, window or keys
    rows, columns = -(-queries // _BLOCK), torch.arange(-(-keys // _BLOCK), device=device)
    first = _BLOCK * torch.arange(rows, device=device).unsqueeze(1)
    last = (first + _BLOCK - 1).clamp(max=queries - 1)
    seen = (columns <= (last + ahead) // _BLOCK) & (columns >= (first + ahead - window + 1) // _BLOCK)
    # Keys that all queries of a block see need no mask; a block that the queries do not fill has one.
    whole = (columns < (first + ahead + 1) // _BLOCK) & (first + _BLOCK <= queries)
    whole &= _BLOCK * columns > last + ahead - window
    masked, unmasked = (_numbered(blocks) for blocks in (seen & ~whole, whole))
    return BlockMask.from_kv_blocks(
        *masked,
        *unmasked,
        BLOCK_SIZE=_BLOCK,
        mask_mod=Mask(causal=True, window=window).mask_mod(queries, keys),
        seq_lengths=(queries, keys),
    )


def _numbered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks of keys each block of queries has, ``[1, 1, R]``, and all of them, its own first."""
    order = blocks.to(torch.int32).argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32)[None, None], order.to(torch.int32)[None, None].contiguous()


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Any]:
    return torch.compile(flex_attention, dynamic=True)
