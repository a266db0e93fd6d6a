"""The base class of the scalings that extend a context to a multiple of its length."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from locant.errors import ConfigError
from locant.positions.scaling.checks import (
    MOST_TOKENS,
    check_length,
    check_number,
    check_target,
    missing_original_length,
)

if TYPE_CHECKING:
    pass
from locant.positions.scaling.frequency import FrequencyScaling


@dataclass(frozen=True, kw_only=True)
class Extension(FrequencyScaling):
    """A scaling from a trained length to a multiple of it.

    Either ``factor`` or ``target_length`` says how far; the other one follows where ``original_length`` is known, and
    is filled in. Where all three are given they must agree within half a token.

    Args:
        factor: ``target_length / original_length``, at least 1.
        target_length: Length in tokens that the model shall read.
        original_length: Length in tokens that the model was trained for before the extension.
    """

    factor: float | None = None
    target_length: int | None = None
    original_length: int | None = None

    original_length_use: ClassVar[str | None] = None
    """What the formula needs the original length for, or ``None`` where it can do without."""

    @classmethod
    def options_for_lengths(cls, *, rotary_dim: int, trained: int, longest: int) -> dict[str, Any] | None:
        """Return original and target length."""
        del rotary_dim
        return {"original_length": trained, "target_length": longest}

    @property
    def trained(self) -> int | None:
        """``original_length``."""
        return self.original_length

    @property
    def reach(self) -> int | None:
        """``target_length``."""
        return self.target_length

    @property
    def stretch(self) -> float | None:
        """``factor``."""
        return self.factor

    def __post_init__(self) -> None:
        """Check that the three values agree, and fill in the one that follows from the others."""
        if self.original_length_use is not None and self.original_length is None:
            raise missing_original_length(self.name, self.original_length_use)
        if self.factor is None and self.target_length is None:
            raise ConfigError(f"The scaling '{self.name}' needs either factor or target_length; neither is given.")
        if self.factor is not None:
            self._check_factor(self.factor)
        for field in ("target_length", "original_length"):
            if getattr(self, field) is not None:
                check_length(self.name, field, getattr(self, field))
        if self.factor is None:
            self._fill_in_factor()
        elif self.original_length is not None and self.target_length is None:
            self._fill_in_target()
        elif self.original_length is not None:
            self._check_agreement()

    def _check_factor(self, factor: float) -> None:
        check_number(self.name, "factor", factor, minimum=1)

    def _fill_in_target(self) -> None:
        reached = self._factor * self.trained_length
        if reached > MOST_TOKENS:
            raise ConfigError(
                f"The scaling '{self.name}' has factor {self._factor:g}, which makes {reached:g} of original_length "
                f"{self.original_length}: beyond all positions, which are 64-bit integers."
            )
        object.__setattr__(self, "target_length", round(reached))

    def _fill_in_factor(self) -> None:
        assert self.target_length is not None
        if self.original_length is None:
            raise ConfigError(
                f"The scaling '{self.name}' cannot tell its factor from target_length {self.target_length} alone. "
                "Give original_length, the length trained before the extension, or give factor."
            )
        check_target(self.name, self.target_length, self.original_length)
        object.__setattr__(self, "factor", self.target_length / self.original_length)

    def _check_agreement(self) -> None:
        assert self.target_length is not None
        expected = self._factor * self.trained_length
        if abs(expected - self.target_length) <= 0.5:
            return
        if self.target_length == self.original_length:
            raise ConfigError(
                f"The scaling '{self.name}' has factor {self._factor:g}, but original_length and target_length are the "
                f"same, {self.original_length}. original_length is the length trained before the extension: "
                f"{round(self.target_length / self._factor)} if {self.target_length} is the extended length; otherwise "
                f"target_length should be {round(expected)}."
            )
        raise ConfigError(
            f"The scaling '{self.name}' has factor {self._factor:g}, which makes {expected:.10g} of original_length "
            f"{self.original_length}, but target_length is {self.target_length}. "
            f"The factor of these lengths is {self.target_length / self.trained_length:g}."
        )

    @property
    def _exact_factor(self) -> Decimal:
        """The factor; where it is the rounded quotient of the two lengths, the quotient itself."""
        if self.original_length and self.target_length and self._factor == self.target_length / self.original_length:
            return Decimal(self.target_length) / self.original_length
        return Decimal(self._factor)

    @property
    def _factor(self) -> float:
        """The factor, which is known once the scaling is made."""
        assert self.factor is not None
        return self.factor

    @property
    def trained_length(self) -> int:
        """The original length of a scaling whose formula needs it."""
        assert self.original_length is not None
        return self.original_length
