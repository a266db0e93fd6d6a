"""Scaled dot-product and multi-head attention (Vaswani et al. 2017, section 3.2).

Shapes: ``x [B, Q, E]`` queries' side, ``memory [B, K, E]`` keys' side, heads ``[B, H, L, D]``.
"""

from __future__ import annotations

from torch import Tensor, nn

from locant.positions import Mask, PositionScheme, attend, attend_with_positions
from locant.transformer.cache import KeyValueCache
from locant.transformer.config import TransformerConfig


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
        dropout = self.dropout if self.training else 0.0
        if cache is None or scheme.caches_unrotated_keys:
            if cache is not None:
                k, v, k_positions = cache.append(k, v, positions)
            else:
                k_positions = positions
            context = attend_with_positions(q, k, v, scheme, positions, k_positions, mask, dropout=dropout)
        else:
            rotated, k = scheme.rotate(q, k, positions, positions)
            k, v, k_positions = cache.append(k, v, positions)
            bias = scheme.score_bias(q, k, positions, k_positions)
            context = attend(rotated, k, v, mask, bias, dropout=dropout)
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
