"""NTK-aware scalings: a larger base, fixed or growing with the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import EXACT, geometric_frequencies
from locant.positions.scaling.checks import check_factor, check_length, check_original
from locant.positions.scaling.frequency import Extension, ExtensionMethod, FrequencyScaling, register_scaling


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
        target_length: Length in tokens that the model should read.
        original_length: Length in tokens that the model was trained for before the extension.

    Example:
        >>> [round(float(f), 6) for f in NTKAware(factor=4).frequencies(4, 10000.0)]
        [1.0, 0.0025]
    """

    title: ClassVar[str] = "NTK-aware"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv:2309.00071, section 3.1"
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "NTK-aware interpolation, as given in Peng et al. 2023, arXiv:2309.00071, section 3.1",
        "Short texts are changed a little as well.",
    )

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        return _with_larger_base(self.name, dim, base, self.exact_factor)

    def equivalent_base(self, dim: int, base: float) -> float | None:
        """Return ``base'``."""
        return _base_of(self.frequencies(dim, base), dim)


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
        length_step: Texts beyond the original length are counted in steps of this many tokens; 1 follows every token.

    Example:
        >>> scaling = DynamicNTK(original_length=2048)
        >>> [round(float(f), 6) for f in scaling.frequencies(4, 10000.0, length=2048)]
        [1.0, 0.01]
        >>> [round(float(f), 6) for f in scaling.frequencies(4, 10000.0, length=8000)]  # counted as 8192
        [1.0, 0.0025]
    """

    title: ClassVar[str] = "dynamic NTK"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv:2309.00071, section 3.3"
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "dynamic NTK, as given in Peng et al. 2023, arXiv:2309.00071, section 3.3",
        "Frequencies follow the length of the text. transformers keeps cached keys as they were turned before, so "
        "generating beyond the original length gives other scores than reading the same text; vLLM fixes the "
        "frequencies for the longest text instead.",
        comparable=False,
    )

    original_length: int | None = None
    factor: float = 1.0
    target_length: int | None = None
    length_step: int = 256

    def __post_init__(self) -> None:
        """Check the fields."""
        check_original(self.name, self.original_length, self.target_length, "because only longer texts are scaled")
        check_factor(self.name, self.factor)
        for field in ("original_length", "target_length", "length_step"):
            check_length(self.name, field, getattr(self, field))

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return the original length, and a step of at most a quarter of it."""
        del rotary_dim, longest
        return {"original_length": trained, "length_step": min(256, max(1, trained // 4))}

    def length_class(self, length: int) -> int:
        """Return the length that a text is counted as, 0 if it is not scaled or all are scaled in the same way."""
        assert self.original_length is not None
        if self.target_length is not None or length <= self.original_length:
            return 0
        return -(-length // self.length_step) * self.length_step

    def fixed_for(self, length: int) -> FrequencyScaling:
        """Return this scaling with a ``target_length``, unless it has one."""
        assert self.original_length is not None
        if self.target_length is not None:
            return self
        return replace(self, target_length=self.length_class(length) or self.original_length)

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        assert self.original_length is not None
        length = self.target_length or length_class or self.original_length
        # The same as factor * l / L - (factor - 1), without its cancellation for huge factors.
        beyond = Decimal(length - self.original_length) / self.original_length
        return _with_larger_base(self.name, dim, base, 1 + Decimal(self.factor) * beyond)

    def equivalent_base(self, dim: int, base: float) -> float | None:
        """Return ``base'`` where a final length fixes it."""
        return None if self.target_length is None else _base_of(self.frequencies(dim, base), dim)

    def explain_notes(self, length: int | None, max_length: int | None) -> Iterator[str]:
        """Yield that frequencies follow the text."""
        del max_length
        if self.target_length is None:
            shown = "unknown" if length is None else f"{length} tokens"
            yield (
                f"Frequencies follow the length of the text; shown for {shown}, counted in steps of "
                f"{self.length_step}. Up to {self.original_length} tokens nothing is scaled."
            )


def _base_of(frequencies: tuple[Decimal, ...], dim: int) -> float:
    """Return the base of a geometric progression of frequencies."""
    with localcontext(EXACT):
        return float(frequencies[1] ** (Decimal(-dim) / 2))
