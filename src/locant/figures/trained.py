"""The trained model of a run folder, and its tokens as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from locant.models.architectures import require_transformer
from locant.models.transformer import Transformer
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


def readable(tokens: Sequence[str]) -> list[str]:
    """Return tokens as people write them: only letters that continue a word are marked, by a hyphen before them."""
    special = {"<s>": "(begin)", "</s>": "(end)", "▁": "␣"}
    return [special.get(token) or (f"-{token}" if token.isalnum() else token.removeprefix("▁")) for token in tokens]
