"""Training of a language model for a comparison: the same for every variant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import nn
from torch.optim import AdamW

from locant.lab.digests import ids_digest
from locant.models.language_model import LanguageModel
from locant.settings import Settings
from locant.training import LanguageModelBatch, LanguageModelLoss, TrainingLoop, TrainingSettings, learning_rate
from locant.training.budget import Budget, Clock
from locant.training.loop import Update
from locant.training.optimizers import OptimizerSet
from locant.training.parallel import DistributedModel

_PROGRESS_EVERY = 20  # updates


class OptimiserSettings(Settings):
    """AdamW; the learning rate rises from a share of its peak and falls back to it at the end of the budget."""

    renamed: ClassVar[Mapping[str, str]] = {"clip_norm": "max_grad_norm"}

    learning_rate: float = Field(1e-3, gt=0, description="At the peak")
    warmup_steps: int = Field(100, ge=0)
    schedule: Literal["cosine", "linear"] = "cosine"
    lowest_share: float = Field(0.0, ge=0, lt=1, description="Share of the peak where the schedule starts and ends")
    weight_decay: float = Field(0.0, ge=0, description="Of matrices and tables, not of biases and gains")
    beta2: float = Field(0.98, ge=0, lt=1)
    max_grad_norm: float = Field(1.0, gt=0)

    def build(self, model: nn.Module) -> OptimizerSet:
        """Return the optimiser of a model: matrices and tables with weight decay, vectors and numbers without."""
        parameters = list(model.parameters())
        groups = [
            {"params": [one for one in parameters if one.dim() > 1], "weight_decay": self.weight_decay},
            {"params": [one for one in parameters if one.dim() <= 1], "weight_decay": 0.0},
        ]
        return OptimizerSet([AdamW(groups, betas=(0.9, self.beta2), fused=True)])

    def rate(self, budget: Budget, d_model: int) -> Callable[[int, float], float]:
        """Return the learning rate of an update, by its number from 1 and the number of all updates."""
        schedule = TrainingSettings(
            steps=budget.steps,
            minutes=budget.minutes,
            learning_rate=self.learning_rate,
            warmup_steps=self.warmup_steps,
            schedule=self.schedule,
        )
        lowest = self.lowest_share * self.learning_rate
        return lambda step, total: lowest + (1 - self.lowest_share) * learning_rate(schedule, d_model, step, total)


@dataclass(frozen=True)
class TrainingResult:
    """What training took: see the fields of the same names of :class:`locant.lab.task.Outcome`."""

    steps: int
    tokens: int
    training_seconds: float
    training_loss: float
    first_batch: str


def train_language_model(
    model: LanguageModel,
    batches: Iterator[LanguageModelBatch],
    budget: Budget,
    optimiser: OptimiserSettings,
    progress: Callable[[float], None],
) -> TrainingResult:
    """Train a model in place until the budget is used.

    The clock counts updates alone, not the making of batches.

    Args:
        model: On the device to train on.
        batches: Endless.
        budget: Updates or minutes; under minutes the schedule follows the share of time that is used.
        optimiser: How.
        progress: Called with the share that is done, 0 to 1.

    Raises:
        DivergedError: The loss or the gradient was not finite.
    """
    losses, tokens, first = list[float](), 0, ""
    device = next(model.parameters()).device
    loop: TrainingLoop[LanguageModelBatch] = TrainingLoop(
        DistributedModel(LanguageModelLoss(model), model, "auto", device),
        optimiser.build(model),
        optimiser.rate(budget, model.config.d_model),
        budget,
        device=device,
        max_grad_norm=optimiser.max_grad_norm,
    )

    def counted() -> Iterator[LanguageModelBatch]:
        nonlocal tokens, first
        while True:
            with loop.clock.paused():
                batch = next(batches)
                first = first or ids_digest(batch.ids, batch.labels)
                tokens += batch.tokens
            yield batch

    def after_update(update: Update) -> None:
        losses.append(update.loss / update.tokens)
        if loop.progress.step % _PROGRESS_EVERY == 0:
            progress(loop.used())

    model.train()
    loop.clock = Clock()
    loop.run(counted(), after_update)
    loss = mean_of_last_tenth(torch.tensor(losses, dtype=torch.float32).tolist())  # the precision of a loss
    return TrainingResult(loop.progress.step, tokens, loop.clock.seconds, loss, first)


def mean_of_last_tenth(losses: list[float]) -> float:
    """Return the mean of the last tenth of the losses of updates, of at least one."""
    return fmean(losses[-max(1, len(losses) // 10) :])
