"""Trainings in several processes: ends of one, different beginnings, other numbers."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from processes import exit_codes, run_torchrun, start_processes

from locant.training import Recipe, read_metrics, resume_training, train
from locant.training.checkpoint import checkpoint_folders
from locant.training.recipe import apply_overrides

CHANGES = ["model.dropout=0", "training.steps=12", "training.validate_every=6", "training.average_checkpoints=1"]


def losses(run: Path) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in read_metrics(run) if row["kind"] == "training"]


def assert_close(run: Path, other: Path) -> None:
    ours, theirs = losses(run), losses(other)
    assert [step for step, _ in ours] == [step for step, _ in theirs]
    assert [loss for _, loss in ours] == pytest.approx([loss for _, loss in theirs], rel=2e-5)


@pytest.fixture(scope="module")
def whole(recipe_data: dict, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    train(Recipe.parse(apply_overrides(recipe_data, CHANGES)), run)
    return run


@pytest.fixture
def recipe(recipe_data: dict, tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(apply_overrides(recipe_data, CHANGES)))
    return path


EVERY_UPDATE = "training.checkpoint_minutes=0.00001"


_KILLS = {
    "in a step": (1, "locant.training.loop.TrainingLoop.update", 4, 3),
    "in validation": (0, "locant.training.evaluation.score_translations", 1, 5),
    "in saving": (0, "locant.training.checkpoint.write_state", 2, 6),
}
"""Which of two processes is killed at which call of a function, and the update that is saved then."""


@dataclass(frozen=True)
class _Killed:
    codes: list[int]
    said: list[str]
    saved: str


@pytest.fixture(scope="module")
def killed_again_and_again(recipe_data: dict, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A run of two processes, of which one is killed in an update, then in a validation, then while it saves."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "recipe.yaml").write_text(yaml.safe_dump(apply_overrides(recipe_data, [*CHANGES, EVERY_UPDATE])))
    command = ["train", folder / "recipe.yaml", "--output", folder / "run", "--resume-if-exists"]
    killed = {}
    for where, (rank, function, call, _) in _KILLS.items():
        codes = exit_codes(start_processes([command] * 2, folder, killed_in={rank: (function, call)}))
        said = [(folder / f"process-{number}.log").read_text() for number in range(2)]
        killed[where] = _Killed(codes, said, checkpoint_folders(folder / "run")[-1].name)
    return folder / "run", killed


@pytest.mark.parametrize("where", _KILLS)
def test_the_others_end_with_a_sentence(killed_again_and_again, where):
    rank, _, _, saved = _KILLS[where]
    killed = killed_again_and_again[1][where]
    assert killed.codes == [-signal.SIGKILL if number == rank else 1 for number in range(2)]
    said = killed.said[1 - rank]
    assert f"locant: error: Process {1 - rank} of 2 on " in said
    assert "has lost the others: one of them has ended" in said
    assert "Traceback" not in said
    assert killed.saved == f"step-{saved:08}"


def test_one_process_goes_on_where_others_were_killed(killed_again_and_again, whole):
    run, _ = killed_again_and_again
    assert checkpoint_folders(run)[-1].name == "step-00000006"
    resume_training(run)
    assert_close(run, whole)


def test_processes_with_different_recipes_are_refused(recipe, tmp_path):
    command = ["train", recipe, "--output", tmp_path / "run"]
    codes = exit_codes(start_processes([command, [*command, "seed=2"]], tmp_path))
    assert codes == [2, 2]
    assert "the recipe of process 1 (on " in (tmp_path / "process-0.log").read_text()
    assert not (tmp_path / "run").exists()


def test_machines_that_share_no_folder_are_refused(recipe, tmp_path):
    machines = [tmp_path / name for name in ("one", "two")]
    for machine in machines:
        machine.mkdir()
    codes = exit_codes(start_processes([["train", recipe, "--output", "run"]] * 2, tmp_path, folders=machines))
    assert codes == [2, 2]
    assert "the folder run of process 1 (on " in (tmp_path / "process-0.log").read_text()


def test_a_run_goes_on_with_other_numbers_of_processes_sharded_or_not(recipe, whole, tmp_path):
    run = tmp_path / "run"
    command = ["train", recipe, EVERY_UPDATE, "--output", run, "--resume-if-exists"]
    for count, steps, mode in ((2, 4, "fsdp"), (3, 8, "fsdp"), (2, 10, "ddp")):
        changes = [f"--steps={steps}", f"training.parallel={mode}"]
        codes = exit_codes(start_processes([[*command, *changes]] * count, tmp_path))
        assert codes == [0] * count, (tmp_path / "process-1.log").read_text()[-3000:]
        *_, older, newest = checkpoint_folders(run)
        assert [older.name, newest.name] == [f"step-{step:08}" for step in (steps - 1, steps)]
    resume_training(run, training={"steps": 12})
    assert_close(run, whole)


@pytest.mark.slow
def test_torchrun_goes_on_with_the_machines_that_are_left(recipe, whole, tmp_path):
    run = tmp_path / "run"
    command = ["train", recipe, "training.parallel=fsdp", EVERY_UPDATE, "--output", run, "--resume-if-exists"]
    said = run_torchrun(command, tmp_path, killed_in=("locant.training.loop.TrainingLoop.update", 5))
    assert "has lost the others" in said
    assert_close(run, whole)
    began = json.loads((run / "environment.json").read_text())
    assert began["processes"] == 2
    # The newest checkpoint may not have been complete.
    assert [(each["step"] in (3, 4), each["processes"]) for each in began["resumed"]] == [(True, 1)]


def test_the_first_process_alone_warns(recipe_data, whole, tmp_path):
    few = {"train": recipe_data["corpus"]["test"]}  # which is passed over again and again
    training = {"steps": 60, "device": "cpu", "precision": "float32", "validation_sentences": 0}
    finetuning = {"parent": str(whole), "test_sentences": 0}
    recipe = {"corpus": {**recipe_data["corpus"], **few}, "training": training, "finetuning": finetuning}
    recipe["cleaning"] = recipe_data["cleaning"]
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    command = ["train", tmp_path / "recipe.yaml", "--output", tmp_path / "run"]
    codes = exit_codes(start_processes([command] * 2, tmp_path))
    said = [(tmp_path / f"process-{number}.log").read_text() for number in range(2)]
    assert codes == [0, 0], said[1][-3000:]
    assert ["learns by heart" in each for each in said] == [True, False]
