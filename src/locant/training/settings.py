"""Settings of training and of fine-tuning, and learning rate schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from locant.errors import ConfigError
from locant.runtime import has_fast_bfloat16
from locant.settings import Settings
from locant.text import FilePair
from locant.training.budget import Budget
from locant.training.trained_parts import LoraSettings

OptimizerName = Literal["adamw", "muon", "schedule_free"]
"""AdamW; Muon for the matrices of hidden layers with AdamW for the rest; AdamW without a schedule."""


def learning_rate(settings: TrainingSettings, d_model: int, step: int, total_steps: float) -> float:
    """Return the learning rate of an update.

    ``inverse_sqrt`` is equation 3 of Vaswani et al. 2017: linear warm-up, then ``step^-0.5``. ``cosine`` and
    ``linear`` fall to zero at the last step, ``constant`` stays at the peak. Under a time budget ``total_steps`` is an
    estimate; warm-up is then held to a tenth of it, and ``inverse_sqrt`` ends in a linear fall to zero over the last
    fifth.

    Args:
        settings: Shape and peak of the schedule.
        d_model: Width of the model, for the paper's peak.
        step: The update, from 1.
        total_steps: Updates of the whole run.
    """
    peak = settings.peak_learning_rate(d_model)
    warmup: float = settings.warmup_steps
    if settings.minutes:
        warmup = max(1.0, min(warmup, 0.1 * total_steps))
    if step < warmup:
        return peak * step / warmup
    progress = min(1.0, (step - warmup) / max(1.0, total_steps - warmup))
    match settings.schedule:
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            return peak * (1 - progress)
        case "constant":
            return peak
        case "inverse_sqrt":
            rate = peak * math.sqrt(max(warmup, 1.0) / step)
            if settings.minutes:
                rate *= min(1.0, max(0.0, (total_steps - step) / (0.2 * total_steps)))
            return rate


class TrainingSettings(Settings):
    """Objective, optimiser, schedule, budget and bookkeeping; defaults follow Vaswani et al. 2017, section 5."""

    model_config = ConfigDict(allow_inf_nan=False)
    renamed: ClassVar[Mapping[str, str]] = {
        "clip_norm": "max_grad_norm",
        "accumulate": "gradient_accumulation_steps",
    }

    # Budget
    steps: int | None = Field(None, ge=1, description="Updates to train for; 100,000 when no time is given either")
    minutes: float | None = Field(None, gt=0, description="Time to train for; the schedule is fitted to it")

    # Objective and optimiser
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    learning_rate: float | None = Field(
        None, gt=0, description="Peak of the schedule; by default (d_model * warmup_steps)^-0.5, as in the paper"
    )
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    warmup_steps: int = Field(4000, ge=0)
    optimizer: OptimizerName = Field(
        "adamw", description="muon: for the matrices of hidden layers, AdamW for the rest; schedule_free: constant rate"
    )
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.98, ge=0, lt=1)
    adam_epsilon: float = Field(1e-9, gt=0)
    weight_decay: float = Field(0.0, ge=0, description="Decoupled (AdamW); 0 is Adam")
    max_grad_norm: float = Field(1.0, ge=0, description="Norm to which larger gradients are scaled; 0 does not clip")
    gradient_accumulation_steps: int = Field(1, ge=1, description="Batches for one update")
    r_drop: float = Field(0.0, ge=0, description="Weight of R-Drop's divergence; each batch is then computed twice")
    guided_alignment: float = Field(
        0.0, ge=0, description="Weight of a loss that teaches a head which words belong together; 0.05 is usual"
    )
    ema_decay: float | None = Field(
        None, gt=0, lt=1, description="Decay of a moving average of the weights, which is then the model"
    )

    # Machine
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 where hardware has it"
    )
    compile: bool = Field(
        False, description="torch.compile of encoder and decoder; minutes to start, never pays on CPU"
    )
    parallel: Literal["auto", "ddp", "fsdp"] = Field("auto", description="Under torchrun; auto: FSDP from 150M weights")

    # Validation and bookkeeping
    validate_every: int | None = Field(
        None, ge=1, description="Steps between validations; by default 1,000, or an eighth of the minutes"
    )
    validation_sentences: int = Field(500, ge=0, description="Sentences translated greedily for validation BLEU")
    best: Literal["loss", "bleu", "chrf"] = Field("loss", description="What decides which checkpoint is best")
    patience: int | None = Field(None, ge=1, description="Stop after this many validations without a better one")
    average: Literal["last", "best"] = "last"
    average_checkpoints: int = Field(5, ge=1, description="Checkpoints averaged at the end")
    log_every: int = Field(50, ge=1)
    checkpoint_minutes: float | None = Field(
        15, gt=0, description="Time between checkpoints, besides those of validations; null for these alone"
    )

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, data: Any) -> Any:
        if isinstance(data, dict):
            # Recipes of earlier runs have a key that is gone, with the value that changed nothing.
            data = {key: value for key, value in data.items() if (key, value) != ("accumulation_warmup", 0)}
            if data.get("optimizer") == "schedule_free":
                return {"schedule": "constant", **data}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.optimizer == "schedule_free" and self.schedule != "constant":
            raise ConfigError(
                f"training.optimizer schedule_free needs no schedule; leave training.schedule={self.schedule} out"
            )
        if self.best != "loss" and not self.validation_sentences:
            raise ConfigError(f"best is '{self.best}', which needs validation_sentences above 0")
        if self.learning_rate is None and not self.warmup_steps:
            raise ConfigError("without warmup_steps the peak learning_rate must be given")
        return self

    def peak_learning_rate(self, d_model: int) -> float:
        """Return the highest learning rate of the schedule (the paper's equation 3 at its peak, unless given)."""
        return self.learning_rate or (d_model * self.warmup_steps) ** -0.5

    def budget(self) -> Budget:
        """Return how long to train: 100,000 updates where neither these nor minutes are given."""
        return Budget(steps=self.steps if self.steps or self.minutes else 100_000, minutes=self.minutes)


def training_precision(settings: TrainingSettings, device: torch.device) -> torch.dtype:
    """Return the type that products are computed in on a device."""
    if settings.precision == "auto":
        return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
    return torch.bfloat16 if settings.precision == "bfloat16" else torch.float32


Parts = Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
"""One part of a model or a list of parts; see :func:`~locant.training.trained_parts.part_parameters`."""


class FineTuningSettings(Settings):
    """A model to start from, and how.

    Attributes:
        parent: A run, a model folder, a folder of a Marian, M2M-100 or NLLB model in Hugging Face's format, or a model
            on the Hub (``hf://user/model``).
        freeze: Parts that stay as they are: ``embeddings``, ``output``, ``norms``, ``biases``, ``positions``,
            ``encoder``, ``decoder``, ``self_attention``, ``cross_attention``, ``feed_forward``, layers such as
            ``encoder.layers.0``.
        train_only: Parts that are trained while all others stay as they are.
        layer_decay: Factor of the learning rate from each layer to the one below; 1 trains all alike (Howard and Ruder
            2018, section 3.1).
        lora: Low-rank adapters instead of the weights themselves, added to the weights in the end.
        extend_vocabulary: New subwords of the new text for each vocabulary, at most.
        keep_optimizer: Go on with the newest checkpoint of a run, its optimiser included, instead of its best model.
        other_languages: Let the corpus be of other languages than the parent's.
        source_language: Code of the source language as the parent knows it, in place of the corpus' own.
        target_language: Likewise of the target.
        parent_test: Test set of the parent's own text; by default that of its run.
        test_sentences: Sentences of each test set translated before and after; 0 for none.
    """

    parent: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value)] = Field(
        min_length=1
    )
    freeze: Parts = ()
    train_only: Parts = ()
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    lora: LoraSettings | None = None
    extend_vocabulary: int = Field(default=0, ge=0)
    keep_optimizer: bool = False
    other_languages: bool = False
    source_language: str | None = None
    target_language: str | None = None
    parent_test: FilePair | None = None
    test_sentences: int = Field(default=1000, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.keep_optimizer and (self.lora or self.extend_vocabulary):
            what = "lora" if self.lora else "extend_vocabulary"
            raise ConfigError(
                f"keep_optimizer goes on with the parent's own weights, to which {what} adds others; leave out one"
            )
        if self.lora and self.train_only:
            raise ConfigError("lora trains adapters alone, so train_only has no meaning; use lora.target_modules")
        return self
