"""What schemes share whose bias is a product with a vector that depends on the relative position alone.

Multiplying with the few distinct vectors first, and placing the products afterwards, needs ``(Q + K) D`` numbers where
a vector for each pair of query and key would need ``Q K D`` (Dai et al. 2019, appendix B).
"""

from __future__ import annotations

import torch
from torch import Tensor


def distinct(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``rows [N]`` and an index such that ``rows[index]`` equals the integers ``values [..., Q, K]``.

    Rows may hold values that do not occur: the range of the values is found much faster than the set of them, and
    consecutive positions fill it.
    """
    if values.numel():
        low, high = (int(end) for end in values.aminmax())
        if high - low < 2 * (values.shape[-2] + values.shape[-1]):
            return torch.arange(low, high + 1, device=values.device), values - low
    rows, index = torch.unique(values, return_inverse=True)
    return rows, index


def place(products: Tensor, index: Tensor) -> Tensor:
    """Give every pair of a query and a key the product that ``index`` names.

    Args:
        products: ``[B, H, Q, N]``.
        index: int64 ``[Q, K]`` or ``[B, Q, K]``.

    Returns:
        ``[B, H, Q, K]``.
    """
    return products.gather(-1, index.unsqueeze(-3).expand(*products.shape[:-1], -1))
