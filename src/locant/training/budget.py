"""Budgets of updates or time, and the clock that time is measured with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Self

from pydantic import Field, model_validator

from locant.errors import ConfigError
from locant.settings import Settings

_ESTIMATE_FROM, _ESTIMATE_FROM_SHARE, _FIRST_ESTIMATE = 10, 0.2, 1000.0
"""Updates, or the share of a time budget, from which on it is estimated how many updates it allows; what is taken for
that until then."""
_VALIDATIONS, _TRAINED_FOR_VALIDATED = 8, 4.0
"""Validations of a time budget, and the least seconds of updates for one of validation."""


class Budget(Settings):
    """How long to train: that many updates, that many minutes, or whichever of the two ends first."""

    steps: int | None = Field(None, ge=1)
    minutes: float | None = Field(None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.steps is None and self.minutes is None:
            raise ConfigError("give steps or minutes")
        return self

    def __str__(self) -> str:
        """Say it in words."""
        said = []
        if self.steps:
            said.append(f"{self.steps:,} update{'' if self.steps == 1 else 's'}")
        if self.minutes:
            said.append(f"{self.minutes:g} minute{'' if self.minutes == 1 else 's'}")
        return " or ".join(said)

    def used(self, steps: int, seconds: float) -> float:
        """Return the share of the budget that is used, 0 to 1.

        Args:
            steps: Updates done.
            seconds: Time trained.
        """
        shares = [steps / self.steps] if self.steps else []
        if self.minutes:
            shares.append(seconds / (60 * self.minutes))
        return min(1.0, max(shares))

    def total_steps(self, steps: int, seconds: float, first: float = 0.0) -> float:
        """Return how many updates the budget allows; an estimate where time decides.

        Args:
            steps: Updates done, with the one that is being done.
            seconds: Time they took.
            first: Time that the first of them took, which is longer: much is made ready in it.
        """
        limit = self.steps or math.inf
        if not self.minutes:
            return limit
        whole = 60 * self.minutes
        if steps < 2 or (steps < _ESTIMATE_FROM and seconds < _ESTIMATE_FROM_SHARE * whole):
            return min(limit, _FIRST_ESTIMATE)
        return min(limit, max(float(steps), 1 + (steps - 1) * (whole - first) / (seconds - first)))

    def reason_to_stop(self, steps: int, seconds: float) -> str:
        """Return why training ends after that many updates and seconds; empty while the budget lasts."""
        if self.steps and steps >= self.steps:
            return f"{self.steps} step{'' if self.steps == 1 else 's'} done"
        if self.minutes and seconds >= 60 * self.minutes:
            return f"{self.minutes:g} {'minute is' if self.minutes == 1 else 'minutes are'} over"
        return ""

    def validation_due(self, seconds: float, validations: int, *, ended: float, took: float) -> bool:
        """Whether an eighth of the minutes has passed for each validation and one more.

        Validating may take a fifth of the time at most, so that little time is not spent on it: the next one waits
        four times as long as the last one took.

        Args:
            seconds: Time trained.
            validations: Done so far.
            ended: When the last one ended, in seconds trained.
            took: How many seconds it took.
        """
        eighth = 60 * (self.minutes or math.inf) / _VALIDATIONS
        return seconds >= max(eighth * (1 + validations), ended + _TRAINED_FOR_VALIDATED * took)


class Clock:
    """The seconds trained, in all sessions together; it begins with those of the sessions before."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._started = perf_counter() - seconds

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return perf_counter() - self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time of a block."""
        stopped = perf_counter()
        try:
            yield
        finally:
            self._started += perf_counter() - stopped
