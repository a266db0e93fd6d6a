"""Frequencies as they are, and position interpolation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.checks import is_number, require_longer
from locant.positions.scaling.contexts import (
    CTranslate2Context,
    GGUFContext,
    GGUFForm,
    LlamaCppContext,
    RopeContext,
    VllmContext,
    VllmLengths,
)
from locant.positions.scaling.extension import Extension
from locant.positions.scaling.fields import Fields
from locant.positions.scaling.frequency import ExtensionMethod, FrequencyScaling, register_scaling

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig


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

    def extended_by(self, method: type[FrequencyScaling], config: RotaryConfig, target_length: int) -> FrequencyScaling:
        """Return the method's scaling from the present length to the target."""
        assert config.rotary_dim is not None
        length = config.present_length()
        require_longer(length, target_length, "reads")
        return method.first_extension(config.rotary_dim, length, target_length)

    rope_types: ClassVar[tuple[str, ...]] = ("default", "mrope")
    rope_entries: ClassVar[tuple[str, ...]] = ("factor",)
    gguf_type: ClassVar[str | None] = "none"
    llamacpp_type: ClassVar[str | None] = "none"

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read the scaling; a factor would be a mistake."""
        factor = rope.number("factor")
        if factor not in (None, 1):
            named = next((name for name in ("rope_type", "type") if name in rope.values), None)
            is_null = named is not None and rope.values[named] is None
            says = f"{named} null, which names no scaling" if is_null else "rope_type 'default', which scales nothing"
            remedy = "Name the scaling in rope_type, or remove factor."
            if is_null or not context.is_of_transformers:  # which fails with null
                raise ConfigError(f"{rope.where} has factor {factor:g} but {says}. {remedy}")
            context.wrong(f"{rope.where} has factor {factor:g} but {says}, as transformers takes it.", remedy)
        return cls()

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the type alone."""
        del engine
        return {"rope_type": "default"}

    @classmethod
    def from_gguf(cls, keys: Fields, context: GGUFContext) -> FrequencyScaling:
        """Read the scaling; a factor has no effect."""
        del keys
        if context.factor != 1:
            context.warn(
                f"rope.scaling.factor {context.factor:g} has no effect with rope.scaling.type 'none': llama.cpp scales "
                "nothing then.",
                "State the type 'linear' or 'yarn' if the factor is meant; otherwise remove it.",
            )
        return cls()

    def gguf_form(self, dim: int, base: float, engine: str) -> GGUFForm | None:
        """Return the type alone."""
        del dim, base, engine
        return GGUFForm({"type": "none"})

    def llamacpp_flags(self, engine: str) -> dict[str, object] | None:
        """Return the type alone."""
        del engine
        return {"--rope-scaling": "none"}

    def ctranslate2_attributes(self, engine: str) -> dict[str, Any] | None:
        """Return no attributes."""
        del engine
        return {}


@register_scaling("linear")
@dataclass(frozen=True, kw_only=True)
class Linear(Extension):
    """Position interpolation: every pair turns ``factor`` times more slowly.

    Source: Chen et al. 2023, "Extending Context Window of Large Language Models via Positional Interpolation",
    section 2.3: a text of the target length is read as if it stood at fractional positions of the
    trained one::

        f_i = base^(-2i/d) / factor

    Args:
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model shall read.
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
        factor = self._exact_factor
        return tuple(frequency / factor for frequency in geometric_frequencies(dim // 2, base))

    def extended_by(self, method: type[FrequencyScaling], config: RotaryConfig, target_length: int) -> FrequencyScaling:
        """Return the same scaling, counted anew from its original length; refuse other methods."""
        if method is not Linear:
            return super().extended_by(method, config, target_length)
        if self.original_length is None:
            raise ConfigError(
                f"The model is scaled by 'linear' with factor {self.factor:g}, and the file does not say whether "
                f"{config.max_length} tokens are its length before or after that. Add "
                "original_max_position_embeddings, the length before, to rope_scaling or rope_parameters."
            )
        require_longer(self.original_length, target_length, "was trained for")
        return Linear(original_length=self.original_length, target_length=target_length)

    rope_types: ClassVar[tuple[str, ...]] = ("linear",)
    rope_entries: ClassVar[tuple[str, ...]] = ("factor", "original_max_position_embeddings")
    gguf_type: ClassVar[str | None] = "linear"
    llamacpp_type: ClassVar[str | None] = "linear"
    ctranslate2_type: ClassVar[tuple[int, str] | None] = (0, "Linear")

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read factor and original length."""
        factor = rope.needed_factor(cls.name)
        original = rope.whole("original_max_position_embeddings")
        if context.is_out_of_range(rope, factor, "all pairs"):
            from locant.positions.scaling.out_of_range import LinearOfAnyFactor  # which is made of this class

            return LinearOfAnyFactor(factor=factor)
        return cls(**{**context.lengths_of(rope, cls, original), "original_length": original})

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the factor."""
        del engine
        return {"rope_type": "linear", "factor": self.factor}

    @classmethod
    def from_vllm_entries(cls, rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
        """Return the entries; vLLM's class wants a factor with a decimal point."""
        factor = rope.get("factor")
        if is_number(factor) and factor <= 0:
            raise ConfigError(f"vLLM tabulates angles for factor {factor:g} times the length, and fails.")
        if isinstance(factor, int) and not isinstance(factor, bool):
            context.warn(
                f"vLLM's class for 'linear' takes factor {factor}, a whole number in JSON, for a list, and fails.",
                f"Write {factor}.0.",
            )
        return dict(rope)

    def vllm_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the factor, with a decimal point."""
        return (self.rope_parameters(engine) or {}) | {"factor": float(self._factor)}

    def vllm_entry_length(self, max_length: int | None, engine: str) -> int | None:
        """Return the original length, which vLLM multiplies by the factor.

        Where only the extended length is known, it is the one that the factor makes that of; frequencies do not tell.
        """
        if self.original_length is not None or max_length is None:
            return self.original_length
        before = round(max_length / self._factor)
        if int(before * self._factor) != max_length:
            raise ConfigError(
                f"{engine} needs original_length of the scaling 'linear': vLLM multiplies max_position_embeddings by "
                f"factor {self.factor:g}, of which {max_length} tokens are no multiple."
            )
        return before

    def vllm_served_length(self, max_length: int | None) -> int | None:
        """Return the target length."""
        del max_length
        return self.target_length

    def as_served_by_vllm(self, lengths: VllmLengths) -> tuple[FrequencyScaling, int | None]:
        """Return the declared length times the factor, unless it is the extended one already."""
        if lengths.declared is None or lengths.is_extended:
            return self, lengths.declared
        served = int(lengths.declared * self._factor)
        is_beyond = self.target_length is not None and served > self.target_length
        return (Linear(factor=self.factor) if is_beyond else self), served

    @classmethod
    def from_gguf(cls, keys: Fields, context: GGUFContext) -> FrequencyScaling:
        """Read factor and original length; a file without a factor is unscaled."""
        del keys
        if context.factor == 1:
            return Unscaled()
        if context.factor < 1:
            from locant.positions.scaling.out_of_range import LinearOfAnyFactor  # which is made of this class

            context.warn_of_small_factor("all pairs")
            return LinearOfAnyFactor(factor=context.factor, original_length=context.original_length)
        return cls(factor=context.factor, original_length=context.original_length)

    def gguf_form(self, dim: int, base: float, engine: str) -> GGUFForm | None:
        """Return the factor, and the original length where it is known."""
        del dim, base, engine
        keys: dict[str, Any] = {"type": "linear", "factor": self.factor}
        if self.original_length is not None:
            keys["original_context_length"] = self.original_length
        return GGUFForm(keys)

    @classmethod
    def from_llamacpp(cls, context: LlamaCppContext) -> FrequencyScaling:
        """Read the factor."""
        if context.scaled_by is not None:
            context.warn(
                f"{context.scaled_by} without --rope-scaling is linear interpolation.",
                "State --rope-scaling linear, or yarn if that is meant.",
            )
        if context.scale < 1:
            from locant.positions.scaling.out_of_range import LinearOfAnyFactor  # which is made of this class

            return LinearOfAnyFactor(factor=context.scale, original_length=context.original_length)
        return cls(factor=context.scale, original_length=context.original_length)

    def llamacpp_flags(self, engine: str) -> dict[str, object] | None:
        """Return the factor."""
        del engine
        return {"--rope-scaling": "linear", "--rope-scale": self.factor}

    @classmethod
    def from_ctranslate2(cls, layer: Fields, context: CTranslate2Context) -> FrequencyScaling:
        """Read the factor."""
        del layer
        context.refuse_attention_scale()
        return cls(factor=1.0 if context.factor is None else context.factor)

    def ctranslate2_attributes(self, engine: str) -> dict[str, Any] | None:
        """Return the factor."""
        del engine
        return {"rotary_scaling_factor": self.factor}
