"""Models of a preset with random weights, to measure speed with: how fast one is, its weights do not say."""

from __future__ import annotations

from pathlib import Path

import torch

from locant.models import build_model, load_model_folder, preset, save_model_folder


def untrained(name: str, like: Path, folder: Path) -> Path:
    """Write a model of a preset and return its folder.

    Random weights do not end their sentences, so a translation is cut off when it has as many tokens as its source,
    which is what translations have on the average.

    Args:
        name: Of the preset.
        like: A model folder whose tokenizers and search it has.
        folder: Where it is written.
    """
    found = load_model_folder(like, device="cpu")
    tokenizers = found.tokenizers
    config = preset(
        name, source_vocab_size=tokenizers.source.vocab_size, target_vocab_size=tokenizers.target.vocab_size
    )
    torch.manual_seed(0)
    save_model_folder(
        folder,
        build_model(config),
        tokenizers,
        found.decoding.model_copy(update={"max_length_ratio": 1.0, "max_length_extra": 1}),
        source_language=found.source_language,
        target_language=found.target_language,
    )
    return folder
