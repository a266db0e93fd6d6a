"""p-RoPE: the slowest pairs do not turn at all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.checks import check_number, is_number, require_longer
from locant.positions.scaling.contexts import STANDING, RopeContext, VllmContext
from locant.positions.scaling.fields import Fields
from locant.positions.scaling.frequency import FrequencyScaling, register_scaling
from locant.positions.scaling.linear import Linear, Unscaled

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig


@register_scaling("proportional")
@dataclass(frozen=True, kw_only=True)
class Proportional(FrequencyScaling):
    """p-RoPE: only the fastest pairs turn; the slowest, which carry meaning rather than place, stand still.

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
        check_number(self.name, "factor", self.factor, minimum=1)

    def turning_pairs(self, dim: int) -> int:
        """Return the number of pairs that turn, of ``dim / 2``.

        In float64 like everywhere else, so that a fraction whose product lies just below a whole number agrees.

        Args:
            dim: Even number of rotated features.
        """
        return int(self.rotary_fraction * dim // 2)

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        factor, turning = Decimal(self.factor), self.turning_pairs(dim)
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

    def extended_by(self, method: type[FrequencyScaling], config: RotaryConfig, target_length: int) -> FrequencyScaling:
        """Return the turning pairs slowed further by position interpolation; refuse other methods."""
        if method is not Linear:
            raise ConfigError(
                f"The scaling 'proportional' of this model can be combined with linear alone, not {method.name}."
            )
        length = config.present_length()
        require_longer(length, target_length, "reads")
        return replace(self, factor=self.factor * target_length / length)

    rope_types: ClassVar[tuple[str, ...]] = ("proportional",)
    rope_entries: ClassVar[tuple[str, ...]] = ("factor",)
    transformers_versions: ClassVar[tuple[str, ...]] = ("5",)

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read the factor; the fraction is ``partial_rotary_factor``."""
        fraction = 1.0 if context.rotary_fraction is None else context.rotary_fraction
        return cls(rotary_fraction=fraction, factor=1.0 if (factor := rope.number("factor")) is None else factor)

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the factor."""
        del engine
        return {"rope_type": "proportional", "factor": self.factor}

    @classmethod
    def from_vllm_entries(cls, rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
        """Return the entries without the factor, which vLLM passes over."""
        factor = Fields(rope, context.engine).number("factor")
        if factor not in (None, 1):
            context.warn(
                f"transformers: frequencies divided by factor {factor:g} of 'proportional'. vLLM passes over it.",
                "Serve the model with an engine that heeds it.",
            )
        return {key: value for key, value in rope.items() if key != "factor"}

    def vllm_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the type, where no factor goes with it."""
        if self.factor != 1:
            raise ConfigError(f"{engine} cannot express factor {self.factor:g} of 'proportional': vLLM passes over it.")
        return self.rope_parameters(engine)

    @property
    def turning_fraction(self) -> float | None:
        """``rotary_fraction``."""
        return self.rotary_fraction

    @classmethod
    def from_gguf_factors(cls, factors: Sequence[float], plain: Sequence[float]) -> FrequencyScaling | None:
        """Return the scaling that turns the first pairs alike and not the others, if the factors look like one."""
        del plain
        turning = sum(factor < math.sqrt(STANDING) for factor in factors)
        factor = factors[0] if turning else 1.0
        if factor < 1 or max(factors[:turning], default=factor) != min(factors[:turning], default=factor):
            return None
        if turning == len(factors) and factor == 1:
            return Unscaled()
        return cls(rotary_fraction=turning / len(factors), factor=factor)
