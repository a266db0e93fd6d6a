"""Exact conversion of query and key projections between the two rotary layouts."""

from __future__ import annotations

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryLayout
from locant.positions.scheme import require_choice


def layout_order(head_dim: int, *, rotary_dim: int | None = None, source: RotaryLayout, target: RotaryLayout) -> Tensor:
    """Return where each feature of a head in the layout ``target`` is found in the layout ``source``.

    Args:
        head_dim: Features of one head, ``D``.
        rotary_dim: Number of leading features that are rotated; all when ``None``. The others keep their places.
        source: Layout that the features are in.
        target: Layout that they shall be in.

    Returns:
        Indices ``[D]``: ``x[..., order]`` has the layout ``target``.

    Raises:
        ConfigError: A layout is unknown or ``rotary_dim`` is odd or larger than the head.
    """
    for option, value in (("source", source), ("target", target)):
        require_choice(f"{option} layout", value, ("half", "interleaved"))
    rotated = head_dim if rotary_dim is None else rotary_dim
    if rotated % 2 or not 0 < rotated <= head_dim:
        raise ConfigError(f"rotary_dim must be even and at most the head's {head_dim} features; got {rotated}.")
    order = torch.arange(head_dim)
    if source != target:
        pairs = order[:rotated].view(2, -1) if source == "half" else order[:rotated].view(-1, 2)
        order[:rotated] = pairs.T.reshape(-1).clone()
    return order


def convert_projection(
    projection: Tensor,
    head_dim: int,
    *,
    source: RotaryLayout,
    target: RotaryLayout,
    rotary_dim: int | None = None,
) -> Tensor:
    """Return the weight or bias of a query or key projection for the other rotary layout.

    Queries and keys keep their products when both are converted: the same pairs of features turn by the same angles,
    they only stand in other places. Nothing is computed, rows change places, so the conversion is exact.

    Args:
        projection: Weight ``[H * D, E]`` or bias ``[H * D]``, as in :class:`torch.nn.Linear`; with grouped queries the
            keys' projection has fewer heads and is converted alike. Queries and keys fused in one matrix are split
            first; values have no layout.
        head_dim: Features of one head, ``D``.
        source: Layout that the projection was trained in.
        target: Layout that it shall be in.
        rotary_dim: Number of leading features that are rotated; all when ``None``.

    Raises:
        ConfigError: The rows are not a whole number of heads, or as in :func:`layout_order`.

    Example:
        >>> import torch
        >>> bias = torch.tensor([0, 1, 2, 3, 10, 11, 12, 13])
        >>> convert_projection(bias, 4, source="half", target="interleaved").tolist()
        [0, 2, 1, 3, 10, 12, 11, 13]
    """
    rows = projection.shape[0]
    if rows % head_dim:
        raise ConfigError(f"The projection's {rows} rows are not a whole number of heads of {head_dim} features.")
    order = layout_order(head_dim, rotary_dim=rotary_dim, source=source, target=target).to(projection.device)
    heads = projection.reshape(rows // head_dim, head_dim, *projection.shape[1:])
    return heads.index_select(1, order).reshape(projection.shape)
