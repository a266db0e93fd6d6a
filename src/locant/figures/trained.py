"""Trained models that figures show: that of a run folder, or numbers of one that come with Locant."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from locant.analysis.introspection import TokenPair, token_pair
from locant.errors import DataError
from locant.models.architectures import require_transformer
from locant.models.transformer import Transformer
from locant.training import load_run_evaluation
from locant.translation.translator import Translator

_RECORDS = Path(__file__).parent / "records"
_SENTENCE = range(8, 15)  # tokens of the sentence chosen where none is given


def read_record(name: str) -> dict[str, Any]:
    """Return a record: its numbers, and under ``command`` and ``machine`` how and where they were made."""
    record: dict[str, Any] = json.loads((_RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return record


def load_trained(run: Path, figure: str) -> tuple[Translator, Transformer]:
    """Load the Transformer of a run folder, or of a saved model, for a figure; on the CPU.

    Raises:
        CheckpointError: The folder is missing, or holds no trained model.
        ConfigError: Its model is no Transformer.
    """
    translator = Translator.from_pretrained(run, device="cpu")
    return translator, require_transformer(translator.model, f"The figure '{figure}'")


def sentence_pair(run: Path, translator: Translator, text: str | None, *, most: int) -> TokenPair:
    """Return a sentence and its translation by the model.

    Args:
        run: The run folder.
        translator: Of the run.
        text: The sentence; without one a short held-out sentence that the run was evaluated on.
        most: Tokens that can be drawn.

    Raises:
        CheckpointError: There is no text, and the run has not been evaluated.
        DataError: The sentence is empty, or it or its translation has too many tokens.
    """
    if text is None:
        sources = load_run_evaluation(run).sources
        lengths = [len(ids) for ids in translator.tokenizers.source.encode(sources)]
        short = [source for source, length in zip(sources, lengths, strict=True) if length in _SENTENCE]
        text = short[0] if short else sources[int(np.argmin(lengths))]
    if not text.strip():
        raise DataError("--text is empty; give a sentence.")
    pair = token_pair(translator.tokenizers, text, translator.translate(text), translator.prefixes)
    longest = max(len(pair.source), len(pair.target))
    if longest > most:
        raise DataError(f"The sentence or its translation has {longest} tokens, of which at most {most} can be drawn.")
    return pair


def readable(tokens: Sequence[str]) -> list[str]:
    """Return tokens as people write them: only letters that continue a word are marked, by a hyphen before them."""
    special = {"<s>": "(begin)", "</s>": "(end)", "▁": "␣"}
    return [special.get(token) or (f"-{token}" if token.isalnum() else token.removeprefix("▁")) for token in tokens]
