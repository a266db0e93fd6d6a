"""Variants of the translation task: building them, and training them as ``locant train`` does."""

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

from locant.errors import ConfigError, nearest
from locant.lab.variants import check_scheme, position_fields, share_weights, split_contender
from locant.models.architectures import build_model
from locant.models.config import TransformerConfig
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.rnn import RNNConfig
from locant.models.transformer import Transformer, count_parameters
from locant.text import Batch, BatchStream, Corpus, PreparedData
from locant.training import Recipe, StepReport, ValidationReport
from locant.training.run import validation
from locant.training.trainer import Trainer

RECURRENT = "rnn"
"""The contender that is no scheme: additive attention between recurrent networks (Bahdanau et al. 2015)."""

_OWN_OPTIONS = ("cell", "encoder_layers", "decoder_layers", "hidden_size", "dropout")


def is_recurrent(contender: str) -> bool:
    """Whether a contender is the recurrent model."""
    return split_contender(contender)[0] == RECURRENT


def check_translator(contender: str) -> None:
    """Raise ConfigError, naming the nearest known one, unless name and options are a scheme's or ``rnn``'s."""
    name, options = split_contender(contender)
    if name != RECURRENT:
        check_scheme(contender)
        return
    for option in options:
        if option not in _OWN_OPTIONS:
            raise ConfigError(
                f"The contender '{RECURRENT}' has no option '{option}'.{nearest(option, _OWN_OPTIONS)} "
                f"Known: {', '.join(_OWN_OPTIONS)}."
            )
    RNNConfig.parse({"source_vocab_size": 1, "target_vocab_size": 1, **options}, contender)


def build_translator(
    contender: str, base: TransformerConfig, seed: int, *, trained: int, longest: int
) -> EncoderDecoder[Any]:
    """Return an untrained model whose weights are those of every other contender wherever shapes allow.

    Args:
        contender: Name and options of a scheme, or ``rnn``. The recurrent model has the parameters of the Transformer
            without positions in number, by its ``hidden_size``, unless that is given.
        base: The Transformer; its positions do not count.
        seed: Of the initial weights.
        trained: Longest training sentence, in tokens.
        longest: Longest test sentence or translation, in tokens.

    Raises:
        ConfigError: The scheme cannot be built for these dimensions.
    """
    without = base.model_copy(update={"position": "none", "position_options": {}})
    torch.manual_seed(seed)
    if is_recurrent(contender):
        return build_model(_recurrent(without, split_contender(contender)[1]))
    plain = Transformer(without)
    position = position_fields(contender, head_dim=base.d_model // base.heads, trained=trained, longest=longest)
    model = Transformer(TransformerConfig.parse({**without.to_dict(), **position}, contender))
    share_weights(plain, model)
    return model


def _recurrent(transformer: TransformerConfig, options: dict[str, Any]) -> RNNConfig:
    shared = ("source_vocab_size", "target_vocab_size", "d_model", "dropout", "share_embeddings", "tie_output")
    fields = {**{name: getattr(transformer, name) for name in shared}, **options}
    if "hidden_size" in options:
        return RNNConfig.parse(fields, RECURRENT)
    wanted = _size(transformer)
    low, high = 1, 2  # the largest hidden size that does not exceed the Transformer lies from low to below high
    while _size(RNNConfig.parse({**fields, "hidden_size": high}, RECURRENT)) <= wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _size(RNNConfig.parse({**fields, "hidden_size": middle}, RECURRENT)) <= wanted:
            low = middle
        else:
            high = middle
    return RNNConfig.parse({**fields, "hidden_size": low}, RECURRENT)


def _size(config: TransformerConfig | RNNConfig) -> int:
    with torch.device("meta"):
        return count_parameters(build_model(config))


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
