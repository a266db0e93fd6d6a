"""Whole runs on a toy corpus."""

from __future__ import annotations

import itertools
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import safetensors.torch
import yaml

from locant.errors import CheckpointError, TrainingError
from locant.text import TextStore, TokenCache, plan_batches
from locant.training import (
    Recipe,
    TrainingCallback,
    evaluate,
    load_run_evaluation,
    read_metrics,
    resume_training,
    train,
)
from locant.training import run as run_module
from locant.training.checkpoint import checkpoint_folders
from locant.training.recipe import apply_overrides
from locant.translation import Translator


def losses(run: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in read_metrics(run) if row["kind"] == "training"]


def validations(run: Path) -> list[tuple]:
    rows = [row for row in read_metrics(run) if row["kind"] == "validation"]
    return [(row["step"], row["loss"], row["bleu"], row["chrf"]) for row in rows]


def test_a_run_learns_and_leaves_everything_behind(finished):
    curve = losses(finished)
    assert [step for step, _ in curve] == list(range(1, 31))
    assert curve[-1][1] < 0.7 * curve[0][1]
    for name in ("recipe.yaml", "environment.json", "data.json", "config.json", "model.safetensors", "tokenizer.json"):
        assert (finished / name).is_file(), name
    assert len(checkpoint_folders(finished)) == 2
    assert Recipe.parse(yaml.safe_load((finished / "recipe.yaml").read_text())).training.steps == 30
    assert list((finished / "tensorboard").iterdir())
    translator = Translator.from_pretrained(finished)
    assert isinstance(translator.translate("one two"), str)


def test_resuming_a_finished_run_changes_nothing_and_more_steps_go_on(finished, recipe_data, tmp_path):
    train(Recipe.parse(apply_overrides(recipe_data, ["training.steps=20"])), tmp_path / "run")
    curve = losses(tmp_path / "run")
    resume_training(tmp_path / "run")
    assert losses(tmp_path / "run") == curve
    # The schedule of this recipe does not depend on the number of steps, so going on equals never having stopped.
    resume_training(tmp_path / "run", ["training.steps=30"])
    assert losses(tmp_path / "run") == losses(finished)


def test_the_loss_of_accumulated_batches_is_their_mean_by_tokens(recipe_data, tmp_path):
    base = ["training.steps=1", "model.dropout=0", "training.log_every=1", "training.max_grad_norm=0"]
    train(
        Recipe.parse(apply_overrides(recipe_data, [*base, "training.gradient_accumulation_steps=3"])),
        tmp_path / "three",
    )
    rows = read_metrics(tmp_path / "three")
    recipe = Recipe.parse(apply_overrides(recipe_data, [*base, "training.steps=3", "training.learning_rate=1e-12"]))
    train(recipe, tmp_path / "one")
    single = [row for row in read_metrics(tmp_path / "one") if row["kind"] == "training"]
    # With a learning rate of nothing the three batches meet the same weights, so their mean by tokens is the loss.
    cache = TokenCache(tmp_path / "one" / "cache" / "train")
    lengths = cache.target.lengths
    plan = itertools.islice(plan_batches(cache.source.lengths, lengths, recipe.batches, seed=recipe.seed, epoch=0), 3)
    tokens = [int(lengths[batch].sum()) + len(batch) for batch in plan]
    expected = sum(row["loss"] * count for row, count in zip(single, tokens, strict=True)) / sum(tokens)
    assert rows[0]["loss"] == pytest.approx(expected, rel=1e-6)


def test_a_diverging_run_stops_and_keeps_the_last_good_state(recipe_data, tmp_path):
    run = tmp_path / "run"
    train(Recipe.parse(apply_overrides(recipe_data, ["training.steps=10"])), run)
    with pytest.raises(
        TrainingError, match=r"stopped at step 1\d: the .*loss was (nan|inf).*good state is .*step-00000010"
    ):
        resume_training(run, ["training.steps=20", "training.learning_rate=1e30"])
    assert [folder.name for folder in checkpoint_folders(run)] == ["step-00000010"]
    resume_training(run, ["training.steps=20", "training.learning_rate=0.01"])
    assert losses(run)[-1][0] == 20


def test_a_full_disk_keeps_the_last_good_checkpoint(recipe_data, tmp_path, monkeypatch):
    run, real = tmp_path / "run", safetensors.torch.save_file

    def full(tensors, path):
        if "step-00000020" in str(path):
            path.write_bytes(b"half")
            # What safetensors raises on a full disk.
            raise safetensors.SafetensorError(
                "Error while serializing: I/O error: No space left on device (os error 28)"
            )
        real(tensors, path)

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(CheckpointError, match="disk is full"):
        train(Recipe.parse(recipe_data), run)
    monkeypatch.undo()
    assert [folder.name for folder in checkpoint_folders(run)] == ["step-00000010"]
    resume_training(run)
    assert losses(run)[-1][0] == 30


def test_a_time_budget_is_kept(recipe_data, tmp_path, monkeypatch):
    # A clock that is a hundredth of a second further at each look.
    ticks = itertools.count(step=0.01)
    monkeypatch.setattr("locant.training.budget.perf_counter", lambda: next(ticks))
    changes = ["training.steps=null", "training.minutes=0.05", "training.validate_every=null"]
    summary = train(Recipe.parse(apply_overrides(recipe_data, changes)), tmp_path / "run")
    assert summary.reason == "0.05 minutes are over"
    assert 3 <= summary.seconds < 3.1
    assert len(validations(tmp_path / "run")) == 8
    rates = [row["learning_rate"] for row in read_metrics(tmp_path / "run") if row["kind"] == "training"]
    assert rates[-1] < 0.2 * max(rates)


def test_validating_takes_a_fifth_of_a_time_budget_at_most(recipe_data, tmp_path, monkeypatch):
    seconds, validate = [0.0], run_module.validation

    def clock():
        seconds[0] += 0.01
        return seconds[0]

    def slow(*arguments):
        measure = validate(*arguments)

        def measured(model):
            seconds[0] += 0.4
            return measure(model)

        return measured

    monkeypatch.setattr("locant.training.budget.perf_counter", clock)
    monkeypatch.setattr(run_module, "validation", slow)
    changes = ["training.steps=null", "training.minutes=0.05", "training.validate_every=null"]
    summary = train(Recipe.parse(apply_overrides(recipe_data, changes)), tmp_path / "run")
    assert summary.reason == "0.05 minutes are over"
    times = [row["seconds"] for row in read_metrics(tmp_path / "run") if row["kind"] == "validation"]
    # The first after an eighth of three seconds, the second 1.6 seconds after that, the last when time is over.
    assert times == pytest.approx([0.8, 2.8, 3.4], abs=0.1)


def test_early_stopping(recipe_data, tmp_path):
    changes = ["training.learning_rate=1e-9", "training.patience=2", "training.validate_every=2", "training.best=bleu"]
    summary = train(Recipe.parse(apply_overrides(recipe_data, changes)), tmp_path / "run")
    assert summary.reason == "validation bleu did not improve 2 times in a row"
    assert summary.steps == 6


def test_evaluation_is_saved_and_files_can_be_evaluated(finished, corpus, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    result = evaluate(run, "valid", beam=1)
    assert load_run_evaluation(run) == result
    files = evaluate(run, source=corpus / "valid.en", target=corpus / "valid.de", beam=1)
    assert files.scores == result.scores
    assert files.hypotheses == result.hypotheses
    assert load_run_evaluation(run) == result  # a split of the corpus goes before files
    (run / "evaluation.valid.json").unlink()
    assert load_run_evaluation(run) == files


def test_a_run_of_an_earlier_version_goes_on(finished, recipe_data, tmp_path):
    """Its recipe has the names of that version, and keys that are gone, which changed nothing."""
    run = tmp_path / "run"
    train(Recipe.parse(apply_overrides(recipe_data, ["training.steps=20"])), run)
    text = (run / "recipe.yaml").read_text()
    old = text.replace("max_grad_norm:", "clip_norm:").replace("gradient_accumulation_steps:", "accumulate:")
    assert old.count("clip_norm:") == old.count("accumulate:") == 1
    (run / "recipe.yaml").write_text(old.replace("training:\n", "training:\n  accumulation_warmup: 0.0\n"))
    assert resume_training(run, training={"steps": 30}).steps == 30
    assert losses(run) == losses(finished)
    assert "max_grad_norm" in (run / "recipe.yaml").read_text()


def test_a_large_text_is_read_once_and_known_when_the_run_goes_on(recipe_data, finished, tmp_path, monkeypatch):
    """The same run as of a small text; resumed and evaluated without a look into the training text."""
    monkeypatch.setattr("locant.training.recipe.TextStore", partial(TextStore, large=0, processes=1))
    told = []

    class Told(TrainingCallback):
        def on_preparing(self, what, share):
            told.append(what)

    folder = tmp_path / "corpus"
    shutil.copytree(recipe_data["corpus"]["folder"], folder)
    data = apply_overrides(recipe_data, [f"corpus.folder={folder}", "training.steps=20"])
    train(Recipe.parse(data), tmp_path / "run", callback=Told())
    assert set(told) == {"reading", "cleaning", "learning the vocabulary", "tokenising"}
    assert losses(tmp_path / "run") == losses(finished)[:20]
    told.clear()
    for name in ("train.en", "train.de"):
        written = (folder / name).stat().st_mtime_ns
        (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)
        os.utime(folder / name, ns=(written, written))
    resume_training(tmp_path / "run", ["training.steps=30"], callback=Told())
    assert not told
    assert losses(tmp_path / "run") == losses(finished)
    assert len(evaluate(tmp_path / "run").hypotheses) == 30
