"""Loading, building and switching kernels."""

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from with_kernels import kernels, needs_compiler

import locant.kernels
from locant.errors import ConfigError
from locant.kernels.library import FOLDER, Library, built_path, find_compiler
from locant.kernels.tensors import SMALLEST

# Sources of a library that is built at once.
SOME_SOURCES = {
    "some.cpp": b'#include "some.h"\nextern "C" int locant_some() { return SOME; }\n',
    "some.h": b"#define SOME 1\n",
}
pytestmark = pytest.mark.skipif(FOLDER.exists(), reason="nothing is built where the package has the kernels")


@pytest.fixture(autouse=True)
def _switched_on() -> Iterator[None]:
    with kernels(True, smallest=SMALLEST):
        yield


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a library of which one small file is enough."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("locant.kernels.library.sources", lambda: SOME_SOURCES)
    return tmp_path / "cache" / "locant" / "kernels"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make a shell script the compiler; what it is asked is written down in the file ``asked``."""

    def write(script: str) -> None:
        path = tmp_path / "a-compiler"
        path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))

    return write


@needs_compiler
def test_a_build_is_kept_and_needs_no_compiler_any_more(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Library().usable()
    (library,) = cache.glob("*.so")
    assert library == built_path()
    assert {path.suffix for path in cache.iterdir()} == {".so", ".lock"}, "no folder is left behind"
    built = library.stat().st_mtime_ns
    monkeypatch.setenv("CXX", "no-compiler")
    monkeypatch.setenv("PATH", "")
    assert Library().usable()
    assert library.stat().st_mtime_ns == built


@needs_compiler
def test_a_damaged_build_is_made_again(cache: Path) -> None:
    built_path().write_bytes(b"half of a libra")
    built_path().chmod(0o755)
    assert Library().usable()


@needs_compiler
def test_processes_build_once(compiler: Callable[[str], None], tmp_path: Path, cache: Path) -> None:
    compiler(f'exec {shlex.join(find_compiler() or ())} "$@"')
    code = (
        f"from locant.kernels import library\nlibrary.sources = lambda: {SOME_SOURCES}\nassert library.LIBRARY.usable()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "asked").read_text().count("-shared") == 1


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo out of order >&2; exit 3", "out of order"),
        ("printf 'gest\\366rt' >&2; exit 3", "gest\ufffdrt"),  # in another encoding than Python's
        ("kill -9 $$", "-9"),
    ],
)
def test_a_compiler_that_fails(compiler: Callable[[str], None], cache: Path, script: str, said: str) -> None:
    compiler(script)
    with pytest.raises(ConfigError, match=f"a-compiler.*{said}|{said}.*a-compiler"):
        Library().require()
    assert not list(cache.glob("*.so"))


@pytest.mark.parametrize("missing", ["compiler", "threads", "processes", "folder"])
def test_one_warning_says_why_nothing_is_built(
    missing: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("refused") if missing == "threads" else BlockingIOError(11, "refused")

    if missing == "compiler":
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    elif missing == "folder":
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    else:
        monkeypatch.setattr("threading.Thread.start" if missing == "threads" else "subprocess.Popen.__init__", refuse)
    library = Library()
    assert not any(library.usable() for _ in range(2))
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert (str(tmp_path / "file") if missing == "folder" else missing if missing == "compiler" else "refused") in (
        record.message
    )


@pytest.mark.parametrize("why", ["no home", "not writable", "everybody's", "a link"])
def test_a_folder_that_others_can_write_is_refused(
    why: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They could put a file in the place of a build."""
    assert built_path().parent == cache
    if why == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", lambda: Path("~no-such-user").expanduser())
    elif why == "not writable":
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != cache)
    elif why == "everybody's":
        cache.chmod(0o777)
    else:
        cache.rmdir()
        cache.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="XDG_CACHE_HOME"):
        built_path()
    assert not Library().usable()


def test_builds_are_of_a_processor_and_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, paths = tmp_path / "cpuinfo", []
    monkeypatch.setattr("locant.kernels.library._CPUINFO", info)
    for features in ("fp asimd", "fp asimd asimddp", "fp asimd asimddp i8mm bf16"):
        for bogus in (1, 2):
            info.write_text(f"processor : 0\nBogoMIPS : {bogus}\nFeatures : {features}\nCPU part : 0xd40\n")
            paths.append(built_path())
    monkeypatch.setattr("locant.kernels.library.sources", lambda: SOME_SOURCES | {"other.h": b""})
    paths.append(built_path())
    assert len(set(paths)) == 4


def test_the_switch() -> None:
    assert locant.kernels.enabled()
    assert locant.kernels.enabled(False) is False
    assert not locant.kernels.enabled()
    assert not Library().usable()
    with pytest.raises(ConfigError, match="LOCANT_KERNELS"):
        Library().require()
    assert locant.kernels.enabled(True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "on"), [("0", False), ("off", False), ("False", False), ("1", True), ("", True)])
def test_the_environment_switches_off_from_the_start(value: str, on: bool) -> None:
    code = "import locant.kernels, sys; sys.exit(locant.kernels.enabled())"
    environment = {**os.environ, "LOCANT_KERNELS": value}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == on
