"""LongRoPE: a factor of its own for every pair, found by search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.frequency import Extension, check_length, check_positive, is_number, register_scaling

# Of Phi-3-mini (Abdin et al. 2024), the model whose factors are the best known: trained for 4,096 tokens and extended
# to 131,072; the long factors of its configuration, which lists them in float32.
PHI3_LONG_FACTORS = (
    *(1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.30, 1.45, 1.60, 1.65, 1.90, 2.86, 3.69, 5.42, 5.49, 5.49),
    *(9.09, 11.58, 15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01, 32.35, 32.59, 35.56, 39.95, 53.84, 56.20, 57.95),
    *(59.29, 59.77, 59.92, 61.19, 61.96, 62.50, 63.37, 63.48, 63.48, 63.66, 63.85, 64.08, 64.76, 64.80, 64.81, 64.81),
)


@register_scaling("longrope")
@dataclass(frozen=True, kw_only=True)
class LongRoPE(Extension):
    """LongRoPE: every pair is slowed by a factor of its own, from one list for short texts and one for long ones.

    Source: Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", section 3,
    with the rescale factors as the published models (Phi-3 and later) list them, and the attention scale
    of their code::

        f_i             = base^(-2i/d) / factors_i
        attention_scale = sqrt(1 + ln(factor) / ln(original_length))      (for short and long texts alike)

    ``short_factors`` hold up to ``original_length`` tokens, ``long_factors`` beyond. A query at position ``i`` takes
    the list of a text of ``i + 1`` tokens for itself and all keys it sees, so a cache of unrotated keys gives the same
    answers as one full pass; ``final_length`` decides once and for all texts instead, as engines do that choose by
    the longest text they will be asked for. Hugging Face decides by the longest position of each forward pass, and
    keys that it cached before the switch stay turned by the short list.

    Args:
        short_factors: ``d/2`` numbers above 0.
        long_factors: ``d/2`` numbers above 0.
        original_length: Length in tokens that the model was trained for before the extension.
        factor: ``target_length / original_length``, at least 1; only the attention scale depends on it.
        target_length: Length in tokens that the model shall read.
        attention_factor: The attention scale itself, instead of the formula.
        final_length: Length in tokens by which the list is chosen for all texts; ``None`` to follow the text.

    Example:
        >>> scaling = LongRoPE(short_factors=[1, 1], long_factors=[1, 8], original_length=4096, factor=8)
        >>> [[float(f) for f in scaling.frequencies(4, 10000.0, length=length)] for length in (4096, 4097)]
        [[1.0, 0.01], [1.0, 0.00125]]
        >>> round(scaling.attention_scale(), 6)
        1.118034
    """

    title: ClassVar[str] = "LongRoPE"
    paper: ClassVar[str] = "Ding et al. 2024, arXiv:2402.13753"
    original_length_use: ClassVar[str | None] = "to choose between its two lists of factors"

    short_factors: Sequence[float] = ()
    long_factors: Sequence[float] = ()
    attention_factor: float | None = None
    final_length: int | None = None

    def __post_init__(self) -> None:
        """Check the fields, and fill in factor or target length."""
        super().__post_init__()
        for field in ("short_factors", "long_factors"):
            self._check_factors(field)
        if len(self.short_factors) != len(self.long_factors):
            raise ConfigError(
                f"The scaling '{self.name}' has {len(self.short_factors)} short_factors but {len(self.long_factors)} "
                "long_factors; there is one of each for every pair of rotated features."
            )
        if self.trained_length < 2:
            raise ConfigError(f"original_length of the scaling '{self.name}' must be at least 2; got 1.")
        if self.attention_factor is not None:
            check_positive(self.name, "attention_factor", self.attention_factor)
        if self.final_length is not None:
            check_length(self.name, "final_length", self.final_length)

    def _check_factors(self, field: str) -> None:
        factors = getattr(self, field)
        if isinstance(factors, str) or not isinstance(factors, Sequence) or not factors:
            raise ConfigError(
                f"{field} of the scaling '{self.name}' must be a list with a number for every pair of rotated "
                f"features; got {factors!r}."
            )
        for index, value in enumerate(factors):
            if not is_number(value) or not value > 0:
                raise ConfigError(
                    f"{field} of the scaling '{self.name}' must be numbers above 0; got {value!r} at index {index}."
                )
        object.__setattr__(self, field, tuple(factors))

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return the lengths, and the factors of Phi-3-mini spread over the pairs: factors are searched for each model.

        Texts up to the trained length are not scaled.
        """
        pairs, last = rotary_dim // 2, len(PHI3_LONG_FACTORS) - 1
        factors = []
        for index in range(pairs):
            place = index * last / max(pairs - 1, 1)
            low = min(int(place), last - 1)
            first, second = PHI3_LONG_FACTORS[low : low + 2]
            factors.append(first + (second - first) * (place - low))
        lengths = {"original_length": trained, "target_length": longest}
        return {**lengths, "short_factors": [1.0] * pairs, "long_factors": factors}

    def attention_scale(self, length: int | None = None) -> float:
        """Return what multiplies cosine and sine; the same for every length."""
        del length
        if self.attention_factor is not None:
            return float(self.attention_factor)
        return math.sqrt(1 + math.log(self._factor) / math.log(self.trained_length))

    def length_class(self, length: int) -> int:
        """Return 1 for texts beyond the original length, unless a final length decides for all."""
        return int(self.final_length is None and length > self.trained_length)

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        if len(self.long_factors) != dim // 2:
            raise ConfigError(
                f"The scaling '{self.name}' has {len(self.long_factors)} long_factors and short_factors, but "
                f"{dim} rotated features are {dim // 2} pairs."
            )
        is_long = length_class == 1 or (self.final_length or 0) > self.trained_length
        factors = self.long_factors if is_long else self.short_factors
        return tuple(
            frequency / Decimal(factor)
            for frequency, factor in zip(geometric_frequencies(dim // 2, base), factors, strict=True)
        )
