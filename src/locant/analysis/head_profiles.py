"""Head profiles: weight by offset of the key and entropy of the weights of every head, over many sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from locant.analysis.introspection import introspect
from locant.errors import DataError
from locant.models.transformer import Transformer


@dataclass(frozen=True)
class HeadProfiles:
    """One kind of attention over many sentences, float64.

    Attributes:
        offsets: Positions of the key minus that of the query, in tokens, ``[O]``.
        weights: Mean weight of the key at each offset over all queries that have one there, ``[N, H, O]``.
        entropy: Entropy of the weights of a query, mean over all queries, in nats, ``[N, H]``.
        even: The same where a query gives all keys that it sees the same weight.
    """

    offsets: Tensor
    weights: Tensor
    entropy: Tensor
    even: float


def head_profiles(
    model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, reach: int = 8
) -> dict[str, HeadProfiles]:
    """Return what every head looks at: ``encoder``, ``decoder`` and ``cross`` (target to source).

    Args:
        model: The model; runs in evaluation mode.
        pairs: Source ids closed by EOS, and target ids opened by BOS.
        reach: Largest offset in tokens, in both directions.

    Raises:
        DataError: There are no pairs, or a side of one is empty, too long, or outside the vocabulary.
    """
    if not pairs:
        raise DataError("There are no sentences to look at.")
    sums: dict[str, _Sums] = {}
    for source, target in pairs:
        seen = introspect(model, source, target)
        kinds = {"encoder": seen.encoder_attention, "decoder": seen.decoder_attention, "cross": seen.cross_attention}
        for kind, layers in kinds.items():
            weights = torch.stack(layers).double()
            sums.setdefault(kind, _Sums(weights, reach)).add(weights, causal=kind == "decoder")
    return {kind: found.profiles() for kind, found in sums.items()}


class _Sums:
    """Sums over sentences, from which the means follow."""

    def __init__(self, weights: Tensor, reach: int) -> None:
        self.offsets = torch.arange(-reach, reach + 1)
        self.by_offset = weights.new_zeros(*weights.shape[:2], len(self.offsets))
        self.counts = weights.new_zeros(len(self.offsets))
        self.entropy = weights.new_zeros(weights.shape[:2])
        self.even, self.queries = 0.0, 0

    def add(self, weights: Tensor, *, causal: bool) -> None:
        """Add the weights ``[N, H, Q, K]`` of a sentence."""
        queries, keys = weights.shape[2:]
        for index, offset in enumerate(self.offsets.tolist()):
            if not (causal and offset > 0):
                there = weights.diagonal(offset, dim1=2, dim2=3)
                self.by_offset[..., index] += there.sum(-1)
                self.counts[index] += there.shape[-1]
        self.entropy += torch.special.entr(weights).sum((2, 3))
        visible = torch.arange(1, queries + 1) if causal else torch.full((queries,), keys)
        self.even += float(visible.double().log().sum())
        self.queries += queries

    def profiles(self) -> HeadProfiles:
        """Return the means over all queries; offsets that no query has are left out."""
        known = self.counts > 0
        return HeadProfiles(
            self.offsets[known],
            self.by_offset[..., known] / self.counts[known],
            self.entropy / self.queries,
            self.even / self.queries,
        )
