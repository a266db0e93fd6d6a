"""Trainings in several processes: ends of one, different beginnings, machines that share nothing, other numbers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml
from processes import exit_codes, start_processes

from locant.training import Recipe, read_metrics, resume_training, train
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


@pytest.mark.parametrize(
    ("rank", "function", "call", "saved"),
    [
        (1, "locant.training.loop.TrainingLoop.update", 9, 6),
        (0, "locant.training.evaluation.score_translations", 3, 6),
        (0, "locant.training.checkpoint.write_state", 2, 6),
    ],
    ids=["in a step", "in validation", "in saving"],
)
def test_the_others_end_with_a_sentence_and_one_process_goes_on(recipe, whole, tmp_path, rank, function, call, saved):
    run = tmp_path / "run"
    command = ["train", recipe, "--output", run]
    codes = exit_codes(start_processes([command] * 2, tmp_path, killed_in={rank: (function, call)}), 120)
    assert codes == [-signal.SIGKILL if number == rank else 1 for number in range(2)]
    said = (tmp_path / f"process-{1 - rank}.log").read_text()
    assert f"locant: error: Process {1 - rank} of 2 on " in said
    assert "has lost the others: one of them has ended" in said
    assert "Traceback" not in said
    assert [folder.name for folder in (run / "checkpoints").glob("step-*")] == [f"step-{saved:08}"]
    resume_training(run)
    assert_close(run, whole)


def test_processes_with_different_recipes_are_refused(recipe, tmp_path):
    command = ["train", recipe, "--output", tmp_path / "run"]
    codes = exit_codes(start_processes([command, [*command, "seed=2"]], tmp_path), 120)
    assert codes == [2, 2]
    assert "the recipe of process 1 (on " in (tmp_path / "process-0.log").read_text()
    assert not (tmp_path / "run").exists()


def test_a_sharded_run_goes_on(recipe, whole, tmp_path):
    command = ["train", recipe, "training.parallel=fsdp", "--output", tmp_path / "run", "--resume-if-exists"]
    for steps in ("--steps=6", "--steps=12"):
        codes = exit_codes(start_processes([[*command, steps]] * 2, tmp_path))
        assert codes == [0, 0], (tmp_path / "process-1.log").read_text()[-3000:]
    assert_close(tmp_path / "run", whole)


def test_machines_that_share_no_folder_prepare_each_for_itself(recipe, whole, tmp_path):
    machines = [tmp_path / name for name in ("one", "two")]
    for machine in machines:
        machine.mkdir()
    command = ["train", recipe, "--output", "run", "--resume-if-exists"]
    for steps in ("--steps=6", "--steps=12"):
        processes = start_processes([[*command, steps]] * 2, tmp_path, folders=machines)
        assert exit_codes(processes) == [0, 0], (tmp_path / "process-1.log").read_text()
    assert_close(machines[0] / "run", whole)
    assert (machines[1] / "run" / "cache" / "prepared.json").exists()
    assert not (machines[1] / "run" / "checkpoints").exists()
    # Another text on one of them.
    (text,) = (machines[1] / "run" / "cache").glob("prepared.json")
    text.write_text(text.read_text().replace('"fingerprint": "', '"fingerprint": "0'))
    codes = exit_codes(start_processes([[*command, "--steps=14"]] * 2, tmp_path, folders=machines), 120)
    assert codes == [1, 1]
    assert "was prepared from another text" in (tmp_path / "process-0.log").read_text()
