"""What a training will be: settings that were chosen, its speed by a few updates on made-up text, and its memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from locant.kernels.projected_cross_entropy import CHUNK_BYTES
from locant.models.architectures import ModelConfig, build_model
from locant.models.config import TransformerConfig
from locant.models.transformer import count_parameters
from locant.runtime import usable_memory
from locant.text import EOS, Batch
from locant.training.losses import TranslatorLoss
from locant.training.optimizers import build_optimizer
from locant.training.recipe import Recipe
from locant.training.settings import TrainingSettings, training_precision

_TIMED_UPDATES = 2
_MOST_PASSES, _MOST_OF_NEW = 50, 200
"""Passes over the text beyond which fine-tuning, and the training of a new model, are told to be shorter."""
_SMALL_BATCH = 1024
_BASE_MEMORY = 450e6
"""Bytes of Python, PyTorch and the tokenised text's buffers, whatever the model."""


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
    value: bool | int | float | str
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


@dataclass(frozen=True)
class Speed:
    """How fast a model trains here.

    Attributes:
        tokens_per_second: Target tokens, padding not counted.
        parameters: Of the model.
    """

    tokens_per_second: float
    parameters: int


MeasureSpeed = Callable[[ModelConfig, TrainingSettings, torch.device, tuple[float, float], int], Speed]
"""Measures a model: its configuration, settings, device, mean tokens of source and target, tokens of a batch."""


def measure_speed(
    config: ModelConfig,
    settings: TrainingSettings,
    device: torch.device,
    lengths: tuple[float, float],
    batch_tokens: int,
    *,
    updates: int = _TIMED_UPDATES,
) -> Speed:
    """Train a model on random ids, one update and those that are timed, and return how fast the latter were.

    Args:
        config: Of the model.
        settings: Optimiser, precision and R-Drop.
        device: Where it will train.
        lengths: Mean tokens of a source and of a target sentence, EOS included.
        batch_tokens: Tokens of a batch on the longer side.
        updates: How many are timed.
    """
    state = torch.random.get_rng_state()
    try:
        model = build_model(config).to(device)
        loss = TranslatorLoss(
            model, settings.label_smoothing, training_precision(settings, device), r_drop=settings.r_drop
        )
        optimizer = build_optimizer(model, settings)
        optimizer.set_learning_rate(1e-6)
        batch = _random_batch(config, lengths, batch_tokens).to(device)
        started = 0.0
        for update in range(1 + updates):
            if update == 1:
                _synchronize(device)
                started = time.perf_counter()
            loss(batch)[0].backward()
            optimizer.step()
            optimizer.zero_grad()
        _synchronize(device)
        seconds = (time.perf_counter() - started) / updates
    finally:
        torch.random.set_rng_state(state)
    return Speed(batch.target_tokens / seconds, count_parameters(model))


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _random_batch(config: ModelConfig, lengths: tuple[float, float], tokens: int) -> Batch:
    """Return a batch of random ids without padding."""
    source_length, target_length = (max(2, round(length)) for length in lengths)
    rows = max(1, tokens // max(source_length, target_length))
    source = torch.randint(EOS + 1, config.source_vocab_size, (rows, source_length))
    target = torch.randint(EOS + 1, config.target_vocab_size, (rows, target_length))
    return Batch(
        source=source,
        source_lengths=torch.full((rows,), source_length),
        target_input=target,
        target_output=target,
        target_lengths=torch.full((rows,), target_length),
        source_tokens=source.numel(),
        target_tokens=target.numel(),
    )


def memory_needed(config: ModelConfig, settings: TrainingSettings, batch_tokens: int) -> float:
    """Return an estimate of the most memory that training takes, in bytes.

    Weights, gradients and the optimiser's two moments; what the layers keep for the backward pass of one batch; some
    rows of logits. On CUDA it is memory of the device.

    Args:
        config: Of the model.
        settings: Of training.
        batch_tokens: Tokens of a batch on the longer side.
    """
    with torch.device("meta"):
        parameters = count_parameters(build_model(config))
    copies = 4 + (1 if settings.ema_decay else 0)
    passes = 2 if settings.r_drop else 1
    if isinstance(config, TransformerConfig):
        # Inputs of products and norms: attention keeps about ten rows of d_model, twice in the decoder.
        encoder = config.encoder_layers * (12 * config.d_model + 2 * config.d_ff)
        decoder = config.decoder_layers * (22 * config.d_model + 2 * config.d_ff)
        kept = 4 * (encoder + decoder)
    else:
        kept = 4 * 40 * config.d_model
    return _BASE_MEMORY + 4 * copies * parameters + passes * batch_tokens * kept + 3 * CHUNK_BYTES


def memory_warning(config: ModelConfig, settings: TrainingSettings, batch_tokens: int, device: torch.device) -> str:
    """Return a sentence on what to lower where training needs more memory than there is; empty where it fits.

    Args:
        config: Of the model.
        settings: Of training.
        batch_tokens: Tokens of a batch on the longer side.
        device: Where it will train.
    """
    limit = usable_memory(device)
    needed = memory_needed(config, settings, batch_tokens)
    if limit is None or needed <= limit:
        return ""
    if memory_needed(config, settings, min(batch_tokens, _SMALL_BATCH)) <= limit:
        lower = f"lower batches.tokens, now {batch_tokens}, and raise training.gradient_accumulation_steps instead"
    else:
        lower = "choose a smaller model, by model.preset or model.d_model"
    place = "the device" if device.type == "cuda" else "this machine or its control group"
    return (
        f"Training needs an estimated {needed / 1e9:.1f} GB of memory, and {place} has {limit / 1e9:.1f} GB: {lower}."
    )


def warmup_warning(settings: TrainingSettings) -> str:
    """Return a sentence on what to lower where training ends before its warm-up does; empty where it does not.

    Args:
        settings: Of training; a budget in minutes holds the warm-up to a tenth of the time.
    """
    steps = settings.budget().steps
    if settings.minutes or not steps or settings.warmup_steps <= steps:
        return ""
    return (
        f"training.warmup_steps is {settings.warmup_steps:,} and training.steps {steps:,}, so the learning rate ends "
        f"at {steps / settings.warmup_steps:.2g} of its peak. A tenth of the updates is usual: "
        f"training.warmup_steps={max(1, round(0.1 * steps))}."
    )


def passes_warning(settings: TrainingSettings, passes: float, *, finetuning: bool = False) -> str:
    """Return a sentence on what to lower where a text is passed over so often that it is learned by heart.

    Args:
        settings: Of training; minutes or steps are its budget.
        passes: Passes over the text in that budget.
        finetuning: Whether the model knows another text, which it may forget meanwhile.
    """
    most = _MOST_PASSES if finetuning else _MOST_OF_NEW
    if passes <= most:
        return ""
    share = most / passes
    lower = []
    if settings.minutes:
        lower.append(f"training.minutes={settings.minutes * share:.2g}")
    if settings.steps:
        lower.append(f"training.steps={max(1, round(settings.steps * share))}")
    if finetuning:
        why = "which fine-tuning learns by heart. A lower one may do"
    else:
        why = "which a new model learns by heart. More text helps it more than more time, and a lower one may do"
    return f"The budget is {format_passes(passes)} passes over the text, {why}: {' and '.join(lower)} is {most} passes."
