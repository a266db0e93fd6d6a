"""Scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2).

Shapes: ``x [B, Q, E]`` queries' side, ``memory [B, K, E]`` keys' side, heads ``[B, H, L, D]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from locant.positions import PositionScheme
from locant.transformer.cache import KeyValueCache
from locant.transformer.config import TransformerConfig


@dataclass(frozen=True)
class Mask:
    """Which keys a query may see, said without an ``L x L`` matrix.

    Attributes:
        causal: A query sees only keys up to its own index.
        keys: Boolean ``[B, 1, 1, K]``, true where a key is a real token, or ``None`` when all are.
    """

    causal: bool = False
    keys: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: Tensor, size: int) -> Mask:
        """Return the padding mask of rows with ``lengths [B]`` real tokens on the left of ``size`` columns."""
        if bool((lengths == size).all()):
            return cls()
        return cls(keys=(torch.arange(size, device=lengths.device) < lengths.unsqueeze(1))[:, None, None, :])


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None, *, dropout: float = 0.0) -> Tensor:
    """Scaled dot-product attention, ``softmax(q k^T / sqrt(D) + bias) v`` (equation 1).

    Args:
        q: Queries ``[B, H, Q, D]``.
        k: Keys ``[B, H, K, D]``.
        v: Values ``[B, H, K, D]``.
        mask: Which keys are seen. With ``causal`` and more keys than queries, the queries are the last ones.
        bias: Added to the scaled scores; broadcasts to ``[B, H, Q, K]``.
        dropout: Probability of dropping an attention weight.

    Returns:
        ``[B, H, Q, D]``, of the dtype of ``q``.
    """
    queries, keys = q.shape[2], k.shape[2]
    # A single query is the newest: it sees every key, so being causal asks for nothing.
    causal = mask.causal and queries > 1
    flag = causal and queries == keys and bias is None and mask.keys is None
    allowed = mask.keys
    if causal and not flag:
        lower = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
        allowed = lower if allowed is None else allowed & lower
    if bias is not None:
        bias = bias.to(q.dtype)
        allowed = bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=flag)


def _split_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], heads, -1).transpose(1, 2)


def _merge_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (section 3.2.2, equation after 1).

    The query, key and value projections of all heads are the three ``[E, E]`` blocks of one matrix.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.query_key_value = nn.Linear(config.d_model, 3 * config.d_model)
        self.output = nn.Linear(config.d_model, config.d_model)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        scheme: PositionScheme,
        mask: Mask,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Attend.

        Args:
            x: ``[B, L, E]``; with a cache, only the new tokens.
            positions: Integer positions of ``x``, ``[L]`` or ``[B, L]``.
            scheme: Tells queries, keys and scores where they stand.
            mask: Which keys are seen.
            cache: Keys and values of earlier tokens; the new ones are appended.

        Returns:
            ``[B, L, E]``.
        """
        q, k, v = (_split_heads(part, self.heads) for part in self.query_key_value(x).chunk(3, dim=-1))
        plain_q, plain_k, k_positions = q, k, positions
        if cache is not None and scheme.caches_unrotated_keys:
            k, v, k_positions = cache.append(k, v, positions)
            plain_k = k
            q, k = scheme.rotate(q, k, positions, k_positions)
        else:
            q, k = scheme.rotate(q, k, positions, positions)
            if cache is not None:
                k, v, k_positions = cache.append(k, v, positions)
                plain_k = k
        bias = scheme.score_bias(plain_q, plain_k, positions, k_positions)
        context = attend(q, k, v, mask, bias, dropout=self.dropout if self.training else 0.0)
        return self.output(_merge_heads(context))


class CrossAttention(nn.Module):
    """Multi-head attention of the decoder to the encoder's output (section 3.2.3, first bullet).

    The key and value projections are the two ``[E, E]`` blocks of one matrix.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.query = nn.Linear(config.d_model, config.d_model)
        self.key_value = nn.Linear(config.d_model, 2 * config.d_model)
        self.output = nn.Linear(config.d_model, config.d_model)

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[B, H, K, D]`` of the encoder's output ``[B, K, E]``."""
        k, v = (_split_heads(part, self.heads) for part in self.key_value(memory).chunk(2, dim=-1))
        return k, v

    def forward(self, x: Tensor, keys_and_values: tuple[Tensor, Tensor], mask: Mask) -> Tensor:
        """Attend from ``x [B, Q, E]`` to the given keys and values; returns ``[B, Q, E]``."""
        q = _split_heads(self.query(x), self.heads)
        k, v = keys_and_values
        context = attend(q, k, v, mask, dropout=self.dropout if self.training else 0.0)
        return self.output(_merge_heads(context))
