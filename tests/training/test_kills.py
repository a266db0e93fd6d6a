"""Kills at random moments of preparation, training, validation, averaging and exporting.

A few with a fixed seed; ``make chaos`` sends fifty, with another seed each time. LOCANT_KILLS and LOCANT_KILLS_SEED in
the environment say how many and which.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import yaml
from processes import start_locant
from safetensors.torch import load_file

from locant.files import file_digest, is_workplace, workplace
from locant.models import load_model_folder
from locant.text import TokenCache
from locant.training import load_run_recipe, read_metrics
from locant.training.checkpoint import checkpoint_folders, find_checkpoint
from locant.training.recipe import apply_overrides

CHANGES = [
    "tokenizer.sampling=0.1",
    "training.steps=24",
    "training.validate_every=6",
    "training.checkpoint_minutes=0.001",
]


def content(folder: Path) -> dict[str, str]:
    """Digests of an exported model; its card tells how long the training took."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def assert_readable(run: Path) -> None:
    """Whatever has its final name can be read."""
    unfinished = ("sampled-", ".locant-")
    named = [path for path in run.rglob("*") if not any(part.startswith(unfinished) for part in path.parts)]
    for path in named:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".safetensors":
            load_file(path)
        elif path.name == "cache.json":
            TokenCache(path.parent)
    for folder in checkpoint_folders(run):
        find_checkpoint(folder).read()
    if (run / "recipe.yaml").exists():
        load_run_recipe(run)
    if (run / "config.json").exists():
        load_model_folder(run, device="cpu")


def curves(run: Path) -> list[dict]:
    timed = ("seconds", "tokens_per_second")
    return [{key: value for key, value in row.items() if key not in timed} for row in read_metrics(run)]


def finish(command: Sequence[str | Path], log: Path) -> float:
    """Run a command to its end and return how many seconds it took."""
    started = time.monotonic()
    process = start_locant(command, log)
    process.join(300)
    assert process.exitcode == 0, log.read_text()
    return time.monotonic() - started


def test_kills_at_random_moments_lose_nothing(recipe_data, tmp_path):
    pytest.importorskip("ctranslate2")
    kills, seed = int(os.environ.get("LOCANT_KILLS", "6")), int(os.environ.get("LOCANT_KILLS_SEED", "1"))
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(apply_overrides(recipe_data, CHANGES)))
    log, draw = tmp_path / "log", random.Random(seed)

    def commands(name: str) -> list[list[str | Path]]:
        run = tmp_path / name / "run"
        return [
            ["train", tmp_path / "recipe.yaml", "--output", run, "--resume-if-exists"],
            ["export", run, "--to", "ctranslate2", "--output", tmp_path / name / "exported"],
        ]

    lengths = [finish(command, log) for command in commands("whole")]
    whole = tmp_path / "whole"
    sent, number = 0, 0
    while sent < kills:
        number += 1
        found = tmp_path / str(number)
        for command, seconds in zip(commands(found.name), lengths, strict=True):
            while sent < kills:
                process = start_locant(command, log)
                process.join(draw.uniform(0, seconds))
                if not process.is_alive():
                    break
                process.kill()
                process.join()
                sent += 1
                assert_readable(found / "run")
                assert not (found / "exported").exists() or content(found / "exported") == content(whole / "exported")
            if not (found / "exported").exists():
                finish(command, log)
        assert curves(found / "run") == curves(whole / "run"), f"seed {seed}"
        ours, theirs = (load_file(folder / "run" / "model.safetensors") for folder in (found, whole))
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
        assert content(found / "exported") == content(whole / "exported")
        # A kill just after something got its name leaves an empty folder, which the next that writes there removes.
        for folder in {path.parent for path in found.rglob("*") if is_workplace(path)}:
            with workplace(folder):
                pass
        assert not [path for path in found.rglob("*") if is_workplace(path)]
