"""Multi-head attention of a sequence to itself and to the encoder's output, and the caches of generation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from locant.models.config import BlockSettings
from locant.models.stacked_linear import StackedLinear
from locant.positions import AttentionPlan, Mask, attend


class KeyValueCache:
    """Keys and values of one layer's self-attention; room doubles as it fills.

    An :class:`~locant.positions.AttentionPlan` decides what is kept: keys as they are attended to, or, where the scheme
    still needs them that way, before rotation. Where the scheme's keys carry a state, it is kept beside them.

    Shapes: keys and values ``[B, H, L, D]``, a state ``[B, H, L, ...]``.
    """

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[Tensor] = []

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append the new tokens' keys, values and, where there is one, state; return those of all tokens so far."""
        start, self.length = self.length, self.length + new[0].shape[2]
        if start == 0 or self.length > self._parts[0].shape[2]:
            old, room = self._parts, max(16, 2 * self.length)
            self._parts = [part.new_empty(*part.shape[:2], room, *part.shape[3:]) for part in new]
            for part, before in zip(self._parts, old, strict=bool(start)):
                part[:, :, :start] = before[:, :, :start]
        for part, each in zip(self._parts, new, strict=True):
            part[:, :, start : self.length] = each
        return tuple(part[:, :, : self.length] for part in self._parts)

    def select(self, rows: Tensor) -> None:
        """Keep the given rows ``[N]`` of the batch, in that order; a row may be taken several times."""
        self._parts = [part.index_select(0, rows) for part in self._parts]


@dataclass
class StackCache:
    """The self-attention caches of a stack that reads or generates step by step.

    Attributes:
        layers: The cache of each layer.
        positions: Where the tokens so far stand, as the scheme gave them: ``[L]`` or ``[B, L]``; ``None`` before any.
        length: Number of tokens so far.
    """

    layers: list[KeyValueCache]
    positions: Tensor | None = None
    length: int = 0

    def select(self, rows: Tensor) -> None:
        """Keep the given rows ``[N]`` of the batch, in that order."""
        if self.positions is not None and self.positions.dim() > 1 and len(self.positions) > 1:
            self.positions = self.positions.index_select(0, rows)
        for layer in self.layers:
            layer.select(rows)


class DecoderCache(StackCache):
    """The caches of all decoder layers for one batch of sources.

    Attributes:
        cross: Keys and values of the encoder's output for each layer, computed once.
        source_lengths: Number of real source tokens of each row, ``[B]``.
    """

    def __init__(self, cross: list[tuple[Tensor, Tensor]], source_lengths: Tensor) -> None:
        super().__init__([KeyValueCache() for _ in cross])
        self.cross, self.source_lengths = cross, source_lengths

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        """Keep the given rows ``[N]`` of the batch, in that order (beams that continue, sentences not finished).

        Args:
            rows: Indices of rows, integer ``[N]``.
            same_sources: Promises that every new row has the source of the old row in its place (beams change places
                within their sentence), so that the keys and values of the sources need no copying.
        """
        if not same_sources:
            self.cross = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.cross]
            self.source_lengths = self.source_lengths.index_select(0, rows)
        super().select(rows)


def _split_heads(x: Tensor, heads: int) -> Tensor:
    return x.reshape(*x.shape[:-1], heads, -1).transpose(1, 2)


def _merge_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (section 3.2.2, equation after 1).

    The query, key and value projections of all heads are the three ``[E, E]`` blocks of one matrix.
    """

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.dropout = settings.attention_dropout
        self.query_key_value = StackedLinear(settings.d_model, 3 * settings.d_model, blocks=3)
        self.output = nn.Linear(settings.d_model, settings.d_model)

    def forward(self, x: Tensor, plan: AttentionPlan, cache: KeyValueCache | None = None) -> Tensor:
        """Attend.

        Args:
            x: ``[B, L, E]``; with a cache, only the new tokens.
            plan: Tells queries, keys and scores where they stand, and which keys are seen.
            cache: Keys, values and state of earlier tokens; the new ones are appended.

        Returns:
            ``[B, L, E]``.
        """
        q, k, v = (_split_heads(part, self.heads) for part in self.query_key_value(x).chunk(3, dim=-1))
        state = plan.prepare(x)
        q, k = plan.rotate(q, k, state)
        if cache is not None:
            carried = () if state is None or state.keys is None else (state.keys,)
            k, v, *kept = cache.append(k, v, *carried)
            state = state._replace(keys=kept[0]) if state is not None and kept else state
        context = plan.attend(q, k, v, state, dropout=self.dropout if self.training else 0.0)
        return self.output(_merge_heads(context))


class CrossAttention(nn.Module):
    """Multi-head attention of the decoder to the encoder's output (section 3.2.3, first bullet).

    The key and value projections are the two ``[E, E]`` blocks of one matrix.
    """

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.dropout = settings.attention_dropout
        self.query = nn.Linear(settings.d_model, settings.d_model)
        self.key_value = StackedLinear(settings.d_model, 2 * settings.d_model, blocks=2)
        self.output = nn.Linear(settings.d_model, settings.d_model)

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[B, H, K, D]`` of the encoder's output ``[B, K, E]``."""
        k, v = (_split_heads(part, self.heads) for part in self.key_value(memory).chunk(2, dim=-1))
        return k, v

    def forward(
        self, x: Tensor, keys_and_values: tuple[Tensor, Tensor], mask: Mask, *, aligned: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from ``x [B, Q, E]`` to the given keys and values; returns ``[B, Q, E]``.

        With ``aligned`` the logarithms of the weights of the first head, float32 ``[B, Q, K]``, are returned as well;
        those of padding are very small.
        """
        q = _split_heads(self.query(x), self.heads)
        k, v = keys_and_values
        context = self.output(_merge_heads(attend(q, k, v, mask, dropout=self.dropout if self.training else 0.0)))
        if not aligned:
            return context
        scores = (q[:, 0] @ k[:, 0].transpose(-1, -2)).float() * q.shape[-1] ** -0.5
        if mask.keys is not None:
            scores = scores.masked_fill(~mask.keys.flatten(1).unsqueeze(1), torch.finfo(torch.float32).min)
        return context, scores.log_softmax(-1)

    def weights(self, x: Tensor, keys: Tensor, mask: Mask) -> Tensor:
        """Return how much each of ``x [B, Q, E]`` attends to keys ``[B, H, K, D]``: ``[B, H, Q, K]``, rows sum to 1."""
        q = _split_heads(self.query(x), self.heads)
        scores = (q @ keys.transpose(-1, -2)) * q.shape[-1] ** -0.5
        if mask.keys is not None:
            scores = scores.masked_fill(~mask.keys, -torch.inf)
        return scores.softmax(-1, dtype=torch.float32)
