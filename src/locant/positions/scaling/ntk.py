"""NTK-aware scalings: a larger base, fixed or growing with the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, ClassVar

from locant.errors import ConfigError
from locant.positions.exact import EXACT, geometric_frequencies
from locant.positions.scaling.checks import check_length, check_number, check_target, missing_original_length
from locant.positions.scaling.contexts import RopeContext, VllmContext, VllmLengths
from locant.positions.scaling.extension import Extension
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.frequency import ExtensionMethod, FrequencyScaling, register_scaling
from locant.positions.scaling.linear import Unscaled

if TYPE_CHECKING:
    from locant.positions.rotary.config import RotaryConfig


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
    method: ClassVar[ExtensionMethod | None] = ExtensionMethod(
        "NTK-aware interpolation, as given in Peng et al. 2023, arXiv:2309.00071, section 3.1",
        "Short texts are changed a little as well.",
    )

    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies of the formula above."""
        del length_class
        return _with_larger_base(self.name, dim, base, self._exact_factor)

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
        if self.original_length is None:
            raise missing_original_length(self.name, "because only longer texts are scaled")
        check_length(self.name, "original_length", self.original_length)
        self._check_factor()
        check_length(self.name, "length_step", self.length_step)
        if self.target_length is not None:
            check_length(self.name, "target_length", self.target_length)
            check_target(self.name, self.target_length, self.original_length)

    def _check_factor(self) -> None:
        check_number(self.name, "factor", self.factor, minimum=1)

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

    @classmethod
    def first_extension(cls, rotary_dim: int, trained: int, target_length: int) -> FrequencyScaling:
        """Return the scaling as transformers has it, whose factor is the extension and which counts every token."""
        del rotary_dim
        return cls(original_length=trained, factor=target_length / trained, length_step=1)

    def in_training(self) -> FrequencyScaling:
        """Return no scaling: no model is trained with this one, and below the original length it changes nothing."""
        return Unscaled()

    def present_length(self, max_length: int | None) -> int:
        """Return the original length, unless a final one is fixed."""
        if self.target_length is None:
            assert self.original_length is not None
            return self.original_length
        return super().present_length(max_length)

    def length_to_declare(self, target_length: int) -> int:
        """Return the original length, which transformers takes from there."""
        assert self.original_length is not None
        return self.original_length if self.target_length is None else target_length

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

    def engine_findings(self, config: RotaryConfig) -> Iterator[Finding]:
        """Yield that cached keys keep the frequencies of shorter texts in transformers."""
        if self.target_length is not None:
            return
        assert self.original_length is not None
        assert config.rotary_dim is not None
        reach = round(self.factor * self.original_length)
        base = replace(self, target_length=reach).equivalent_base(config.rotary_dim, config.base)
        yield Finding(
            "warning",
            f"transformers computes the frequencies of 'dynamic' for the length of each forward pass, and cached keys "
            f"keep older ones: beyond {self.original_length} tokens, generating gives other scores than reading "
            "the same text.",
            f"Fix the length: rope_theta {base:.10g} without rope_scaling is the same for {reach} tokens. Or "
            "generate with use_cache=False.",
        )

    rope_types: ClassVar[tuple[str, ...]] = ("dynamic",)
    rope_entries: ClassVar[tuple[str, ...]] = ("factor", "original_max_position_embeddings")

    @classmethod
    def from_rope_parameters(cls, rope: Fields, context: RopeContext) -> FrequencyScaling:
        """Read the factor; the original length is ``max_position_embeddings``."""
        stated = context.original_length_of(rope)
        if stated is not None and context.max_length is not None and stated != context.max_length:
            message = (
                f"The scaling 'dynamic' in {rope.where} has original_max_position_embeddings {stated}, but "
                f"transformers takes the original length from max_position_embeddings, which is {context.max_length}"
            )
            remedy = "Set max_position_embeddings to the length trained before the extension."
            if not context.is_of_transformers:
                raise ConfigError(f"{message}. {remedy}")
            context.wrong(f"{message}, as is shown.", remedy)
        elif stated is not None and stated == context.max_length and context.is_of_transformers:
            context.note(
                f"original_max_position_embeddings {stated} has no effect beside the scaling 'dynamic' in "
                f"{rope.where}: transformers takes max_position_embeddings, which is as many.",
                "Nothing has to be done.",
            )
        factor = rope.needed_factor(cls.name)
        kind = cls
        if factor < 1 and context.is_of_transformers:
            from locant.positions.scaling.out_of_range import DynamicNTKOfAnyFactor  # which is made of this class

            _warn_of_small_factor(rope, factor, context)
            kind = DynamicNTKOfAnyFactor
        return kind(original_length=context.max_length or stated, factor=factor, length_step=1)

    def rope_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return the factor."""
        del engine
        return {"rope_type": "dynamic", "factor": self.factor}

    def huggingface_entries(self, max_length: int | None) -> dict[str, Any]:
        """Return the original length as the declared one."""
        if max_length not in (None, self.original_length) or self.length_step != 1:
            raise ConfigError(
                f"config.json cannot express the scaling 'dynamic' with max_length {max_length}, original_length "
                f"{self.original_length} and length_step {self.length_step}: transformers takes the original length "
                "from max_position_embeddings and counts every token. Set max_length to the original length and "
                "length_step to 1, or state a target_length."
            )
        return {"max_position_embeddings": self.original_length}

    @classmethod
    def from_vllm_entries(cls, rope: Mapping[str, Any], context: VllmContext) -> dict[str, Any]:
        """Return the entries; refuse those that only vLLM has."""
        for name, meaning in (
            ("alpha", "multiplies the base by alpha^(d/(d-2))"),
            ("max_trained_positions", "raises the base for max_position_embeddings"),
        ):
            if rope.get(name) is not None:
                raise ConfigError(
                    f"rope_type 'dynamic' with {name} {meaning} in vLLM, which no scaling here has. State rope_theta "
                    "with that base instead."
                )
        del context
        return dict(rope)

    def vllm_findings(self, lengths: VllmLengths) -> Iterator[Finding]:
        """Yield that releases of vLLM differ, and that the newer ones scale nothing."""
        length = lengths.declared or self.original_length
        assert length is not None
        reached = round(self.factor * length)
        yield Finding(
            "warning",
            f"transformers: dynamic NTK, which follows the length of the text. vLLM until May 2026: fixed for "
            f"{reached} tokens, in texts of all lengths. vLLM since then: nothing is scaled, and there are angles for "
            f"{length} tokens alone, though {reached} are served by default.",
            "Fix the length for all engines: a larger rope_theta in place of the scaling, as --hf-overrides of "
            "`locant inspect --as vllm` or `locant extend --method ntk` states it.",
            "follows the length in transformers",
        )

    def vllm_parameters(self, engine: str) -> dict[str, Any] | None:
        """Return nothing: what is fixed for one length is written as a larger base, which all releases take."""
        if self.target_length is None:
            raise ConfigError(
                f"{engine} cannot express the scaling 'dynamic' for texts of all lengths: vLLM has one base "
                "for all of them. State target_length, the length to fix it for, or use the scaling 'ntk'."
            )
        return None

    def as_served_by_vllm(self, lengths: VllmLengths) -> tuple[FrequencyScaling, int | None]:
        """Return that nothing is scaled, and the longest text that is served all the same."""
        length = lengths.declared or self.original_length
        assert length is not None
        return Unscaled(), round(self.factor * length)


def _warn_of_small_factor(rope: Fields, factor: float, context: RopeContext) -> None:
    """Find that a factor below 1 extends a model by less than its texts need, or by nothing; refuse one below 0."""
    said = f"factor in {rope.where} is {factor:g}"
    if factor < 0:
        raise ConfigError(
            f"{said}: with it transformers turns pairs faster as texts grow beyond the trained length, and beyond "
            f"{1 - 1 / factor:g} times that length no angle is a number."
        )
    slows = f"slows pairs {factor:g} times as much as a text exceeds" if factor else "scales nothing beyond"
    context.wrong(
        f"{said}, below 1: the scaling 'dynamic' {slows} the trained length. transformers warns of it, and computes it "
        "so, as is shown.",
        "State factor 1 for the least that texts beyond the trained length need.",
    )


def _base_of(frequencies: tuple[Decimal, ...], dim: int) -> float:
    """Return the base of a geometric progression of frequencies."""
    with localcontext(EXACT):
        return float(frequencies[1] ** (Decimal(-dim) / 2))
