"""Clipped relative position representations (Shaw et al. 2018)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.relative import place, relative_positions
from locant.positions.scheme import AttentionShape, PositionScheme


@register_scheme("shaw")
class Shaw(PositionScheme):
    """Adds to the scores the product of the query with a trained vector for the clipped relative position.

    Source: Shaw et al. 2018, "Self-Attention with Relative Position Representations", sections 3.2 and 3.3,
    equation 4, whose second term is this bias::

        bias(i, j) = q_i^T a[clip(j - i, -c, c)] / sqrt(D)

    for the query at position ``i``, the key at ``j`` and ``c = max_distance``: ``2 c + 1`` vectors of ``D`` features
    for each layer, shared by its heads as in section 3.3. The paper also adds vectors to the values (equation 3). They
    are left out: in its own ablation (table 3) the key-side vectors alone reach the BLEU of both together, 25.8, and
    the value-side ones alone 25.3; a score bias cannot express them.

    One product of the queries with the table, ``[B, H, Q, 2 c + 1]``, is spread to the keys; there is never a tensor
    ``[Q, K, D]``. The product is a part of the scores and is computed, like them, in the dtype of the queries.

    An encoder distinguishes the clipped distances of both directions. In a decoder the ``c`` vectors for later keys are
    unused. For cross-attention the paper defines none.

    Args:
        head_dim: Features of one head, ``D``.
        max_distance: Distance in tokens from which on all are equal, ``c``; the paper has 16 in its base model.

    Raises:
        ConfigError: ``max_distance`` is not positive.

    Example:
        >>> import torch
        >>> q = torch.randn(2, 4, 3, 8)
        >>> Shaw(8, max_distance=2).score_bias(q, q, torch.arange(3), torch.arange(3)).shape
        torch.Size([2, 4, 3, 3])
    """

    title = "Shaw"
    paper = "Shaw et al. 2018"
    traceable = True
    per_layer: ClassVar[bool] = True

    def __init__(self, head_dim: int, *, max_distance: int = 16) -> None:
        super().__init__()
        if max_distance < 1:
            raise ConfigError(f"max_distance of Shaw's relative positions must be at least 1; got {max_distance}.")
        self.head_dim = head_dim
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model."""
        return cls(shape.head_dim, **options)

    def reset_parameters(self) -> None:
        """Draw the vectors as Glorot and Bengio (2010) do, uniformly; the paper does not say how."""
        nn.init.xavier_uniform_(self.weight)

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the bias of every pair; arguments as in :meth:`PositionScheme.score_bias`.

        Returns:
            ``[B, H, Q, K]`` of the dtype of ``q``.
        """
        del k
        offsets = relative_positions(q_positions, k_positions)
        index = offsets.clamp_(-self.max_distance, self.max_distance).add_(self.max_distance)
        products = (q * q.shape[-1] ** -0.5) @ self.weight.to(q.dtype).t()
        return place(products, index).to(q.dtype)
