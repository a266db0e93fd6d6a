"""Clipped RoPE: the slowest pairs fade out."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import TWO_PI, cosine, geometric_frequencies
from locant.positions.scaling.frequency import FrequencyScaling, register_scaling


@register_scaling("clipped")
@dataclass(frozen=True, kw_only=True)
class Clipped(FrequencyScaling):
    """Clipped RoPE (CoPE): half a cosine takes the frequencies of the slowest pairs down to zero.

    Source: Li et al. 2026, "CoPE: Clipped RoPE as A Scalable Free Lunch for Long Context LLMs", and the authors' code
    (``modeling_cope.py``, ``clip_low_n``). Of the ``d/2`` pairs the last ``n`` are multiplied::

        f_i = base^(-2i/d) (1 + cos(pi j / (n - 1))) / 2    with j = i - (d/2 - n), for the last n pairs

    The last pair does not turn at all. A model is trained with it, usually with a larger base.

    Args:
        pairs: Number of pairs that fade out, ``n``, at least 2; the authors take 20 of 64. All pairs where a head has
            no more.

    Example:
        >>> [round(float(f), 4) for f in Clipped(pairs=3).frequencies(8, 10000.0)]
        [1.0, 0.1, 0.005, 0.0]
    """

    title: ClassVar[str] = "Clipped RoPE"
    paper: ClassVar[str] = "Li et al. 2026, arXiv:2602.05258"

    pairs: int = 20

    def __post_init__(self) -> None:
        """Check the field."""
        if not isinstance(self.pairs, int) or isinstance(self.pairs, bool) or self.pairs < 2:
            raise ConfigError(
                f"pairs of the scaling '{self.name}' must be a whole number from 2 on; got {self.pairs!r}."
            )

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return the share of pairs that the authors clip."""
        del trained, longest
        return {"pairs": max(2, rotary_dim // 2 * 20 // 64)}

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        count = min(self.pairs, dim // 2)
        kept = dim // 2 - count
        fading = [(1 + cosine(TWO_PI / 2 * j / max(1, count - 1))) / 2 for j in range(count - 1)]
        factors = [*[Decimal(1)] * kept, *fading, Decimal(0)]
        return tuple(f * factor for f, factor in zip(geometric_frequencies(dim // 2, base), factors, strict=True))

    def trained_by(self, max_length: int | None) -> int | None:
        """Return the declared length: nothing extends it."""
        return max_length
