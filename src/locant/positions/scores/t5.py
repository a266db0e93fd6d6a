"""Bucketed relative position biases of T5 (Raffel et al. 2020)."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.relative import RelativeBias, at_least_float32
from locant.positions.scheme import AttentionShape


def bucket_borders(num_buckets: int, max_distance: int) -> list[int]:
    """Return the smallest distance of each bucket but the first, whose smallest distance is 0.

    The first half of the buckets holds one distance each; the other half grows geometrically up to ``max_distance``,
    and the last bucket takes everything beyond. With ``m = num_buckets // 2`` and ``n = num_buckets - m``, a distance
    ``d >= m`` is in bucket ``m + floor(n log(d / m) / log(max_distance / m))`` or the last. That it has reached bucket
    ``m + t`` means ``d^n >= max_distance^t m^(n - t)``, which whole numbers decide exactly.

    Args:
        num_buckets: Number of buckets of one direction, at least 2.
        max_distance: Distance in tokens, above ``num_buckets // 2``.

    Example:
        >>> bucket_borders(16, 128)
        [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    """
    exact = num_buckets // 2
    logarithmic = num_buckets - exact
    distances = range(max_distance + 1)
    return list(range(1, exact + 1)) + [
        bisect_left(distances, max_distance**step * exact ** (logarithmic - step), key=lambda d: d**logarithmic)
        for step in range(1, logarithmic)
    ]


@register_scheme("t5")
class T5(RelativeBias):
    """Adds a trained number for each head and each bucket of relative positions.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
    section 2.1; the buckets are those of the authors' code, see :func:`bucket_borders`::

        bias(h, i, j) = W[bucket(j - i), h]

    for the query at position ``i`` and the key at ``j``; distances from ``max_distance`` on share the last bucket.
    ``W`` is shared by the layers of a stack. T5 itself does not scale its scores by ``1/sqrt(D)``, which it makes up
    for at initialization; the attention this bias is added to does scale them. The bias is the paper's, unscaled.

    Shapes and dtypes as in :meth:`RelativeBias.score_bias`; trained in the dtype of the parameters, rounded once.

    In an encoder half of the buckets are for keys after the query. In a decoder all are for keys before it, and keys
    after it, which the mask hides, count as distance 0. T5's cross-attention has no bias.

    Args:
        model_dim: Width of the model, ``E``, which sets the scale of the initial values.
        num_heads: Number of attention heads, ``H``.
        causal: Whether queries see only keys at or before their own position.
        num_buckets: Number of buckets; in an encoder of both directions together.
        max_distance: Distance in tokens from which on the last bucket is reached for sure.

    Raises:
        ConfigError: There is no head, too few buckets or, in an encoder, an odd number, or ``max_distance`` leaves no
            room for the logarithmic buckets.

    Example:
        >>> import torch
        >>> scheme, q = T5(16, 4, causal=True), torch.zeros(1, 4, 3, 4)
        >>> scheme.score_bias(q, q, torch.arange(3), torch.arange(3)).shape
        torch.Size([1, 4, 3, 3])
        >>> scheme.buckets(torch.tensor([-1000, -127, -16, -15, -1, 0, 1])).tolist()
        [31, 31, 16, 15, 1, 0, 0]
    """

    title = "T5"
    paper = "Raffel et al. 2020"

    def __init__(
        self, model_dim: int, num_heads: int, causal: bool, *, num_buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__(num_heads)
        directions = 1 if causal else 2
        if num_buckets < 2 * directions or num_buckets % directions:
            needed = "at least 2" if causal else "even and at least 4, half of them for each direction"
            raise ConfigError(f"num_buckets of T5 must be {needed}; got {num_buckets}.")
        self._buckets_a_direction = num_buckets // directions
        exact = self._buckets_a_direction // 2
        if max_distance <= exact:
            raise ConfigError(
                f"max_distance of T5 must be above {exact}, because the first {exact} of {self._buckets_a_direction} "
                f"buckets hold one distance each; got {max_distance}."
            )
        self.model_dim = model_dim
        self.causal = causal
        self._borders = bucket_borders(self._buckets_a_direction, max_distance)
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model, with one or two directions."""
        return cls(shape.model_dim, shape.num_heads, shape.causal, **options)

    def reset_parameters(self) -> None:
        """Draw the biases from a normal distribution of standard deviation ``E^-0.5``, as Hugging Face does."""
        nn.init.normal_(self.weight, std=self.model_dim**-0.5)

    def buckets(self, offsets: Tensor) -> Tensor:
        """Return the bucket, int64 ``[...]``, of int64 relative positions ``[...]``."""
        distances = (-offsets).clamp(min=0) if self.causal else offsets.abs()
        borders = torch.tensor(self._borders, device=offsets.device)
        buckets = torch.bucketize(distances, borders, right=True)
        return buckets if self.causal else buckets + self._buckets_a_direction * (offsets > 0)

    def bias(self, offsets: Tensor) -> Tensor:
        """Return the trained numbers of the offsets' buckets; shapes as in :meth:`RelativeBias.bias`."""
        return at_least_float32(self.weight).t().index_select(-1, self.buckets(offsets))
