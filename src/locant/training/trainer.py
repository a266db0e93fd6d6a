"""Training of a translator in its run folder: validation, checkpoints and averaging around the loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from locant.errors import ConfigError, StoppedError, TrainingError
from locant.kernels.library import build_all
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.transformer import Transformer
from locant.runtime import attention_of_any_shape, explaining_memory
from locant.text import PAD, Batch, BatchStream, MixtureStage, StagePlace, prefetch
from locant.training import parallel
from locant.training.budget import Clock
from locant.training.callback import MetricsLog, StepReport, TrainingCallback, ValidationReport
from locant.training.checkpoint import (
    AVERAGE,
    Checkpoint,
    Progress,
    Snapshot,
    ValidationScores,
    average_in,
    average_snapshots,
    checkpoint_folders,
    prune_snapshots,
    save_checkpoint,
    save_snapshot,
    whole_snapshots,
)
from locant.training.loop import DivergedError, TrainingLoop, Update
from locant.training.optimizers import WeightAverage, build_optimizer
from locant.training.run_folder import resume_command
from locant.training.settings import TrainingSettings, learning_rate
from locant.training.stopping import StopRequest

# Batches prepared ahead of the one that trains.
_PREFETCH = 4

_LOWER = (
    "Lower batches.tokens and raise training.gradient_accumulation_steps as much, which trains the same, or train a "
    "smaller model. The last checkpoint is kept."
)

Validate = Callable[[EncoderDecoder[Any]], ValidationScores]
"""Measures a model on the validation set."""


class Trainer:
    """Trains a model and keeps its run folder.

    Args:
        run: The run folder.
        loss: Returns the summed loss and the summed negative log-likelihood of a batch, and holds the ``model`` that is
            trained, on CPU; it is moved to ``device``.
        settings: How to train.
        batches: The training batches of this process.
        stages: The stages of the corpus; none where it has only one.
        validate: Measures the model; runs on the first process alone.
        publish: Writes the model as the run's usable one.
        callback: Called as training goes on.
        device: Where to train.
        lr_scales: Factor of each parameter's learning rate, by name; 1 where it is not named.
        plain_weights: Returns the weights of a plain model from those that are trained, where adapters are.
    """

    def __init__(
        self,
        run: Path,
        loss: nn.Module,
        settings: TrainingSettings,
        *,
        batches: BatchStream,
        stages: Sequence[MixtureStage] = (),
        validate: Validate,
        publish: Callable[[EncoderDecoder[Any]], None],
        callback: TrainingCallback,
        device: torch.device,
        lr_scales: Mapping[str, float] | None = None,
        plain_weights: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None = None,
    ) -> None:
        self.run, self.settings, self.device = run, settings, device
        self.batches, self.validate, self.publish, self.callback = batches, validate, publish, callback
        self.plain_weights = plain_weights
        self.stages = stages
        self.progress = Progress()
        self.model: EncoderDecoder[Any] = loss.model  # type: ignore[assignment]
        self.distributed = parallel.DistributedModel(loss, self.model, settings.parallel, device)
        if settings.compile and isinstance(self.model, Transformer):
            self.model.encoder.compile(dynamic=True)
            self.model.decoder.compile(dynamic=True)
        self.optimizer = build_optimizer(self.model, settings, sharded=self.distributed.sharded, lr_scales=lr_scales)
        decay = settings.ema_decay
        self.average = WeightAverage(self.model.named_parameters(), decay) if decay else None
        self.loop: TrainingLoop[Batch] = TrainingLoop(
            self.distributed,
            self.optimizer,
            lambda step, total: learning_rate(settings, self.model.config.d_model, step, total),
            settings.budget(),
            device=device,
            max_grad_norm=settings.max_grad_norm,
            gradient_accumulation_steps=settings.gradient_accumulation_steps,
            asked=lambda: self._request.asked,
        )
        self._request = StopRequest()
        self._saved = 0.0  # seconds trained at the newest checkpoint
        self._metrics: MetricsLog | None = None

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, on the disk or in memory.

        Raises:
            ConfigError: The model, or the stages of the corpus, are not those that the checkpoint is of.
        """
        progress = checkpoint.progress
        if progress.stage and progress.stage >= len(self.stages):
            raise ConfigError(
                f"The run is in stage {progress.stage + 1} of its corpus, but corpus.stages has {len(self.stages)} "
                "now. Leave the stages that are begun in the recipe."
            )
        self.progress = progress
        if checkpoint.folder:
            checkpoint = checkpoint.read()
        parameters = dict(self.model.named_parameters())
        _require_same_model(parameters, checkpoint.weights)
        kept: dict[str, dict[str, Tensor]] = {}
        counters, random = dict[str, Tensor](), dict[str, Tensor]()
        with torch.no_grad(), self.optimizer.evaluated_weights() if checkpoint.evaluated else nullcontext():
            for name, value in checkpoint.weights.items():
                parameters[name].copy_(parallel.like(value, parameters[name]))
                if self.average:
                    self.average.tensors[name].copy_(parameters[name])
            for path, value in checkpoint.optimizer.items():
                kind, name = path.split("/", 1)
                if kind == "random":
                    random[name] = value  # of all processes
                elif kind == "counter":
                    counters[path] = value
                elif kind != "average":
                    kept.setdefault(name, {})[kind] = parallel.like(value, parameters[name]) if value.dim() else value
                elif self.average:
                    self.average.tensors[name].copy_(parallel.like(value, parameters[name]))
            for name, states in kept.items():
                self.optimizer.restore(parameters[name], states)
            self.optimizer.restore_counters(counters)
        # A generator that earlier versions did not keep stays as it is.
        for name, generator in self._generators():
            if (state := random.get(f"{name}/{parallel.rank()}")) is not None:
                generator.set_state(state)

    def _content(self, *, evaluated: bool) -> Checkpoint:
        """Return what a checkpoint holds, on the first process; every process must call this.

        Args:
            evaluated: Whether the optimiser has put the weights in place that are evaluated.
        """
        parameters = dict(self.model.named_parameters())
        states = {
            f"{kind}/{name}": value
            for name, parameter in parameters.items()
            for kind, value in self.optimizer.state(parameter).items()
        }
        states |= self.optimizer.counters()
        if self.average:
            states |= {f"{AVERAGE}{name}": tensor for name, tensor in self.average.tensors.items()}
        weights, states = parallel.gathered(parameters), parallel.gathered(states)
        own = {kind: generator.get_state() for kind, generator in self._generators()}
        for number, generators in enumerate(parallel.gather(own)):
            states |= {f"random/{kind}/{number}": state for kind, state in generators.items()}
        return Checkpoint(weights, states, self.progress, evaluated)

    def _generators(self) -> list[tuple[str, torch.Generator]]:
        """Return the generators that a training draws from; some positions are drawn on the CPU wherever it runs."""
        found = [("cpu", torch.default_generator)]
        if self.device.type == "cuda":
            index = torch.cuda.current_device() if self.device.index is None else self.device.index
            found.append(("cuda", torch.cuda.default_generators[index]))
        return found

    def train(self) -> str:
        """Train until the budget is used or validation stops improving, and publish the best or the averaged model.

        Returns:
            Why training ended.

        Raises:
            TrainingError: The loss or the gradient was not finite; the last checkpoint is good.
            LocantError: The memory does not suffice; likewise.
            CheckpointError: The disk is full; the last checkpoint is good.
            StoppedError: SIGTERM came; all is saved.
        """
        self.model.train()
        if self.device.type == "cpu":
            build_all()  # which takes no part of a budget of minutes
        self.loop.progress, self.loop.clock = self.progress, Clock(self.progress.seconds)
        if parallel.rank() == 0:
            self._metrics = MetricsLog(self.run, self.progress.step)
        self.callback.on_start(self.loop.used(), str(self.device))
        self._saved = self.progress.seconds
        with (
            self._request.listening(),
            attention_of_any_shape(),
            closing(self._in_place()) as batches,
        ):
            if self.progress.step and self.progress.validated != self.progress.step and self._validation_due():
                self._validate_and_save()  # the run was stopped before it could
            try:
                with explaining_memory(_LOWER):
                    reason = self.loop.run(batches, self._after_update, self._reason_to_stop)
            except DivergedError as error:
                raise TrainingError(self._not_finite(error.step, error.found)) from None
        # It may have come when no update was left to notice.
        if self.loop.stopping or parallel.sum_of_numbers(int(self._request.asked), self.device):
            raise StoppedError(
                f"Stopped by SIGTERM after {self.progress.step:,} updates, which are saved. Go on by "
                f"`{resume_command(self.run)}`."
            )
        self._publish_chosen()
        if self._metrics:
            self._metrics.close()
        return reason

    def _in_place(self) -> Generator[Batch, None, None]:
        """Yield batches, stage by stage of the corpus, and keep the place in the data."""

        def due() -> int:
            """Return the stage that the next batch is of; none is gone back to."""
            over = [stage.ends(self.loop.used(), self.progress.step) for stage in self.stages]
            return max(self.progress.stage, over.index(False) if over else 0)

        while True:
            place = StagePlace(self.progress.stage, self.progress.stage_epoch) if self.stages else None
            stream = self.batches.start(self.progress.epoch, self.progress.batch, place)
            with closing(prefetch(stream, _PREFETCH, self.batches.interrupt)) as ahead:
                while (stage := due()) == self.progress.stage:
                    self.progress.epoch, index, batch = next(ahead)
                    self.progress.batch = index + 1
                    if not len(batch):  # a small one may lack rows for a process: padding counts for nothing
                        pad, one = torch.full((1, 1), PAD), torch.ones(1, dtype=torch.long)
                        batch = Batch(pad, one, pad, pad, one, source_tokens=0, target_tokens=0)
                    yield batch
            progress = self.progress
            progress.stage, progress.stage_epoch = stage, progress.epoch + 1  # it has epochs of its own
            progress.epoch, progress.batch = progress.stage_epoch, 0
            # Of the update that comes next: a run resumed before it begins the stage again.
            self._log("stage", {"step": progress.step + 1, "stage": stage + 1, "epoch": progress.epoch})
            self.callback.on_stage(stage + 1, len(self.stages))

    def _after_update(self, update: Update) -> None:
        """Report an update, every ``log_every`` steps to the log too, then validate and save where it is time."""
        progress, report = self.progress, None
        if self.average:
            progress.averaged += 1
            self.average.update(progress.averaged)
        for name, value in (("loss", update.loss), ("nll", update.nll), ("tokens", float(update.tokens))):
            progress.interval[name] = progress.interval.get(name, 0.0) + value
        if progress.step % self.settings.log_every == 0 or progress.step == 1:
            interval, progress.interval = progress.interval, {"since": progress.seconds}
            report = StepReport(
                step=progress.step,
                epoch=progress.epoch,
                loss=interval["loss"] / interval["tokens"],
                nll=interval["nll"] / interval["tokens"],
                learning_rate=update.learning_rate,
                gradient_norm=update.gradient_norm,
                tokens_per_second=interval["tokens"] / max(1e-9, progress.seconds - interval.get("since", 0.0)),
                seconds=progress.seconds,
            )
            self._log("training", asdict(report))
        self.callback.on_step(self.loop.used(), report)
        minutes = self.settings.checkpoint_minutes
        if self.loop.stopping:
            self._save()  # a validation that is due comes first when the run goes on
        elif self._validation_due():
            self._validate_and_save()
        elif minutes is not None and progress.seconds - self._saved >= 60 * minutes:
            self._save()

    def _log(self, kind: str, row: dict[str, Any]) -> None:
        """Write a row of metrics, on the first process."""
        if self._metrics:
            self._metrics.write(kind, row)

    def _save(self) -> None:
        """Write a checkpoint between validations."""
        before = self.loop.clock.seconds
        self._write(self._content(evaluated=False))
        self._saved = self.progress.seconds
        # Saving is no part of the speed of training.
        since = self.progress.interval.get("since", 0.0)
        self.progress.interval["since"] = since + self.loop.clock.seconds - before

    def _write(self, content: Checkpoint) -> None:
        """Write a checkpoint, and remove the snapshots that are not needed with it."""
        kept, best = content.progress.snapshots, content.progress.best

        def write() -> None:
            save_checkpoint(self.run, content)
            prune_snapshots(self.run, [*kept, best] if best else kept)

        parallel.from_first_process(write)

    def _validate_and_save(self) -> None:
        """Validate, keep the weights for averaging and write a checkpoint."""
        cuda = [self.device] if self.device.type == "cuda" else []
        # Training draws the same random numbers whether or not something else drew some in between.
        with self.optimizer.evaluated_weights(), torch.random.fork_rng(devices=cuda):
            content = self._content(evaluated=True)
            usable = average_in(content) if self.average else content.weights
            progress, report = parallel.from_first_process(lambda: self._validated(usable))
            self.progress = self.loop.progress = content.progress = progress
            self._write(content)
        self._saved = self.progress.seconds
        self.callback.on_validation(report)

    def _validated(self, usable: dict[str, Tensor]) -> tuple[Progress, ValidationReport]:
        """Return the new progress, and what validation found."""
        progress, settings = self.progress, self.settings
        if self.plain_weights:
            usable = self.plain_weights(usable)
        apart = self.distributed.sharded or self.average or self.plain_weights
        model = self._with_weights(usable) if apart else self.model
        model.eval()
        scores = self.validate(model)
        self.model.train()
        snapshot = Snapshot(step=progress.step, **asdict(scores))
        if not math.isfinite(snapshot.loss):
            raise TrainingError(self._not_finite(progress.step, f"the validation loss was {snapshot.loss:g}"))
        better = progress.best is None or self._rank(snapshot) < self._rank(progress.best)
        progress.validations += 1
        progress.validated = progress.step
        progress.since_best = 0 if better else progress.since_best + 1
        if better:
            progress.best = snapshot
            self.publish(self._with_weights(usable))
        progress.snapshots.append(snapshot)
        if settings.average == "best":
            progress.snapshots.sort(key=self._rank, reverse=True)
        progress.snapshots = progress.snapshots[-settings.average_checkpoints :]
        if snapshot in progress.snapshots:
            snapshot.sha256 = save_snapshot(self.run, progress.step, usable)
        before, progress.seconds = progress.seconds, self.loop.clock.seconds
        progress.validation_ended, progress.validation_seconds = progress.seconds, progress.seconds - before
        # Validating is no part of the speed of training.
        progress.interval["since"] = progress.interval.get("since", 0.0) + progress.validation_seconds
        report = ValidationReport(step=progress.step, **asdict(scores), seconds=progress.seconds, best=better)
        self._log("validation", asdict(report))
        return progress, report

    def _publish_chosen(self) -> None:
        """Publish the mean of the kept snapshots, or the best single one where that is better on the validation set.

        The best one was published before, but the file may have been damaged since then.
        """

        def first_process() -> None:
            best, snapshots = self.progress.best, self.progress.snapshots
            if best is None:
                return
            whole = whole_snapshots(self.run, list({each.step: each for each in (*snapshots, best)}.values()))
            kept = [each for each in snapshots if each in whole]
            better = False
            if len(kept) > 1:
                model = self._with_weights(average_snapshots(self.run, kept)).eval()
                scores = self.validate(model)
                better = self._rank(scores) < self._rank(best)
                row = {"step": self.progress.step, **asdict(scores), "steps": [each.step for each in kept]}
                self._log("average", {**row, "published": better})
            if better:
                self.publish(model)
            elif best in whole:
                self.publish(self._with_weights(average_snapshots(self.run, [best])))

        parallel.from_first_process(first_process)

    def _with_weights(self, weights: dict[str, Tensor]) -> EncoderDecoder[Any]:
        """Return a model of its own, on the device, with the given weights."""
        model = type(self.model)(self.model.config)
        model.load_state_dict(weights, strict=False)  # tied matrices are stored once
        return model.to(self.device)

    def _rank(self, scores: ValidationScores) -> float:
        """Return a number that is smaller for better scores."""
        decides = self.settings.best
        return scores.loss if decides == "loss" else -(getattr(scores, decides) or 0.0)

    def _validation_due(self) -> bool:
        progress, settings = self.progress, self.settings
        if self.loop.reason_to_stop():
            return True
        if settings.validate_every or not settings.minutes:
            return progress.step % (settings.validate_every or 1000) == 0
        ended, took = progress.validation_ended, progress.validation_seconds
        return self.loop.budget.validation_due(progress.seconds, progress.validations, ended=ended, took=took)

    def _reason_to_stop(self) -> str:
        """Return why training ends before its budget does, or an empty string."""
        patience = self.settings.patience
        if patience and self.progress.since_best >= patience:
            return f"validation {self.settings.best} did not improve {patience} times in a row"
        return "stopped" if self.loop.stopping else ""

    def _not_finite(self, step: int, found: str) -> str:
        folders = checkpoint_folders(self.run)
        kept = f"The last good state is {folders[-1]}." if folders else "No checkpoint had been written yet."
        norm = " or model.norm=pre" if isinstance(self.model, Transformer) else ""
        return (
            f"Training stopped at step {step}: {found}. {kept} "
            f"A lower training.learning_rate, a longer training.warmup_steps{norm} usually helps."
        )


def _require_same_model(parameters: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Raise ConfigError where a checkpoint's weights are not those of a model, by names and shapes."""
    now, before = ({name: list(each.shape) for name, each in tensors.items()} for tensors in (parameters, weights))
    different = [name for name in (*before, *now) if before.get(name) != now.get(name)]
    if different:
        name = different[0]
        raise ConfigError(
            f"The run's checkpoint holds another model: {name} is {before.get(name, 'missing')} there and "
            f"{now.get(name, 'missing')} in the model of the recipe. A resumed run keeps its model: leave the sizes in "
            "model.* and the tokenizer as they were, or begin a new run."
        )
