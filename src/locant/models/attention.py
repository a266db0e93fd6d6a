"""Multi-head attention of a sequence to itself and to the encoder's output, and the caches of generation."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from locant.models.config import BlockSettings
from locant.models.layer_norm import Norm, build_norm
from locant.models.stacked_linear import StackedLinear
from locant.positions import AttentionPlan, Mask, attend


class KeyValueCache:
    """Keys and values of one layer's self-attention; room doubles as it fills, unless a window says what is enough.

    An :class:`~locant.positions.AttentionPlan` decides what is kept: keys as they are attended to, or, where the scheme
    still needs them that way, before rotation. Where the scheme's keys carry a state, it is kept beside them.

    Shapes: keys and values ``[B, H, L, D]``, a state ``[B, H, L, ...]``.

    Args:
        before: How many keys before its own a query sees at most, where there is such a number; no more are kept.
    """

    def __init__(self, before: int | None = None) -> None:
        self.length, self.before = 0, before
        self._parts: list[Tensor] = []

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        """Append the new tokens' keys, values and, where there is one, state; return those of all tokens seen."""
        if self.before is not None:
            if self.length:
                new = tuple(torch.cat(pair, dim=2) for pair in zip(self._parts, new, strict=True))
            self.length = min(self.before, new[0].shape[2])
            self._parts = [part[:, :, part.shape[2] - self.length :].clone() for part in new]
            return new
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
        positions: For each kind of layers, where the tokens that its caches keep are, as its scheme gave them:
            ``[L]`` or ``[B, L]``; none before any token.
        length: Number of tokens so far.
    """

    layers: list[KeyValueCache]
    positions: list[Tensor] = field(default_factory=list)
    length: int = 0

    def select(self, rows: Tensor) -> None:
        """Keep the given rows ``[N]`` of the batch, in that order."""
        self.positions = [
            one.index_select(0, rows) if one.dim() > 1 and len(one) > 1 else one for one in self.positions
        ]
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


def _split_heads(x: Tensor, heads: int, norm: Norm | None = None) -> Tensor:
    """Return ``[B, H, L, D]`` of ``x [B, L, H D]``, with a norm of each head, or of all where it is so wide."""
    if norm is not None and norm.normalized_shape[0] == x.shape[-1]:
        x, norm = norm(x), None
    x = x.reshape(*x.shape[:-1], heads, -1)
    return (x if norm is None else norm(x)).transpose(1, 2)


def _head_norm(settings: BlockSettings, heads: int) -> Norm | None:
    if settings.qk_norm == "none":
        return None
    return build_norm(settings, settings.head_features * (heads if settings.qk_norm == "all" else 1))


def _merge_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself (section 3.2.2, equation after 1).

    The query, key and value projections of all heads are the three blocks of one matrix, each ``[E, E]`` unless keys
    have fewer heads or heads a size of their own.
    """

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.heads, self.key_heads = settings.heads, settings.key_heads
        self.dropout = settings.attention_dropout
        queries, keys = (heads * settings.head_features for heads in (self.heads, self.key_heads))
        self._heights = queries, keys, keys
        self.query_key_value = StackedLinear(settings.d_model, self._heights, bias=settings.bias)
        self.query_norm, self.key_norm = _head_norm(settings, self.heads), _head_norm(settings, self.key_heads)
        self.output = nn.Linear(queries, settings.d_model, bias=settings.bias)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries ``[B, H, L, D]``, and keys and values of as many heads or fewer, of ``x [B, L, E]``."""
        q, k, v = self.query_key_value(x).split(self._heights, dim=-1)
        keys = _split_heads(k, self.key_heads, self.key_norm)
        return _split_heads(q, self.heads, self.query_norm), keys, _split_heads(v, self.key_heads)

    def forward(self, x: Tensor, plan: AttentionPlan, cache: KeyValueCache | None = None) -> Tensor:
        """Attend.

        Args:
            x: ``[B, L, E]``; with a cache, only the new tokens.
            plan: Tells queries, keys and scores where they are, and which keys are seen.
            cache: Keys, values and state of earlier tokens; the new ones are appended.

        Returns:
            ``[B, L, E]``.
        """
        q, k, v = self.project(x)
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

    The key and value projections are the two blocks of one matrix, see :class:`SelfAttention`.
    """

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.heads, self.key_heads = settings.heads, settings.key_heads
        self.dropout = settings.attention_dropout
        queries, keys = (heads * settings.head_features for heads in (self.heads, self.key_heads))
        self.query = nn.Linear(settings.d_model, queries, bias=settings.bias)
        self._heights = keys, keys
        self.key_value = StackedLinear(settings.d_model, self._heights, bias=settings.bias)
        self.query_norm, self.key_norm = _head_norm(settings, self.heads), _head_norm(settings, self.key_heads)
        self.output = nn.Linear(queries, settings.d_model, bias=settings.bias)

    def queries(self, x: Tensor) -> Tensor:
        """Return queries ``[B, H, Q, D]`` of ``x [B, Q, E]``."""
        return _split_heads(self.query(x), self.heads, self.query_norm)

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[B, H, K, D]``, or of fewer heads, of the encoder's output ``[B, K, E]``."""
        k, v = self.key_value(memory).split(self._heights, dim=-1)
        return _split_heads(k, self.key_heads, self.key_norm), _split_heads(v, self.key_heads)

    def forward(
        self, x: Tensor, keys_and_values: tuple[Tensor, Tensor], mask: Mask, *, aligned: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from ``x [B, Q, E]`` to the given keys and values; returns ``[B, Q, E]``.

        With ``aligned`` the logarithms of the weights of the first head, float32 ``[B, Q, K]``, are returned as well;
        those of padding are very small.
        """
        q = self.queries(x)
        k, v = keys_and_values
        context = self.output(_merge_heads(attend(q, k, v, mask, dropout=self.dropout if self.training else 0.0)))
        if not aligned:
            return context
        scores = (q[:, 0] @ k[:, 0].transpose(-1, -2)).float() * q.shape[-1] ** -0.5
        if mask.keys is not None:
            scores = scores.masked_fill(~mask.keys.flatten(1).unsqueeze(1), torch.finfo(torch.float32).min)
        return context, scores.log_softmax(-1)

    def weights(self, x: Tensor, keys: Tensor, mask: Mask) -> Tensor:
        """Return how much each of ``x [B, Q, E]`` attends to keys of :meth:`keys_and_values`: ``[B, H, Q, K]``."""
        q = self.queries(x)
        keys = keys.repeat_interleave(self.heads // self.key_heads, dim=1)
        scores = (q @ keys.transpose(-1, -2)) * q.shape[-1] ** -0.5
        if mask.keys is not None:
            scores = scores.masked_fill(~mask.keys, -torch.inf)
        return scores.softmax(-1, dtype=torch.float32)
