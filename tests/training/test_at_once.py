"""The same folder exported and evaluated by several at the same time: each file is one of them's, and whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from locant.errors import CheckpointError
from locant.files import file_digest, is_workplace
from locant.interop import export_huggingface
from locant.training import evaluate, load_run_evaluation

AT_ONCE = 3


def outcomes(work: Callable[[], Any]) -> list[Any]:
    """What each of several that begin together returns or raises."""
    barrier = Barrier(AT_ONCE)

    def one(_: int) -> Any:
        barrier.wait()
        try:
            return work()
        except CheckpointError as error:
            return error

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(one, range(AT_ONCE)))


def content(folder: Path) -> dict[str, str]:
    return {path.name: file_digest(path) for path in folder.iterdir()}


def test_exports_to_the_same_folder(finished: Path, tmp_path: Path) -> None:
    export_huggingface(finished, tmp_path / "alone")
    found = outcomes(lambda: export_huggingface(finished, tmp_path / "together"))
    refused = [one for one in found if isinstance(one, CheckpointError)]
    assert len(refused) == AT_ONCE - 1
    assert all(str(tmp_path / "together") in str(error) for error in refused)
    assert content(tmp_path / "together") == content(tmp_path / "alone")
    assert not [path for path in tmp_path.rglob("*") if is_workplace(path)]


def test_evaluations_of_the_same_run(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)  # its own: other tests read what they evaluated themselves
    evaluate(run)
    before = json.loads((run / "evaluation.test.json").read_text())
    assert not [one for one in outcomes(lambda: evaluate(run)) if isinstance(one, CheckpointError)]
    assert load_run_evaluation(run) is not None
    after = json.loads((run / "evaluation.test.json").read_text())
    assert after.keys() == before.keys()
    assert not [path for path in run.rglob("*") if is_workplace(path)]
