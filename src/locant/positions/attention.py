"""Attention: which keys a query may see, and a scheme that tells queries, keys and scores where they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from locant.kernels import attention as kernel
from locant.kernels.tensors import SMALLEST
from locant.positions.scheme import PositionScheme

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""Which keys FlexAttention sees: a function of the indices of batch, head, query and key."""


@dataclass(frozen=True)
class Mask:
    """Which keys a query may see, said without an ``L x L`` matrix where a flag or lengths say the same.

    Attributes:
        causal: A query sees only keys up to its own index. With more keys than queries, the queries are the last ones.
        keys: Boolean ``[B, 1, 1, K]``, true where a key is a real token, or ``None`` when all are. Rows that pack
            several texts need ``[B, 1, Q, K]``, true where query and key are of the same text (:meth:`packed`).
    """

    causal: bool = False
    keys: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: Tensor, size: int) -> Mask:
        """Return the padding mask of rows with ``lengths [B]`` real tokens on the left of ``size`` columns."""
        if not torch.compiler.is_compiling() and bool((lengths == size).all()):
            return cls()
        return cls(keys=(torch.arange(size, device=lengths.device) < lengths.unsqueeze(1))[:, None, None, :])

    @classmethod
    def packed(cls, positions: Tensor, *, causal: bool = True) -> Mask:
        """Return the mask of rows that pack several texts, whose positions begin at 0 for each.

        Args:
            positions: Integer positions ``[L]`` or ``[B, L]``.
            causal: Whether a query sees only keys up to its own index.

        Example:
            >>> import torch
            >>> Mask.packed(torch.tensor([0, 1, 0, 1, 2])).keys[0, 0].int()
            tensor([[1, 1, 0, 0, 0],
                    [1, 1, 0, 0, 0],
                    [0, 0, 1, 1, 1],
                    [0, 0, 1, 1, 1],
                    [0, 0, 1, 1, 1]], dtype=torch.int32)
        """
        text = (positions == 0).cumsum(-1)
        rows = text if text.dim() == 2 else text.unsqueeze(0)
        return cls(causal, (rows.unsqueeze(-1) == rows.unsqueeze(-2)).unsqueeze(1))

    def mask_mod(self, queries: int, keys: int) -> MaskMod:
        """Return the mask as a function for ``create_block_mask`` of ``torch.nn.attention.flex_attention``.

        Args:
            queries: Number of queries, ``Q``.
            keys: Number of keys, ``K``.
        """
        ahead, seen, causal = keys - queries, self.keys, self.causal

        def mask_mod(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            del h
            allowed = j <= i + ahead if causal else j >= 0
            if seen is None:
                return allowed
            return allowed & (seen[b, 0, 0, j] if seen.shape[2] == 1 else seen[b, 0, i, j])

        return mask_mod

    def part(self, queries: slice, keys: int) -> Mask:
        """Return the mask for a run of queries and the first keys."""
        if self.keys is None:
            return self
        rows = self.keys if self.keys.shape[2] == 1 else self.keys[:, :, queries]
        return Mask(self.causal, rows[..., :keys])


# Scores of the queries that are attended at once where a scheme has a bias: 8 MB in float32 near a processor's caches,
# 256 MB on a device that needs as many to be busy.
_SCORES_AT_ONCE, _SCORES_ON_DEVICE = 1 << 21, 1 << 26


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask, bias: Tensor | None = None, *, dropout: float = 0.0) -> Tensor:
    """Scaled dot-product attention, ``softmax(q k^T / sqrt(D) + bias) v`` (Vaswani et al. 2017, equation 1).

    Args:
        q: Queries ``[B, H, Q, D]``.
        k: Keys ``[B, H, K, D]``.
        v: Values ``[B, H, K, D]``.
        mask: Which keys are seen.
        bias: Added to the scaled scores; broadcasts to ``[B, H, Q, K]``.
        dropout: Probability of dropping an attention weight.

    Returns:
        ``[B, H, Q, D]``, of the dtype of ``q``.
    """
    if bias is None and dropout == 0 and kernel.serves(q, k, v, mask.keys):
        return kernel.attend(q, k, v, key_mask=mask.keys, causal=mask.causal)
    queries, keys = q.shape[2], k.shape[2]
    if queries == 1 and _is_faster_wide(q, k):
        return attend(q.float(), k.float(), v.float(), mask, bias, dropout=dropout).to(q.dtype)
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


def _is_faster_wide(q: Tensor, k: Tensor) -> bool:
    """Whether one query attends faster in float32: PyTorch (2.13) takes two to four times as long in bfloat16."""
    return (
        q.dtype == torch.bfloat16
        and q.is_cpu
        and not torch.compiler.is_compiling()
        and k.numel() >= SMALLEST
        and not torch.is_autocast_enabled("cpu")  # which would lower it again
    )


def attend_with_positions(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: PositionScheme,
    q_positions: Tensor,
    k_positions: Tensor,
    mask: Mask,
    *,
    dropout: float = 0.0,
    rotated: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Attention in which a scheme tells queries, keys and scores where they stand.

    A bias never exists for all pairs of a long text: queries are taken in blocks, and in training a block is computed
    once more in the backward pass instead of being kept.

    Args:
        q: Queries ``[B, H, Q, D]``, not yet rotated.
        k: Keys ``[B, H, K, D]``, not yet rotated.
        v: Values ``[B, H, K, D]``.
        scheme: The positional scheme.
        q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
        k_positions: Integer positions ``[K]`` or ``[B, K]``.
        mask: Which keys are seen.
        dropout: Probability of dropping an attention weight.
        rotated: Queries and keys as the scheme rotates them, where the caller has them already; only of a scheme
            whose rotation of a key is the same for every query. If its bias does not read keys, ``k`` may then be
            anything of that shape.

    Returns:
        ``[B, H, Q, D]``, of the dtype of ``q``.
    """
    runs, ahead = scheme.query_blocks(q_positions), k.shape[2] - q.shape[2]
    if len(runs) == 1 and "scores" in scheme.acts_on and q.shape[2] > 1 and mask.keys is None:
        # A scheme may say its bias without a number for any pair.
        features = scheme.score_features(q, k, k_positions) if mask.causal and not ahead else None
        if features is not None:
            turned = rotated or scheme.rotate(q, k, q_positions, k_positions)
            return _attend_with_features(*turned, v, features, dropout)
        if q.is_cuda and dropout == 0 and not scheme.bias_reads_keys:
            from locant.positions.flex_attention import flex_attend  # takes long to import and serves CUDA alone

            turned = rotated or scheme.rotate(q, k, q_positions, k_positions)
            found = flex_attend(*turned, v, scheme, q_positions, k_positions, mask)
            if found is not None:
                return found

    def part(block: slice | None) -> Tensor:
        if block is None:  # the positions as they came: what a scheme computed for them in another layer serves here
            queries, q_at, keys, values, k_at, seen, turned = q, q_positions, k, v, k_positions, mask, rotated
        else:
            # A causal block needs no keys beyond its own last one, and so its queries are the last ones again.
            count = block.stop + ahead if mask.causal else k.shape[2]
            keys, values, k_at = k[:, :, :count], v[:, :, :count], k_positions[..., :count]
            queries, q_at, seen = q[:, :, block], q_positions[..., block], mask.part(block, count)
            turned = None if rotated is None else (rotated[0][:, :, block], rotated[1][:, :, :count])
        if turned is None:
            turned = scheme.rotate(queries, keys, q_at, k_at)
        return attend(*turned, values, seen, scheme.score_bias(queries, keys, q_at, k_at), dropout=dropout)

    blocks = _query_blocks(scheme, runs, q, k)
    if len(blocks) == 1:
        return part(None)
    if torch.is_grad_enabled() and "scores" in scheme.acts_on:
        return torch.cat([checkpoint(part, block, use_reentrant=False) for block in blocks], dim=2)
    return torch.cat([part(block) for block in blocks], dim=2)


def _attend_with_features(q: Tensor, k: Tensor, v: Tensor, features: tuple[Tensor, Tensor], dropout: float) -> Tensor:
    """Causal attention with further features of queries and keys, which do not change the scale of the scores."""
    dim = q.shape[-1]
    q, k = torch.cat((q, features[0]), dim=-1), torch.cat((k, features[1]), dim=-1)
    # Fast kernels ask for values of the same width.
    v = nn.functional.pad(v, (0, q.shape[-1] - dim))
    out = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=dim**-0.5)
    return out[..., :dim]


def _query_blocks(scheme: PositionScheme, runs: list[slice], q: Tensor, k: Tensor) -> list[slice]:
    """Return the queries that are attended at once: the scheme's own runs, cut where a bias would grow large."""
    if "scores" not in scheme.acts_on:
        return runs
    scores_of_a_query = q.shape[0] * q.shape[1] * k.shape[2]
    size = max(1, (_SCORES_AT_ONCE if q.is_cpu else _SCORES_ON_DEVICE) // max(1, scores_of_a_query))
    cut = [slice(i, min(i + size, run.stop)) for run in runs for i in range(run.start, run.stop, size)]
    return cut or runs
