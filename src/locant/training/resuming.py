"""Changes of a recipe with which a run may go on, and what each of them does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from locant.errors import ConfigError
from locant.training.recipe import Recipe, merged

_HOW_LONG = "how long it trains; with a schedule that falls to zero also the learning rate from here on"
_RATE = "the learning rate from here on"
_WHERE = "where and how it is computed; losses equal the former within rounding"

CHANGEABLE: Mapping[str, str] = {
    "description": "the sentence about it",
    "corpus": "where the text lies, and from here on how its parts are drawn; the text itself must be the same",
    "decoding": "how the saved model translates by default",
    "training.steps": _HOW_LONG,
    "training.minutes": _HOW_LONG,
    "training.learning_rate": _RATE,
    "training.warmup_steps": _RATE,
    "training.schedule": _RATE,
    "training.max_grad_norm": "how far gradients are scaled down from here on",
    "training.gradient_accumulation_steps": "how many batches an update has from here on",
    "training.accumulation_warmup": "how many batches an update has from here on",
    "training.validate_every": "when it is validated",
    "training.validation_sentences": "how many sentences a validation translates; earlier scores are of others",
    "training.best": "which checkpoint is published",
    "training.patience": "when it gives up",
    "training.average": "which checkpoints are averaged",
    "training.average_checkpoints": "how many checkpoints are averaged",
    "training.log_every": "how often metrics are written",
    "training.checkpoint_minutes": "how often it is saved",
    "training.device": _WHERE,
    "training.precision": _WHERE,
    "training.compile": _WHERE,
    "training.parallel": _WHERE,
}
"""The keys (or whole sections) that may change when a run goes on, and what each changes."""

_KEPT = {
    "model": "its checkpoint holds the weights of that model",
    "tokenizer": "its model has learned the subwords of that vocabulary",
    "cleaning": "its text was prepared with it",
    "max_tokens": "its text was prepared with it",
    "batches": "its place in the text is counted in batches of that size",
    "seed": "its weights and the order of its text follow from it",
    "finetuning": "its weights and its optimiser follow from it",
}


class Change(NamedTuple):
    """One key that is not what it was.

    Attributes:
        key: With dots for sections.
        before: Its value when the run began, ``None`` where it had none.
        now: What it shall be.
    """

    key: str
    before: Any
    now: Any

    @property
    def effect(self) -> str | None:
        """What it changes; ``None`` where it may not."""
        found = [key for key in CHANGEABLE if self.key == key or self.key.startswith(f"{key}.")]
        return CHANGEABLE[found[0]] if found else None

    def __str__(self) -> str:
        return f"{self.key} {_shown(self.now)} instead of {_shown(self.before)}"


def continued_recipe(saved: Recipe, wanted: Mapping[str, Any], run: str) -> tuple[Recipe, list[Change]]:
    """Return the recipe with which a run goes on, and what differs from before.

    Args:
        saved: Of the run.
        wanted: Plain data: what is given of the recipe now. What it does not name stays.
        run: The run, for messages.

    Raises:
        ConfigError: A key is unknown, a value is wrong, or something differs that may not change.
    """
    before = saved.to_dict()
    recipe = Recipe.parse(merged(before, wanted), "recipe")
    changes = list(_differences(before, recipe.to_dict()))
    for change in changes:
        if change.effect is None:
            section = change.key.partition(".")[0]
            why = _KEPT.get(section) or "it is to be the same training"
            may = ", ".join(key if "." in key else f"{key}.*" for key in CHANGEABLE if key != "description")
            raise ConfigError(
                f"The run {run} has begun with {change.key} {_shown(change.before)} and keeps it: {why}. Leave "
                f"{change.key} as it is, begin a new run, or start one from its weights by --from {run}. What may "
                f"change when a run goes on: {may}."
            )
    return recipe, changes


def _differences(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[Change]:
    for key in (*before, *(key for key in now if key not in before)):
        one, other, name = before.get(key), now.get(key), f"{prefix}{key}"
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _differences(one, other, f"{name}.")
        elif one != other:
            yield Change(name, one, other)


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)
