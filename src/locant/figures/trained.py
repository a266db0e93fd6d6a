"""The trained model of a run folder, and its tokens as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from locant.models.architectures import require_transformer
from locant.models.transformer import Transformer
from locant.training import load_run_evaluation
from locant.translation.translator import Translator


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


RECORDED = (
    "Without --run it shows a record: the translator of the recipe bible-german-english after 3,000 updates; "
    "docs/figures.md has the command."
)
"""What the captions of figures with such a record say about it."""

_SENTENCE = range(8, 15)  # tokens of the sentence chosen where none is given


def short_sentence(run: Path, translator: Translator) -> str:
    """Return a short held-out sentence that a run was evaluated on.

    Raises:
        CheckpointError: The run has not been evaluated.
    """
    sources = load_run_evaluation(run).sources
    lengths = [len(ids) for ids in translator.tokenizers.source.encode(sources)]
    short = [source for source, length in zip(sources, lengths, strict=True) if length in _SENTENCE]
    return short[0] if short else sources[int(np.argmin(lengths))]


def readable(tokens: Sequence[str]) -> list[str]:
    """Return tokens as people write them: only letters that continue a word are marked, by a hyphen before them."""
    special = {"<s>": "(begin)", "</s>": "(end)", "▁": "␣"}
    return [special.get(token) or (f"-{token}" if token.isalnum() else token.removeprefix("▁")) for token in tokens]
