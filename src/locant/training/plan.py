"""Settings that were chosen for a training, and the forecast of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from locant.training.recipe import Recipe


def format_passes(passes: float) -> str:
    """Return a number of passes over a text as people say it.

    Example:
        >>> [format_passes(passes) for passes in (0.42, 27.51, 1392.5)]
        ['0.4', '27.5', '1,392']
    """
    return f"{passes:.1f}" if passes < 100 else f"{passes:,.0f}"


@dataclass(frozen=True)
class Choice:
    """A setting that the recipe left open.

    Attributes:
        key: With dots for sections.
        value: What was chosen.
        reason: Why, in a few words.
    """

    key: str
    value: Any
    reason: str


@dataclass(frozen=True)
class TrainingPlan:
    """What a training will be, before any of it is done.

    Attributes:
        recipe: Complete.
        choices: What the recipe left open.
        pairs: Training pairs; of a large text an estimate of those that cleaning keeps.
        removed: Pairs of the text that cleaning removes; of a large text likewise an estimate.
        tokens_per_pair: Target tokens, EOS included.
        parameters: Of the model.
        tokens_per_second: Target tokens, measured here by a few updates.
        steps: Updates that the budget allows.
        epochs: Passes over the text.
        seconds: Time of all updates and validations.
        memory: Most memory, in bytes.
        memory_warning: What to lower where there is less memory than that; empty where there is enough.
        passes_warning: What to lower where the text is passed over very often; empty otherwise.
    """

    recipe: Recipe
    choices: tuple[Choice, ...]
    pairs: int
    removed: int
    tokens_per_pair: float
    parameters: int
    tokens_per_second: float
    steps: int
    epochs: float
    seconds: float
    memory: float
    memory_warning: str = ""
    passes_warning: str = ""
