"""Runs that are asked to stop, that are killed, and that go on."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
import yaml
from processes import start_locant
from safetensors.torch import load_file

from locant.cli import main
from locant.errors import CheckpointError, ConfigError, DataError, StoppedError
from locant.files import file_digest
from locant.training import Recipe, TrainingCallback, read_metrics, resume_training, train
from locant.training.checkpoint import checkpoint_folders, find_checkpoint
from locant.training.recipe import apply_overrides
from locant.training.stopping import StopRequest

SHORT = {"steps": 2, "validate_every": 2, "validation_sentences": 0}


def rows(run: Path, *kinds: str) -> list[tuple]:
    kept = ("step", "loss", "bleu", "chrf", "best")
    return [tuple(row.get(key) for key in kept) for row in read_metrics(run) if row["kind"] in kinds]


def assert_same(run: Path, other: Path) -> None:
    """The curves and the published weights of two runs are the same."""
    for kind in ("training", "validation", "average"):
        assert rows(run, kind) == rows(other, kind)
    ours, theirs = load_file(run / "model.safetensors"), load_file(other / "model.safetensors")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


class At(TrainingCallback):
    """Does something after an update."""

    def __init__(self, step: int, what) -> None:
        self.step, self.what = step, what

    def on_step(self, done, report):
        if report.step == self.step:
            self.what()


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", [7, 10, 30])
def test_a_run_stopped_by_sigterm_has_saved_all(recipe_data, finished, tmp_path, step):
    """Within an interval of validations; before a validation; before the last one."""
    run = tmp_path / "run"
    with pytest.raises(
        StoppedError, match=rf"after \d+ updates, which are saved. Go on by `locant train --resume {run}`"
    ):
        train(recipe_data, run, callback=At(step, terminate))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    done = rows(run, "training")[-1][0]
    assert checkpoint_folders(run)[-1].name == f"step-{done:08}"
    resume_training(run)
    assert_same(run, finished)


def test_the_command_ends_with_the_code_of_the_signal(recipe_data, tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(apply_overrides(recipe_data, ["training.steps=100000"])))
    process = start_locant(["train", tmp_path / "recipe.yaml", "--output", tmp_path / "run"], tmp_path / "log")
    deadline = time.monotonic() + 120
    while not (tmp_path / "run" / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(CheckpointError, match=rf"in use: process {process.pid} on .* has been training in it since"):
        train(recipe_data, tmp_path / "run", resume_if_exists=True)
    process.terminate()
    process.join(60)
    assert process.exitcode == 143
    assert "locant: Stopped by SIGTERM after" in (tmp_path / "log").read_text()
    assert checkpoint_folders(tmp_path / "run")


def test_a_second_request_ends_the_process_at_once(monkeypatch):
    now, sent = itertools.count(step=0.6), []
    monkeypatch.setattr("locant.training.stopping.time.monotonic", lambda: next(now))
    monkeypatch.setattr("locant.training.stopping.end_by_signal", lambda number, frame: sent.append(number))
    request = StopRequest()
    with request.listening():
        assert not request.asked
        for asked in range(3):
            assert sent == [], "a launcher may deliver one request twice"
            signal.raise_signal(signal.SIGTERM)
            assert request.asked, asked
        assert sent == [signal.SIGTERM]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("optimizer", ["adamw", "schedule_free"])
def test_checkpoints_between_validations_change_nothing(recipe_data, tmp_path, monkeypatch, optimizer):
    changes = {"steps": 9, "validate_every": 6, "optimizer": optimizer, "schedule": "constant", "ema_decay": 0.9}
    train(recipe_data, tmp_path / "whole", training={**changes, "checkpoint_minutes": None})
    # A clock that is a tenth of a second further at each look.
    ticks = itertools.count(step=0.1)
    monkeypatch.setattr("locant.training.budget.perf_counter", lambda: next(ticks))
    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(recipe_data, run, training={**changes, "checkpoint_minutes": 0.001}, callback=At(5, interrupt))
    assert [folder.name for folder in checkpoint_folders(run)] == ["step-00000003", "step-00000004"]
    resume_training(run)
    assert_same(run, tmp_path / "whole")


@pytest.mark.slow
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(recipe_data, finished, tmp_path, caplog):
    run = tmp_path / "run"
    train(recipe_data, run, training={"steps": 20})
    older, newest = checkpoint_folders(run)
    content = bytearray((newest / "weights.safetensors").read_bytes())
    content[-5] ^= 1
    (newest / "weights.safetensors").write_bytes(content)
    caplog.set_level(logging.WARNING, "locant")
    resume_training(run, training={"steps": 30})
    assert f"{newest} is damaged: weights.safetensors is missing or differs from what was written." in caplog.text
    assert f"Going on from {older} instead." in caplog.text
    assert_same(run, finished)
    for folder in checkpoint_folders(run):
        (folder / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"30 is damaged: state.json lacks.*No other checkpoint"):
        resume_training(run, training={"steps": 40})


@pytest.mark.parametrize(
    ("change", "shows"),
    [
        (lambda state: state["progress"].update(batch=state["progress"]["batch"] + 8), False),
        (lambda state: state["progress"].update(step="x"), True),
        (lambda state: state["progress"].update(step=31), True),
        (lambda state: state["progress"].update(target_tokens=10**30), True),
        (lambda state: state["progress"].update(batch=-1), True),
        (lambda state: state["progress"]["best"].update(loss=float("inf")), True),
        (lambda state: state.update(progress="x"), True),
        (lambda state: state.update(sha256=[]), True),
    ],
)
def test_a_checkpoint_knows_its_own_state(finished, tmp_path, change, shows):
    newest = tmp_path / "step-00000030"
    shutil.copytree(finished / "checkpoints" / newest.name, newest)
    state = json.loads((newest / "state.json").read_text())
    change(state)
    (newest / "state.json").write_text(json.dumps(state))
    with pytest.raises(CheckpointError, match=r"step-00000030.*state\.json"):
        find_checkpoint(newest)
    if shows:  # also in what earlier versions wrote, which has no digest of it
        del state["sha256_of_the_rest"]
        (newest / "state.json").write_text(json.dumps(state))
        with pytest.raises(CheckpointError, match=r"step-00000030 is damaged: state\.json"):
            find_checkpoint(newest)


def test_a_damaged_snapshot_is_left_out_of_the_average(recipe_data, finished, tmp_path, caplog):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    damaged, cut = (run / "snapshots" / f"step-000000{step}.safetensors" for step in (10, 20))
    content = bytearray(damaged.read_bytes())
    content[-5] ^= 1
    damaged.write_bytes(content)
    cut.write_bytes(b"")
    caplog.set_level(logging.WARNING, "locant")
    resume_training(run, training={"steps": 40})
    for path in (damaged, cut):
        assert str(path) in caplog.text
    assert read_metrics(run)[-1]["steps"] == [30, 40]


def flip(path: Path, place: int = -5) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "missing": Path.unlink,
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": flip,
}


@pytest.mark.parametrize("steps", [20, 24])
def test_a_finished_run_gets_its_model_back(recipe_data, tmp_path, steps):
    """Of the best snapshot, which is not the last one: at such a rate the model forgets what it has learned."""
    run = tmp_path / "run"
    train(recipe_data, run, training={"steps": 10, "average_checkpoints": 1, "schedule": "constant"})
    best = file_digest(run / "model.safetensors")
    resume_training(run, training={"steps": 20, "learning_rate": 1.0})
    for damage in DAMAGES.values():
        damage(run / "model.safetensors")
        resume_training(run, training={"steps": steps})
        assert file_digest(run / "model.safetensors") == best
    for path in (run / "snapshots").iterdir():
        flip(path)
    resume_training(run)  # an intact model stays, as in runs of earlier versions, which kept no snapshot of it
    assert file_digest(run / "model.safetensors") == best


@pytest.mark.parametrize(
    ("place", "sampling"),
    [("train/source.tokens.bin", 0.0), ("train/target.tokens.bin", 0.2), ("valid/target.tokens.bin", 0.0)],
)
def test_a_damaged_cache_is_not_trained_on_and_can_be_made_anew(recipe_data, tmp_path, place, sampling):
    whole, run = tmp_path / "whole", tmp_path / "run"
    tokenizer = {**recipe_data["tokenizer"], "sampling": sampling}
    train(recipe_data, whole, training={**SHORT, "steps": 4}, tokenizer=tokenizer)
    train(recipe_data, run, training=SHORT, tokenizer=tokenizer)
    flip(run / "cache" / place)
    with pytest.raises(CheckpointError, match=place):
        resume_training(run, training={"steps": 4})
    shutil.rmtree((run / "cache" / place).parent)
    resume_training(run, training={"steps": 4})
    assert_same(run, whole)


def test_records_that_inform_stop_no_run(finished, recipe_data, tmp_path):
    for damage in ("cut", "missing"):
        run = tmp_path / damage
        shutil.copytree(finished, run)
        for name in ("environment.json", "data.json", "metrics.jsonl"):
            DAMAGES[damage](run / name)
        resume_training(run, training={"steps": 31})
        assert rows(run, "training")[-1][0] == 31
        assert json.loads((run / "data.json").read_text())["train_pairs"] == 600
        assert json.loads((run / "environment.json").read_text())["step"] == 30


def test_a_run_without_its_prepared_text_keeps_its_vocabulary(recipe_data, corpus, finished, tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    shutil.copytree(finished, run)
    shutil.rmtree(run / "cache")
    shutil.copytree(corpus, other)
    (other / "train.en").write_bytes((corpus / "train.de").read_bytes())
    before = (run / "tokenizer.joint.model").read_bytes()
    with pytest.raises(DataError, match="was prepared from another text or with other settings"):
        resume_training(run, corpus={"folder": str(other)})
    assert (run / "tokenizer.joint.model").read_bytes() == before
    (run / "data.json").write_text("{}")  # earlier versions did not say there what the text was
    resume_training(run, corpus={"folder": str(other)}, training={"steps": 31})
    assert (run / "tokenizer.joint.model").read_bytes() == before


def test_one_command_begins_or_goes_on(recipe_data, finished, tmp_path, capsys):
    recipe, run = tmp_path / "recipe.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(recipe_data))
    command = ["train", str(recipe), "--output", str(run), "--resume-if-exists"]
    assert main([*command, "--steps", "10"]) == 0
    assert main(command) == 0
    assert "goes on with training.steps 30 instead of 10." in capsys.readouterr().err
    before = read_metrics(run)
    assert rows(run, "training") == rows(finished, "training")
    assert main(command) == 0
    assert read_metrics(run) == before
    assert main([*command, "batches.tokens=512"]) == 2
    said = capsys.readouterr().err
    assert "has begun with batches.tokens 256 and keeps it." in said
    assert main(["train", str(recipe), "--output", str(run)]) == 1
    assert "--resume-if-exists begins or goes on" in capsys.readouterr().err
    sessions = json.loads((run / "environment.json").read_text())
    assert sessions["step"] == 0
    assert [session["step"] for session in sessions["resumed"]] == [10, 30]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("mine")
    with pytest.raises(CheckpointError, match=r"not empty \(it holds thesis.tex\)"):
        train(recipe_data, tmp_path / "mine", resume_if_exists=True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"seed": 2},
            r"begun with seed 1 and keeps it.*What may change when",
        ),
        ({"model": {"d_model": 64}}, r"begun with model.d_model 32 and keeps it"),
        ({"training": {"optimizer": "muon"}}, r"begun with training.optimizer adamw and keeps it"),
        ({"training": {"stpes": 3}}, r"unknown key 'training.stpes'. Did you mean 'steps'"),
    ],
)
def test_what_a_run_keeps_is_refused(finished, changes, said):
    before = (finished / "recipe.yaml").read_bytes()
    with pytest.raises(ConfigError, match=said):
        resume_training(finished, **changes)
    assert (finished / "recipe.yaml").read_bytes() == before


def test_a_run_of_a_later_version_is_refused(recipe_data, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"format": 99, "locant": "9.0"}))
    with pytest.raises(CheckpointError, match=r"written by Locant 9.0 in format 99; this is Locant .* up to 2"):
        train(recipe_data, run)
    with pytest.raises(CheckpointError, match="in format 99"):
        resume_training(run)


class Killed(BaseException):
    """As far as files go, a kill."""


@pytest.mark.slow
def test_a_run_killed_at_any_publication_begins_again_or_goes_on(recipe_data, tmp_path, monkeypatch):
    """Its first files, the model and the checkpoint: whichever is the last that appeared, the same command goes on."""
    import locant.files

    recipe = Recipe.parse({**recipe_data, "training": {**recipe_data["training"], **SHORT}})
    train(recipe, tmp_path / "whole")
    publish, published = locant.files.publish, []

    for last in itertools.count():
        run, left = tmp_path / str(last), last

        def until_killed(temporary: Path, path: Path) -> None:
            nonlocal left
            if left == 0:
                published.append(path.name)
                raise Killed
            left -= 1
            publish(temporary, path)

        with monkeypatch.context() as patched:
            patched.setattr("locant.files.publish", until_killed)
            try:
                train(recipe, run)
            except Killed:
                pass
            else:
                break
        if not (run / "recipe.yaml").exists() and (run / "run.json").exists():
            with pytest.raises(CheckpointError, match=r"stopped before it had begun to train. Start it again"):
                resume_training(run)
        train(recipe, run, resume_if_exists=True)
        assert_same(run, tmp_path / "whole")
    order = list(dict.fromkeys(published))
    assert order[0] == "run.json"
    assert order.index("prepared.json") < order.index("data.json") < order.index("recipe.yaml")
    assert order.index("recipe.yaml") < order.index("model.safetensors") < order.index("step-00000002")
