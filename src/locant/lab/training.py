"""Training for a comparison, the same for every variant: a language model, or a translator as ``locant train`` does."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import AdamW

from locant.lab.task import Trial
from locant.lab.variants import build_fairly, initial_facts
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.language_model import LanguageModel, LanguageModelConfig
from locant.settings import Settings
from locant.text import BatchStream, Corpus, PreparedData
from locant.training import (
    LanguageModelBatch,
    LanguageModelLoss,
    Recipe,
    StepReport,
    TrainingCallback,
    TrainingLoop,
    TrainingSettings,
    ValidationReport,
    learning_rate,
)
from locant.training.budget import Budget, Clock
from locant.training.evaluation import validation
from locant.training.loop import Update
from locant.training.losses import TranslatorLoss
from locant.training.optimizers import OptimizerSet
from locant.training.parallel import DistributedModel
from locant.training.trainer import Trainer

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


def _facts(steps: int, tokens: int, seconds: float, losses: list[float], *first_batch: Tensor) -> dict[str, Any]:
    """Return the fields of an outcome about training, with the digest of the first batch: shapes and, as int64, ids."""
    digest = hashlib.sha256()
    for ids in first_batch:
        digest.update(str(tuple(ids.shape)).encode() + ids.to("cpu", torch.int64).numpy().tobytes())
    return {
        "steps": steps,
        "tokens": tokens,
        "training_seconds": seconds,
        "training_loss": fmean(losses[-max(1, len(losses) // 10) :]),
        "first_batch": digest.hexdigest(),
    }


def train_fairly(
    config: LanguageModelConfig, batches: Iterator[LanguageModelBatch], trial: Trial, optimiser: OptimiserSettings
) -> tuple[LanguageModel, dict[str, Any]]:
    """Return a trained language model, whose seed decides its initial weights, and the fields of the outcome about it.

    Args:
        config: Of the model.
        batches: Endless.
        trial: Says seed, budget and device.
        optimiser: How.

    Raises:
        DivergedError: The loss or the gradient was not finite.
    """
    model = build_fairly(LanguageModel, config, trial.seed).to(trial.device)
    facts = initial_facts(model)
    return model, facts | train_language_model(model, batches, trial.budget, optimiser, trial.progress)


def train_language_model(
    model: LanguageModel,
    batches: Iterator[LanguageModelBatch],
    budget: Budget,
    optimiser: OptimiserSettings,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    """Train a model in place until the budget is used, and return the fields of an outcome about training.

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
    losses, tokens = list[float](), 0
    device = next(model.parameters()).device
    loop: TrainingLoop[LanguageModelBatch] = TrainingLoop(
        DistributedModel(LanguageModelLoss(model), model, "auto", device),
        optimiser.build(model),
        optimiser.rate(budget, model.config.d_model),
        budget,
        device=device,
        max_grad_norm=optimiser.max_grad_norm,
    )
    first = next(batches)

    def counted() -> Iterator[LanguageModelBatch]:
        nonlocal tokens
        batch = first
        while True:
            tokens += batch.tokens
            yield batch
            with loop.clock.paused():
                batch = next(batches)

    def after_update(update: Update) -> None:
        losses.append(update.loss / update.tokens)
        if loop.progress.step % _PROGRESS_EVERY == 0:
            progress(loop.used())

    model.train()
    loop.clock = Clock()
    loop.run(counted(), after_update)
    rounded = torch.tensor(losses, dtype=torch.float32).tolist()  # the precision of a loss
    return _facts(loop.progress.step, tokens, loop.clock.seconds, rounded, first.ids, first.labels)


class _UpdateTimes(TrainingCallback):
    """Takes the time of updates alone, and keeps the losses."""

    def __init__(self, progress: Callable[[float], None]) -> None:
        self.clock, self.seconds, self.losses = Clock(), 0.0, list[float]()
        self._progress = progress

    def on_start(self, done: float, device: str) -> None:
        """Start the clock."""
        self.clock = Clock()

    def on_step(self, done: float, report: StepReport | None) -> None:
        """Add an update."""
        self.seconds = self.clock.seconds
        if report:
            self.losses.append(report.nll)
            self._progress(done)

    def on_validation(self, report: ValidationReport) -> None:
        """Leave validation out."""
        self.clock = Clock(self.seconds)


def train_translator(
    model: EncoderDecoder[Any],
    recipe: Recipe,
    corpus: Corpus,
    data: PreparedData,
    device: torch.device,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    """Train a model in place, and return the fields of an outcome about training.

    At the end the model has the weights that ``locant train`` would publish.

    Args:
        model: Untrained.
        recipe: Its seed decides the order of batches and dropout. Validation should compute the loss alone.
        corpus: Of the recipe.
        data: Prepared from it.
        device: Where.
        progress: Called with the share that is done, 0 to 1.

    Raises:
        TrainingError: The loss or the gradient was not finite.
    """
    stream = BatchStream(data.epochs(recipe.seed), recipe.batches, seed=recipe.seed)
    _, _, first = next(stream.start())
    published: dict[str, Tensor] = {}
    times = _UpdateTimes(progress)
    torch.manual_seed(recipe.seed + 1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            Path(folder),
            TranslatorLoss.of(model, recipe.training, device),
            recipe.training,
            batches=stream,
            stages=corpus.stages,
            validate=validation(recipe, corpus, data),
            publish=lambda one: published.update({key: each.clone() for key, each in one.state_dict().items()}),
            callback=times,
            device=device,
        )
        trainer.train()
    model.load_state_dict(published)
    model.eval()
    done = trainer.progress
    return _facts(done.step, done.target_tokens, times.seconds, times.losses, first.source, first.target_input)
