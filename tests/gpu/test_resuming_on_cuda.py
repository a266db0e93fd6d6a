"""Trainings on CUDA that go on from a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from toy_language import sentences

from locant.training import read_metrics, resume_training, train

MODEL = {"preset": "tiny", "d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1}


@pytest.mark.parametrize("position", ["sinusoidal", "randomised"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon", "schedule_free"])
def test_a_resumed_training_equals_a_whole_one(tmp_path: Path, optimizer: str, position: str) -> None:
    """The states of the optimiser, and the numbers that are drawn on the GPU and on the CPU, go on."""
    if optimizer == "schedule_free":
        pytest.importorskip("schedulefree")
    for split, count in (("train", 200), ("valid", 20)):
        pairs = sentences(count, seed=len(split))
        for side, name in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / f"{split}.{name}").write_text(text, encoding="utf-8")
    options = {"max_positions": 512, "evaluation_length": 128} if position == "randomised" else {}
    recipe = {
        "corpus": {
            "kind": "files",
            "folder": str(tmp_path),
            **{split: {"source": f"{split}.en", "target": f"{split}.de"} for split in ("train", "valid")},
        },
        "tokenizer": {"vocab_size": 34, "joint": True, "character_coverage": 1.0},
        "max_tokens": 128,
        "batches": {"tokens": 256},
        "model": {**MODEL, "position": position, "position_options": options},
        "training": {
            "steps": 2,
            "learning_rate": 0.01,
            "warmup_steps": 2,
            "schedule": "constant",
            "optimizer": optimizer,
            "validate_every": 2,
            "validation_sentences": 0,
            "log_every": 1,
            "device": "cuda",
            "precision": "float32",
        },
        "decoding": {"beam": 1},
    }
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    train(recipe, resumed)
    shutil.copytree(resumed, tmp_path / "parent")
    resume_training(resumed, training={"steps": 4})
    train(recipe, whole, training={"steps": 4})
    losses = [[row["loss"] for row in read_metrics(run) if row["kind"] == "training"] for run in (whole, resumed)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)  # sums of a GPU differ from run to run
    finetuning = {"parent": str(tmp_path / "parent"), "keep_optimizer": True}
    given = {key: value for key, value in recipe.items() if key not in ("tokenizer", "model")}
    assert train(given, tmp_path / "kept", finetuning=finetuning, training={"steps": 2}).steps == 2
