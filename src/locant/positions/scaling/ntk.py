"""NTK-aware scalings: a larger base, fixed or growing with the text."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.frequency import (
    Extension,
    FrequencyScaling,
    check_length,
    check_number,
    check_target,
    missing_original_length,
    register_scaling,
)


def _with_larger_base(name: str, dim: int, base: Decimal, scale: Decimal) -> tuple[Decimal, ...]:
    """Return the frequencies of ``base * scale^(d/(d-2))``, which slow the last pair by exactly ``scale``."""
    if dim == 2:
        raise ConfigError(f"The scaling '{name}' needs at least 4 rotated features: its exponent is d/(d-2), d is 2.")
    return geometric_frequencies(dim // 2, base * scale ** (Decimal(dim) / (dim - 2)))


@register_scaling("ntk")
@dataclass(frozen=True, kw_only=True)
class NTKAware(Extension):
    """NTK-aware interpolation: the base grows, so fast pairs hardly change and the slowest is interpolated fully.

    Source: bloc97 2023, as given in Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language
    Models", section 3.1::

        f_i = base'^(-2i/d),   base' = base * factor^(d/(d-2))

    Pairs in between are slowed by less than ``factor``, so that those that made no full turn in training meet angles
    that training never showed; the section advises a factor above the extension that is wanted.

    Args:
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model shall read.
        original_length: Length in tokens that the model was trained for before the extension.

    Example:
        >>> [round(float(f), 6) for f in NTKAware(factor=4).frequencies(4, 10000.0)]
        [1.0, 0.0025]
    """

    title: ClassVar[str] = "NTK-aware"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv:2309.00071, section 3.1"

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        return _with_larger_base(self.name, dim, base, self._exact_factor)


@register_scaling("dynamic")
@dataclass(frozen=True, kw_only=True)
class DynamicNTK(FrequencyScaling):
    """Dynamic NTK: NTK-aware interpolation by as much as the text at hand exceeds the trained length.

    Source: emozilla 2023, as given in Peng et al. 2023, "YaRN", section 3.3, with the generalisation by a factor that
    implementations run. For a text of ``l`` tokens beyond the original length ``L``::

        f_i = base'^(-2i/d),   base' = base * (factor * l / L - (factor - 1))^(d/(d-2))

    ``factor`` is not an extension: 1 scales by ``l / L``, as in the paper; larger ones scale more than the text needs
    (by ``factor^2 - factor + 1`` at ``l = factor * L``, where ``factor`` would do). Hugging Face calls it ``factor``
    all the same, and takes ``L`` from ``max_position_embeddings``; it turns every token of a forward pass by the
    frequencies of the longest text so far, so keys cached before were turned by other ones. Here a query at position
    ``i`` uses the frequencies of a text of ``i + 1`` tokens, rounded up to a multiple of ``length_step``, on itself
    and on all keys it sees: a cache of unrotated keys gives the same answers as one full pass.

    Args:
        original_length: Length in tokens that the model was trained for; shorter texts are not scaled.
        factor: Strength of the scaling, at least 1.
        target_length: Final length to scale for, once and for all texts; ``None`` to follow the text.
        length_step: Texts beyond the original length are counted in steps of so many tokens; 1 follows every token.

    Example:
        >>> scaling = DynamicNTK(original_length=2048)
        >>> [round(float(f), 6) for f in scaling.frequencies(4, 10000.0, length=2048)]
        [1.0, 0.01]
        >>> [round(float(f), 6) for f in scaling.frequencies(4, 10000.0, length=8000)]  # counted as 8192
        [1.0, 0.0025]
    """

    title: ClassVar[str] = "dynamic NTK"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv:2309.00071, section 3.3"

    original_length: int | None = None
    factor: float = 1.0
    target_length: int | None = None
    length_step: int = 256

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.original_length is None:
            raise missing_original_length(self.name, "because only longer texts are scaled")
        check_length(self.name, "original_length", self.original_length)
        check_number(self.name, "factor", self.factor, minimum=1)
        check_length(self.name, "length_step", self.length_step)
        if self.target_length is not None:
            check_length(self.name, "target_length", self.target_length)
            check_target(self.name, self.target_length, self.original_length)

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return the original length, and a step of at most a quarter of it."""
        del rotary_dim, longest
        return {"original_length": trained, "length_step": min(256, max(1, trained // 4))}

    @property
    def trained(self) -> int | None:
        """``original_length``."""
        return self.original_length

    @property
    def reach(self) -> int | None:
        """``target_length``."""
        return self.target_length

    def length_class(self, length: int) -> int:
        """Return the length that a text is counted as, 0 where it is not scaled or all are scaled alike."""
        assert self.original_length is not None
        if self.target_length is not None or length <= self.original_length:
            return 0
        return -(-length // self.length_step) * self.length_step

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        assert self.original_length is not None
        length = self.target_length or length_class or self.original_length
        factor = Decimal(self.factor)
        return _with_larger_base(self.name, dim, base, factor * length / self.original_length - (factor - 1))
