"""Disentangled attention of DeBERTa (He et al. 2021)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.relative import distinct, place, relative_positions
from locant.positions.scheme import AttentionShape, PositionScheme


@register_scheme("deberta")
class DeBERTa(PositionScheme):
    """Compares queries with embeddings of relative positions, and keys with other projections of the same embeddings.

    Source: He et al. 2021, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", section 3.1, equations 2 to
    4, with ``k = max_distance``::

        score(i, j) = ( q_i.k_j  +  q_i.r(i, j)  +  k_j.s(i, j) ) / sqrt(3 D)
        r(i, j) = P[delta(i - j)] W_k,     s(i, j) = P[delta(i - j)] W_q
        delta(d) = 0 for d <= -k,   2k - 1 for d >= k,   d + k otherwise

    Attention divides ``q_i.k_j`` by ``sqrt(D)`` itself, so ``rotate`` divides the queries by ``sqrt(3)``, and
    ``score_bias`` returns the other two terms over ``sqrt(3 D)``. ``i`` is the query's position, ``j`` the key's, in
    tokens. Equation 4 has ``delta(j - i)`` in ``s``; the authors' code, and so every released model, has
    ``delta(i - j)`` there too, which is what is computed here.

    With ``buckets > 0``, as in DeBERTa-v2, distances are first put in buckets: exactly up to ``m = buckets / 2``, then
    in logarithmic steps, ``m + ceil( log(d/m) / log((k - 1)/m) (m - 1) )``, and ``buckets`` takes the place of ``k``
    in ``delta``.

    Parameters, of every layer: ``embeddings`` ``P [2k, E]`` (or ``[2 buckets, E]``), ``query_projection`` ``W_q`` and
    ``key_projection`` ``W_k``, both ``[E, E]``, without biases as in the paper. In the paper all layers share ``P``;
    here each layer has its own, which includes the paper's model as the case of equal ones. Models whose configuration
    says ``share_att_key`` (v2, v3) use the attention's own projections instead of ``W_q`` and ``W_k``: copy them.

    In a decoder only ``i - j >= 0`` occur, and half of the embeddings are idle. Cross-attention is well-defined where
    positions of the two texts can be compared. Padding cannot leak: a bias depends on its own query and key alone.

    Precision: float32 inside (float64 for float64 input); ``rotate`` keeps the dtype of the queries.

    Args:
        model_dim: Width of the model, ``E``.
        num_heads: Number of heads, ``H``.
        head_dim: Features of a head, ``D``, where they are not ``E / H``.
        max_distance: Distance ``k`` in tokens from which on all distances look the same.
        buckets: Number of buckets for each direction, even; 0 for a bucket of each distance.

    Raises:
        ConfigError: An option is out of range, or positions are not integers.

    Example:
        >>> import torch
        >>> scheme = DeBERTa(8, 2, max_distance=4)
        >>> q, k = torch.ones(1, 2, 1, 4), torch.ones(1, 2, 5, 4)
        >>> scheme.score_bias(q, k, torch.tensor([4]), torch.arange(5)).shape
        torch.Size([1, 2, 1, 5])
        >>> scheme.rotate(q, k, torch.tensor([4]), torch.arange(5))[0][0, 0, 0, 0].item()  # doctest: +ELLIPSIS
        0.57735...
    """

    title = "DeBERTa"
    paper = "He et al. 2021"
    per_layer: ClassVar[bool] = True
    traceable = True
    num_heads: int

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        head_dim: int | None = None,
        *,
        max_distance: int = 512,
        buckets: int = 0,
    ) -> None:
        super().__init__()
        if max_distance < 1:
            raise ConfigError(f"max_distance of DeBERTa positions must be at least 1; got {max_distance}.")
        if buckets and (buckets % 2 or not 4 <= buckets <= 2 * (max_distance - 2)):
            raise ConfigError(
                "buckets of DeBERTa positions must be 0, or an even number from 4 to 2 (max_distance - 2), so that "
                f"distances are left for logarithmic buckets; got buckets={buckets}, max_distance={max_distance}."
            )
        self.num_heads, self.head_dim = num_heads, head_dim or model_dim // num_heads
        self.span = buckets or max_distance
        self._buckets = _logarithmic_buckets(buckets // 2, max_distance) if buckets else None
        self.embeddings = nn.Parameter(torch.empty(2 * self.span, model_dim))
        self.query_projection = nn.Parameter(torch.empty(model_dim, num_heads * self.head_dim))
        self.key_projection = nn.Parameter(torch.empty(model_dim, num_heads * self.head_dim))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width and the heads of a model."""
        return cls(shape.model_dim, shape.num_heads, shape.head_dim, **options)

    def reset_parameters(self) -> None:
        """Draw projections Xavier-uniformly, and ``P`` from a normal distribution of deviation 0.02 (authors' code)."""
        nn.init.xavier_uniform_(self.query_projection)
        nn.init.xavier_uniform_(self.key_projection)
        nn.init.normal_(self.embeddings, std=0.02)

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Divide the queries by ``sqrt(3)``, because three terms are added; keys stay as they are."""
        del q_positions, k_positions
        return q * 3**-0.5, k

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the two terms over ``sqrt(3 D)``; shapes as in :meth:`PositionScheme.score_bias`.

        Returns:
            ``[B, H, Q, K]`` of the dtype of ``q``.
        """
        dtype = torch.promote_types(q.dtype, torch.float32)
        index = self._delta(-relative_positions(q_positions, k_positions))
        if torch.compiler.is_compiling():  # which of them occur would have to be read
            rows = torch.arange(2 * self.span, device=index.device)
        else:
            rows, index = distinct(index)
        embeddings = self.embeddings.to(dtype)[rows]
        to_position = place(q.to(dtype) @ self._heads(embeddings, self.key_projection), index)
        to_content = place(k.to(dtype) @ self._heads(embeddings, self.query_projection), index.transpose(-1, -2))
        return ((to_position + to_content.transpose(-1, -2)) * (3 * q.shape[-1]) ** -0.5).to(q.dtype)

    def _delta(self, distances: Tensor) -> Tensor:
        """Return the row of ``P`` for every signed distance."""
        if self._buckets is not None:
            table = torch.tensor(self._buckets, device=distances.device)
            distances = table[distances.abs().clamp(max=len(table) - 1)] * distances.sign()
        return (distances + self.span).clamp(0, 2 * self.span - 1)

    def _heads(self, embeddings: Tensor, projection: Tensor) -> Tensor:
        """Project ``[N, E]`` and return ``[H, D, N]``."""
        rows, width = embeddings.shape
        projected = embeddings @ projection.to(embeddings.dtype)
        return projected.view(rows, self.num_heads, width // self.num_heads).permute(1, 2, 0)


def _logarithmic_buckets(middle: int, max_distance: int) -> list[int]:
    """Return the bucket of every distance from 0 to ``max_distance``; farther ones are in that one's."""
    scale = (middle - 1) / math.log((max_distance - 1) / middle)
    # The last distance before the end is exactly at the edge of its bucket, where a rounding error would count.
    inner = [middle + math.ceil(math.log(d / middle) * scale) for d in range(middle + 1, max_distance - 1)]
    return [*range(middle + 1), *inner, 2 * middle - 1, 2 * middle]
