"""The base classes of frequency scalings, and their registration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from locant.errors import ConfigError
from locant.positions.exact import EXACT
from locant.positions.scaling.checks import (
    MOST_TOKENS,
    check_base,
    check_factor,
    check_length,
    check_original,
    check_rotary_dim,
)


@dataclass(frozen=True)
class ExtensionMethod:
    """A scaling as a method of extending existing models.

    Attributes:
        source: What it is and where it was published, for the card of an extended model.
        limits: What the users of such a model should know, in sentences.
        comparable: Whether the perplexity of whole texts predicts how it generates, so that it can be chosen by that.
    """

    source: str
    limits: str
    comparable: bool = True


@dataclass(frozen=True, kw_only=True)
class FrequencyScaling(ABC):
    """How the frequencies of rotary positions are changed so that a model can read longer texts.

    Scalings are values: frozen, compared and hashed by their fields, validated when they are made. Numbers given as
    ``float`` are taken at their exact binary value.

    A scaling is one file with a dataclass that has the decorator :func:`register_scaling`, and one line in
    :mod:`locant.positions.scaling.registry`. It must say its :attr:`title`, its :attr:`paper` and
    :meth:`compute`; everything else has a default.
    """

    name: ClassVar[str]
    """Name in configurations, a key of :data:`~locant.positions.scaling.SCALINGS`; set by :func:`register_scaling`."""

    title: ClassVar[str]
    """Name in tables and figures."""

    paper: ClassVar[str]
    """Where it was published: "Chen et al. 2023, arXiv:2306.15595"."""

    limits_length: ClassVar[bool] = True
    """Whether a model reads no further than ``target_length``, where the scaling has one."""

    method: ClassVar[ExtensionMethod | None] = None
    """What ``locant extend`` says about it, for scalings that it offers as a method."""

    def frequencies(self, dim: int, base: float, length: int | None = None) -> tuple[Decimal, ...]:
        """Return the frequencies of the ``dim / 2`` pairs, in radians a token, exact to at least 40 digits.

        Args:
            dim: Even number of rotated features.
            base: Base of the unscaled frequencies, above 1.
            length: Length of the text in tokens, for scalings that depend on it; ``None`` for a text that fits the
                trained length.

        Raises:
            ConfigError: ``dim`` or ``base`` is out of range, or contradicts the scaling.
        """
        check_rotary_dim(dim)
        check_base(base)
        return _frequencies(self, dim, base, 0 if length is None else self.length_class(length))

    @abstractmethod
    def compute(self, dim: int, base: Decimal, length_class: int) -> tuple[Decimal, ...]:
        """Return the frequencies for texts of one length class; runs in a decimal context of 50 digits.

        Users call :meth:`frequencies`, which checks its arguments and keeps what it has computed.
        """

    def attention_scale(self, length: int | None = None) -> float:
        """Return the number that multiplies cosine and sine of queries and of keys; scores grow by its square.

        Args:
            length: Length of the text in tokens; matters only where short texts have a scale of their own.
        """
        del length
        return 1.0

    def length_class(self, length: int) -> int:
        """Return a number that is the same for two lengths exactly when their frequencies are the same.

        It is 0 for every text that fits the trained length, and always 0 for static scalings.

        Args:
            length: Length of a text in tokens.
        """
        del length
        return 0

    @property
    def depends_on_length(self) -> bool:
        """Whether texts of different lengths have different frequencies."""
        return self.length_class(1) != self.length_class(MOST_TOKENS)

    def fixed_for(self, length: int) -> FrequencyScaling:
        """Return the scaling that has, for every text, the frequencies which this one has for texts of a length.

        Args:
            length: In tokens.
        """
        del length
        return self

    def equivalent_base(self, dim: int, base: float) -> float | None:
        """Return the base whose unscaled frequencies are the same, for scalings that only change the base."""
        del dim, base
        return None

    # Lengths.

    @property
    def trained(self) -> int | None:
        """Length in tokens that the model was trained for before the scaling: ``original_length``, where it has it."""
        return getattr(self, "original_length", None)

    @property
    def reach(self) -> int | None:
        """Length in tokens that the scaling extends the model to: ``target_length``, where it has it."""
        return getattr(self, "target_length", None)

    @property
    def stretch(self) -> float | None:
        """How many times the trained length is read, where the scaling says it."""
        return None

    def trained_by(self, max_length: int | None) -> int | None:
        """Return the length in tokens trained before the scaling, where it is known.

        Args:
            max_length: Length in tokens that the model is declared for.
        """
        del max_length
        return self.trained

    # Extending a model.

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return the options with which a model reads longer texts than it was trained for.

        Args:
            rotary_dim: Number of rotated features.
            trained: Length in tokens that the model was trained for.
            longest: Length in tokens that it should read.

        Returns:
            What :func:`~locant.positions.scaling.scaling_from_options` takes; ``None`` for a scaling that does not
            follow from lengths.
        """
        del rotary_dim, trained, longest
        return None

    # Telling about it.

    @property
    def explained_length(self) -> int | None:
        """Length in tokens of the text by which the scaling is explained, where it says one."""
        return self.reach

    def explain_notes(self, length: int | None, max_length: int | None) -> Iterator[str]:
        """Yield further remarks for the explanation of the scaling.

        Args:
            length: Length in tokens of the text that is explained, where it is known.
            max_length: Length in tokens that the model is declared for.
        """
        del length, max_length
        yield from ()

    def as_options(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults as plain data, for a configuration file.

        :func:`~locant.positions.scaling.scaling_from_options` makes an equal scaling of :attr:`name` and this.
        """
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        changed = {field.name: given[field.name] for field in fields(self) if given[field.name] != field.default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}

    def described_options(self) -> dict[str, Any]:
        """Return the fields for a description of the scaling, by the names that readers see."""
        return {name: value for name, value in self.as_options().items() if value is not None}


@lru_cache(maxsize=256)
def _frequencies(scaling: FrequencyScaling, dim: int, base: float, length_class: int) -> tuple[Decimal, ...]:
    with localcontext(EXACT):
        return scaling.compute(dim, Decimal(base), length_class)


@dataclass(frozen=True, kw_only=True)
class Extension(FrequencyScaling):
    """A scaling from a trained length to a multiple of it.

    Either ``factor`` or ``target_length`` says how far; the other one follows where ``original_length`` is known, and
    is filled in. Where all three are given they must agree within half a token.

    Args:
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model should read.
        original_length: Length in tokens that the model was trained for before the extension.
    """

    factor: float | None = None
    target_length: int | None = None
    original_length: int | None = None

    original_length_use: ClassVar[str | None] = None
    """What the formula needs the original length for, or ``None`` where it can do without."""

    def __post_init__(self) -> None:
        """Check that the three values agree, and fill in the one that follows from the others."""
        factor, target, original = self.factor, self.target_length, self.original_length
        check_length(self.name, "target_length", target)
        check_length(self.name, "original_length", original)
        check_original(self.name, original, target if factor is None else None, self.original_length_use)
        if factor is None:
            if target is None or original is None:
                raise ConfigError(
                    f"The scaling '{self.name}' needs factor, or target_length with original_length, the length "
                    f"trained before the extension; got target_length {target}."
                )
            object.__setattr__(self, "factor", target / original)
            return
        check_factor(self.name, factor)
        if original is None:
            return
        reached = factor * original
        if reached > MOST_TOKENS:
            raise ConfigError(
                f"The scaling '{self.name}' has factor {factor:g}, which makes {reached:g} of original_length "
                f"{original}: beyond all positions, which are 64-bit integers."
            )
        if target is None:
            object.__setattr__(self, "target_length", round(reached))
        elif abs(reached - target) > 0.5:
            advice = (
                f"original_length is the length trained before the extension: {round(target / factor)} if {target} is "
                f"the extended length; otherwise target_length should be {round(reached)}."
                if target == original
                else f"The factor of these lengths is {target / original:g}."
            )
            raise ConfigError(
                f"The scaling '{self.name}' has factor {factor:g}, which makes {reached:.10g} of original_length "
                f"{original}, but target_length is {target}. {advice}"
            )

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return original and target length."""
        del rotary_dim
        return {"original_length": trained, "target_length": longest}

    @property
    def stretch(self) -> float | None:
        """``factor``."""
        return self.factor

    @property
    def exact_factor(self) -> Decimal:
        """The factor; where it is the rounded quotient of the two lengths, the quotient itself."""
        assert self.factor is not None  # once the scaling is made
        if self.original_length and self.target_length and self.factor == self.target_length / self.original_length:
            return Decimal(self.target_length) / self.original_length
        return Decimal(self.factor)

    @property
    def trained_length(self) -> int:
        """The original length of a scaling whose formula needs it."""
        assert self.original_length is not None
        return self.original_length


REGISTERED: dict[str, type[FrequencyScaling]] = {}
"""Every registered scaling; read :data:`~locant.positions.scaling.SCALINGS`, which imports those of Locant first."""

_Scaling = TypeVar("_Scaling", bound=type[FrequencyScaling])


def register_scaling(name: str) -> Callable[[_Scaling], _Scaling]:
    """Register a class as the frequency scaling of a name.

    Args:
        name: Its name in configurations.

    Raises:
        ConfigError: The name is taken by another class.
    """

    def register(scaling: _Scaling) -> _Scaling:
        known = REGISTERED.get(name)
        if known is not None and known.__qualname__ != scaling.__qualname__:
            raise ConfigError(f"The frequency scaling '{name}' is registered already, by {known.__module__}.")
        scaling.name = name
        REGISTERED[name] = scaling
        return scaling

    return register
