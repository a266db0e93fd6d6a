"""Variants of the translation task: building them, and training them as ``locant train`` does."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from locant.lab.digests import ids_digest
from locant.lab.language_model_training import TrainingResult, mean_of_last_tenth
from locant.lab.variants import check_scheme, position_fields, require_options, share_weights, split_variant
from locant.models.architectures import build_model
from locant.models.config import TransformerConfig
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.rnn import RNNConfig
from locant.models.transformer import Transformer, count_parameters
from locant.text import BatchStream, Corpus, PreparedData
from locant.training import Recipe, StepReport, TrainingCallback, ValidationReport
from locant.training.budget import Clock
from locant.training.evaluation import validation
from locant.training.losses import TranslatorLoss
from locant.training.trainer import Trainer

RECURRENT = "rnn"
"""The variant that is no scheme: additive attention between recurrent networks (Bahdanau et al. 2015)."""

_LARGEST_HIDDEN = 1 << 16
_OWN_OPTIONS = ("cell", "encoder_layers", "decoder_layers", "hidden_size", "dropout")


def is_recurrent(variant: str) -> bool:
    """Whether a variant is the recurrent model."""
    return split_variant(variant)[0] == RECURRENT


def check_translator(variant: str) -> None:
    """Raise ConfigError, naming the nearest known one, unless name and options are a scheme's or ``rnn``'s."""
    name, options = split_variant(variant)
    if name != RECURRENT:
        check_scheme(variant)
        return
    require_options(name, options, _OWN_OPTIONS)
    RNNConfig.parse({"source_vocab_size": 1, "target_vocab_size": 1, **options}, variant)


def build_translator(
    variant: str, base: TransformerConfig, seed: int, *, trained: int, longest: int
) -> EncoderDecoder[Any]:
    """Return an untrained model whose weights are those of every other variant wherever shapes allow.

    Args:
        variant: Name and options of a scheme, or ``rnn``. The recurrent model has the parameters of the Transformer
            without positions in number, by its ``hidden_size``, unless that is given.
        base: The Transformer; its positions do not count.
        seed: Of the initial weights.
        trained: Longest training sentence, in tokens.
        longest: Longest test sentence or translation, in tokens.

    Raises:
        ConfigError: The scheme cannot be built for these dimensions.
    """
    without = base.with_positions(position="none")
    torch.manual_seed(seed)
    if is_recurrent(variant):
        return build_model(_recurrent(without, split_variant(variant)[1]))
    plain = Transformer(without)
    position = position_fields(variant, head_dim=base.blocks().head_features, trained=trained, longest=longest)
    model = Transformer(base.with_positions(variant, **position))
    share_weights(plain, model)
    return model


def _recurrent(transformer: TransformerConfig, options: dict[str, Any]) -> RNNConfig:
    shared = ("source_vocab_size", "target_vocab_size", "d_model", "dropout", "share_embeddings", "tie_output")
    fields = {**{name: getattr(transformer, name) for name in shared}, **options}
    if "hidden_size" in options:
        return RNNConfig.parse(fields, RECURRENT)

    def sized(hidden_size: int) -> RNNConfig:
        return RNNConfig.parse({**fields, "hidden_size": hidden_size}, RECURRENT)

    def parameters(config: TransformerConfig | RNNConfig) -> int:
        with torch.device("meta"):
            return count_parameters(build_model(config))

    # The largest hidden size that does not exceed the Transformer.
    sizes = range(1, _LARGEST_HIDDEN)
    return sized(max(1, bisect_right(sizes, parameters(transformer), key=lambda size: parameters(sized(size)))))


class _UpdateTimes(TrainingCallback):
    """Takes the time of updates alone, and keeps the losses."""

    def __init__(self, progress: Callable[[float], None]) -> None:
        self.clock = Clock()
        self.seconds = 0.0
        self.losses: list[float] = []
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
) -> TrainingResult:
    """Train a model in place; at the end it has the weights that ``locant train`` would publish.

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

    def publish(trained: EncoderDecoder[Any]) -> None:
        published.update({name: value.detach().clone() for name, value in trained.named_parameters()})

    callback = _UpdateTimes(progress)
    torch.manual_seed(recipe.seed + 1)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            Path(folder),
            TranslatorLoss.of(model, recipe.training, device),
            recipe.training,
            batches=stream,
            stages=corpus.stages,
            validate=validation(recipe, corpus, data),
            publish=publish,
            callback=callback,
            device=device,
        )
        trainer.train()
    model.load_state_dict(published, strict=False)  # tied matrices are stored once
    model.eval()
    done, first_batch = trainer.progress, ids_digest(first.source, first.target_input)
    loss = mean_of_last_tenth(callback.losses)
    return TrainingResult(done.step, done.target_tokens, callback.seconds, loss, first_batch)
