"""``locant info``, on sound machines and on broken ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import locant.kernels
from locant.cli import main


def test_it_prints_what_a_bug_report_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "locant").mkdir()
    (tmp_path / "locant" / "some-file").write_bytes(b"x" * 2**21)
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert f"Locant {locant.__version__} in " in out
    assert f"torch {torch.__version__}" in out
    assert "built for this processor: not yet" in out
    assert f"Cache: {tmp_path / 'locant'}, 2.0 MB in 1 files" in out
    assert f"XDG_CACHE_HOME={tmp_path}" in out


def test_it_says_what_runs_the_operators(capsys: pytest.CaptureFixture[str]) -> None:
    before = locant.kernels.enabled()
    try:
        locant.kernels.enabled(False)
        assert main(["info"]) == 0
    finally:
        locant.kernels.enabled(before)
    assert "operators, which run by PyTorch's own operations: attention, " in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["devices"][0] == {"device": "cpu"}
    assert found["kernels"]["enabled"] is locant.kernels.enabled()
    assert {"attention", "rotate"} <= set(found["kernels"]["operators"])
    assert found["threads"] == torch.get_num_threads()
    assert "matplotlib" in found["packages"]
    assert "command" not in found


def test_it_works_on_a_broken_machine(tmp_path: Path) -> None:
    """Neither torch nor a compiler nor a home folder."""
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so is not there')\n")
    (tmp_path / "pathlib_without_home.py").write_text(
        "import pathlib, runpy, sys\n"
        "def no_home(): raise RuntimeError('Could not determine home directory.')\n"
        "pathlib.Path.home = no_home\n"
        "sys.argv = ['locant', 'info']\n"
        "runpy.run_module('locant', run_name='__main__')\n"
    )
    environment = {key: value for key, value in os.environ.items() if key not in ("XDG_CACHE_HOME", "CXX")}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "PATH": str(tmp_path),
        "LOCANT_KERNELS": "0",
    }
    run = subprocess.run(
        [sys.executable, str(tmp_path / "pathlib_without_home.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "torch cannot be used: ImportError: libtorch.so is not there" in run.stdout
    assert "C++ kernels: switched off\n  compiler: none found" in run.stdout
    assert "Cache: There is no home folder" in run.stdout
