"""Attention: which keys a query may see, and a scheme that tells queries, keys and scores where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from locant.errors import DataError
from locant.kernels import attention as kernel
from locant.kernels.tensors import SMALLEST
from locant.positions.angles import extent
from locant.positions.relative import distance_score_mod
from locant.positions.scheme import PositionScheme, Prepared, Rotation, ScoreMod, require_fit

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Which keys FlexAttention sees: a function of the indices of batch, head, query and key."""


@dataclass(frozen=True)
class Mask:
    """Which keys a query may see, said without an ``L x L`` matrix where a flag or lengths say the same.

    Attributes:
        causal: A query sees only keys up to its own index. With more keys than queries, the queries are the last ones.
        keys: Boolean ``[B, 1, 1, K]``, true where a key is a real token, or ``None`` when all are. Rows that pack
            several texts need ``[B, 1, Q, K]``, true where query and key are of the same text (:meth:`packed`).
        window: A query sees only the last that many keys up to its own index, itself included; ``None`` for all.

    Raises:
        DataError: A window is not causal, or sees nothing.
    """

    causal: bool = False
    keys: Tensor | None = None
    window: int | None = None

    def __post_init__(self) -> None:
        """Check what a window needs."""
        if self.window is not None and (self.window < 1 or not self.causal):
            raise DataError(f"A window is of 1 key or more, in causal attention; got {self.window}, {self.causal=}.")

    def narrows(self, keys: int) -> bool:
        """Return whether the window hides some of that many keys from the last query."""
        return self.window is not None and self.window < keys

    @classmethod
    def from_lengths(cls, lengths: Tensor, size: int) -> Mask:
        """Return the padding mask of rows with ``lengths [B]`` real tokens on the left of ``size`` columns."""
        if not torch.compiler.is_compiling() and bool((lengths == size).all()):
            return cls()
        return cls(keys=(torch.arange(size, device=lengths.device) < lengths.unsqueeze(1))[:, None, None, :])

    @classmethod
    def packed(cls, positions: Tensor | None = None, *, texts: Tensor | None = None, causal: bool = True) -> Mask:
        """Return the mask of rows that pack several texts, each of which sees itself alone.

        Args:
            positions: Integer positions ``[L]`` or ``[B, L]``, which begin at 0 for each text.
            texts: In their place, where positions do not say it (a text goes on from elsewhere, or has coordinates):
                a number for each token, ``[L]`` or ``[B, L]``, the same for those of one text.
            causal: Whether a query sees only keys up to its own index.

        Raises:
            DataError: Both are given or neither, or the shape is another.

        Example:
            >>> import torch
            >>> Mask.packed(torch.tensor([0, 1, 0, 1, 2])).keys[0, 0].int()
            tensor([[1, 1, 0, 0, 0],
                    [1, 1, 0, 0, 0],
                    [0, 0, 1, 1, 1],
                    [0, 0, 1, 1, 1],
                    [0, 0, 1, 1, 1]], dtype=torch.int32)
        """
        if (positions is None) == (texts is None):
            raise DataError("Packed rows are told apart by their positions or by the texts of their tokens: give one.")
        text = texts if positions is None else (positions == 0).cumsum(-1)
        assert text is not None
        if text.dim() not in (1, 2):
            raise DataError(
                f"A mask of packed rows needs a number for each token, [L] or [B, L]; got {list(text.shape)}. Tokens "
                "with several coordinates are told apart by texts=."
            )
        rows = text if text.dim() == 2 else text.unsqueeze(0)
        return cls(causal, (rows.unsqueeze(-1) == rows.unsqueeze(-2)).unsqueeze(1))

    def mask_mod(self, queries: int, keys: int) -> MaskMod:
        """Return the mask as a function for ``create_block_mask`` of ``torch.nn.attention.flex_attention``.

        Args:
            queries: Number of queries, ``Q``.
            keys: Number of keys, ``K``.
        """
        ahead, seen, causal, window = keys - queries, self.keys, self.causal, self.window

        def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            del h
            allowed = j <= i + ahead if causal else j >= 0
            if window is not None:
                allowed = allowed & (j > i + ahead - window)
            if seen is None:
                return allowed
            return allowed & (seen[b, 0, 0, j] if seen.shape[2] == 1 else seen[b, 0, i, j])

        return mask_mod

    def part(self, queries: slice, keys: slice) -> Mask:
        """Return the mask for a run of queries and a run of keys, which ends with the last query where it is causal."""
        if self.keys is None:
            return self
        rows = self.keys if self.keys.shape[2] == 1 else self.keys[:, :, queries]
        return Mask(self.causal, rows[..., keys], self.window)


# Scores of the queries that are attended at once where a scheme has a bias: 32 MB in float32 near a processor's caches,
# 256 MB on a device that needs as many to be busy.
_SCORES_AT_ONCE, _SCORES_ON_DEVICE = 1 << 23, 1 << 26

# Queries that are attended at once where a window hides keys from them: with a bias, and at the fewest without one.
_QUERIES_AT_ONCE, _FEWEST_AT_ONCE = 256, 64

# Longest text whose bias is a feature, see _as_features.
_MOST_TOKENS = 4096


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None, *, dropout: float = 0.0) -> Tensor:
    """Scaled dot-product attention, ``softmax(q k^T / sqrt(D) + bias) v`` (Vaswani et al. 2017, equation 1).

    Args:
        q: Queries ``[B, H, Q, D]``.
        k: Keys ``[B, H, K, D]``, or of fewer heads, each of which serves as many heads of queries (grouped queries).
        v: Values ``[B, H, K, D]``, of as many heads as the keys.
        mask: Which keys are seen.
        bias: Added to the scaled scores; broadcasts to ``[B, H, Q, K]``.
        dropout: Probability of dropping an attention weight.

    Returns:
        ``[B, H, Q, D]``, of the dtype of ``q``.

    Raises:
        DataError: The heads of queries are no multiple of those of keys.
    """
    return _attend(q, k, v, mask, None if bias is None else _seen(mask, bias.to(q.dtype), q.shape[2], k), dropout)


_Seen = tuple[Tensor | None, bool]
"""A mask in the terms of ``scaled_dot_product_attention``: what is added or allowed, and whether it is causal alone."""


def _seen(mask: Mask, bias: Tensor | None, queries: int, keys: Tensor) -> _Seen:
    """Return a mask and a bias in SDPA's terms, for the last of ``keys [..., K, D]``."""
    count = keys.shape[-2]
    # A single query is the newest: it sees every key, so being causal asks for nothing.
    causal, narrow = mask.causal and queries > 1, mask.narrows(count)
    if causal and queries == count and bias is None and mask.keys is None and not narrow:
        return None, True
    allowed = mask.keys
    if causal or narrow:
        lower = torch.ones(queries, count, dtype=torch.bool, device=keys.device).tril(count - queries)
        if narrow and mask.window is not None:
            lower = lower.triu(count - queries - mask.window + 1)
        allowed = lower if allowed is None else allowed & lower
    if bias is not None:
        allowed = bias if allowed is None else bias.masked_fill(~allowed, float("-inf"))
    return allowed, False


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask, seen: _Seen | None, dropout: float) -> Tensor:
    """Attend; ``seen`` is the mask in SDPA's terms with a bias in it, or ``None`` where it is not known and none is."""
    groups, narrow = _groups(q, k), mask.narrows(k.shape[2])
    if seen is None and narrow:
        return _attend_in_window(q, k, v, mask, dropout)
    biased = seen is not None and seen[0] is not None and seen[0].is_floating_point()
    if not biased and not narrow and dropout == 0 and groups == 1 and kernel.serves(q, k, v, mask.keys):
        return kernel.attend(q, k, v, key_mask=mask.keys, causal=mask.causal)
    allowed, causal = _seen(mask, None, q.shape[2], k) if seen is None else seen
    if q.shape[2] == 1 and _is_faster_wide(q, k):
        allowed = allowed.float() if biased and allowed is not None else allowed
        return _attend(q.float(), k.float(), v.float(), mask, (allowed, causal), dropout).to(q.dtype)
    allowed = allowed.to(q.dtype) if biased and allowed is not None else allowed
    width = v.shape[-1]
    if width < q.shape[-1]:  # fast kernels ask for values of the same width
        v = nn.functional.pad(v, (0, q.shape[-1] - width))
    out = nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed, dropout_p=dropout, is_causal=causal, **_grouped(groups)
    )
    return out if width == out.shape[-1] else out[..., :width]


def _attend_in_window(q: Tensor, k: Tensor, v: Tensor, mask: Mask, dropout: float) -> Tensor:
    """Attend with a window: the first queries see all keys before them, the others go in blocks to the keys they see.

    Blocks are rows of a batch: nothing is made for other pairs, and one graph serves all lengths.
    """
    assert mask.window is not None
    window, queries, size = mask.window, q.shape[2], max(_FEWEST_AT_ONCE, mask.window // 4)
    keys = min(k.shape[2], queries + window - 1)
    mask = mask.part(slice(None), slice(k.shape[2] - keys, None))
    k, v = k[:, :, k.shape[2] - keys :], v[:, :, v.shape[2] - keys :]
    if queries <= size or keys <= window:
        return _attend(q, k, v, mask, _seen(mask, None, queries, k), dropout)
    later = keys - window
    first, missing, near = queries - later, -later % size, -(-(window - 1) // size)
    before = mask.part(slice(first), slice(window))
    found = [_attend(q[:, :, :first], k[:, :, :window], v[:, :, :window], before, None, dropout)]
    blocks, extra = (later + missing) // size, near * size - window + 1

    def cut(x: Tensor, near: int, extra: int) -> Tensor:
        """Return blocks, each behind those before it that are near: a slice for each of these, however many blocks."""
        x = nn.functional.pad(x, (0, 0, extra, missing)).reshape(*x.shape[:2], -1, size, x.shape[3])
        parts = [x[:, :, number : number + blocks] for number in range(near + 1)]
        return torch.cat(parts, dim=3).transpose(1, 2).flatten(0, 1)

    seen = torch.ones(size, (near + 1) * size, dtype=torch.bool, device=q.device).triu(extra).tril(extra + window - 1)
    if mask.keys is not None:
        rows = mask.keys[:, :, -later:, 1:]
        rows = nn.functional.pad(rows, (extra, missing, 0, missing if rows.shape[2] > 1 else 0), value=True)
        rows = rows.expand(q.shape[0], -1, later + missing, -1).unfold(2, size, size).unfold(3, seen.shape[1], size)
        seen = seen & rows.diagonal(dim1=2, dim2=3).movedim(-1, 1).flatten(0, 1)
    k, v = cut(k[:, :, 1:], near, extra), cut(v[:, :, 1:], near, extra)
    out = _attend(cut(q[:, :, first:], 0, 0), k, v, mask, (seen, False), dropout)
    found.append(out.reshape(q.shape[0], -1, *out.shape[1:]).transpose(1, 2).flatten(2, 3)[:, :, :later])
    return torch.cat(found, dim=2)


def _groups(q: Tensor, k: Tensor) -> int:
    """Return how many heads of queries a head of keys serves."""
    if q.shape[1] % k.shape[1]:
        raise DataError(f"{q.shape[1]} heads of queries cannot share {k.shape[1]} heads of keys evenly.")
    return q.shape[1] // k.shape[1]


def _grouped(groups: int) -> dict[str, Any]:
    """Return SDPA's option for grouped queries; a compiler takes no comparison of free sizes in its place."""
    return {"enable_gqa": True} if groups > 1 else {}


def _is_faster_wide(q: Tensor, k: Tensor) -> bool:
    """Whether one query attends faster in float32: PyTorch (2.13) takes two to four times as long in bfloat16."""
    return (
        q.dtype == torch.bfloat16
        and q.is_cpu
        and not torch.compiler.is_compiling()
        and k.numel() >= SMALLEST
        and not torch.is_autocast_enabled("cpu")  # which would lower it again
    )


class AttentionPlan:
    """What the layers of a stack share in a forward pass about positions and mask: made once, before the first layer.

    The angles of a rotation are computed here; a bias of positions alone is written out once with the mask in it, or
    becomes a feature of queries and keys, or on CUDA a function for FlexAttention; any other bias is computed in every
    layer. No bias exists for all pairs of a long text: queries are taken in blocks, and in training a block is computed
    once more in the backward pass instead of being kept. Where every layer has a scheme of its own, it has a plan of
    its own.

    Args:
        scheme: Tells queries, keys and scores where they are.
        q_positions: Integer positions of the queries, ``[Q]`` or ``[B, Q]``, as :meth:`PositionScheme.drawn` gave them.
        mask: Which keys are seen.
        like: A tensor of the shape ``[B, H, Q, D]``, the dtype and the device of the queries.
        k_positions: Integer positions of the keys, ``[K]`` or ``[B, K]``, where keys are not those of the same tokens.
        cached: In their place, the positions of the keys in a cache, before those of the same tokens.

    Attributes:
        k_positions: Positions of all keys, those of a cache first.
    """

    def __init__(
        self,
        scheme: PositionScheme,
        q_positions: Tensor,
        mask: Mask,
        *,
        like: Tensor,
        k_positions: Tensor | None = None,
        cached: Tensor | None = None,
    ) -> None:
        self.scheme, self.mask, self.q_positions = scheme, mask, q_positions
        new = k_positions
        if cached is not None:
            if mask.window is not None:  # a cache of keys gives no more
                kept = cached_keys(scheme, mask.window)
                cached = _some(cached, slice(max(0, length_of(cached) - kept), None))
            k_positions = torch.cat((cached, q_positions), dim=_axis(q_positions))
        self.k_positions = q_positions if k_positions is None else k_positions
        places = scheme.acts_on
        self._biases = "scores" in places
        runs = scheme.query_blocks(q_positions)
        # A key is rotated once for all queries, before a cache, unless its rotation depends on the query or the bias
        # reads it as it was.
        self._rotates_first = (
            "queries+keys" in places
            and len(runs) == 1
            and not scheme.caches_unrotated_keys
            and not (self._biases and scheme.bias_reads_content)
        )
        self._rotation: Rotation | None = None
        if self._rotates_first:
            self._rotation = scheme.rotation(q_positions, new)
        self._features: tuple[Tensor, Tensor] | None = None
        self._score: ScoreMod | None = None
        count = length_of(self.k_positions)
        if mask.keys is not None and mask.keys.shape[-1] > count:  # a cache keeps the last keys alone
            mask = self.mask = Mask(mask.causal, mask.keys[..., -count:], mask.window)
        is_plain = len(runs) == 1 and mask.keys is None and like.shape[2] > 1
        is_plain = is_plain and self._rotates_first == ("queries+keys" in places)
        if is_plain and self._biases and not scheme.bias_reads_content:
            self._by_distance(like, is_same=k_positions is None)
        is_narrow = mask.narrows(count)
        could_be_fused = is_plain and is_narrow and like.is_cuda and not torch.compiler.is_compiling()
        self._is_fused = self._score is not None or (could_be_fused and not self._biases)
        self._blocks = [slice(None)] if self._features is not None else self._cut(runs, like)
        self._seen: _Seen | None = None
        if len(self._blocks) == 1 and self._features is None:
            if "queries+keys" in places and not self._rotates_first:
                self._rotation = scheme.rotation(q_positions, k_positions)
            keys = like.new_zeros(()).expand(*like.shape[:2], count, like.shape[3])
            if not self._biases:
                self._seen = None if is_narrow else _seen(mask, None, like.shape[2], keys)
            elif not scheme.bias_reads_content:
                bias = scheme.score_bias(like, keys, q_positions, self.k_positions)
                self._seen = _seen(mask, None if bias is None else bias.to(like.dtype), like.shape[2], keys)

    def prepare(self, x: Tensor) -> Prepared | None:
        """Return what the tokens of a layer carry into attention, of a scheme that reads it: once in every layer.

        Args:
            x: What the layer's self-attention reads, ``[B, L, E]``; with a cache, of the new tokens.
        """
        return self.scheme.prepare(x, self.q_positions) if self.scheme.reads_state else None

    def rotate(self, q: Tensor, k: Tensor, state: Prepared | None = None) -> tuple[Tensor, Tensor]:
        """Rotate queries and the keys of the same tokens (or all keys) as they go into a cache and to :meth:`attend`.

        Keys that a cache has to keep as they were pass, and their queries with them.

        Args:
            q: Queries ``[B, H, Q, D]``.
            k: Keys ``[B, H, L, D]``, or of fewer heads.
            state: From :meth:`prepare`.
        """
        if not self._rotates_first or self._rotation is None:
            return q, k
        return self._rotation(q, k, *self.scheme.state_for("rotate", state))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, state: Prepared | None = None, *, dropout: float = 0.0) -> Tensor:
        """Attend with queries and keys from :meth:`rotate`.

        Args:
            q: Queries ``[B, H, Q, D]``.
            k: All keys ``[B, H, K, D]``, those of a cache first; or of fewer heads, as for :func:`attend`.
            v: Values, likewise.
            state: From :meth:`prepare`, with the part of all keys, those of a cache first.
            dropout: Probability of dropping an attention weight.

        Returns:
            ``[B, H, Q, D]``, of the dtype of ``q``.

        Raises:
            ConfigError: The scheme reads a state, and there is none.
            DataError: The heads of queries are no multiple of those of keys.
        """
        if self._features is not None:
            return _attend_with_features(q, k, v, self._features, dropout)
        if self._is_fused and dropout == 0:
            from locant.positions.flex_attention import flex_attend  # takes long to import and serves CUDA alone

            return flex_attend(q, k, v, self._score, self.mask)
        if len(self._blocks) == 1:
            seen = self._seen
            if seen is None and self._biases:
                bias = self._bias(q, k, self.q_positions, self.k_positions, state)
                seen = _seen(self.mask, None if bias is None else bias.to(q.dtype), q.shape[2], k)
            if self._rotation is not None and not self._rotates_first:
                q, k = self._rotation(q, k, *self.scheme.state_for("rotate", state))
            return _attend(q, k, v, self.mask, seen, dropout)

        def part(block: slice) -> Tensor:
            return self._part(q, k, v, state, block, dropout)

        if torch.is_grad_enabled() and self._biases:
            return torch.cat([checkpoint(part, block, use_reentrant=False) for block in self._blocks], dim=2)
        return torch.cat([part(block) for block in self._blocks], dim=2)

    def _part(self, q: Tensor, k: Tensor, v: Tensor, state: Prepared | None, block: slice, dropout: float) -> Tensor:
        # A causal block needs no keys beyond its own last one, and so its queries are the last ones again.
        ahead, window = k.shape[2] - q.shape[2], self.mask.window
        keys = slice(
            0 if window is None else max(0, block.start + ahead - window + 1),
            block.stop + ahead if self.mask.causal else k.shape[2],
        )
        q, k, v, mask = q[:, :, block], k[:, :, keys], v[:, :, keys], self.mask.part(block, keys)
        q_at, k_at = _some(self.q_positions, block), _some(self.k_positions, keys)
        state = None if state is None else state.part(block, keys)
        bias = self._bias(q, k, q_at, k_at, state) if self._biases else None
        if "queries+keys" in self.scheme.acts_on and not self._rotates_first:
            q, k = self.scheme.rotate(q, k, q_at, k_at, *self.scheme.state_for("rotate", state))
        seen = None if bias is None else _seen(mask, bias.to(q.dtype), q.shape[2], k)
        return _attend(q, k, v, mask, seen, dropout)

    def _bias(self, q: Tensor, k: Tensor, q_at: Tensor, k_at: Tensor, state: Prepared | None) -> Tensor | None:
        groups = _groups(q, k)
        if groups > 1:  # a bias that reads keys is given one for each head of queries
            k = k.repeat_interleave(groups, dim=1)
        return self.scheme.score_bias(q, k, q_at, k_at, *self.scheme.state_for("score_bias", state))

    def _by_distance(self, like: Tensor, *, is_same: bool) -> None:
        """Find a form of the bias without a number for any pair, where it depends on the distance alone."""
        if torch.compiler.is_compiling() or not self.k_positions.numel():
            return
        could_be_features = (
            self.mask.causal
            and not self.mask.narrows(length_of(self.k_positions))
            and is_same
            and like.dtype == torch.float32
            and like.shape[2] <= _MOST_TOKENS
            and not torch.is_autocast_enabled(like.device.type)
        )
        if not could_be_features and not like.is_cuda:
            return
        (first_query, last_query), (first_key, last_key) = extent(self.q_positions), extent(self.k_positions)
        if last_key - first_key + last_query - first_query > 4 * (like.shape[2] + length_of(self.k_positions)):
            return  # a row of all distances between sparse positions could be of any length
        found = self.scheme.distance_bias(self.q_positions, self.k_positions)
        if found is None:
            return
        row, lowest = found
        if could_be_features:
            self._features = _as_features(row, lowest, self.k_positions, like)
        if self._features is None and like.is_cuda:
            # The kernel's scores are float32; it does not compile with a bias in float64, in which some are computed.
            wide = row.to(torch.promote_types(like.dtype, torch.float32))
            self._score = distance_score_mod(wide, lowest, self.q_positions, self.k_positions)

    def _cut(self, runs: list[slice], like: Tensor) -> list[slice]:
        """Return the queries that are attended at once: the scheme's own runs, cut where a bias would grow large."""
        if not self._biases or torch.compiler.is_compiling():  # a loop over lengths would be a graph for each of them
            return runs
        rows, heads, queries, _ = like.shape
        by_row, keys = self.scheme.bias_reads_content or self.mask.keys is not None, length_of(self.k_positions)
        is_narrow = self.mask.narrows(keys)
        if is_narrow and self.mask.window is not None:
            keys = min(keys, _QUERIES_AT_ONCE + self.mask.window)
        scores_of_a_query = (rows if by_row else 1) * heads * keys
        size = max(1, (_SCORES_AT_ONCE if like.is_cpu else _SCORES_ON_DEVICE) // max(1, scores_of_a_query))
        size = min(size, _QUERIES_AT_ONCE) if is_narrow else size
        if len(runs) == 1 and queries <= size:
            return runs
        return [slice(i, min(i + size, run.stop)) for run in runs for i in range(run.start, run.stop, size)] or runs


def attend_with_positions(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: PositionScheme,
    q_positions: Tensor,
    k_positions: Tensor,
    mask: Mask,
    *,
    state: Prepared | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention in which a scheme tells queries, keys and scores where they are.

    A model of several layers makes one :class:`AttentionPlan` for all of them instead.

    Args:
        q: Queries ``[B, H, Q, D]``, not yet rotated.
        k: Keys ``[B, H, K, D]``, not yet rotated; or of fewer heads, each of which serves as many heads of queries.
        v: Values, of the heads of the keys.
        scheme: The positional scheme.
        q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
        k_positions: Integer positions ``[K]`` or ``[B, K]``.
        mask: Which keys are seen.
        state: What ``scheme.prepare(x, positions)`` returned of the layer's input; only some schemes read it.
        dropout: Probability of dropping an attention weight.

    Returns:
        ``[B, H, Q, D]``, of the dtype of ``q``.

    Raises:
        ConfigError: The scheme is made for other heads, or reads a state and there is none.
        DataError: There are more or fewer positions than tokens, or heads of keys do not share those of queries evenly.
    """
    require_fit(scheme, q, k, q_positions, k_positions)
    others = None if k_positions is q_positions else k_positions
    plan = AttentionPlan(scheme, q_positions, mask, like=q, k_positions=others)
    return plan.attend(*plan.rotate(q, k, state), v, state, dropout=dropout)


def cached_keys(scheme: PositionScheme, window: int) -> int:
    """Return how many keys a cache must give to the next query of a window.

    Those before it, and one more where a key's rotation needs other keys: the token before.
    """
    return window if scheme.caches_unrotated_keys else window - 1


def length_of(positions: Tensor) -> int:
    """Return the number of tokens of positions ``[L]`` or ``[B, L]``, or of coordinates ``[B, L, A]``."""
    return positions.shape[_axis(positions)]


def _axis(positions: Tensor) -> int:
    return 1 if positions.dim() == 3 else -1


def _some(positions: Tensor, tokens: slice) -> Tensor:
    return positions[:, tokens] if positions.dim() == 3 else positions[..., tokens]


def _as_features(row: Tensor, lowest: int, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return a bias of causal self-attention as products of a further feature, where it is a slope times the distance.

    Then no bias has to exist for any pair. What depends on the query alone is left out: the softmax ignores it. Only
    for ascending positions, float32 and up to 4,096 tokens: a half-precision feature could not hold a position, and
    rounding grows with the distance from the middle, to 6e-5 there for ALiBi's steepest slope of 1/2.

    Args:
        row: Biases ``[H, n]`` of consecutive relative positions.
        lowest: The first of these.
        positions: Integer positions ``[L]`` or ``[B, L]`` of queries and keys.
        like: Queries ``[B, H, L, D]``.

    Returns:
        Features ``[B, H, L, 1]`` of queries and of keys, whose products are added to those of the others before these
        are scaled, or ``None`` for any other bias.
    """
    if row.requires_grad or lowest >= 0 or bool((positions.diff(dim=-1) < 0).any()):
        return None
    past = row[:, : 1 - lowest].double()
    slopes = past[:, -1:] - past[:, -2:-1]
    line = past[:, -1:] + slopes * torch.arange(lowest, 1, device=row.device)
    if not bool(((past - line).abs() <= 1e-9 * (1 + line.abs())).all()):
        return None
    middle = positions[..., like.shape[2] // 2].unsqueeze(-1)
    counted = (positions - middle).to(like.dtype)[..., None, :, None]
    scaled = (slopes * like.shape[-1] ** 0.5).to(like.dtype)[None, :, None]
    return scaled.expand(*like.shape[:3], 1), counted


def _attend_with_features(q: Tensor, k: Tensor, v: Tensor, features: tuple[Tensor, Tensor], dropout: float) -> Tensor:
    """Causal attention with further features of queries and keys, which do not change the scale of the scores."""
    dim, width, groups = q.shape[-1], v.shape[-1], _groups(q, k)
    of_keys = features[1].expand(*k.shape[:3], 1)
    q, k = torch.cat((q, features[0].to(q.dtype)), dim=-1), torch.cat((k, of_keys.to(k.dtype)), dim=-1)
    v = nn.functional.pad(v, (0, q.shape[-1] - width))  # fast kernels ask for values of the same width
    out = nn.functional.scaled_dot_product_attention(
        q, k, v, dropout_p=dropout, is_causal=True, scale=dim**-0.5, **_grouped(groups)
    )
    return out[..., :width]
