"""LongRoPE: a factor of its own for every pair, found by search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.checks import check_length, check_positive, is_number
from locant.positions.scaling.frequency import Extension, ExtensionMethod, FrequencyScaling, register_scaling

# Of Phi-3-mini (Abdin et al. 2024), the model whose factors are the best known: trained for 4,096 tokens and extended
# to 131,072; the long factors of its configuration, which lists them in float32.
_PHI3_LONG_FACTORS = """
1.03 1.05 1.05 1.08 1.23 1.23 1.30 1.45 1.60 1.65 1.90 2.86 3.69 5.42 5.49 5.49
9.09 11.58 15.66 15.77 15.79 18.36 21.99 23.08 30.01 32.35 32.59 35.56 39.95 53.84 56.20 57.95
59.29 59.77 59.92 61.19 61.96 62.50 63.37 63.48 63.48 63.66 63.85 64.08 64.76 64.80 64.81 64.81
"""
PHI3_LONG_FACTORS = tuple(map(float, _PHI3_LONG_FACTORS.split()))


@register_scaling("longrope")
@dataclass(frozen=True, kw_only=True)
class LongRoPE(Extension):
    """LongRoPE: every pair is slowed by a factor of its own, from one list for short texts and one for long ones.

    Source: Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", section 3,
    with the rescale factors as the published models (Phi-3 and later) list them, and the attention scale
    of their code::

        f_i             = base^(-2i/d) / factors_i
        attention_scale = sqrt(1 + ln(factor) / ln(original_length))      (for short and long texts)

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
        target_length: Length in tokens that the model should read.
        attention_factor: The attention scale itself, instead of the formula.
        short_attention_factor: The attention scale of texts up to ``original_length``, where they have another one:
            ``short_mscale`` beside ``long_mscale`` in the code of Phi-3-small and Phi-3.5-MoE.
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
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "two lists of factors, Ding et al. 2024, arXiv:2402.13753, with those of NTK-by-parts for long texts",
        "Texts up to the original length are read exactly as before. transformers changes the list when a text exceeds "
        "it, and keys cached before keep the other one; vLLM and llama.cpp take one list for all texts, the long one "
        "where --max-model-len, or the context, exceeds that length, at which vLLM stops by default.",
    )
    original_length_use: ClassVar[str | None] = "to choose between its two lists of factors"

    short_factors: Sequence[float] = ()
    long_factors: Sequence[float] = ()
    attention_factor: float | None = None
    short_attention_factor: float | None = None
    final_length: int | None = None

    def __post_init__(self) -> None:
        """Check the fields, and fill in factor or target length."""
        super().__post_init__()
        for field in ("short_factors", "long_factors"):
            factors = getattr(self, field)
            if isinstance(factors, str) or not isinstance(factors, Sequence) or not factors:
                raise ConfigError(
                    f"{field} of the scaling '{self.name}' must be a list with a number for every pair of rotated "
                    f"features; got {factors!r}."
                )
            for index, value in enumerate(factors):
                if not is_number(value) or value <= 0:
                    raise ConfigError(
                        f"{field} of the scaling '{self.name}' must be numbers above 0; got {value!r} at index {index}."
                    )
            object.__setattr__(self, field, tuple(factors))
        if len(self.short_factors) != len(self.long_factors):
            raise ConfigError(
                f"The scaling '{self.name}' has {len(self.short_factors)} numbers in short_factors but "
                f"{len(self.long_factors)} in long_factors; there is one of each for every pair of rotated features."
            )
        if self.trained_length < 2:
            raise ConfigError(f"original_length of the scaling '{self.name}' must be at least 2; got 1.")
        check_positive(self.name, "attention_factor", self.attention_factor)
        check_positive(self.name, "short_attention_factor", self.short_attention_factor)
        check_length(self.name, "final_length", self.final_length)

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
        """Return what multiplies cosine and sine, by default that of texts beyond the original length.

        Args:
            length: Length of the text in tokens; matters only where short texts have a scale of their own.
        """
        decisive = self.final_length or length
        if self.short_attention_factor is not None and decisive is not None and decisive <= self.trained_length:
            return float(self.short_attention_factor)
        if self.attention_factor is not None:
            return float(self.attention_factor)
        assert self.factor is not None
        return math.sqrt(1 + math.log(self.factor) / math.log(self.trained_length))

    def length_class(self, length: int) -> int:
        """Return 1 for texts beyond the original length, unless one list holds for all."""
        is_fixed = self.final_length is not None or self.has_one_list
        return int(not is_fixed and length > self.trained_length)

    @property
    def has_one_list(self) -> bool:
        """Whether the two lists are the same, and the attention scale as well."""
        return self.short_factors == self.long_factors and self.short_attention_factor is None

    def described_options(self) -> dict[str, Any]:
        """Return the fields with one list in the place of two that are the same."""
        described = super().described_options()
        if self.short_factors != self.long_factors:
            return described
        named = {name: "factors for any length" if name == "short_factors" else name for name in described}
        return {named[name]: value for name, value in described.items() if name != "long_factors"}

    def fixed_for(self, length: int) -> FrequencyScaling:
        """Return this scaling with a ``final_length``, unless it has one."""
        return self if self.final_length is not None else replace(self, final_length=length)

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        if len(self.long_factors) != dim // 2:
            raise ConfigError(
                f"The scaling '{self.name}' has {len(self.long_factors)} numbers in long_factors and short_factors, "
                f"but {dim} rotated features are {dim // 2} pairs."
            )
        is_long = length_class == 1 or (self.final_length or 0) > self.trained_length
        factors = self.long_factors if is_long else self.short_factors
        return tuple(
            frequency / Decimal(factor)
            for frequency, factor in zip(geometric_frequencies(dim // 2, base), factors, strict=True)
        )

    @property
    def explained_length(self) -> int | None:
        """``final_length``, or else ``target_length``."""
        return self.final_length or self.target_length

    def explain_notes(self, length: int | None, max_length: int | None) -> Iterator[str]:
        """Yield which of the two lists is shown."""
        del max_length
        if self.short_attention_factor is not None and self.final_length is None:
            yield (
                f"Texts up to {self.original_length} tokens have the attention scale "
                f"{self.short_attention_factor:.6g}, longer ones {self.attention_scale():.6g}."
            )
        if self.short_factors == self.long_factors:
            yield "Texts of all lengths take the same factors."
        elif length is not None:
            which = "short_factors" if (self.final_length or length) <= self.trained_length else "long_factors"
            yield (
                f"All texts take {which}, because final_length is {self.final_length}."
                if self.final_length is not None
                else f"Shown for {length} tokens, which take {which}; the lists change beyond {self.original_length} "
                "tokens."
            )
