"""The scaling of Llama 3.1."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from locant.errors import ConfigError
from locant.positions.exact import TWO_PI, geometric_frequencies
from locant.positions.scaling.checks import check_positive
from locant.positions.scaling.frequency import Extension, register_scaling


@register_scaling("llama3")
@dataclass(frozen=True, kw_only=True)
class Llama3(Extension):
    """Llama 3.1: short wavelengths stay, long ones are interpolated, those between are blended.

    Source: Grattafiori et al. 2024, "The Llama 3 Herd of Models", for the models; the formula is that of the code
    published with them (``apply_scaling``). A pair of wavelength ``2 pi base^(2i/d)`` tokens makes
    ``r = original_length * base^(-2i/d) / (2 pi)`` turns within the trained length::

        s_i = clip((r - low_frequency_factor) / (high_frequency_factor - low_frequency_factor), 0, 1)
        f_i = (1 - s_i) * base^(-2i/d) / factor + s_i * base^(-2i/d)

    This is NTK-by-parts (Peng et al. 2023, section 3.2) with the ramp of the paper, linear in the number of turns,
    with ``beta_slow`` = 1 and ``beta_fast`` = 4. Scores are not scaled.

    Args:
        original_length: Length in tokens that the model was trained for before the extension.
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model should read.
        low_frequency_factor: Turns up to which a pair is interpolated.
        high_frequency_factor: Turns from which on a pair keeps its frequency; where it equals ``low_frequency_factor``,
            as in Llama 4 Scout, nothing is blended.

    Example:
        >>> scaling = Llama3(original_length=8192, factor=8)
        >>> plain = Llama3(original_length=8192, factor=1)
        >>> [f"{f / p:.4f}" for f, p in zip(scaling.frequencies(10, 500000.0), plain.frequencies(10, 500000.0))]
        ['1.0000', '1.0000', '1.0000', '0.1250', '0.1250']
    """

    title: ClassVar[str] = "Llama 3"
    paper: ClassVar[str] = "Grattafiori et al. 2024, arXiv:2407.21783"
    original_length_use: ClassVar[str | None] = "to compare the wavelengths with it"
    # Llama 3.1 itself was trained on for twice the length that its factor makes of the original one.
    limits_length: ClassVar[bool] = False

    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0

    def __post_init__(self) -> None:
        """Check the fields, and fill in factor or target length."""
        super().__post_init__()
        check_positive(self.name, "low_frequency_factor", self.low_frequency_factor)
        check_positive(self.name, "high_frequency_factor", self.high_frequency_factor)
        if self.low_frequency_factor > self.high_frequency_factor:
            raise ConfigError(
                f"The scaling '{self.name}' has low_frequency_factor {self.low_frequency_factor:g} and "
                f"high_frequency_factor {self.high_frequency_factor:g}; the low one must not be larger."
            )

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        low, high = Decimal(self.low_frequency_factor), Decimal(self.high_frequency_factor)
        slowest = 1 / self.exact_factor
        scaled = []
        for frequency in geometric_frequencies(dim // 2, base):
            turns = self.trained_length * frequency / TWO_PI
            if low == high:
                share = Decimal(1 if turns >= high else 0)
            else:
                share = min(max((turns - low) / (high - low), Decimal(0)), Decimal(1))
            scaled.append(frequency * (share + (1 - share) * slowest))
        return tuple(scaled)
