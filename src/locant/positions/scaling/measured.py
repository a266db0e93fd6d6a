"""Frequencies given as numbers, where no named scaling makes them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from locant.errors import ConfigError
from locant.positions.scaling.checks import check_positive, is_number
from locant.positions.scaling.frequency import FrequencyScaling


@dataclass(frozen=True, kw_only=True)
class Measured(FrequencyScaling):
    """Frequencies that were measured or read, one number for every pair, whatever base and formula made them.

    Args:
        given: ``d/2`` frequencies in radians a token.
        attention_factor: What multiplies cosine and sine of queries and keys.

    Example:
        >>> [float(f) for f in Measured(given=(1.0, 0.5)).frequencies(4, 10000.0)]
        [1.0, 0.5]
    """

    name: ClassVar[str] = "measured"  # not registered: readers make it, nobody chooses it
    title: ClassVar[str] = "measured"
    paper: ClassVar[str] = "of the model itself"

    given: tuple[float, ...]
    attention_factor: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields."""
        object.__setattr__(self, "given", tuple(self.given))
        if not self.given or not all(map(is_number, self.given)):
            raise ConfigError(f"given of the scaling '{self.name}' must be a list of numbers, one for every pair.")
        check_positive(self.name, "attention_factor", self.attention_factor)

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies that were given."""
        del base, length_class
        if len(self.given) != dim // 2:
            raise ConfigError(
                f"The scaling '{self.name}' has {len(self.given)} frequencies, but {dim} rotated features are "
                f"{dim // 2} pairs."
            )
        return tuple(map(Decimal, self.given))

    def attention_scale(self, length: int | None = None) -> float:
        """Return what multiplies cosine and sine; the same for every length."""
        del length
        return float(self.attention_factor)
