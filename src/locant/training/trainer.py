"""The training loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import TrainingError
from locant.models.architectures import build_model
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.transformer import Transformer
from locant.runtime import has_fast_bfloat16
from locant.text import PAD, Batch, prefetch
from locant.training import checkpoint as saved
from locant.training import parallel
from locant.training.checkpoint import Checkpoint, Progress, Snapshot
from locant.training.monitor import MetricsLog, StepReport, TrainingCallback, ValidationReport
from locant.training.objective import projected_cross_entropy
from locant.training.settings import TrainingSettings, learning_rate

# Batches prepared ahead of the one that trains.
_PREFETCH = 4
# Steps of a time budget before the first estimate of how many steps it allows.
_ESTIMATE_FROM = 10

Validate = Callable[[EncoderDecoder[Any]], tuple[float, float | None, float | None]]
"""Computes validation loss (nats a token), BLEU and chrF (or ``None``) of a model."""

BatchesFrom = Callable[[int, int], Iterator[tuple[int, int, Batch]]]
"""Yields ``(epoch, index, batch)`` without end, starting at an epoch and a batch of it."""


class TrainingStep(nn.Module):
    """A batch's loss: what DDP and FSDP wrap."""

    def __init__(self, model: EncoderDecoder[Any], label_smoothing: float, precision: torch.dtype) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.precision = precision

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed smoothed loss and the summed negative log-likelihood, float32 scalars in nats."""
        with torch.autocast(batch.source.device.type, self.precision, enabled=self.precision != torch.float32):
            hidden = self.model.hidden(batch.source, batch.source_lengths, batch.target_input)
        # A norm may have ended in float32, which would make the largest product of all the slowest.
        return projected_cross_entropy(
            hidden.to(self.precision),
            self.model.output.weight,
            batch.target_output,
            smoothing=self.label_smoothing,
            ignore=PAD,
        )


class Trainer:
    """Trains a model and keeps its run folder.

    Args:
        run: The run folder.
        model: The model, on CPU; moved to ``device``.
        settings: How to train.
        batches: Gives the training batches of this process from any place on.
        validate: Measures the model; runs on the first process alone.
        publish: Writes the model as the run's usable one.
        monitor: Watches.
        device: Where to train.
    """

    def __init__(
        self,
        run: Path,
        model: EncoderDecoder[Any],
        settings: TrainingSettings,
        *,
        batches: BatchesFrom,
        validate: Validate,
        publish: Callable[[EncoderDecoder[Any]], None],
        monitor: TrainingCallback,
        device: torch.device,
    ) -> None:
        self.run, self.settings, self.device = run, settings, device
        self.batches, self.validate, self.publish, self.monitor = batches, validate, publish, monitor
        self.progress = Progress()
        self.model = model.to(device)
        self.precision = training_precision(settings, device)
        step = TrainingStep(self.model, settings.label_smoothing, self.precision)
        self.replica = parallel.DistributedModel(step, self.model, settings.parallel)
        if settings.compile and isinstance(self.model, Transformer):
            self.model.encoder.compile(dynamic=True)
            self.model.decoder.compile(dynamic=True)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._started = 0.0
        self._log: MetricsLog | None = None

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint of this run."""
        self.progress = checkpoint.progress
        states = dict(checkpoint.optimizer)
        generators = {name: states.pop(name) for name in list(states) if name.startswith("random/")}
        self.replica.restore(checkpoint.weights, self.optimizer, states)
        own = generators.get(self._random_name(parallel.rank()))
        if own is not None:
            _set_random_state(self.device, own)

    def train(self) -> str:
        """Train until the budget is used or validation stops improving, and publish the averaged model.

        Returns:
            Why training ended.

        Raises:
            TrainingError: The loss or the gradient was not finite; the last checkpoint is good.
            CheckpointError: The disk is full; the last checkpoint is good.
        """
        self.model.train()
        self._started = time.perf_counter() - self.progress.seconds
        if parallel.rank() == 0:
            self._log = MetricsLog(self.run, self.progress.step)
        stream = prefetch(self.batches(self.progress.epoch, self.progress.batch), _PREFETCH)
        self.monitor.on_start(self._done(), str(self.device))
        with closing(stream):
            while not (reason := self._reason_to_stop()):
                self._update([next(stream) for _ in range(self.settings.accumulate)])
                if self._validation_due() or self._reason_to_stop():
                    self._validate_and_save()
        self._publish_average()
        if self._log:
            self._log.close()
        return reason

    def _update(self, micro_batches: list[tuple[int, int, Batch]]) -> None:
        """Do one update."""
        progress, settings = self.progress, self.settings
        batches = [_at_least_one_row(batch) for _, _, batch in micro_batches]
        tokens = torch.tensor([sum(batch.target_tokens for batch in batches)], dtype=torch.float64)
        total_tokens = parallel.sum_over_processes(tokens.to(self.device)).item()
        step = progress.step + 1

        sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        for index, batch in enumerate(batches):
            with self.replica.accumulating(last=index == len(batches) - 1):
                loss, nll = self.replica.run(batch.to(self.device))
                # DDP and FSDP average gradients over the processes; what is wanted is their sum.
                (loss * (parallel.world_size() / total_tokens)).backward()
            sums[:2] += torch.stack((loss.detach(), nll.detach())).double()
        # Clocks differ between processes, and what depends on time must not: the first one's counts for all.
        sums[2] = self._elapsed() if parallel.rank() == 0 else 0.0
        loss_sum, nll_sum, seconds = parallel.sum_over_processes(sums).tolist()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm or math.inf)
        gradient_norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        if not (math.isfinite(loss_sum) and math.isfinite(gradient_norm)):
            found = f"the loss was {loss_sum / total_tokens:g} and the norm of the gradient {gradient_norm:g}"
            raise TrainingError(self._not_finite(step, found))

        progress.seconds = seconds
        rate = learning_rate(settings, self.model.config.d_model, step, self._total_steps())
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

        progress.step = step
        progress.epoch, last, _ = micro_batches[-1]
        progress.batch = last + 1
        progress.target_tokens += int(total_tokens)
        for name, value in (("loss", loss_sum), ("nll", nll_sum), ("tokens", total_tokens)):
            progress.interval[name] = progress.interval.get(name, 0.0) + value
        self._report(rate, gradient_norm)

    def _report(self, rate: float, gradient_norm: float) -> None:
        """Tell the monitor, and every ``log_every`` steps the log."""
        progress = self.progress
        if progress.step % self.settings.log_every and progress.step != 1:
            self.monitor.on_step(self._done(), None)
            return
        interval, progress.interval = progress.interval, {"since": progress.seconds}
        report = StepReport(
            step=progress.step,
            epoch=progress.epoch,
            loss=interval["loss"] / interval["tokens"],
            nll=interval["nll"] / interval["tokens"],
            learning_rate=rate,
            gradient_norm=gradient_norm,
            tokens_per_second=interval["tokens"] / max(1e-9, progress.seconds - interval.get("since", 0.0)),
            seconds=progress.seconds,
        )
        if self._log:
            self._log.write("training", asdict(report))
        self.monitor.on_step(self._done(), report)

    def _validate_and_save(self) -> None:
        """Validate, keep the weights for averaging and write a checkpoint."""
        weights = self.replica.weights()
        states = self.replica.optimizer_state(self.optimizer)
        for number, state in enumerate(parallel.gather(_random_state(self.device))):
            states[self._random_name(number)] = state
        cuda = [self.device] if self.device.type == "cuda" else []
        # Training draws the same random numbers whether or not something else drew some in between.
        with torch.random.fork_rng(devices=cuda):
            self.progress = parallel.from_first_process(lambda: self._validated(weights, states))

    def _validated(self, weights: dict[str, Tensor], states: dict[str, Tensor]) -> Progress:
        """Do what the first process alone does at a validation, and return the new progress."""
        progress, settings = self.progress, self.settings
        snapshot = Snapshot(progress.step, *self._measure(weights))
        if not math.isfinite(snapshot.loss):
            raise TrainingError(self._not_finite(progress.step, f"the validation loss was {snapshot.loss:g}"))
        better = progress.best is None or self._rank(snapshot) < self._rank(progress.best)
        progress.validations += 1
        progress.since_best = 0 if better else progress.since_best + 1
        if better:
            progress.best = snapshot
            self.publish(self._with_weights(weights))
        progress.snapshots.append(snapshot)
        if settings.average == "best":
            progress.snapshots.sort(key=self._rank, reverse=True)
        progress.snapshots = progress.snapshots[-settings.average_checkpoints :]
        if snapshot in progress.snapshots:
            saved.save_snapshot(self.run, progress.step, weights)
        before, progress.seconds = progress.seconds, self._elapsed()
        # Validating is no part of the speed of training.
        progress.interval["since"] = progress.interval.get("since", 0.0) + progress.seconds - before
        report = ValidationReport(**asdict(snapshot), seconds=progress.seconds, best=better)
        if self._log:
            self._log.write("validation", asdict(report))
        saved.save_checkpoint(self.run, Checkpoint(weights, states, progress))
        saved.prune_snapshots(self.run, progress.snapshots)
        self.monitor.on_validation(report)
        return progress

    def _measure(self, weights: dict[str, Tensor]) -> tuple[float, float | None, float | None]:
        model = self._with_weights(weights) if self.replica.sharded else self.model
        model.eval()
        try:
            return self.validate(model)
        finally:
            model.train()

    def _publish_average(self) -> None:
        """Publish the mean of the kept snapshots unless a single one is better on the validation set."""

        def first_process() -> None:
            kept = [item for item in self.progress.snapshots if saved.snapshot_path(self.run, item.step).exists()]
            if len(kept) < 2 or self.progress.best is None:
                return
            model = self._with_weights(saved.average_snapshots(self.run, kept)).eval()
            average = Snapshot(self.progress.step, *self.validate(model))
            better = self._rank(average) < self._rank(self.progress.best)
            if better:
                self.publish(model)
            if self._log:
                steps = [item.step for item in kept]
                self._log.write("average", {**asdict(average), "steps": steps, "published": better})

        parallel.from_first_process(first_process)

    def _with_weights(self, weights: dict[str, Tensor]) -> EncoderDecoder[Any]:
        """Return a model of its own, on the device, with the given weights."""
        model = build_model(self.model.config)
        model.load_state_dict(weights, strict=False)  # tied matrices are stored once
        return model.to(self.device)

    def _elapsed(self) -> float:
        """Return the seconds trained, in all sessions together."""
        return time.perf_counter() - self._started

    def _rank(self, snapshot: Snapshot) -> float:
        """Return a number that is smaller for a better snapshot."""
        match self.settings.best:
            case "loss":
                return snapshot.loss
            case "bleu":
                return -(snapshot.bleu or 0.0)
            case "chrf":
                return -(snapshot.chrf or 0.0)

    def _done(self) -> float:
        """Return the share of the budget that is used, 0 to 1."""
        steps = self.settings.max_steps()
        shares = [self.progress.step / steps] if steps else []
        if self.settings.minutes:
            shares.append(self.progress.seconds / (60 * self.settings.minutes))
        return min(1.0, max(shares))

    def _total_steps(self) -> float:
        """Return how many updates the budget allows; an estimate under a time budget."""
        steps = self.settings.max_steps() or math.inf
        if self.settings.minutes:
            done = self.progress.step
            if done < _ESTIMATE_FROM:
                return min(steps, 1000.0)
            steps = min(steps, max(done + 1.0, done / self.progress.seconds * 60 * self.settings.minutes))
        return steps

    def _validation_due(self) -> bool:
        progress, settings = self.progress, self.settings
        if settings.validate_every or not settings.minutes:
            return progress.step % (settings.validate_every or 1000) == 0
        eighth = 60 * settings.minutes / 8
        return progress.seconds >= eighth * (1 + progress.validations)

    def _reason_to_stop(self) -> str:
        """Return why training ends after this update, or an empty string."""
        steps = self.settings.max_steps()
        if steps and self.progress.step >= steps:
            return f"{steps} steps done"
        minutes = self.settings.minutes
        if minutes and self.progress.seconds >= 60 * minutes:
            return f"{minutes:g} minutes are over"
        patience = self.settings.patience
        if patience and self.progress.since_best >= patience:
            return f"validation {self.settings.best} did not improve {patience} times in a row"
        return ""

    def _not_finite(self, step: int, found: str) -> str:
        folders = saved.checkpoint_folders(self.run)
        kept = f"The last good state is {folders[-1]}." if folders else "No checkpoint had been written yet."
        norm = " or model.norm=pre" if isinstance(self.model, Transformer) else ""
        return (
            f"Training stopped at step {step}: {found}. {kept} "
            f"A lower training.learning_rate, a longer training.warmup_steps{norm} usually helps."
        )

    def _random_name(self, rank: int) -> str:
        return f"random/{self.device.type}/{rank}"


def _at_least_one_row(batch: Batch) -> Batch:
    """Give a process that got no rows of a small batch one row of padding, which counts for nothing."""
    if len(batch):
        return batch
    pad = torch.full((1, 1), PAD)
    one = torch.ones(1, dtype=torch.long)
    return Batch(pad, one, pad, pad, one, source_tokens=0, target_tokens=0)


def training_precision(settings: TrainingSettings, device: torch.device) -> torch.dtype:
    """Return the type that products are computed in on a device."""
    if settings.precision == "auto":
        return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
    return torch.bfloat16 if settings.precision == "bfloat16" else torch.float32


def _random_state(device: torch.device) -> Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
