"""Queries attended in blocks through transformers' attention functions, with masks and biases for each block."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from locant.errors import LocantError
from locant.positions.scheme import PositionScheme

Block = slice

# Scores of the queries that are attended at once where a scheme has a bias: 64 MB in float32.
_SCORES_AT_ONCE = 1 << 24


def query_blocks(scheme: PositionScheme, at: Tensor, scores_of_a_query: int) -> list[Block]:
    """Return the runs of queries that are attended at once.

    Args:
        scheme: Its runs have the same rotation of keys.
        at: Integer positions of the queries, ``[Q]`` or ``[B, Q]``.
        scores_of_a_query: Numbers that a bias has for one query.
    """
    runs = scheme.query_blocks(at)
    if "scores" not in scheme.acts_on:
        return runs
    size = max(1, _SCORES_AT_ONCE // max(1, scores_of_a_query))
    return [slice(i, min(i + size, run.stop)) for run in runs for i in range(run.start, run.stop, size)] or runs


def block_mask(mask: Any, block: Block, queries: int, keys: int, is_causal: bool, like: Tensor) -> tuple[Any, int]:
    """Return the mask of a block of queries, and how many keys it concerns.

    Args:
        mask: As transformers' attention functions take it: a tensor ``[B, H or 1, Q, K]``, one of FlexAttention's, or
            ``None``.
        block: The queries.
        queries: Number of all queries.
        keys: Number of all keys.
        is_causal: Whether queries see only keys up to their own, where there is no mask.
        like: A tensor on the device of the queries.
    """
    if block.start == 0 and block.stop == queries:
        return mask, keys
    if isinstance(mask, Tensor):
        return mask[:, :, block.start : block.stop] if mask.shape[2] > 1 else mask, keys
    if mask is not None:
        return _flex_mask(mask, block, keys, like), keys
    if not is_causal:
        return None, keys
    # Without a mask the first query sees the first key alone: a static cache has room behind the last ones.
    index = torch.arange(block.start, block.stop, device=like.device).unsqueeze(1)
    return (torch.arange(block.stop, device=like.device) <= index)[None, None], block.stop


def with_bias(
    function: Callable[..., Any],
    mask: Any,
    bias: Tensor,
    query: Tensor,
    key: Tensor,
    is_causal: bool,
    kwargs: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """Return mask and further arguments with which an attention function adds a bias to the scaled scores.

    Args:
        function: One of transformers' attention functions.
        mask: As for :func:`block_mask`, of these queries.
        bias: Broadcasts to ``[B, H, Q, K]``.
        query: ``[B, H, Q, D]``.
        key: ``[B, G, K, D]``.
        is_causal: As for :func:`block_mask`.
        kwargs: Further arguments.

    Raises:
        LocantError: The function cannot add a bias.
    """
    name = getattr(function, "__name__", "")
    if "flash" in name:
        raise LocantError(f"Flash attention ({name}) adds nothing to scores. Load the model with sdpa, eager or flex.")
    bias = bias.to(query.dtype)
    if mask is not None and not isinstance(mask, Tensor):
        if "position_bias" not in inspect.signature(function).parameters:
            raise LocantError("FlexAttention takes a bias from release 5.16 of transformers on; use sdpa or eager.")
        every = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        return mask, kwargs | {"position_bias": every}
    if mask is None and is_causal and query.shape[2] > 1:
        queries, keys = (torch.arange(x.shape[2], device=query.device) for x in (query, key))
        mask = (keys <= queries.unsqueeze(1))[None, None]
    if mask is None:
        return bias.expand(-1, query.shape[1], -1, -1), kwargs
    mask = mask[..., : key.shape[2]]
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, torch.finfo(bias.dtype).min), kwargs
    return mask + bias, kwargs


def _flex_mask(mask: Any, block: Block, keys: int, like: Tensor) -> Any:
    """Return FlexAttention's mask for a block of queries."""
    from torch.nn.attention.flex_attention import create_block_mask  # takes long to import

    first, inner = block.start, mask.mask_mod

    def of_block(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return inner(b, h, q + first, k)

    return create_block_mask(of_block, like.shape[0], None, block.stop - block.start, keys, device=str(like.device))
