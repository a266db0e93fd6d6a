"""``locant compare`` and the page it writes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab_records import TINY

from locant.cli import main
from locant.errors import DataError
from locant.figures import quality_by_length
from locant.lab import Comparison, compare
from locant.lab.comparison import save_comparison
from locant.lab.runner import main as work


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A folder in which every trial has been run."""
    options = {"model": TINY, "train_length": 2, "test_examples": 4}
    names: dict[str, Any] = {"tasks": ["copy", "reverse"], "variants": ["none", "learned"]}
    comparison = Comparison.parse({**names, "seeds": 2, "budget": {"steps": 2}, "options": options})
    save_comparison(tmp_path, comparison)
    for job in comparison.jobs():
        assert work([str(tmp_path), job.task, job.variant, str(job.seed), "cpu"]) == 0
    return tmp_path


def test_everything_is_made_of_records(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "-o", str(finished)]) == 0
    shown = capsys.readouterr()
    assert "8 are finished already; 0 trials to run" in shown.err
    assert "The same for all: first batch, initial weights and size" in shown.err
    for said in ("Copy a row of letters (copy)", "cannot", "Mean reciprocal rank"):
        assert said in shown.out
    files = {path.name for path in finished.iterdir()}
    assert {"results.md", "results.csv", "copy.png", "reverse.png", "report.html"} <= files
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page), "everything is in the page"


@pytest.mark.parametrize("name", ["addition", "copy-reverse", "extension", "heads", "tiny-shakespeare", "translation"])
def test_records_of_earlier_versions_give_the_same_tables(tmp_path: Path, name: str) -> None:
    """Most were written when variants were called contenders; the tables beside them are as they were made."""
    recorded = Path(__file__).parents[2] / "docs" / "results" / "lab" / name
    for kept in ("comparison.json", "records"):
        (shutil.copytree if (recorded / kept).is_dir() else shutil.copy)(recorded / kept, tmp_path / kept)
    result = compare(output=tmp_path, device="cpu")
    assert result.records
    assert (result.failures, result.fair) == ({}, True)
    assert (tmp_path / "results.md").read_bytes() == (recorded / "results.md").read_bytes()


def test_an_unfair_comparison_fails(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = finished / "records" / "copy" / "none" / "seed-1.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["outcome"]["first_batch"] = "0" * 64
    path.write_text(json.dumps(data), encoding="utf-8")
    assert main(["compare", "-o", str(finished)]) == 1
    error = capsys.readouterr().err
    assert re.search("Not a fair comparison: copy, seed 1, first batch: learned: [0-9a-f]{12}, none: 0{12}\\.", error)


def test_a_saved_comparison_goes_on_as_it_is(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "-o", str(finished), "--steps", "3"]) == 2
    assert main(["compare", "--task", "copy", "--schemes", "none", "--steps", "3", "-o", str(finished)]) == 2
    assert "budget.steps 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--task", "copi", "--steps", "2"], "'copy'"),
        (["--task", "copy", "--schemes", "none,rotery", "--steps", "2"], "'rotary'"),
        (["--task", "copy"], "--minutes-each"),
        (["--task", "copy", "--steps", "2", "--minutes-each", "1"], "--minutes-each"),
        (["--steps", "2"], "--task"),
        (["--task", "copy", "--steps", "2", "train_lenght=3"], "'train_length'"),
        (["--task", "copy", "--steps", "2", "--test-lengths", "3,x"], "--test-lengths"),
        (["--task", "copy", "--steps", "2", "optimiser.clip_norm=2"], "'max_grad_norm'"),
        (["--task", "copy", "--steps", "0"], "steps"),
        (["--task", "copy", "--steps", "2", "--seeds", "0"], "seeds"),
        (["--task", "copy", "--steps", "2", "--at-once", "0"], "--at-once"),
        (["--task", "language-modelling", "--steps", "2"], "--text"),
    ],
)
def test_wrong_usage_is_said_before_any_work(
    tmp_path: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words, "-o", str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert re.search(said, error)
    assert "Traceback" not in error
    assert not (tmp_path / "new").exists()


def test_tasks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare"]) == 0
    assert "length-generalisation is all of copy, reverse" in capsys.readouterr().out
    assert main(["compare", "--schemes", "rotary", "--steps", "2"]) == 2


def test_curves_are_means_and_bands_reach_from_worst_to_best() -> None:
    curves = {"a": {1: [1.0, 3.0], 2: [5.0, 5.0]}, "b": {1: [2.0], 2: []}}
    figure = quality_by_length(curves, title="t", length_label="l", quality_label="q", trained=1).figure
    (axes,) = figure.axes
    lines = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in axes.lines}
    assert lines["a"] == [[1.0, 2.0], [2.0, 5.0]]
    assert lines["b"] == [[1.0, 2.0]]
    band = np.concatenate([path.vertices for path in axes.collections[0].get_paths()])
    assert {(1.0, 1.0), (1.0, 3.0), (2.0, 5.0)} <= set(map(tuple, band.tolist()))
    with pytest.raises(DataError, match="not a single value"):
        quality_by_length({"a": {}}, title="t", length_label="l", quality_label="q")
