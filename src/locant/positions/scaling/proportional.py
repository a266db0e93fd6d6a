"""p-RoPE: the slowest pairs do not turn at all."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.checks import check_factor, is_number
from locant.positions.scaling.frequency import FrequencyScaling, register_scaling


@register_scaling("proportional")
@dataclass(frozen=True, kw_only=True)
class Proportional(FrequencyScaling):
    """p-RoPE: only the fastest pairs turn; the slowest, which carry meaning rather than place, do not turn.

    Source: Barbero et al. 2024, "Round and Round We Go! What makes Rotary Positional Encodings useful?";
    ``proportional`` in Hugging Face's transformers. All ``d`` features belong to pairs, and the turning ones keep the
    frequencies they have among all::

        f_i = base^(-2i/d) / factor    for i < floor(rotary_fraction * d / 2)
        f_i = 0                        for the others

    A smaller ``rotary_dim`` is another thing: it spreads the whole range of frequencies over fewer pairs.

    Args:
        rotary_fraction: Fraction of the pairs that turn, 0 to 1.
        factor: Position interpolation of the turning pairs, at least 1.

    Example:
        >>> [float(f) for f in Proportional(rotary_fraction=0.5).frequencies(8, 10000.0)]
        [1.0, 0.1, 0.0, 0.0]
    """

    title: ClassVar[str] = "p-RoPE"
    paper: ClassVar[str] = "Barbero et al. 2024, arXiv:2410.06205"

    rotary_fraction: float
    factor: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        if not is_number(self.rotary_fraction) or not 0 <= self.rotary_fraction <= 1:
            raise ConfigError(
                f"rotary_fraction of the scaling '{self.name}' must be a number from 0 to 1; "
                f"got {self.rotary_fraction!r}."
            )
        check_factor(self.name, self.factor)

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        factor = Decimal(self.factor)
        # In float64 like everywhere else, so that a fraction whose product lies just below a whole number agrees.
        turning = int(self.rotary_fraction * dim // 2)
        return tuple(
            frequency / factor if index < turning else Decimal(0)
            for index, frequency in enumerate(geometric_frequencies(dim // 2, base))
        )

    @property
    def stretch(self) -> float | None:
        """``factor``."""
        return self.factor

    def trained_by(self, max_length: int | None) -> int | None:
        """Return the declared length where the factor extends nothing."""
        return max_length if self.factor == 1 else None
