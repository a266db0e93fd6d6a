"""Records: written once, never run again, the same when run again."""

import json
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from lab_records import TINY, make_record

from locant.errors import CheckpointError, ConfigError
from locant.lab import Comparison, ComparisonCallback, load_records, run_comparison
from locant.lab.comparison import Job, save_comparison
from locant.lab.record import load_record, record_path
from locant.lab.runner import main
from locant.locks import holding
from locant.positions import SCHEMES

OPTIONS = {"model": TINY, "train_length": 2, "test_examples": 5}


def comparison(**changes: Any) -> Comparison:
    return Comparison.parse(
        {"tasks": ["copy"], "variants": ["none"], "seeds": 1, "budget": {"steps": 2}, "options": OPTIONS, **changes}
    )


class Notes(ComparisonCallback):
    def __init__(self) -> None:
        self.started: tuple[int, int, int] = (-1, -1, -1)
        self.ended: list[tuple[str, str]] = []

    def on_start(self, waiting: int, finished: int, at_once: int) -> None:
        self.started = (waiting, finished, at_once)

    def on_end(self, job: Job, error: str) -> None:
        self.ended.append((str(job), error))


@pytest.mark.slow
def test_a_finished_record_never_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes()
    three = comparison(variants=["none", "learned", "index"])
    save_comparison(tmp_path, three)
    for variant in ("none", "learned", "index"):
        assert main([str(tmp_path), "copy", variant, "1", "cpu"]) == 0
    finished, lost = (record_path(tmp_path, "copy", name, 1) for name in ("learned", "none"))
    content, before = finished.read_bytes(), load_record(lost)
    lost.unlink()

    built: list[tuple[int, int, int]] = []
    monkeypatch.setattr("locant.lab.runner.build_all", lambda: built.append(notes.started))
    assert run_comparison(tmp_path, three, at_once=3, device="cpu", callback=notes) == {}
    assert notes.started == (1, 2, 1), "no more at once than wait"
    assert built == [notes.started], "kernels are built once, by the process that says so"
    assert notes.ended == [("copy, none, seed 1", "")]
    assert len(load_records(tmp_path)) == 3
    assert finished.read_bytes() == content
    after = load_record(lost)
    assert after.outcome.measurements == before.outcome.measurements
    assert after.outcome.training_loss == before.outcome.training_loss
    record = after.to_dict()
    assert record["configuration"]["task"]["train_length"] == 2
    assert record["environment"]["packages"]["torch"]
    assert record["peak_memory"] > 1e6
    assert record["wall_seconds"] > 0


def test_a_folder_in_which_another_process_compares_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "comparison"
    with holding(folder, "comparing"), pytest.raises(CheckpointError, match="has been comparing in it since"):
        run_comparison(folder, comparison(), device="cpu")
    assert not folder.exists()


def test_a_trial_that_fails_leaves_no_record_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A learning rate this large makes the loss infinite or not a number.
    wild = {**OPTIONS, "optimiser": {"learning_rate": 1e30, "warmup_steps": 0}}
    both = comparison(variants=["none", "learned"], options=wild, budget={"steps": 50})
    save_comparison(tmp_path, both)
    code = main([str(tmp_path), "copy", "none", "1", "cpu"])
    *_, said = capsys.readouterr().err.splitlines()
    assert "the loss was" in said
    assert load_records(tmp_path) == []

    # In place of Python, what ends as this process did for one of the trials, and well for the other.
    program = tmp_path / "python"
    fails = f"echo 'A warning' >&2; echo {shlex.quote(said)} >&2; exit {code}"
    program.write_text(f'#!/bin/sh\ncase "$*" in *learned*) exit 0;; esac\n{fails}\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    notes = Notes()
    assert run_comparison(tmp_path, both, device="cpu", callback=notes) == {Job("copy", "none", 1): said}
    assert sorted(notes.ended) == [("copy, learned, seed 1", ""), ("copy, none, seed 1", said)]
    assert load_records(tmp_path) == []


def test_a_scheme_that_cannot_be_built_is_recorded_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = {**OPTIONS, "model": {**TINY, "d_model": 18, "heads": 6}}  # heads of three features cannot be rotated
    save_comparison(tmp_path, comparison(variants=["rotary"], options=odd))
    assert main([str(tmp_path), "copy", "rotary", "1", "cpu"]) == 0
    (record,) = load_records(tmp_path)
    assert "3" in record.outcome.cannot
    assert main([str(tmp_path), "copy", "none", "1", "cpu"]) == 0
    assert len(load_records(tmp_path)) == 2
    # A trial of two updates says nothing on the way; one of forty does, every twenty updates.
    assert capsys.readouterr().out == ""
    (tmp_path / "longer").mkdir()
    save_comparison(tmp_path / "longer", comparison(budget={"steps": 40}))
    assert main([str(tmp_path / "longer"), "copy", "none", "1", "cpu"]) == 0
    assert [float(line) for line in capsys.readouterr().out.split()] == [0.5, 1.0]


FOREIGN = """
from locant.positions import ALiBi, register_scheme

@register_scheme("foreign-slope")
class Foreign(ALiBi):
    title, paper = "Foreign", "Nobody 2026"
"""


@pytest.mark.slow
def test_schemes_of_other_people_are_compared_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foreign_slope.py").write_text(FOREIGN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("foreign_slope")
    try:
        foreign = comparison(variants=["foreign-slope"])
        assert run_comparison(tmp_path / "out", foreign, device="cpu", at_once=1) == {}
        save_comparison(tmp_path / "out", comparison(variants=["foreign-slope", "alibi"]))
        assert main([str(tmp_path / "out"), "copy", "alibi", "1", "cpu"]) == 0
        monkeypatch.setattr(SCHEMES["foreign-slope"], "__module__", "__main__")
        with pytest.raises(ConfigError, match="'foreign-slope'"):
            run_comparison(tmp_path / "other", foreign, device="cpu")
    finally:
        del SCHEMES["foreign-slope"]
    first, second = (record.outcome for record in load_records(tmp_path / "out"))
    assert first.measurements == second.measurements


def test_a_folder_keeps_to_one_way_of_training(tmp_path: Path) -> None:
    save_comparison(tmp_path, comparison())
    save_comparison(tmp_path, comparison(variants=["none", "rotary"], seeds=2, tasks=["copy", "reverse"]))
    with pytest.raises(ConfigError, match=r"budget\.steps 2"):
        save_comparison(tmp_path, comparison(budget={"steps": 3}))
    with pytest.raises(ConfigError, match=r"options\.train_length 2"):
        save_comparison(tmp_path, comparison(options={"model": TINY, "test_examples": 5}))
    assert json.loads((tmp_path / "comparison.json").read_text())["seeds"] == 2


def test_a_record_of_another_configuration_is_not_taken(tmp_path: Path) -> None:
    record = make_record("copy", "none", 1, {1: 1.0})
    path = record_path(tmp_path, "copy", "none", 1)
    path.parent.mkdir(parents=True)
    configuration = comparison(options={**OPTIONS, "batch": 3}).configuration("copy")
    path.write_text(json.dumps({**record.to_dict(), "configuration": configuration}))
    with pytest.raises(ConfigError, match=r"seed-1.json .*task\.batch 3"):
        run_comparison(tmp_path, comparison(), device="cpu")
    path.write_text(json.dumps(record.to_dict())[:50])
    with pytest.raises(CheckpointError, match=r"seed-1\.json"):
        run_comparison(tmp_path, comparison(), device="cpu")
    path.write_text("{}")
    with pytest.raises(CheckpointError, match=r"seed-1\.json"):
        load_records(tmp_path)


def test_settings_of_all_tasks_and_of_one() -> None:
    given = comparison(
        tasks=["copy", "addition"],
        options={"train_length": 20, "model": {"layers": 3}, "addition": {"train_length": 8, "model": {"heads": 2}}},
    )
    copy, addition = (given.build(name).to_dict() for name in ("copy", "addition"))
    assert (copy["train_length"], addition["train_length"]) == (20, 8)
    assert (copy["model"]["layers"], copy["model"]["heads"]) == (3, 4)
    assert (addition["model"]["layers"], addition["model"]["heads"]) == (3, 2)
    # What nobody changed is as the task has it, not as the class of its model has it.
    plain = comparison(options={}).build("copy").to_dict()
    assert copy["model"]["d_model"] == plain["model"]["d_model"] == 64
    for wrong in ({"train_lenght": 8}, 8):
        with pytest.raises(ConfigError, match="addition"):
            comparison(options={"addition": wrong}).build("addition")
