"""The forms of scalings in the configurations of other engines.

Readers and writers of whole configurations (:mod:`locant.rotary_configs`) assemble these parts, and name their sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from locant.errors import ConfigError
from locant.positions.exact import geometric_frequencies
from locant.positions.scaling.fields import Fields, Finding, FindingCode, agreed

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig
    from locant.positions.scaling.frequency import FrequencyScaling

FACTORS, SHORT_FACTORS, LONG_FACTORS = (
    "rope_freqs.weight",
    "rope_factors_short.weight",
    "rope_factors_long.weight",
)
"""Tensors of a GGUF file by which llama.cpp divides the frequencies of pairs."""

STANDING = 1e30
"""Factor of a pair that does not turn: its angle is below any rounding."""


class _WithFindings:
    """A context that findings can be added to."""

    findings: list[Finding]

    def warn(self, message: str, remedy: str) -> None:
        """Add a warning."""
        self.findings.append(Finding("warning", message, remedy))

    def note(self, message: str, remedy: str, code: FindingCode | None = None) -> None:
        """Add a note."""
        self.findings.append(Finding("note", message, remedy, code))


OF_THE_CLASS = "the class of "
"""Beginning of the place of entries that the file does not state."""


@dataclass
class RopeContext(_WithFindings):
    """What stands around the group ``rope_parameters`` or ``rope_scaling`` and decides about its meaning.

    Attributes:
        max_length: ``max_position_embeddings``.
        original_length: ``original_max_position_embeddings`` next to the group, as in Phi-3.
        rotary_fraction: ``partial_rotary_factor`` in force.
        heeds_mscale: Whether the model's code takes ``short_mscale`` and ``long_mscale`` of LongRoPE.
        scales_scores: Whether it multiplies scores by what follows from ``mscale_all_dim``, or may.
        findings: Where findings go.
    """

    max_length: int | None = None
    original_length: int | None = None
    rotary_fraction: float | None = None
    heeds_mscale: bool = True
    scales_scores: bool = True
    findings: list[Finding] = field(default_factory=list)

    def original_length_of(self, rope: Fields) -> int | None:
        """Take the original length, which stands in the group or next to it."""
        inside = rope.whole("original_max_position_embeddings")
        agreed(
            inside,
            self.original_length,
            f"original_max_position_embeddings is {inside} in {rope.where} but {self.original_length} next to it. "
            "transformers takes the second, other engines the first; make them equal.",
        )
        return self.original_length or inside

    def needed_original_length(self, rope: Fields, scaling: type[FrequencyScaling], effect: str) -> int:
        """Take the original length, or raise ConfigError because transformers would silently take another one."""
        original = self.original_length_of(rope)
        if original is not None:
            return original
        assumed = "" if self.max_length is None else f" ({self.max_length})"
        raise ConfigError(
            f"original_max_position_embeddings is missing in {rope.where}. transformers silently takes "
            f"max_position_embeddings{assumed} for the scaling '{scaling.name}': {effect}. "
            "State the length that the model was trained for before the extension."
        )

    def lengths_of(self, rope: Fields, scaling: type[FrequencyScaling], original: int | None) -> dict[str, Any]:
        """Return original length and factor as options.

        Where transformers takes the ratio of the two lengths for a factor that is ``null``, or left out, so is it here
        (``_compute_yarn_parameters`` and ``_compute_longrope_parameters`` of its ``modeling_rope_utils.py``).
        """
        declared, is_left_out = self.max_length, "factor" not in rope.values
        takes_ratio = scaling.ratio_is_factor == "where it is left out" or (
            scaling.ratio_is_factor == "where it is null" and not is_left_out
        )
        factor = rope.number("factor") if takes_ratio else rope.needed_factor(scaling.name)
        if factor is None:
            why = f"the scaling '{scaling.name}' needs it, and max_position_embeddings is missing as well"
            rope.need(declared, "factor", why)
            if not is_left_out and original is not None and declared is not None:
                self.note(
                    f"factor in {rope.where} is null: transformers takes {declared / original:g}, "
                    f"max_position_embeddings {declared} divided by original_max_position_embeddings {original}, which "
                    "is taken here as well.",
                    f"Write factor {declared / original:g}, which all engines read.",
                )
            return {"original_length": original, "target_length": declared}
        if original is not None and declared is not None and factor > 1:
            self._compare(rope.where, scaling, factor, original, declared)
        return {"original_length": original, "factor": factor}

    def _compare(
        self, where: str, scaling: type[FrequencyScaling], factor: float, original: int, declared: int
    ) -> None:
        reached = factor * original
        if abs(factor * declared - original) <= 0.5 and not where.startswith(OF_THE_CLASS):
            raise ConfigError(
                f"original_max_position_embeddings in {where} is {original}, which is factor {factor:g} times "
                f"max_position_embeddings {declared}: the extended length stands where the original one belongs. "
                f"Set original_max_position_embeddings to {declared} and max_position_embeddings to {original}."
            )
        if declared < original:
            self.warn(
                f"original_max_position_embeddings in {where} is {original}, above max_position_embeddings {declared}, "
                f"although the scaling '{scaling.name}' extends the first to the second.",
                f"Exchange the two if they are swapped; otherwise declare {reached:.0f} tokens, what factor {factor:g} "
                f"makes of {original}, or correct the original length.",
            )
        elif declared == original:
            self.warn(
                f"original_max_position_embeddings and max_position_embeddings are both {original}, with factor "
                f"{factor:g} of the scaling '{scaling.name}'.",
                f"If {original} is the length trained before the extension, raise max_position_embeddings to "
                f"{reached:.0f}; if it is the extended length, original_max_position_embeddings should be "
                f"{original / factor:.0f}.",
            )
        elif declared < reached - 0.5 and scaling.limits_length:
            self.warn(
                f"factor {factor:g} makes {reached:.0f} of original_max_position_embeddings {original}, but "
                f"max_position_embeddings is {declared}. transformers uses the factor.",
                f"Set factor to {declared / original:g} for {declared} tokens, or max_position_embeddings to "
                f"{reached:.0f}.",
            )


@dataclass(frozen=True)
class VllmLengths:
    """The lengths in tokens of a model from which vLLM takes the longest text that it serves by default.

    Attributes:
        declared: ``max_position_embeddings``.
        is_extended: Whether the model's class counts that as the length after a linear scaling.
        original: ``original_max_position_embeddings`` beside the group of the scaling, or of the model's class; vLLM
            looks for it there alone, not within the group.
    """

    declared: int | None
    is_extended: bool = False
    original: int | None = None


@dataclass
class VllmContext(_WithFindings):
    """What stands around the group that vLLM reads.

    Attributes:
        engine: Name of the format, for messages.
        max_length: ``max_position_embeddings``.
        is_latent: Whether the model's class is one of those with latent attention (DeepSeek's family), which take every
            scaling for YaRN and have an attention scale of their own.
        heeds_mscale: Whether the model's own code takes ``short_mscale`` and ``long_mscale``.
        findings: Where findings go.
    """

    engine: str
    max_length: int | None = None
    is_latent: bool = False
    heeds_mscale: bool = False
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class GGUFForm:
    """A scaling in a GGUF file.

    Attributes:
        keys: Keys below ``rope.scaling.`` and their values.
        tensors: Float32 tensors of one number for every pair, by name.
        mscale: ``mscale`` and ``mscale_all_dim``, for architectures that have a key for them.
    """

    keys: Mapping[str, Any]
    tensors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    mscale: tuple[float, float] | None = None


@dataclass(frozen=True)
class GGUFContext(_WithFindings):
    """What a GGUF file says about its scaling besides the keys of the scaling itself.

    Attributes:
        tensors: Tensors of factors, by name.
        kind: ``rope.scaling.type``, where it is stated.
        factor: ``rope.scaling.factor``; 1 where it is missing.
        original_length: ``rope.scaling.original_context_length``.
        attention_factor: ``rope.scaling.attn_factor``; 1 where it is missing.
        mscale_of: Returns ``mscale`` and ``mscale_all_dim`` that the architecture means by ``yarn_log_multiplier``,
            ``None`` where it passes over that.
        findings: Where findings go.
    """

    tensors: Mapping[str, tuple[float, ...]]
    kind: str | None
    factor: float
    original_length: int | None
    attention_factor: float
    mscale_of: Callable[[float], tuple[float, float] | None]
    findings: list[Finding]

    def refuse_attention_factor(self) -> None:
        """Raise ConfigError for an attention scale beside a type that has none."""
        if self.attention_factor != 1:
            beside = f"with rope.scaling.type '{self.kind}'" if self.kind else "without a rope.scaling.type"
            raise ConfigError(
                f"rope.scaling.attn_factor {self.attention_factor:g} {beside} scales scores, "
                "which only YaRN and LongRoPE do here."
            )


@dataclass(frozen=True)
class LlamaCppContext(_WithFindings):
    """The flags of llama.cpp and the file that they change.

    Attributes:
        numbers: The flags whose values are numbers.
        scaled_by: The flag and number that expand the context, where ``--rope-scaling`` is left out.
        scale: By how much the context is expanded.
        original_length: Length in tokens before that, where it is known.
        own: The scaling of the file.
        findings: Where findings go.
    """

    numbers: Mapping[str, float]
    scaled_by: str | None
    scale: float
    original_length: int | None
    own: FrequencyScaling
    findings: list[Finding]


@dataclass(frozen=True)
class CTranslate2Context(_WithFindings):
    """The attributes of a CTranslate2 layer that several scalings share.

    Attributes:
        factor: ``rotary_scaling_factor``.
        original_length: ``original_max_position_embeddings``.
        max_length: ``max_position_embeddings``.
        attention_scale: What the engine multiplies cosine and sine by.
        findings: Where findings go.
    """

    factor: float | None
    original_length: int | None
    max_length: int | None
    attention_scale: float
    findings: list[Finding]

    def refuse_attention_scale(self) -> None:
        """Raise ConfigError for lengths that make the engine scale scores, beside a scaling that does not."""
        if self.attention_scale != 1:
            raise ConfigError(
                f"original_max_position_embeddings {self.original_length} and max_position_embeddings "
                f"{self.max_length} make the engine scale cosine and sine by {self.attention_scale:g}, which belongs "
                "to LongRoPE. Remove one of them."
            )


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
