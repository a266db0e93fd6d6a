"""What holds for every score bias of queries, keys and their relative position (DeBERTa's, Transformer-XL's)."""

from __future__ import annotations

import torch
from torch import Tensor

E, H, D = 12, 3, 4

PLACES = [
    (torch.tensor([6]), torch.arange(7)),
    (torch.arange(3), torch.arange(100, 106)),
    (torch.tensor([[-2, -1, 0, 1], [0, 1, 2, 3]]), torch.tensor([[-2, -1, 0, 1], [0, 1, 2, 3]])),
    (torch.tensor([[4], [9]]), torch.arange(10)),
    (torch.tensor([3, 0, 7]), torch.tensor([[5, 5, 1], [2, 0, 9]])),
]
"""Positions of queries and of keys: decoding, cross-attention, left padding, a batch that decodes, any order."""


def heads(length: int, batch: int = 2, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return random queries or keys ``[batch, H, length, D]``."""
    return torch.randn(batch, H, length, D, dtype=dtype)


def distance_of(q_positions: Tensor, k_positions: Tensor, batch: int, pair: tuple[int, int, int]) -> int:
    """Return how far a query stands after a key, in a row of the batch."""
    row, i, j = pair
    return int(q_positions.expand(batch, -1)[row, i]) - int(k_positions.expand(batch, -1)[row, j])
