"""Scalings with numbers that cannot be meant, which files may state and engines compute with all the same.

With a factor below 1 pairs turn faster, with one below 0 backwards, and where the corners of YaRN are exchanged the
fast pairs are interpolated and the slow ones kept. What transformers computes of each is that of the functions in its
``modeling_rope_utils.py``; llama.cpp computes the same of factors in ``llama_context::llama_context`` and
``rope_yarn``. Configurations of one's own have none of them: these classes have no name of their own, and are made by
readers alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Self

from locant.errors import ConfigError
from locant.positions.scaling.checks import check_number, check_positive, is_number
from locant.positions.scaling.contexts import GGUFForm, VllmLengths
from locant.positions.scaling.extension import Extension
from locant.positions.scaling.fields import Finding
from locant.positions.scaling.forms import EngineForms
from locant.positions.scaling.linear import Linear
from locant.positions.scaling.llama3 import Llama3
from locant.positions.scaling.longrope import LongRoPE
from locant.positions.scaling.ntk import DynamicNTK
from locant.positions.scaling.yarn import YaRN

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig


class _OutOfRange(EngineForms):
    """A scaling that is read and not written: no engine is told what its file cannot mean."""

    def _refuse(self, engine: str) -> ConfigError:
        return ConfigError(
            f"{engine} is not written for the scaling '{self.name}' with numbers out of their range, which engines "
            "compute otherwise or refuse. Correct the file first."
        )

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Refuse to write, as for all engines."""
        raise self._refuse(engine)

    def gguf_form(self, dim: int, base: float, engine: str) -> GGUFForm | None:
        """Refuse to write, as for all engines."""
        del dim, base
        raise self._refuse(engine)

    def llamacpp_flags(self, engine: str) -> dict[str, object] | None:
        """Refuse to write, as for all engines."""
        raise self._refuse(engine)

    def ctranslate2_attributes(self, engine: str) -> dict[str, Any] | None:
        """Refuse to write, as for all engines."""
        raise self._refuse(engine)


class _OfAnyFactor(_OutOfRange, Extension):
    """An extension by any factor but 0, which reaches no further than the original length where that is below 1."""

    limits_length: ClassVar[bool] = False

    def _check_factor(self, factor: float) -> None:
        if not is_number(factor) or factor == 0:
            raise ConfigError(f"factor of the scaling '{self.name}' must be a number other than 0; got {factor!r}.")

    def _fill_in_target(self) -> None:
        if self._factor >= 1:
            super()._fill_in_target()


class LinearOfAnyFactor(_OfAnyFactor, Linear):
    """Position interpolation by a factor below 1: every pair turns faster, or backwards."""


class Llama3OfAnyFactor(_OfAnyFactor, Llama3):
    """The scaling of Llama 3.1 by a factor below 1: slow pairs turn faster, or backwards."""


class DynamicNTKOfAnyFactor(_OutOfRange, DynamicNTK):
    """Dynamic NTK by a factor from 0 to 1: pairs are slowed by less than a text exceeds the original length."""

    def _check_factor(self) -> None:
        if not is_number(self.factor) or self.factor < 0:
            raise ConfigError(f"factor of the scaling '{self.name}' must be a number from 0 on; got {self.factor!r}.")

    def engine_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield nothing: there is no length that the factor is meant to reach."""
        del config
        yield from ()

    def llamacpp_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield nothing: files with such a factor are read as they are."""
        del config
        yield from ()

    def vllm_findings(self, lengths: VllmLengths) -> Iterator[Finding]:
        """Yield that vLLM scales nothing."""
        del lengths
        yield Finding(
            "warning",
            "transformers: dynamic NTK, which follows the length of the text. vLLM since May 2026: nothing is scaled.",
            "State a larger rope_theta in place of the scaling, which is the same in all engines.",
            "follows the length in transformers",
        )


class LongRoPEOfAnyFactors(_OutOfRange, LongRoPE):
    """Lists of factors, some of which are below 0: their pairs turn backwards."""

    def _divides(self, factor: float) -> bool:
        return factor != 0


def class_of_lists(*lists: Sequence[float]) -> type[LongRoPE]:
    """Return the class of LongRoPE that takes these lists.

    Args:
        lists: Factors, by which frequencies are divided.
    """
    return LongRoPE if all(factor > 0 for factors in lists for factor in factors) else LongRoPEOfAnyFactors


class YaRNOfAnyFactor(_OfAnyFactor, YaRN):
    """YaRN by a factor below 1: slow pairs turn faster, or backwards, and scores are left alone."""

    def attention_scale(self, length: int | None = None) -> float:
        """Return what multiplies cosine and sine: 1 for a factor below 1, unless another is stated."""
        if self.attention_factor is None and self._factor < 1:
            return 1.0
        return super().attention_scale(length)

    def paper_attention_scale(self) -> float:
        """Return the attention scale of the paper's formula, 1 for a factor below 1."""
        return 1.0 if self._factor < 1 else 0.1 * math.log(self._factor) + 1


class YaRNOfAnyNumbers(YaRNOfAnyFactor):
    """YaRN of transformers and vLLM by a factor below 1, with exchanged corners or with a base below 1.

    Both corners of the ramp are clipped on one side alone there, so that it may run backwards.
    """

    @classmethod
    def of(cls, scaling: YaRN) -> Self:
        """Return the same scaling with the ramp of transformers."""
        return cls(**{field.name: getattr(scaling, field.name) for field in fields(scaling)})

    def _check_corners(self) -> None:
        check_positive(self.name, "beta_fast", self.beta_fast)
        check_positive(self.name, "beta_slow", self.beta_slow)

    def _check_attention_factor(self) -> None:
        if self.attention_factor is not None:
            check_number(self.name, "attention_factor", self.attention_factor, minimum=-math.inf)

    def _blended_indices(self, dim: int, base: Decimal) -> tuple[Decimal, Decimal]:
        low, high = self._indices(dim, base)
        return max(low, Decimal(0)), min(high, Decimal(dim - 1))
