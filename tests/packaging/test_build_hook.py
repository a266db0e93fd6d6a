"""The hook that builds the kernels into a wheel, with two small files in the place of all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from with_kernels import needs_compiler

from locant.kernels.library import VARIANTS, choose

pytest.importorskip("hatchling")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project with hardly anything in its package."""
    folder = tmp_path / "project"
    kernels = folder / "src" / "locant" / "kernels"
    kernels.mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("version.py", "kernels/processor.cpp", "kernels/threads.cpp", "kernels/threads.h", "kernels/watch.h"):
        shutil.copy(ROOT / "src" / "locant" / name, folder / "src" / "locant" / name)
    return folder


def wheel_of(project: Path, version: str = "standard", **environment: str) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "hatchling", "build", "--target", f"wheel:{version}", "--directory", "out"]
    run = subprocess.run(
        command, cwd=project, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    (wheel,) = (project / "out").iterdir()
    return zipfile.ZipFile(wheel)


def libraries(wheel: zipfile.ZipFile) -> list[str]:
    return [name for name in wheel.namelist() if "/variants/" in name]


@pytest.mark.slow
@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="the names are those of Linux")
def test_a_wheel_has_all_variants(project: Path, tmp_path: Path) -> None:
    wheel = wheel_of(project)
    assert Path(str(wheel.filename)).name.startswith("locant-")
    assert "-py3-none-linux_" in str(wheel.filename)
    wheel.extractall(tmp_path / "installed")
    found = choose(tmp_path / "installed" / "locant" / "kernels" / "variants")
    assert found is not None
    names = {Path(name).stem.removeprefix("locant_kernels-") for name in libraries(wheel)}
    assert names == {name for name in VARIANTS if name.startswith(found.name[:3])}
    assert "locant/kernels/threads.cpp" in wheel.namelist(), "what other machines build from"


def test_without_a_compiler_it_has_none(project: Path, tmp_path: Path) -> None:
    wheel = wheel_of(project, PATH=str(tmp_path), CXX="")
    assert not libraries(wheel)
    assert "-py3-none-any" in str(wheel.filename)


def test_an_editable_installation_compiles_nothing(project: Path) -> None:
    pytest.importorskip("editables")
    wheel = wheel_of(project, "editable", CXX="no-such-compiler")
    assert not libraries(wheel)
    assert "-py3-none-any" in str(wheel.filename)


@pytest.mark.slow
@needs_compiler
def test_what_a_compiler_cannot_build_is_left_out_unless_it_was_asked_for(project: Path, tmp_path: Path) -> None:
    broken = tmp_path / "c++"
    broken.write_text('#!/bin/sh\ncase "$*" in *avx2*|*dotprod*) exit 1;; esac\nexec c++ "$@"\n')
    broken.chmod(0o755)
    names = libraries(wheel_of(project, CXX=str(broken)))
    assert [Path(name).stem for name in names] in (["locant_kernels-x86-64-v2"], ["locant_kernels-armv8"])
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    asked_for = {"CXX": str(broken), "LOCANT_WHEEL_PLATFORM": "manylinux_2_28_x86_64", "TMPDIR": str(temporary)}
    run = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel"],
        cwd=project,
        env={**os.environ, **asked_for},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    assert "The C++ kernels cannot be built" in run.stderr
    assert not list(temporary.glob("locant-kernels-*")), "what was compiled is removed"
