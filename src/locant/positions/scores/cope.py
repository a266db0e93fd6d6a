"""Contextual position encoding (Golovneva et al. 2024)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.angles import require_integer
from locant.positions.registry import register_scheme
from locant.positions.scheme import AttentionShape, PositionScheme


@register_scheme("cope")
class CoPE(PositionScheme):
    """Counts, between query and key, the tokens that the query finds worth counting.

    Source: Golovneva et al. 2024, "Contextual Position Encoding: Learning to Count What's Important", section 4,
    equations 3 to 7, with the scales of the implementation printed in its appendix::

        g(i, t) = sigmoid(q_i.k_t / sqrt(D))                                gates
        p(i, j) = min( sum of g(i, t) over j <= t <= i,  positions - 1 )    counts, fractions of a token
        z(i, p) = q_i.e[floor(p)] (1 - p + floor(p))  +  q_i.e[ceil(p)] (p - floor(p))
        score(i, j) = q_i.k_j / sqrt(D)  +  z(i, p(i, j))

    ``score_bias`` returns ``z``. The authors' released code by default divides ``z`` by ``sqrt(D)`` too, which is the
    same function of an ``e`` that is ``sqrt(D)`` times larger. Positions give only the order of the keys: larger
    gaps count no more. A key after the query has ``p = 0`` in a decoder, where nobody sees it.

    In an encoder the paper defines nothing. Ours: to the right of the query the sum runs over ``i <= t <= j``, and its
    embeddings are a second table, because one for both sides could not distinguish left from right.

    Parameters, of every layer: ``weight`` ``e [S, positions, D]`` for all heads, with ``S = 1`` table in a decoder and
    ``S = 2`` (up to the query, after it) in an encoder. They begin as zeros, as in the paper: without positions.

    Padding: keys are counted whether masked or not, so a padded key must not be between two real tokens. It does
    not if padding on the left has positions below the first real one (in a decoder, equal to it will do) and padding
    on the right has positions above the last real one; ``0, 1, 2, ...`` over a row padded on either side is safe.

    Cross-attention has no meaning here unless the positions of the two texts share one order.

    Precision: gates, counts and interpolation in float32 (float64 for float64 input) whatever the dtype of the model,
    also under autocast, because rounded gates would add up to wrong counts.

    Args:
        head_dim: Features of a head, ``D``.
        causal: Whether the scheme serves a decoder.
        positions: Number of embeddings in a table; a larger count is taken for ``positions - 1``, the ``p_max`` of the
            paper, so it may be much smaller than the text.

    Raises:
        ConfigError: ``positions`` is less than 2, or the given positions are not integers.

    Example:
        >>> import torch
        >>> scheme = CoPE(4, True, positions=8)
        >>> _ = torch.nn.init.ones_(scheme.weight[0, 1:])
        >>> q, k = torch.full((1, 1, 1, 4), 0.5), torch.zeros(1, 1, 3, 4)  # a gate of 1/2 for every key
        >>> scheme.score_bias(q, k, torch.tensor([2]), torch.arange(3)).tolist()  # counts 1.5, 1 and 0.5
        [[[[2.0, 2.0, 1.0]]]]
    """

    title = "CoPE"
    paper = "Golovneva et al. 2024"
    per_layer: ClassVar[bool] = True
    packs_texts = False  # it counts the keys between two positions
    traceable = True

    def __init__(self, head_dim: int, causal: bool, *, positions: int = 64) -> None:
        super().__init__()
        if positions < 2:
            raise ConfigError(f"Contextual positions need at least 2 embeddings; got positions={positions}.")
        self.head_dim = head_dim
        self.causal = causal
        self.positions = positions
        self.weight = nn.Parameter(torch.empty(1 if causal else 2, positions, head_dim))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model's encoder or decoder."""
        return cls(shape.head_dim, shape.causal, **options)

    def reset_parameters(self) -> None:
        """Set all embeddings to zero."""
        nn.init.zeros_(self.weight)

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return ``z``; shapes as in :meth:`PositionScheme.score_bias`.

        Returns:
            ``[B, H, Q, K]`` of the dtype of ``q``.
        """
        require_integer(q_positions)
        require_integer(k_positions)
        dtype = torch.promote_types(q.dtype, torch.float32)
        # Equal positions keep the order of the keys, so that left padding at position 0 stays left of the real 0;
        # exporters have no stable sort, so the numbers that are sorted are made different.
        count = k_positions.shape[-1]
        order = (k_positions.long() * count + torch.arange(count, device=k_positions.device)).argsort(dim=-1)
        i = q_positions.long()[..., None, :, None]
        t = k_positions.long().gather(-1, order)[..., None, None, :]
        in_order = k.to(dtype).gather(-2, order[..., None, :, None].expand_as(k))
        with torch.autocast(q.device.type, enabled=False):
            bias = self._ordered_bias(q.to(dtype), in_order, i, t)
        return bias.gather(-1, order.argsort(dim=-1)[..., None, None, :].expand_as(bias)).to(q.dtype)

    def _ordered_bias(self, q: Tensor, k: Tensor, i: Tensor, t: Tensor) -> Tensor:
        """Return ``z`` for queries at ``i [..., Q, 1]`` and keys in the order of their positions ``t [..., 1, K]``."""
        gates = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).sigmoid()
        before = t <= i
        # Summing towards the far end, not subtracting two sums, keeps small counts exact in long texts.
        counts = (gates * before).flip(-1).cumsum(-1).flip(-1)
        if not self.causal:
            counts = torch.where(before, counts, (gates * (t >= i)).cumsum(-1))
        counts = counts.clamp(max=self.positions - 1)
        products = q @ self.weight.to(q.dtype).flatten(0, 1).transpose(0, 1)
        table = 0 if self.causal else self.positions * ~before
        low, high = counts.floor(), counts.ceil()
        return torch.lerp(
            products.gather(-1, low.long() + table), products.gather(-1, high.long() + table), counts - low
        )
