"""Frequencies as they are, and position interpolation."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.frequency import Extension, ExtensionMethod, FrequencyScaling, register_scaling


@register_scaling("none")
@dataclass(frozen=True, kw_only=True)
class Unscaled(FrequencyScaling):
    """The frequencies of Su et al. 2021 ("RoFormer", section 3.2.2), ``base^(-2i/d)``.

    Example:
        >>> [float(f) for f in Unscaled().frequencies(4, 10000.0)]
        [1.0, 0.01]
    """

    title: ClassVar[str] = "no scaling"
    paper: ClassVar[str] = "Su et al. 2021, arXiv:2104.09864"

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return no options."""
        del rotary_dim, trained, longest
        return {}

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        return geometric_frequencies(dim // 2, base)

    def trained_by(self, max_length: int | None) -> int | None:
        """Return the declared length: nothing extends it."""
        return max_length


@register_scaling("linear")
@dataclass(frozen=True, kw_only=True)
class Linear(Extension):
    """Position interpolation: every pair turns ``factor`` times more slowly.

    Source: Chen et al. 2023, "Extending Context Window of Large Language Models via Positional Interpolation",
    section 2.3: a text of the target length is read as if it was at fractional positions of the
    trained one::

        f_i = base^(-2i/d) / factor

    Args:
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model should read.
        original_length: Length in tokens that the model was trained for before the extension.

    Example:
        >>> [float(f) for f in Linear(factor=4).frequencies(4, 10000.0)]
        [0.25, 0.0025]
        >>> Linear(original_length=2048, target_length=8192).factor
        4.0
    """

    title: ClassVar[str] = "PI"
    paper: ClassVar[str] = "Chen et al. 2023, arXiv:2306.15595"
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "position interpolation, Chen et al. 2023, arXiv:2306.15595",
        "Short texts are interpolated as well, which costs some quality there.",
    )

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        return tuple(frequency / self.exact_factor for frequency in geometric_frequencies(dim // 2, base))
