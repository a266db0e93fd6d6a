"""``locant info``, on sound machines and on broken ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

import locant.kernels
from locant.cli import main


def test_it_prints_what_a_bug_report_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["info"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert (found["locant"], found["packages"]["torch"]) == (locant.__version__, torch.__version__)
    assert found["kernels"]["built"] is None
    assert found["cache"] == str(tmp_path / "locant")
    assert found["environment"]["XDG_CACHE_HOME"] == str(tmp_path)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["devices"][0] == "cpu"
    assert found["kernels"]["enabled"] is locant.kernels.enabled()
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
    found = yaml.safe_load(run.stdout)
    assert "ImportError: libtorch.so is not there" in found["devices"]
    assert "no home folder" in found["kernels"]
    assert "no home folder" in found["cache"]
