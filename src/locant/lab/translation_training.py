"""Training a contender as ``locant train`` does, without a run folder."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from locant.text import Batch, BatchStream, Corpus, PreparedData
from locant.training import Recipe, StepReport, ValidationReport
from locant.training.run import validation
from locant.training.trainer import Trainer
from locant.transformer import EncoderDecoder


@dataclass(frozen=True)
class Trained:
    """What training took: see the fields of the same names of :class:`locant.lab.task.Outcome`."""

    steps: int
    tokens: int
    training_seconds: float
    training_loss: float
    first_batch: str


class _Watch:
    """Takes the time of updates alone, and keeps the losses."""

    def __init__(self, progress: Callable[[float], None]) -> None:
        self.seconds = 0.0
        self.losses: list[float] = []
        self._progress = progress
        self._mark = 0.0

    def on_start(self, done: float, device: str) -> None:
        """Start the clock."""
        self._mark = time.perf_counter()

    def on_step(self, done: float, report: StepReport | None) -> None:
        """Add an update."""
        now = time.perf_counter()
        self.seconds, self._mark = self.seconds + now - self._mark, now
        if report:
            self.losses.append(report.nll)
            self._progress(done)

    def on_validation(self, report: ValidationReport) -> None:
        """Leave validation out."""
        self._mark = time.perf_counter()


def train_translator(
    model: EncoderDecoder[Any],
    recipe: Recipe,
    corpus: Corpus,
    data: PreparedData,
    device: torch.device,
    progress: Callable[[float], None],
) -> Trained:
    """Train a model in place; at the end it has the weights that ``locant train`` would publish.

    Args:
        model: Untrained.
        recipe: Its seed decides the order of batches and dropout. Validation should compute the loss alone.
        corpus: Of the recipe.
        data: Prepared from it.
        device: Where.
        progress: Called with the share that is done, 0 to 1.

    Raises:
        TrainingError: Training diverged.
    """
    stream = BatchStream(data.epochs(recipe.seed), recipe.batches, seed=recipe.seed)
    _, _, first = next(stream.start())
    published: dict[str, Tensor] = {}

    def publish(trained: EncoderDecoder[Any]) -> None:
        published.update({name: value.detach().clone() for name, value in trained.named_parameters()})

    watch = _Watch(progress)
    torch.manual_seed(recipe.seed + 1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            Path(folder),
            model,
            recipe.training,
            batches=stream.start,
            validate=validation(recipe, corpus, data),
            publish=publish,
            monitor=watch,
            device=device,
        )
        trainer.train()
    model.load_state_dict(published, strict=False)  # tied matrices are stored once
    model.eval()
    last = watch.losses[-max(1, len(watch.losses) // 10) :]
    done = trainer.progress
    return Trained(done.step, done.target_tokens, watch.seconds, fmean(last), _digest(first))


def _digest(batch: Batch) -> str:
    """Return the SHA-256 of the ids of a batch."""
    found = hashlib.sha256()
    for ids in (batch.source, batch.target_input):
        found.update(str(tuple(ids.shape)).encode() + ids.numpy().tobytes())
    return found.hexdigest()
