"""The training loop: batches in, updates of the weights out, until the budget is used.

Translators, language models and the lab all train with it; what they do besides (validation, checkpoints, logs) hangs
on its updates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Protocol, Self, TypeVar

import torch
from pydantic import Field
from torch import nn

from locant.errors import TrainingError
from locant.training import parallel
from locant.training.budget import Budget, Clock
from locant.training.optimizers import OptimizerSet


class TrainingBatch(Protocol):
    """A batch as the loop sees it."""

    @property
    def target_tokens(self) -> int:
        """Number of tokens that the loss is a sum over."""

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device."""


B = TypeVar("B", bound=TrainingBatch)


Count = Annotated[int, Field(ge=0, lt=2**53)]
"""A number that JSON keeps exactly."""


@dataclass
class LoopProgress:
    """How far the loop is: updates, target tokens, and seconds in all sessions together.

    ``first`` are the seconds until the first update was done.
    """

    step: Count = 0
    seconds: float = 0.0
    first: float = 0.0
    target_tokens: Count = 0


@dataclass(frozen=True)
class Update:
    """One update of the weights.

    Attributes:
        loss: Loss of all its batches, summed over the tokens, in nats.
        nll: Negative log-likelihood, likewise.
        tokens: Target tokens of its batches, those of all processes together.
        learning_rate: Its learning rate.
        gradient_norm: Norm of the gradient before clipping.
    """

    loss: float
    nll: float
    tokens: int
    learning_rate: float
    gradient_norm: float


class DivergedError(TrainingError):
    """The loss or the gradient was not finite: at which update, and what was found, in words."""

    def __init__(self, step: int, found: str) -> None:
        super().__init__(f"{found} at step {step}")
        self.step, self.found = step, found


class TrainingLoop(Generic[B]):
    """Updates the weights of a model until a budget is used.

    Args:
        model: Its module returns the summed loss and the summed negative log-likelihood of a batch.
        optimizer: Of the model's parameters; a group's ``lr_scale`` multiplies its learning rate.
        learning_rate: Returns the learning rate of an update, given its number from 1 and how many updates the budget
            allows.
        budget: How long to train.
        device: Where the model is.
        max_grad_norm: Norm to which a larger gradient is scaled; 0 does not clip.
        gradient_accumulation_steps: Batches for one update.
        progress: Where to begin; it is kept up to date.
        clock: Measures the time trained; that of the first process counts for all.
        asked: Whether this process has been asked to stop.

    Attributes:
        stopping: Whether any process had been asked to stop by the end of the newest update.
    """

    def __init__(
        self,
        model: parallel.DistributedModel,
        optimizer: OptimizerSet,
        learning_rate: Callable[[int, float], float],
        budget: Budget,
        *,
        device: torch.device,
        max_grad_norm: float,
        gradient_accumulation_steps: int = 1,
        progress: LoopProgress | None = None,
        clock: Clock | None = None,
        asked: Callable[[], bool] = bool,
    ) -> None:
        self.model, self.optimizer, self.learning_rate, self.budget = model, optimizer, learning_rate, budget
        self.device, self.max_grad_norm = device, max_grad_norm
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.progress = progress or LoopProgress()
        self.clock = clock or Clock(self.progress.seconds)
        self.asked, self.stopping = asked, False

    def run(self, batches: Iterator[B], after_update: Callable[[Update], None], stop: Callable[[], str] = str) -> str:
        """Train until the budget is used or something else ends it.

        Args:
            batches: Endless.
            after_update: Called after every update.
            stop: Returns another reason to stop, or an empty string; asked before every update.

        Returns:
            Why training ended.

        Raises:
            DivergedError: The loss or the gradient was not finite; the weights are those before the update.
        """
        while not (reason := self.reason_to_stop() or stop()):
            after_update(self.update([next(batches) for _ in range(self.gradient_accumulation_steps)]))
        return reason

    def reason_to_stop(self) -> str:
        """Return why the budget is used; empty while it lasts."""
        return self.budget.reason_to_stop(self.progress.step, self.progress.seconds)

    def used(self) -> float:
        """Return the share of the budget that is used, 0 to 1."""
        return self.budget.used(self.progress.step, self.progress.seconds)

    def update(self, batches: Sequence[B]) -> Update:
        """Do one update: gradients of the loss per token over all batches and processes, clipping, optimiser step.

        Raises:
            DivergedError: The loss or the gradient was not finite.
        """
        progress, parameters = self.progress, self.model.model.parameters()
        tokens = parallel.sum_of_numbers(sum(batch.target_tokens for batch in batches), self.device)
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        for index, batch in enumerate(batches):
            with self.model.accumulating(last=index == len(batches) - 1):
                loss, nll = self.model.run(batch.to(self.device))
                # DDP and FSDP average gradients over the processes; what is wanted is their sum.
                (loss * (parallel.world_size() / tokens)).backward()
            sums[:2] += torch.stack((loss.detach(), nll.detach())).double()
        # Clocks differ between processes, and what depends on time must not: the first one's counts for all.
        sums[2] = self.clock.seconds if parallel.rank() == 0 else 0.0
        # All must end after the same update.
        sums[3] = float(self.asked())
        parallel.sum_over_processes(sums)
        norm = nn.utils.clip_grad_norm_(parameters, self.max_grad_norm or math.inf)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        loss_sum, nll_sum, seconds, asked, gradient_norm = torch.cat((sums, norm.double().reshape(1))).tolist()
        if not (math.isfinite(loss_sum) and math.isfinite(gradient_norm)):
            found = f"the loss was {loss_sum / tokens:g} and the norm of the gradient {gradient_norm:g}"
            raise DivergedError(progress.step + 1, found)
        step = progress.step + 1
        if step == 1:
            progress.first = seconds
        rate = self.learning_rate(step, self.budget.total_steps(step, seconds, progress.first))
        self.optimizer.set_learning_rate(rate)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.stopping = asked > 0
        progress.step = step
        progress.seconds = seconds
        progress.target_tokens += tokens
        return Update(loss_sum, nll_sum, tokens, rate, gradient_norm)
