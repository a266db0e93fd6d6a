"""What is wrong or doubtful about a model's rotary positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from locant.errors import ConfigError
from locant.rotary_configs.base import Finding

UNREADABLE = (ConfigError, ArithmeticError, ValueError)
"""What readers raise for a file that cannot be right; the last two for numbers beyond any range or domain."""

_LONGEST_MESSAGE = 1000


@dataclass(frozen=True)
class Diagnosis:
    """One thing that the owner of a model should know.

    Attributes:
        severity: ``error`` where the configuration contradicts itself or cannot mean what it says, ``warning`` where it
            may mean something else to somebody, ``note`` where part of the behaviour lies outside of it.
        message: What was found, with both readings where two engines differ.
        remedy: What to do about it.
    """

    severity: Literal["error", "warning", "note"]
    message: str
    remedy: str

    @classmethod
    def of_finding(cls, finding: Finding) -> Diagnosis:
        """Return what a reader of a dialect found."""
        return cls(finding.severity, finding.message, finding.remedy)

    @classmethod
    def of_error(cls, error: ArithmeticError | ValueError, where: str) -> Diagnosis:
        """Return the error for a configuration that cannot be read.

        Args:
            error: What its reader raised, one of :data:`UNREADABLE`.
            where: The file, for the message.
        """
        message = (
            str(error) if isinstance(error, ConfigError) else f"{where} holds a number beyond any range ({error})."
        )
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[:_LONGEST_MESSAGE]} ..."
        return cls("error", message, "Correct the entry; the configuration that the publisher released is the measure.")
