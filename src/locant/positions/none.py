"""No positional information at all."""

from __future__ import annotations

from typing import Any, Self

from locant.positions.registry import register_scheme
from locant.positions.scheme import AttentionShape, PositionScheme


@register_scheme("none")
class NoPositions(PositionScheme):
    """Leaves all three places alone.

    An encoder without positions sees a bag of words: permuting its input permutes its output. A causal decoder can
    still infer order from its mask (Haviv et al. 2022, "Transformer Language Models without Positional Encodings
    Still Learn Positional Information"; Kazemnejad et al. 2023, NoPE).

    Example:
        >>> import torch
        >>> embeddings = torch.randn(1, 3, 8)
        >>> torch.equal(NoPositions().embed(embeddings, torch.arange(3)), embeddings)
        True
    """

    title = "No positions"
    paper = "Haviv et al. 2022"
    traceable = True

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme; it has no dimensions and no options."""
        del shape
        return cls(**options)
