"""The scaling of Llama 3.1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import TWO_PI, geometric_frequencies
from locant.positions.scaling.checks import check_positive
from locant.positions.scaling.contexts import STANDING, CTranslate2Context, RopeContext, VllmContext
from locant.positions.scaling.extension import Extension
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.frequency import FrequencyScaling, register_scaling

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig


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
        target_length: Length in tokens that the model shall read.
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
        slowest = 1 / self._exact_factor
        scaled = []
        for frequency in geometric_frequencies(dim // 2, base):
            turns = self.trained_length * frequency / TWO_PI
            if low == high:
                share = Decimal(1 if turns >= high else 0)
            else:
                share = min(max((turns - low) / (high - low), Decimal(0)), Decimal(1))
            scaled.append(frequency * (share + (1 - share) * slowest))
        return tuple(scaled)

    def ctranslate2_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield that CTranslate2's converter loses the scaling."""
        yield Finding(
            "note",
            f"transformers: {config.describe()}. CTranslate2 after its own converter: no scaling, because the "
            "converter leaves out factor and original length.",
            "Set the attributes that --as ctranslate2 prints in the converted layers.",
        )

    rope_types: ClassVar[tuple[str, ...]] = ("llama3",)
    rope_entries: ClassVar[tuple[str, ...]] = (
        "factor",
        "original_max_position_embeddings",
        "low_freq_factor",
        "high_freq_factor",
    )
    ctranslate2_type: ClassVar[tuple[int, str] | None] = (2, "Llama3")

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read lengths and the two corners of the blend."""
        original = context.needed_original_length(rope, cls, "wavelengths would be compared with the extended length")
        why = "the scaling 'llama3' compares wavelengths by it"
        low = rope.need(rope.number("low_freq_factor"), "low_freq_factor", why)
        high = rope.need(rope.number("high_freq_factor"), "high_freq_factor", why)
        if low > high and context.is_in_vllm:  # of which :meth:`from_vllm_entries` tells
            low = high
        elif low == high:
            context.warn(
                f"low_freq_factor and high_freq_factor are both {low:g}: transformers warns of that, and computes a "
                "step from kept pairs to interpolated ones, with none blended between.",
                "Keep them where the model was trained so (Llama 4 Scout); Llama 3.1 has 1 and 4.",
            )
        if low > high and context.is_of_transformers:
            context.wrong(
                f"low_freq_factor {low:g} in {rope.where} is above high_freq_factor {high:g}: transformers warns of "
                f"it, and interpolates all pairs of less than {low:g} turns, with none blended, as is shown.",
                "Exchange them if they are swapped; Llama 3.1 has 1 and 4.",
            )
            high = low
        lengths, kind = context.lengths_of(rope, cls, original), cls
        if context.is_out_of_range(rope, lengths["factor"], "slow pairs"):
            from locant.positions.scaling.out_of_range import Llama3OfAnyFactor  # which is made of this class

            kind = Llama3OfAnyFactor
        return kind(**lengths, low_frequency_factor=low, high_frequency_factor=high)

    @classmethod
    def from_vllm_entries(cls, rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
        """Return the entries; where the corners are exchanged, vLLM's class keeps more pairs than transformers."""
        entries = Fields(rope, context.engine)
        low, high = entries.number("low_freq_factor"), entries.number("high_freq_factor")
        if low is not None and high is not None and low > high:
            context.warn(
                f"low_freq_factor {low:g} is above high_freq_factor {high:g}. transformers: all pairs of less than "
                f"{low:g} turns are interpolated. vLLM: those of less than {high:g}.",
                "Exchange them if they are swapped; Llama 3.1 has 1 and 4.",
            )
        return dict(rope)

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return factor, original length and the two corners of the blend."""
        del engine
        return {
            "rope_type": "llama3",
            "factor": self.factor,
            "original_max_position_embeddings": self.original_length,
            "low_freq_factor": self.low_frequency_factor,
            "high_freq_factor": self.high_frequency_factor,
        }

    @classmethod
    def from_gguf_factors(cls, factors: Sequence[float], plain: Sequence[float]) -> FrequencyScaling | None:
        """Return the scaling whose blend meets two of the blended pairs, or that has a step where none is blended.

        The blend is linear in the frequency: ``share = (L * f / 2 pi - low) / (high - low)``. Multiplying ``L``,
        ``low`` and ``high`` by the same number changes nothing, so ``low`` is 1 wherever that makes ``L`` a whole
        number.
        """
        largest = max(factors)
        blended = [index for index, factor in enumerate(factors) if 1 + 1e-5 < factor < largest * (1 - 1e-5)]
        if largest >= STANDING or largest <= 1 + 1e-5:
            return None
        if not blended:
            return cls._step(factors, plain)
        if len(blended) < 2:
            return None
        turns = [plain[index] / (2 * math.pi) for index in (blended[0], blended[-1])]
        shares = [(1 / factors[index] - 1 / largest) / (1 - 1 / largest) for index in (blended[0], blended[-1])]
        slope = (shares[0] - shares[1]) / (turns[0] - turns[1])
        offset = shares[0] - slope * turns[0]
        if slope <= 0 or offset >= 0:
            return None
        high = 1 - 1 / offset
        length = slope * (high - 1)
        whole = max(round(length), 1)
        low = whole / length
        if abs(low - 1) < 1e-4:
            low = 1.0
        return cls(
            original_length=whole, factor=largest, low_frequency_factor=low, high_frequency_factor=round(high * low, 3)
        )

    @classmethod
    def _step(cls, factors: Sequence[float], plain: Sequence[float]) -> FrequencyScaling | None:
        """Return the scaling with a step between the last pair that is kept and the first that is interpolated.

        Any original length between the wavelengths of the two says the same; the roundest is taken.
        """
        kept = sum(factor < 1 + 1e-5 for factor in factors)
        if not 0 < kept < len(factors) or max(factors[:kept]) >= min(factors[kept:]):
            return None
        fastest, slowest = (2 * math.pi / plain[index] for index in (kept - 1, kept))
        length = math.ceil(fastest)
        for step in (1 << exponent for exponent in range(length.bit_length(), -1, -1)):
            if (rounded := -(-length // step) * step) < slowest:
                return cls(original_length=rounded, factor=max(factors), high_frequency_factor=1.0)
        return None

    @classmethod
    def from_ctranslate2(cls, layer: Fields, context: CTranslate2Context) -> FrequencyScaling:
        """Read factor, original length and the two corners of the blend."""
        if context.factor is None or context.original_length is None:
            raise ConfigError(
                f"{layer.where} have rotary_scaling_type 2 (Llama3) without rotary_scaling_factor ({context.factor}) "
                f"or original_max_position_embeddings ({context.original_length}): the engine then scales nothing, or "
                "the wrong pairs. CTranslate2's converter leaves them out; set both."
            )
        low, high = layer.number("rotary_low_freq_factor"), layer.number("rotary_high_freq_factor")
        return cls(
            original_length=context.original_length,
            factor=context.factor,
            low_frequency_factor=1.0 if low is None else low,
            high_frequency_factor=4.0 if high is None else high,
        )

    def ctranslate2_attributes(self, engine: str) -> dict[str, Any] | None:
        """Return factor, original length and the two corners of the blend."""
        del engine
        return {
            "rotary_scaling_factor": self.factor,
            "rotary_low_freq_factor": self.low_frequency_factor,
            "rotary_high_freq_factor": self.high_frequency_factor,
            "original_max_position_embeddings": self.original_length,
        }
