"""The forms of scalings in the configurations of other engines.

Readers and writers of whole configurations (:mod:`locant.rotary_configs`) assemble these parts, and name their sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.contexts import (
    FACTORS,
    STANDING,
    CTranslate2Context,
    GGUFContext,
    GGUFForm,
    LlamaCppContext,
    RopeContext,
    VllmContext,
    VllmLengths,
)
from locant.positions.scaling.fields import Fields, Finding

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig
    from locant.positions.scaling.frequency import FrequencyScaling


class EngineForms(ABC):
    """What a scaling says about other engines; the defaults are those of a scaling that no engine knows.

    A form is plain data. ``None`` stands for an engine that has no such scaling; where it has one and only a field
    cannot be expressed, the method raises ConfigError and names the field. ``engine`` is the name of the format in that
    message, for instance "GGUF".
    """

    name: ClassVar[str]
    limits_length: ClassVar[bool]

    @property
    @abstractmethod
    def reach(self) -> int | None:
        """Length in tokens that the scaling extends the model to, where it says it."""

    @property
    @abstractmethod
    def depends_on_length(self) -> bool:
        """Whether texts of different lengths have different frequencies."""

    @abstractmethod
    def attention_scale(self, length: int | None = None) -> float:
        """Return what multiplies cosine and sine."""

    @abstractmethod
    def frequencies(self, dim: int, base: float, length: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequencies in radians a token."""

    def equivalent_base(self, dim: int, base: float) -> float | None:
        """Return the base whose unscaled frequencies are the same, for scalings that only change the base."""
        del dim, base
        return None

    # Hugging Face's transformers, and vLLM, which takes the same entries.

    rope_types: ClassVar[tuple[str, ...]] = ()
    """Values of ``rope_type`` that mean this scaling, the one to write first."""

    rope_entries: ClassVar[tuple[str, ...]] = ()
    """Names of the entries that stand beside ``rope_type``."""

    ratio_is_factor: ClassVar[Literal["never", "where it is null", "where it is left out"]] = "never"
    """When transformers takes the ratio of the lengths for a missing ``factor``."""

    transformers_versions: ClassVar[tuple[str, ...]] = ("4", "5")
    """Major releases of transformers that know the scaling."""

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read the scaling from ``rope_parameters`` or ``rope_scaling`` with one of :attr:`rope_types`.

        Raises:
            ConfigError: An entry is missing or wrong.
        """
        raise NotImplementedError(f"{cls.__name__} has rope_types but cannot be read.")

    @classmethod
    def from_vllm_entries(cls, rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
        """Return what vLLM makes of the entries for this type, in entries as transformers has them.

        Source of this and of the other methods about vLLM: its ``model_executor/layers/rotary_embedding``, and
        ``_get_and_verify_max_len`` in ``config/model.py``, up to August 2026 (commit 017e9f4448b7).

        Raises:
            ConfigError: vLLM refuses them, or computes what no scaling here is.
        """
        del context
        return dict(rope)

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the group with ``rope_type``, without base and rotated fraction."""
        del engine
        return None

    @property
    def turning_fraction(self) -> float | None:
        """Fraction of the pairs that turn, where ``partial_rotary_factor`` stands for that; else ``None``."""
        return None

    def huggingface_entries(self, max_length: int | None) -> dict[str, Any]:
        """Return the entries that stand next to the group in config.json; those that are ``None`` are left out.

        Args:
            max_length: Length in tokens that the model is declared for.
        """
        return {"max_position_embeddings": max_length or (self.reach if self.limits_length else None)}

    def vllm_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the group as all releases of vLLM understand it."""
        return self.rope_parameters(engine)

    def vllm_entry_length(self, max_length: int | None, engine: str) -> int | None:
        """Return the ``max_position_embeddings`` by which vLLM serves the declared length."""
        del engine
        return max_length or self.vllm_served_length(max_length)

    def vllm_served_length(self, max_length: int | None) -> int | None:
        """Return the longest text in tokens that vLLM serves by default."""
        return max_length or self.reach

    def as_served_by_vllm(self, lengths: VllmLengths) -> tuple[FrequencyScaling, int | None]:
        """Return the scaling that vLLM computes by default, and the longest text that it serves by default."""
        return self, lengths.declared  # type: ignore[return-value]

    def vllm_findings(self, lengths: VllmLengths) -> Iterator[Finding]:
        """Yield where vLLM computes something else than transformers."""
        del lengths
        yield from ()

    def engine_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield what depends on the engine that reads a config.json, and on how it generates.

        Args:
            config: The configuration that has this scaling.
        """
        del config
        yield from ()

    def llamacpp_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield where llama.cpp computes something else than transformers, of a model that it has.

        Args:
            config: The configuration that has this scaling.
        """
        del config
        yield from ()

    # llama.cpp: GGUF files and flags.

    gguf_type: ClassVar[str | None] = None
    """The ``rope.scaling.type`` that means this scaling."""

    @classmethod
    def from_gguf(cls, keys: Fields, context: GGUFContext) -> FrequencyScaling:
        """Read the scaling from the metadata of a GGUF file with its :attr:`gguf_type`.

        Raises:
            ConfigError: A key is missing or wrong.
        """
        raise NotImplementedError(f"{cls.__name__} has a gguf_type but cannot be read.")

    @classmethod
    def from_gguf_factors(cls, factors: Sequence[float], plain: Sequence[float]) -> FrequencyScaling | None:
        """Return the scaling that may have the factors of ``rope_freqs.weight``; the caller compares them exactly.

        Args:
            factors: Numbers by which frequencies are divided, :data:`STANDING` for pairs that do not turn.
            plain: Unscaled frequencies in radians a token.
        """
        del factors, plain
        return None

    def gguf_form(self, dim: int, base: float, engine: str) -> GGUFForm | None:
        """Return the scaling in a GGUF file: by default a tensor of factors, if it has one of them for all lengths.

        Args:
            dim: Even number of rotated features.
            base: Base of the unscaled frequencies.
            engine: Name of the format, for messages.
        """
        del engine
        if self.depends_on_length or self.attention_scale() != 1:
            return None
        return GGUFForm({"type": "none"}, {FACTORS: gguf_factors(self, dim, base)})

    llamacpp_type: ClassVar[str | None] = None
    """The ``--rope-scaling`` that means this scaling."""

    @classmethod
    def from_llamacpp(cls, context: LlamaCppContext) -> FrequencyScaling:
        """Read the scaling from flags with its :attr:`llamacpp_type`.

        Raises:
            ConfigError: A flag is wrong.
        """
        raise NotImplementedError(f"{cls.__name__} has a llamacpp_type but cannot be read.")

    def llamacpp_flags(self, engine: str) -> dict[str, object] | None:
        """Return the flags and their values."""
        del engine
        return None

    # CTranslate2.

    ctranslate2_type: ClassVar[tuple[int, str] | None] = None
    """Value and name of the ``RotaryScalingType`` that means this scaling."""

    def ctranslate2_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield what of this scaling CTranslate2's own converter loses.

        Args:
            config: The configuration that has this scaling.
        """
        del config
        yield from ()

    @classmethod
    def from_ctranslate2(cls, layer: Fields, context: CTranslate2Context) -> FrequencyScaling:
        """Read the scaling from a layer's attributes with its :attr:`ctranslate2_type`.

        Raises:
            ConfigError: An attribute is missing or wrong.
        """
        raise NotImplementedError(f"{cls.__name__} has a ctranslate2_type but cannot be read.")

    def ctranslate2_attributes(self, engine: str) -> dict[str, Any] | None:
        """Return the attributes about scaling that an attention layer needs."""
        del engine
        return None


def gguf_factors(scaling: EngineForms, dim: int, base: float) -> tuple[float, ...]:
    """Return by what a scaling divides the frequency of every pair."""
    plain = geometric_frequencies(dim // 2, Decimal(base))
    return tuple(
        float(whole / scaled) if scaled else STANDING
        for whole, scaled in zip(plain, scaling.frequencies(dim, base), strict=True)
    )
