"""Contexts of scalings: what stands around one in the configuration of another engine, and decides about its meaning.

Readers of whole configurations (:mod:`locant.rotary_configs`) fill these in; each scaling reads them in its
:class:`~locant.positions.scaling.forms.EngineForms`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, FindingCode, agreed

if TYPE_CHECKING:
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

    def warn(self, message: str, remedy: str, code: FindingCode | None = None) -> None:
        """Add a warning."""
        self.findings.append(Finding("warning", message, remedy, code))

    def wrong(self, message: str, remedy: str) -> None:
        """Add an error about what cannot be meant, though the engine computes something of it."""
        self.findings.append(Finding("error", message, remedy))

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
        is_of_transformers: Whether the class is known to be one of transformers, which computes something of entries
            that contradict each other.
        is_in_vllm: Whether it is the one of vLLM for that model.
        takes_length_beside: Whether it takes :attr:`original_length` where the group has another one.
        findings: Where findings go.
    """

    max_length: int | None = None
    original_length: int | None = None
    rotary_fraction: float | None = None
    heeds_mscale: bool = True
    scales_scores: bool = True
    is_of_transformers: bool = False
    is_in_vllm: bool = False
    takes_length_beside: bool = False
    findings: list[Finding] = field(default_factory=list)

    def original_length_of(self, rope: Fields) -> int | None:
        """Take the original length, which stands in the group or next to it."""
        inside, beside = rope.whole("original_max_position_embeddings"), self.original_length
        said = f"original_max_position_embeddings is {inside} in {rope.where} but {beside} next to it"
        if inside is None or beside is None or not self.is_of_transformers:
            agreed(
                inside,
                beside,
                f"{said}. transformers takes the second, llama.cpp's converter the first; make them equal.",
            )
            return beside or inside
        if inside != beside and self.takes_length_beside:
            taken = "the second, as is shown, and so has vLLM it; llama.cpp's converter takes the first"
            self.wrong(f"{said}: the model's class in transformers takes {taken}.", "Make them equal.")
        elif inside != beside:
            self.wrong(f"{said}: the model's class in transformers takes the first, as is shown.", "Make them equal.")
        return beside if self.takes_length_beside else inside

    def needed_original_length(self, rope: Fields, scaling: type[FrequencyScaling], effect: str) -> int:
        """Take the original length, or raise ConfigError because transformers would silently take another one."""
        original = self.original_length_of(rope)
        if original is not None:
            return original
        assumed = "" if self.max_length is None else f" ({self.max_length})"
        message = (
            f"original_max_position_embeddings is missing in {rope.where}. transformers silently takes "
            f"max_position_embeddings{assumed} for the scaling '{scaling.name}'"
        )
        remedy = "State the length that the model was trained for before the extension."
        if self.max_length is None or not self.is_of_transformers:
            raise ConfigError(f"{message}: {effect}. {remedy}")
        self.wrong(f"{message}, as is shown: {effect}.", remedy)
        return self.max_length

    def is_out_of_range(self, rope: Fields, factor: float, turned: str) -> bool:
        """Whether a class of transformers computes with a factor below 1, which cannot be meant: an error says so.

        Args:
            rope: The group.
            factor: The factor.
            turned: The pairs whose frequencies are divided by it, in words.

        Raises:
            ConfigError: The factor is 0, by which frequencies are divided.
        """
        if factor >= 1 or not self.is_of_transformers:
            return False
        if factor == 0:
            raise ConfigError(
                f"factor in {rope.where} is 0: transformers divides the frequencies of {turned} by it, so that their "
                "angles are no numbers."
            )
        said = f"factor in {rope.where} is {factor:g}, "
        if factor < 0:
            said += f"below 0, which turns {turned} backwards: transformers computes it so, as is shown."
            remedy = "State the factor by which the model reads longer texts; 2 to 64 are common."
        else:
            said += (
                f"which turns {turned} {1 / factor:g} times as fast in place of more slowly: transformers computes it "
                "so, as is shown, but texts become no longer by it."
            )
            remedy = f"State factor {1 / factor:g}, if the model reads texts so many times as long as before."
        self.wrong(said, remedy)
        return True

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
            message = (
                f"original_max_position_embeddings in {where} is {original}, which is factor {factor:g} times "
                f"max_position_embeddings {declared}: the extended length stands where the original one belongs."
            )
            remedy = f"Set original_max_position_embeddings to {declared} and max_position_embeddings to {original}."
            if not self.is_of_transformers:
                raise ConfigError(f"{message} {remedy}")
            self.wrong(f"{message} transformers computes with it all the same, as is shown.", remedy)
            return
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
        keeps_short_list: Whether the model's class in transformers takes the short list of LongRoPE for any text.
    """

    declared: int | None
    is_extended: bool = False
    original: int | None = None
    keeps_short_list: bool = False


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
        beta_fast: What the architecture takes where the file has no ``yarn_beta_fast``.
    """

    tensors: Mapping[str, tuple[float, ...]]
    kind: str | None
    factor: float
    original_length: int | None
    attention_factor: float
    mscale_of: Callable[[float], tuple[float, float] | None]
    findings: list[Finding]
    beta_fast: float = 32.0

    def warn_of_small_factor(self, turned: str) -> None:
        """Find that a factor below 1 turns pairs faster, or one below 0 backwards.

        Args:
            turned: The pairs whose frequencies are divided by it, in words.
        """
        how = "backwards" if self.factor < 0 else f"{1 / self.factor:g} times as fast in place of more slowly"
        self.warn(
            f"rope.scaling.factor {self.factor:g} turns {turned} {how}: llama.cpp computes it so, as is shown, but "
            "texts become no longer by it.",
            "State the factor by which the model reads longer texts.",
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
        corners: ``yarn_beta_fast`` and ``yarn_beta_slow`` of a file whose own scaling is another.
    """

    numbers: Mapping[str, float]
    scaled_by: str | None
    scale: float
    original_length: int | None
    own: FrequencyScaling
    findings: list[Finding]
    corners: tuple[float, float] = (32.0, 1.0)


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
