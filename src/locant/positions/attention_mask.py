"""Which keys a query may see."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """Which keys a query may see, said without an ``L x L`` matrix where a flag or lengths say the same.

    Attributes:
        causal: A query sees only keys up to its own index. With more keys than queries, the queries are the last ones.
        keys: Boolean ``[B, 1, 1, K]``, true where a key is a real token, or ``None`` when all are. Rows that pack
            several texts need ``[B, 1, Q, K]``, true where query and key are of the same text.
    """

    causal: bool = False
    keys: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: Tensor, size: int) -> Mask:
        """Return the padding mask of rows with ``lengths [B]`` real tokens on the left of ``size`` columns."""
        if bool((lengths == size).all()):
            return cls()
        return cls(keys=(torch.arange(size, device=lengths.device) < lengths.unsqueeze(1))[:, None, None, :])

    def part(self, queries: slice, keys: int) -> Mask:
        """Return the mask for a run of queries and the first keys."""
        if self.keys is None:
            return self
        rows = self.keys if self.keys.shape[2] == 1 else self.keys[:, :, queries]
        return Mask(self.causal, rows[..., :keys])
