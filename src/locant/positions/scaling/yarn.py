"""NTK-by-parts: fast pairs stay, slow ones are interpolated, others are blended; YaRN sharpens attention, too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import ClassVar

from locant.errors import ConfigError
from locant.positions.exact import TWO_PI, geometric_frequencies
from locant.positions.scaling.checks import check_positive
from locant.positions.scaling.frequency import Extension, ExtensionMethod, register_scaling


@register_scaling("ntk-by-parts")
@dataclass(frozen=True, kw_only=True)
class NTKByParts(Extension):
    """NTK-by-parts: a pair is slowed by how many turns it makes within the trained length.

    Source: Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models", section 3.2::

        f_i = (1 - g_i) * base^(-2i/d) / factor + g_i * base^(-2i/d)

    A pair of ``r = original_length * base^(-2i/d) / (2 pi)`` turns has ``g = 1`` (kept) at ``beta_fast`` turns and
    more, ``g = 0`` (interpolated) at ``beta_slow`` and fewer. Between, the paper's ``g`` is linear in ``r``. All
    implementations, the authors' included, make it linear in the index ``i`` of the pair instead, and so does this
    class, because models were trained with it::

        index(beta) = d * ln(original_length / (2 pi * beta)) / (2 * ln(base))
        low, high   = floor(index(beta_fast)), ceil(index(beta_slow)), both clipped to 0 .. d - 1
        g_i         = 1 - clip((i - low) / (high - low), 0, 1),   with high = low + 0.001 where they are equal

    Hugging Face clips ``low`` only from below and ``high`` only from above. Where even the fastest pair falls short of
    ``beta_slow`` turns, ``high`` may be negative there and the ramp runs backwards: all pairs are kept, where all but
    the first should be interpolated. It does not see ``truncate`` in parameters that are given by layer type. Where a
    model does not state the original length it silently takes ``max_position_embeddings``, often the extended length,
    so that pairs are kept which were interpolated in training.

    Args:
        original_length: Length in tokens that the model was trained for before the extension.
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model should read.
        beta_fast: Turns from which on a pair keeps its frequency.
        beta_slow: Turns up to which a pair is interpolated; at most ``beta_fast``.
        truncate: Whether the two indices are rounded outwards to whole pairs.

    Example:
        >>> scaling = NTKByParts(original_length=2048, factor=4)
        >>> [f"{scaled / plain:.4f}" for scaled, plain in zip(
        ...     scaling.frequencies(16, 10000.0), NTKByParts(original_length=2048, factor=1).frequencies(16, 10000.0))]
        ['1.0000', '1.0000', '1.0000', '0.8125', '0.6250', '0.4375', '0.2500', '0.2500']
    """

    title: ClassVar[str] = "NTK-by-parts"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv:2309.00071, section 3.2"
    original_length_use: ClassVar[str | None] = "to count the turns that each pair makes within it"

    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def __post_init__(self) -> None:
        """Check the fields, and fill in factor or target length."""
        super().__post_init__()
        if not isinstance(self.truncate, bool):
            raise ConfigError(f"truncate of the scaling '{self.name}' must be true or false; got {self.truncate!r}.")
        check_positive(self.name, "beta_fast", self.beta_fast)
        check_positive(self.name, "beta_slow", self.beta_slow)
        if self.beta_slow > self.beta_fast:
            raise ConfigError(
                f"The scaling '{self.name}' has beta_slow {self.beta_slow:g} and beta_fast {self.beta_fast:g}: "
                "pairs are kept from beta_fast turns on and interpolated up to beta_slow, which must not be larger."
            )

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        low, high = (
            dim * (self.trained_length / (TWO_PI * Decimal(beta))).ln() / (2 * base.ln())
            for beta in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = low.to_integral_value(ROUND_FLOOR), high.to_integral_value(ROUND_CEILING)
        low, high = (min(max(index, Decimal(0)), Decimal(dim - 1)) for index in (low, high))
        width = high - low or Decimal("0.001")
        slowest = 1 / self.exact_factor
        ramp = (min(max((index - low) / width, Decimal(0)), Decimal(1)) for index in range(dim // 2))
        return tuple(
            frequency * (1 - share + share * slowest)
            for frequency, share in zip(geometric_frequencies(dim // 2, base), ramp, strict=True)
        )


@register_scaling("yarn")
@dataclass(frozen=True, kw_only=True)
class YaRN(NTKByParts):
    """YaRN: NTK-by-parts, and attention sharpened a little.

    Source: Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models", section 3.4:
    cosine and sine of queries and keys are multiplied by::

        attention_scale = 0.1 * ln(factor) + 1

    so that scores are divided by the temperature ``attention_scale^-2``. ``attention_factor`` states another scale.
    DeepSeek's models state a pair instead, from which follows::

        attention_scale = (0.1 * mscale * ln(factor) + 1) / (0.1 * mscale_all_dim * ln(factor) + 1)

    They moreover multiply scores by the square of the denominator, in the attention itself: that is no part of this
    scaling. ``mscale`` without ``mscale_all_dim``, or one of them 0, means one thing to DeepSeek's code (0.1 * 0 + 1)
    and another to Hugging Face's (the pair is ignored), so it is refused here.

    Args:
        original_length: Length in tokens that the model was trained for before the extension.
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model should read.
        beta_fast: Turns from which on a pair keeps its frequency.
        beta_slow: Turns up to which a pair is interpolated; at most ``beta_fast``.
        truncate: Whether the two indices are rounded outwards to whole pairs.
        attention_factor: The attention scale itself, instead of the formula.
        mscale: Weight of the logarithm in the numerator.
        mscale_all_dim: Weight of the logarithm in the denominator; given together with ``mscale``.

    Example:
        >>> YaRN(original_length=4096, factor=32).attention_scale()
        1.3465735902799727
    """

    title: ClassVar[str] = "YaRN"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv:2309.00071"
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "YaRN, Peng et al. 2023, arXiv:2309.00071",
        "Short texts are scaled as well, which costs a little quality there.",
    )

    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    def __post_init__(self) -> None:
        """Check the fields, and fill in factor or target length."""
        super().__post_init__()
        for field in ("attention_factor", "mscale", "mscale_all_dim"):
            check_positive(self.name, field, getattr(self, field))
        if (self.mscale is None) != (self.mscale_all_dim is None):
            raise ConfigError(
                f"The scaling '{self.name}' has mscale {self.mscale} and mscale_all_dim {self.mscale_all_dim}. They "
                "are a pair, and implementations disagree on one alone; give both, or attention_factor instead."
            )
        if self.attention_factor is not None and self.mscale is not None:
            raise ConfigError(
                f"The scaling '{self.name}' has attention_factor {self.attention_factor:g} as well as mscale "
                f"{self.mscale:g}; both set the attention scale, so give one of them."
            )
        if self.mscale is not None and not 0 < self.attention_scale() < math.inf:
            raise ConfigError(
                f"mscale {self.mscale} and mscale_all_dim {self.mscale_all_dim} of the scaling '{self.name}' make an "
                "attention scale beyond any float."
            )

    def attention_scale(self, length: int | None = None) -> float:
        """Return what multiplies cosine and sine; the same for every length."""
        del length
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if self.mscale is None or self.mscale_all_dim is None:
            return self.paper_attention_scale()
        logarithm = math.log(self.factor or 1)
        return (0.1 * self.mscale * logarithm + 1) / (0.1 * self.mscale_all_dim * logarithm + 1)

    def paper_attention_scale(self) -> float:
        """Return the attention scale that the paper's formula gives for the factor."""
        return 0.1 * math.log(self.factor or 1) + 1
