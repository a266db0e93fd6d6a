from __future__ import annotations

from pathlib import Path

import pytest
from toy_language import sentences

from locant.training import Recipe, train


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for split, count in (("train", 600), ("valid", 40), ("test", 30)):
        pairs = sentences(count, seed=len(split))
        (folder / f"{split}.en").write_text("".join(f"{source}\n" for source, _ in pairs), encoding="utf-8")
        (folder / f"{split}.de").write_text("".join(f"{target}\n" for _, target in pairs), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def recipe_data(corpus: Path) -> dict:
    """A recipe that trains in seconds and leaves nothing to choose."""
    return {
        "corpus": {
            "kind": "files",
            "folder": str(corpus),
            "source_language": "en",
            "target_language": "de",
            **{split: {"source": f"{split}.en", "target": f"{split}.de"} for split in ("train", "valid", "test")},
        },
        "cleaning": {"overlap": False, "duplicates": False},
        "tokenizer": {"vocab_size": 34, "joint": True, "character_coverage": 1.0},
        "max_tokens": 256,
        "batches": {"tokens": 256},
        "model": {
            "preset": "tiny",
            "d_model": 32,
            "d_ff": 64,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "dropout": 0.1,
            "norm": "post",
            "position": "sinusoidal",
        },
        "training": {
            "steps": 30,
            "learning_rate": 0.01,
            "warmup_steps": 10,
            "schedule": "inverse_sqrt",
            "average_checkpoints": 5,
            "validate_every": 10,
            "validation_sentences": 8,
            "log_every": 1,
            "device": "cpu",
            "precision": "float32",  # the same on every machine
        },
        "decoding": {"beam": 2},
    }


@pytest.fixture(scope="session")
def finished(recipe_data: dict, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the recipe, which tests leave as it is: one that evaluates has a copy."""
    run = tmp_path_factory.mktemp("runs") / "finished"
    train(Recipe.parse(recipe_data), run)
    return run
