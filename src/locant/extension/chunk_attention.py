"""Causal attention of a chunk of queries to cached keys, without a mask.

transformers gives scaled_dot_product_attention a mask of ``[C, L]`` for such a chunk, and repeats cached keys for every
query head of a group. Here the keys before the chunk and those of the chunk are attended to apart, and joined by the
logarithms of their sums of exponentials (Dao et al. 2022, "FlashAttention", section 3.1): no mask is read, nothing
cached is copied. On CPU alone; elsewhere transformers' own is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_NAME = "locant_chunk"
_KERNEL = "_scaled_dot_product_flash_attention_for_cpu"


def attend_chunk(query: Tensor, key: Tensor, value: Tensor, scale: float | None = None) -> Tensor:
    """Attend causally, the last key belonging to the last query.

    Args:
        query: ``[B, H, C, D]``.
        key: ``[B, G, L, D]``, where ``G`` divides ``H`` and ``L`` is at least ``C``.
        value: ``[B, G, L, D]``.
        scale: Of the scores; ``D ** -0.5`` by default.

    Returns:
        ``[B, H, C, D]``.
    """
    batch, heads, count, dim = query.shape
    groups, past = key.shape[1], key.shape[2] - count
    kernel = getattr(torch.ops.aten, _KERNEL)
    own = (states[:, :, past:].repeat_interleave(heads // groups, 1) for states in (key, value))
    out, log_sum = kernel(query, *own, 0.0, True, scale=scale)
    if past:
        # All query heads of a group are rows of one: causality does not matter before the chunk.
        rows = query.reshape(batch, groups, heads // groups * count, dim)
        earlier, earlier_sum = kernel(rows, key[:, :, :past], value[:, :, :past], 0.0, False, scale=scale)
        share = torch.sigmoid(earlier_sum.reshape(batch, heads, count) - log_sum).to(out.dtype)
        out = torch.lerp(out, earlier.reshape(query.shape), share[..., None])
    return out


@contextmanager
def chunk_attention(model: PreTrainedModel) -> Iterator[None]:
    """Within the block, a model attends by :func:`attend_chunk` where that means the same as its own attention."""
    if not _fits(model):
        yield
        return
    AttentionInterface.register(_NAME, _forward)
    AttentionMaskInterface.register(_NAME, _no_mask)
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")


def _fits(model: PreTrainedModel) -> bool:
    """Whether all layers attend to everything before, with heads of one size, through transformers' interface."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None)
    is_full = (
        set(kinds) == {"full_attention"}
        if kinds
        else not any(getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size"))
    )
    is_plain = not any(getattr(config, name, None) for name in ("kv_lora_rank", "attn_logit_softcapping"))
    return (
        is_full
        and is_plain
        and model.device.type == "cpu"
        and model.config._attn_implementation == "sdpa"
        and bool(getattr(model, "_supports_attention_backend", False))
        and hasattr(torch.ops.aten, _KERNEL)
    )


def _forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    del module, attention_mask
    return attend_chunk(query, key, value, scaling).transpose(1, 2).contiguous(), None


def _no_mask(*_: Any, **__: Any) -> None:
    return None
