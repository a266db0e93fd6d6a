"""The training loop of the lab: the same for every contender."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from locant.errors import TrainingError
from locant.lab.task import Budget
from locant.models.language_model import LanguageModel
from locant.settings import Settings
from locant.training import TrainingSettings, learning_rate, projected_cross_entropy

PAD = 0
"""Id of padding: labels that do not count."""

_ESTIMATE_FROM = 10  # steps of a time budget before the first estimate of how many it allows


class Optimiser(Settings):
    """AdamW; the learning rate rises from a share of its peak and falls back to it at the end of the budget."""

    learning_rate: float = Field(1e-3, gt=0, description="At the peak")
    warmup_steps: int = Field(100, ge=0)
    schedule: Literal["cosine", "linear"] = "cosine"
    lowest_share: float = Field(0.0, ge=0, lt=1, description="Share of the peak where the schedule starts and ends")
    weight_decay: float = Field(0.0, ge=0, description="Of matrices and tables, not of biases and gains")
    beta2: float = Field(0.98, ge=0, lt=1)
    clip_norm: float = Field(1.0, gt=0)


@dataclass(frozen=True)
class Batch:
    """Rows of ids.

    Attributes:
        ids: Integer ids ``[B, L]``, padded on the right.
        labels: The ids that follow ``[B, L]``; ``PAD`` where nothing is to be learned.
        tokens: Number of ids that are not padding.
    """

    ids: Tensor
    labels: Tensor
    tokens: int

    def digest(self) -> str:
        """Return the SHA-256 of ids and labels."""
        found = hashlib.sha256()
        for part in (self.ids, self.labels):
            found.update(str(tuple(part.shape)).encode() + part.to("cpu", torch.int64).numpy().tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class Trained:
    """What training took: see the fields of the same names of :class:`locant.lab.task.Outcome`."""

    steps: int
    tokens: int
    training_seconds: float
    training_loss: float
    first_batch: str


def train(
    model: LanguageModel,
    batches: Iterator[Batch],
    budget: Budget,
    optimiser: Optimiser,
    progress: Callable[[float], None],
) -> Trained:
    """Train a model in place until the budget is used.

    The clock counts updates alone, not the making of batches.

    Args:
        model: On the device to train on.
        batches: Endless.
        budget: Updates or minutes; under minutes the schedule follows the share of time that is used.
        optimiser: How.
        progress: Called with the share that is done, 0 to 1.

    Raises:
        TrainingError: The loss or the gradient was not finite.
    """
    device = next(model.parameters()).device
    schedule = TrainingSettings(
        steps=budget.steps,
        minutes=budget.minutes,
        learning_rate=optimiser.learning_rate,
        warmup_steps=optimiser.warmup_steps,
        schedule=optimiser.schedule,
    )
    lowest = optimiser.lowest_share * optimiser.learning_rate
    adam = torch.optim.AdamW(_decayed(model, optimiser.weight_decay), betas=(0.9, optimiser.beta2), fused=True)
    model.train()
    step, tokens, seconds, first, losses = 0, 0, 0.0, "", []
    while not _over(budget, step, seconds):
        batch = next(batches)
        first = first or batch.digest()
        started = time.perf_counter()
        step += 1
        rate = learning_rate(schedule, model.config.d_model, step, _total(budget, step - 1, seconds))
        for group in adam.param_groups:
            group["lr"] = lowest + (1 - optimiser.lowest_share) * rate
        labels = batch.labels.to(device)
        hidden = model.hidden(batch.ids.to(device))
        loss, _ = projected_cross_entropy(hidden, model.output.weight, labels, smoothing=0.0, ignore=PAD)
        loss = loss / (labels != PAD).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(model.parameters(), optimiser.clip_norm)
        values = torch.stack((loss.detach(), norm)).tolist()
        if not all(map(math.isfinite, values)):
            raise TrainingError(f"the loss was {values[0]:g} and the norm of the gradient {values[1]:g} at step {step}")
        adam.step()
        adam.zero_grad(set_to_none=True)
        losses.append(values[0])
        tokens += batch.tokens
        seconds += time.perf_counter() - started
        if step % 20 == 0:
            progress(_share(budget, step, seconds))
    last = losses[-max(1, len(losses) // 10) :]
    return Trained(step, tokens, seconds, sum(last) / len(last), first)


def _decayed(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return the optimiser's groups: matrices and tables with weight decay, vectors and single numbers without."""
    parameters = list(model.parameters())
    return [
        {"params": [one for one in parameters if one.dim() > 1], "weight_decay": weight_decay},
        {"params": [one for one in parameters if one.dim() <= 1], "weight_decay": 0.0},
    ]


def _share(budget: Budget, step: int, seconds: float) -> float:
    return step / budget.steps if budget.steps else seconds / (60 * (budget.minutes or 1))


def _over(budget: Budget, step: int, seconds: float) -> bool:
    return step > 0 and _share(budget, step, seconds) >= 1


def _total(budget: Budget, step: int, seconds: float) -> float:
    """Return how many updates the budget allows; an estimate under a time budget."""
    if budget.steps:
        return budget.steps
    return 1000.0 if step < _ESTIMATE_FROM else max(step + 1.0, step / _share(budget, step, seconds))
