"""The base of all tasks of the lab: given a variant, a seed and a budget, a task trains and measures.

A variant is what is compared: usually a positional scheme, sometimes a frequency scaling or a whole architecture.
A trial is one variant under one seed. Everything but the variant is the same in all trials of a seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field

from locant.lab.variants import check_scheme
from locant.settings import Settings
from locant.training import Budget

Split = Literal["unseen", "seen"]
Lengths = tuple[Annotated[int, Field(ge=1)], ...]


def split_of(length: int, trained: int) -> Split:
    """Return whether a length is one of those trained on, up to ``trained``."""
    return "seen" if length <= trained else "unseen"


@dataclass(frozen=True)
class Metric:
    """A measure of quality.

    Attributes:
        name: How it is shown, with its unit.
        definition: What exactly is measured, in one or two sentences.
        higher_is_better: Which direction is good.
        digits: Digits shown after the point.
        by_length: Whether a table of its own shows it at every length.
    """

    name: str
    definition: str
    higher_is_better: bool
    digits: int = 1
    by_length: bool = False


class MetricValue(Settings):
    """One number.

    Attributes:
        metric: A key of the task's metrics.
        value: The number, or ``None`` where the variant cannot do it.
        length: Length at which it was measured, or ``None`` for all lengths together.
        split: Whether such lengths were trained on.
        condition: What else was varied, in words; empty where nothing was.
        reason: Why there is no number.
    """

    metric: str
    value: float | None
    length: int | None = None
    split: Split | None = None
    condition: str = ""
    reason: str = ""


class Outcome(Settings):
    """What a trial found.

    Attributes:
        measurements: The numbers.
        parameters: Trained parameters of the model.
        scheme_parameters: Those of them that belong to the variant.
        steps: Updates done.
        tokens: Tokens trained on, padding excluded.
        training_seconds: Time they took.
        training_loss: Mean of the last tenth of the updates, in nats a token.
        first_batch: SHA-256 of the first training batch.
        initial_weights: SHA-256 of the initial weights that do not belong to the variant.
        text: SHA-256 of the text that was trained and tested on, as UTF-8; empty where questions are drawn.
        cannot: Why the variant cannot do the task at all; empty where it can.
    """

    measurements: tuple[MetricValue, ...] = ()
    parameters: int = 0
    scheme_parameters: int = 0
    steps: int = 0
    tokens: int = 0
    training_seconds: float = 0.0
    training_loss: float | None = None
    first_batch: str = ""
    initial_weights: str = ""
    text: str = ""
    cannot: str = ""

    @property
    def tokens_per_second(self) -> float | None:
        """Speed of training, or ``None`` where nothing was trained."""
        return self.tokens / self.training_seconds if self.training_seconds else None


@dataclass(frozen=True)
class Trial:
    """What a task is asked to do.

    Attributes:
        variant: A name, perhaps with options, that the task's ``check_variant`` has accepted.
        seed: Decides the data, their order and the initial weights.
        budget: How long to train.
        device: Where.
        prepared: What the task's ``prepare`` wrote for this seed.
        progress: Called with the share that is done, 0 to 1.
    """

    variant: str
    seed: int
    budget: Budget
    device: torch.device
    prepared: Path
    progress: Callable[[float], None]


class ComparisonTask(Settings, ABC):
    """A task: its fields are its configuration, the same for every variant."""

    name: ClassVar[str]
    title: ClassVar[str]
    length_means: ClassVar[str]
    """What a length counts, for instance "characters"."""
    averages_lengths: ClassVar[bool] = False
    """Whether the mean over lengths says something, as for right answers; tables then have it for either split."""
    prepares: ClassVar[bool] = False
    """Whether trials of a seed share something that :meth:`prepare` makes once."""

    @property
    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """The measures by key, the most important first."""

    @classmethod
    @abstractmethod
    def default_variants(cls) -> tuple[str, ...]:
        """Return what is compared where nothing is asked for."""

    def check_variant(self, variant: str) -> None:
        """Raise ConfigError, naming the nearest known one, unless the task knows this variant; here, a scheme."""
        check_scheme(variant)

    def check(self) -> None:
        """Raise before any work starts, where a file is missing or too short, say.

        Raises:
            LocantError: Something the user can put right.
        """

    def prepare(self, trial: Trial) -> None:
        """Write what all trials of a seed share as the folder ``trial.prepared``, atomically; variant is empty."""

    @abstractmethod
    def run(self, trial: Trial) -> Outcome:
        """Train and measure.

        Raises:
            TrainingError: Training had to stop.
            ConfigError: The variant cannot be built for this task; shown as "cannot".
            DataError: The variant cannot read texts this long; shown as "cannot".
        """
