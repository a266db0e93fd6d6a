"""The numbers behind the figures of a trained model, read from its run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.analysis.introspection import introspect, token_pair
from locant.analysis.position_probe import StackReadings, probe_positions
from locant.errors import CheckpointError, ConfigError, DataError
from locant.figures import HeadBiases, HeadWeights, ProbeCurve
from locant.figures.drawing import Numbers
from locant.models.architectures import require_transformer
from locant.models.transformer import Transformer
from locant.positions.relative import RelativeBias
from locant.training import load_run_evaluation, read_metrics
from locant.translation.translator import Translator

_MOST_TOKENS = 40  # of a sentence whose attention can still be read
_SENTENCE = range(8, 15)  # tokens of the sentence chosen where none is given
_PROBE_SENTENCES, _PROBE_TOKENS = 240, 128


def load_trained(run: Path, purpose: str) -> tuple[Translator, Transformer]:
    """Load the Transformer of a run folder, on the CPU.

    Args:
        run: The run folder, or that of a saved model.
        purpose: What it is wanted for, as the subject of a sentence.

    Raises:
        CheckpointError: The folder is missing, or holds no trained model.
        ConfigError: Its model is no Transformer.
    """
    translator = Translator.from_pretrained(run, device="cpu")
    return translator, require_transformer(translator.model, purpose)


def attention_weights(run: Path, text: str | None) -> list[HeadWeights]:
    """Return the attention weights of a sentence and its translation by the model.

    Args:
        run: The run folder.
        text: A sentence; without one a short held-out sentence of the run's evaluation is taken.

    Raises:
        CheckpointError: The folder holds no trained model, or without ``text``: the run has not been evaluated.
        DataError: The sentence is empty, or too long to be read in a figure.
        ConfigError: The model is no Transformer.
    """
    translator, model = load_trained(run, "The figure 'attention'")
    if text is None:
        sources = load_run_evaluation(run).sources
        lengths = [len(ids) for ids in translator.tokenizers.source.encode(sources)]
        short = [source for source, length in zip(sources, lengths, strict=True) if length in _SENTENCE]
        text = short[0] if short else sources[int(np.argmin(lengths))]
    if not text.strip():
        raise DataError("--text is empty; give a sentence.")
    pair = token_pair(translator.tokenizers, text, translator.translate(text), translator.prefixes)
    longest = max(len(pair.source), len(pair.target))
    if longest > _MOST_TOKENS:
        raise DataError(f"The sentence pair has up to {longest} tokens, of which at most {_MOST_TOKENS} can be drawn.")
    seen = introspect(model, pair.source, pair.target)
    source, target = (readable(tokens) for tokens in (pair.source_tokens, pair.target_tokens))
    return [
        HeadWeights("Encoder: source to source", _stacked(seen.encoder_attention), source, source),
        HeadWeights("Decoder: target to earlier target", _stacked(seen.decoder_attention), target, target),
        HeadWeights("Cross-attention: target to source", _stacked(seen.cross_attention), target, source),
    ]


def _stacked(layers: Sequence[torch.Tensor]) -> Numbers:
    return torch.stack(list(layers)).double().numpy()


def readable(tokens: Sequence[str]) -> list[str]:
    """Return tokens as people write them: only letters that continue a word are marked, by a hyphen before them."""
    special = {"<s>": "(begin)", "</s>": "(end)", "▁": "␣"}
    return [special.get(token) or (f"-{token}" if token.isalnum() else token.removeprefix("▁")) for token in tokens]


@dataclass(frozen=True)
class Probed:
    """Readings of the position; the fields are the arguments of :func:`locant.figures.probe`."""

    stacks: dict[str, list[ProbeCurve]]
    stages: dict[str, list[str]]
    guesses: dict[str, float]


def position_readings(run: Path) -> Probed:
    """Return how well positions are read along the layers of a model, with and without its residual connections.

    The sentences are those of the run's evaluation, with their reference translations.

    Raises:
        CheckpointError: The folder holds no trained model, or the run has not been evaluated.
        DataError: There are too few sentences.
        ConfigError: The model is no Transformer.
    """
    translator, model = load_trained(run, "The figure 'probe'")
    evaluation = load_run_evaluation(run)
    tokens = (
        token_pair(translator.tokenizers, *pair) for pair in zip(evaluation.sources, evaluation.references, strict=True)
    )
    longest = min(_PROBE_TOKENS, model.max_positions or _PROBE_TOKENS)
    usable = [(one.source, one.target) for one in tokens if max(len(one.source), len(one.target)) <= longest]
    step = max(1, len(usable) // _PROBE_SENTENCES)
    pairs = usable[::step][:_PROBE_SENTENCES]
    probes = {
        "with residual connections": probe_positions(model, pairs),
        "without them": probe_positions(model, pairs, residuals=False),
    }
    found: Mapping[str, dict[str, StackReadings]] = {
        stack: {label: getattr(one, stack.lower()) for label, one in probes.items()} for stack in ("Encoder", "Decoder")
    }
    return Probed(
        stacks={stack: [_curve(label, one) for label, one in curves.items()] for stack, curves in found.items()},
        stages={
            stack: ["words alone", "input", *(f"layer {n}" for n in range(1, len(next(iter(curves.values())).layers)))]
            for stack, curves in found.items()
        },
        guesses={stack: next(iter(curves.values())).guess for stack, curves in found.items()},
    )


def _curve(label: str, readings: StackReadings) -> ProbeCurve:
    along = (readings.words, *readings.layers)
    return ProbeCurve(label, np.array([one.r2 for one in along]), np.array([one.error for one in along]))


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return the metric rows of a run.

    Raises:
        CheckpointError: The folder holds no metrics.
    """
    try:
        return read_metrics(run)
    except OSError as error:
        raise CheckpointError(f"{run} holds no metrics of a training run ({error.strerror}).") from None


def metric_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Numbers]:
    """Return what the curves of training show, as ``KIND KEY`` arrays; a value that is missing is NaN."""
    shown = {
        "training": ("step", "nll", "learning_rate", "tokens_per_second"),
        "validation": ("step", "loss", "bleu", "chrf"),
    }
    return {
        f"{kind} {key}": np.array([row.get(key) for row in rows if row["kind"] == kind], dtype=float)
        for kind, keys in shown.items()
        for key in keys
    }


def learned_biases(run: Path, *, length: int) -> tuple[Numbers, list[HeadBiases]]:
    """Return the score biases that a model has learned, and the distances, ``[length]``.

    Raises:
        CheckpointError: The folder holds no trained model.
        ConfigError: The model is no Transformer, or its scheme is not a bias of the distance.
    """
    _, model = load_trained(run, "The figure 'bias'")
    distances, name = torch.arange(length), model.config.position
    schemes = []
    for title, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        scheme = stack.scheme(0)
        if not isinstance(scheme, RelativeBias):
            raise ConfigError(
                f"The model of {run} tells positions by '{name}', which is no bias of the distance. Leave out --run "
                "for the biases of all schemes as they begin."
            )
        with torch.no_grad():
            values = scheme.bias(-distances).double().numpy()
        schemes.append(HeadBiases(f"{name}, {title} of {run.name}", values, stepped=name == "t5"))
    return distances.double().numpy(), schemes
