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
    found: dict[str, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}
    for source, target in pairs:
        seen = introspect(model, source, target)
        for kind, layers in zip(
            found, (seen.encoder_attention, seen.decoder_attention, seen.cross_attention), strict=True
        ):
            found[kind].append(torch.stack(layers).double())
    return {kind: _profile(weights, reach, causal=kind == "decoder") for kind, weights in found.items()}


def _profile(sentences: list[Tensor], reach: int, *, causal: bool) -> HeadProfiles:
    """Return means over all queries of weights ``[N, H, Q, K]``; offsets that no query has are left out."""
    offsets, means = [], []
    for offset in range(-reach, 1 if causal else reach + 1):
        there = torch.cat([weights.diagonal(offset, dim1=2, dim2=3) for weights in sentences], dim=-1)
        if there.shape[-1]:
            offsets.append(offset)
            means.append(there.mean(-1))
    entropies = torch.cat([torch.special.entr(weights).sum(3) for weights in sentences], dim=-1)
    visible = [
        torch.arange(1, weights.shape[2] + 1) if causal else torch.full(weights.shape[2:3], weights.shape[3])
        for weights in sentences
    ]
    even = float(torch.cat(visible).double().log().mean())
    return HeadProfiles(torch.tensor(offsets), torch.stack(means, dim=-1), entropies.mean(-1), even)
