"""NTK-by-parts: fast pairs stay, slow pairs are interpolated, those between are blended."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Self

from locant.errors import ConfigError
from locant.positions.exact import TWO_PI, geometric_frequencies
from locant.positions.scaling.checks import check_positive, require_longer
from locant.positions.scaling.contexts import GGUFForm
from locant.positions.scaling.extension import Extension
from locant.positions.scaling.frequency import FrequencyScaling, register_scaling

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig
    from locant.positions.scaling.yarn import YaRN


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
        target_length: Length in tokens that the model shall read.
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
        self._check_corners()
        if not isinstance(self.truncate, bool):
            raise ConfigError(f"truncate of the scaling '{self.name}' must be true or false; got {self.truncate!r}.")

    def _check_corners(self) -> None:
        check_positive(self.name, "beta_fast", self.beta_fast)
        check_positive(self.name, "beta_slow", self.beta_slow)
        if self.beta_slow > self.beta_fast:
            raise ConfigError(
                f"The scaling '{self.name}' has beta_slow {self.beta_slow:g} and beta_fast {self.beta_fast:g}: "
                "pairs are kept from beta_fast turns on and interpolated up to beta_slow, which must not be larger."
            )

    def _indices(self, dim: int, base: Decimal) -> tuple[Decimal, Decimal]:
        """Return the indices at which pairs make ``beta_fast`` and ``beta_slow`` turns, before they are clipped."""
        low, high = (
            dim * (self.trained_length / (TWO_PI * Decimal(beta))).ln() / (2 * base.ln())
            for beta in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            low, high = low.to_integral_value(ROUND_FLOOR), high.to_integral_value(ROUND_CEILING)
        return low, high

    def with_ramp_of_transformers(self, dim: int, base: float) -> Self:
        """Return the scaling of transformers and vLLM: with all pairs kept where the ramp runs backwards there.

        Args:
            dim: Even number of rotated features.
            base: Base of the unscaled frequencies.
        """
        if self._indices(dim, Decimal(base))[1] >= 0:
            return self
        turns = float(self.trained_length / TWO_PI) / base**2  # fewer than those of any pair
        return replace(self, beta_fast=turns, beta_slow=turns)

    def keeps_every_pair(self, dim: int, base: float) -> bool:
        """Whether every pair makes so many turns that the ramp lies behind the last feature.

        Args:
            dim: Even number of rotated features.
            base: Base of the unscaled frequencies.
        """
        return self._indices(dim, Decimal(base))[0] > dim - 1

    def _blended_indices(self, dim: int, base: Decimal) -> tuple[Decimal, Decimal]:
        """Return the index up to which pairs are kept and the one from which on they are interpolated."""
        low, high = self._indices(dim, base)
        last = Decimal(dim - 1)
        return min(max(low, Decimal(0)), last), min(max(high, Decimal(0)), last)

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        low, high = self._blended_indices(dim, base)
        width = high - low or Decimal("0.001")
        slowest = 1 / self._exact_factor
        ramp = (min(max((index - low) / width, Decimal(0)), Decimal(1)) for index in range(dim // 2))
        return tuple(
            frequency * (1 - share + share * slowest)
            for frequency, share in zip(geometric_frequencies(dim // 2, base), ramp, strict=True)
        )

    def extended_by(self, method: type[FrequencyScaling], config: RotaryConfig, target_length: int) -> FrequencyScaling:
        """Return the same scaling for YaRN, counted anew from its original length; refuse other methods."""
        if not issubclass(method, NTKByParts):
            return super().extended_by(method, config, target_length)
        require_longer(self.trained_length, target_length, "was trained for")
        return self._with_target(target_length)

    def _with_target(self, target_length: int) -> NTKByParts:
        return replace(self, factor=None, target_length=target_length)

    def _as_yarn(self) -> YaRN:
        """Return the YaRN of the same frequencies that leaves scores alone."""
        from locant.positions.scaling.yarn import YaRN  # which is made of this class

        shared = {field.name: getattr(self, field.name) for field in fields(NTKByParts)}
        return YaRN(**shared, attention_factor=1.0)

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return YaRN's entries with the attention scale 1."""
        return self._as_yarn().rope_parameters(engine)

    def vllm_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return YaRN's entries with the attention scale 1."""
        return self._as_yarn().vllm_parameters(engine)

    def gguf_form(self, dim: int, base: float, engine: str) -> GGUFForm | None:
        """Return YaRN's keys with the attention scale 1."""
        return self._as_yarn().gguf_form(dim, base, engine)

    def llamacpp_flags(self, engine: str) -> dict[str, object] | None:
        """Return YaRN's flags, if its attention scale is 1 as well: llama.cpp has no other."""
        return self._as_yarn().llamacpp_flags(engine)


_LAST_KEPT, _FIRST_INTERPOLATED = 32, 1  # turns, as beta_fast and beta_slow


def slow_by_parts(frequency: Decimal, length: int, factor: Decimal) -> Decimal:
    """Return a frequency slowed by NTK-by-parts.

    Source: Peng et al. 2023, "YaRN", section 3.2, with the ramp that all implementations have. It is linear in the
    index of the pair, which is linear in the logarithm of its turns ``r = length * f / (2 pi)``; in this form it holds
    for any frequencies::

        f' = (1 - g) * f / factor + g * f,   g = clip(ln r / ln 32, 0, 1)

    Args:
        frequency: In radians a token.
        length: Length in tokens that the model was trained for.
        factor: How much further it shall read.
    """
    turns = length * frequency / TWO_PI
    ramp = (turns / _FIRST_INTERPOLATED).ln() / (Decimal(_LAST_KEPT) / _FIRST_INTERPOLATED).ln()
    kept = min(max(ramp, Decimal(0)), Decimal(1))
    return (1 - kept) * frequency / factor + kept * frequency
