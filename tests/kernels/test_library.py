"""Building, loading and switching kernels."""

import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from with_kernels import kernels, needs_compiler

import locant.kernels
from locant.cli.messages import messages_on_stderr
from locant.errors import ConfigError
from locant.kernels import rotation
from locant.kernels.building import built_path, find_compiler
from locant.kernels.library import Kernel, Library
from locant.kernels.tensors import SMALLEST
from locant.positions import Rotary

# Sources of a library that is built at once.
SOME_SOURCES = {
    "some.cpp": b'#include "some.h"\nextern "C" int locant_some() { return SOME; }\n',
    "some.h": b"#define SOME 1\n",
}


def fresh(library: Library | None = None) -> Kernel:
    """Return kernels that were not loaded before in this process."""
    return Kernel({}, library or Library())


@pytest.fixture(autouse=True)
def _switched_on() -> Iterator[None]:
    with kernels(True, smallest=SMALLEST):
        yield


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a library of which one small file is enough."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("locant.kernels.building.sources", lambda: SOME_SOURCES)
    return tmp_path / "locant"


@needs_compiler
def test_a_build_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fresh().usable()
    (library,) = cache.glob("*.so")
    assert library == built_path()
    assert library.name.startswith("kernels-")
    assert list(cache.glob("compiler-*.txt")), "the compiler need not be asked again what it builds for"
    built = library.stat().st_mtime_ns
    monkeypatch.setenv("CXX", "no-compiler")
    monkeypatch.setenv("PATH", "")
    assert fresh().usable()
    assert library.stat().st_mtime_ns == built


@needs_compiler
def test_builds_that_nothing_has_loaded_for_long_are_removed(cache: Path) -> None:
    cache.mkdir()
    stale, used, other = (cache / f"{name}.so" for name in ("kernels-" + "0" * 16, "dropout-" + "1" * 16, "mine"))
    ago = time.time() - 365 * 24 * 3600
    for path in (stale, used, other):
        path.write_bytes(b"")
        os.utime(path, (ago, ago))
    os.utime(used, (time.time(), ago))
    assert fresh().usable()
    assert {*cache.glob("*.so")} == {used, other, built_path()}
    # Loading counts as use.
    os.utime(built_path(), (ago, ago))
    assert fresh().usable()
    assert built_path().stat().st_atime > ago + 1
    assert built_path().stat().st_mtime == pytest.approx(ago)


@needs_compiler
def test_a_damaged_build_is_made_again(cache: Path) -> None:
    cache.mkdir()
    built_path().write_bytes(b"half of a libra")
    assert fresh().usable()


@needs_compiler
def test_a_build_is_announced_once(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "locant")
    for _ in range(2):
        assert fresh().usable()
    (record,) = caplog.records
    assert record.name == "locant"
    assert record.levelno == logging.INFO
    assert str(cache) in record.message
    assert "LOCANT_KERNELS=0" in record.message


@needs_compiler
def test_threads_build_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = tmp_path / "c++"
    counting.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {shlex.join(find_compiler() or ())} "$@"\n')
    counting.chmod(0o755)
    monkeypatch.setenv("CXX", str(counting))
    kernel, others = fresh(), [fresh() for _ in range(3)]
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(Kernel.usable, [kernel] * 5 + others))
    assert (tmp_path / "calls").read_text().count("-shared") == 1


@needs_compiler
def test_processes_build_at_once(cache: Path) -> None:
    code = (
        "from locant.kernels import building, library\n"
        f"building.sources = lambda: {SOME_SOURCES}\n"
        "assert library.LIBRARY.usable()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert len(list(cache.glob("*.so"))) == 1
    assert {path.suffix for path in cache.iterdir()} == {".so", ".lock", ".txt"}, "no folder is left behind"


def test_no_compiler_or_one_that_fails(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(ConfigError, match=r"could not build \w+\.cpp\. It said: out of order"):
        fresh().require()
    broken.write_bytes(b"#!/bin/sh\necho gest\xf6rt >&2\nexit 3\n")  # in another encoding than Python's
    with pytest.raises(ConfigError, match=r"It said: gest\ufffdrt"):
        fresh().require()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"need a C\+\+ compiler, and neither c\+\+, g\+\+ nor clang\+\+ was found"):
        fresh().require()
    assert not list(cache.glob("*.so"))
    library = Library()
    assert not any(fresh(library).usable() for _ in range(2))
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "neither c++, g++ nor clang++ was found. PyTorch's own operations" in record.message


def test_a_cache_folder_that_cannot_be_written(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users of containers have homes that are not theirs, or that are not there."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert built_path().parent == tmp_path / f"locant-{os.geteuid()}"

    def no_place() -> Path:
        raise FileNotFoundError("No usable temporary directory found")

    with monkeypatch.context() as nowhere:
        nowhere.setattr("locant.kernels.building._private_folder", no_place)
        with pytest.raises(ConfigError, match=r"cannot be kept in a folder of this user or loaded from it: No usable"):
            fresh().require()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    assert built_path().parent == cache
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert built_path().parent != cache


@pytest.mark.parametrize("whose", ["everybody's", "another's"])
def test_a_cache_folder_that_others_can_change(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """They could put another file in the place of a build after its owner has been looked at."""
    cache.mkdir(parents=True, exist_ok=True)
    assert built_path().parent == cache
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if whose == "everybody's":
        cache.chmod(0o777)
    else:
        ours = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: ours + 7)
        monkeypatch.setattr("locant.kernels.building._private_folder", lambda: tmp_path)
        if ours == 0:
            os.chown(cache, 1, 1)
    assert built_path().parent != cache


@pytest.fixture
def homeless(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a home folder; the folder for temporary files."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@needs_compiler
def test_without_a_home_builds_lie_in_a_private_folder(homeless: Path) -> None:
    assert fresh().usable()
    (folder,) = homeless.glob("locant-*")
    assert built_path().parent == folder
    assert built_path().exists()
    assert folder.stat().st_mode & 0o077 == 0


@needs_compiler
@pytest.mark.parametrize("kind", ["link", "open"])
def test_a_private_folder_is_nobody_elses(homeless: Path, kind: str) -> None:
    name = f"locant-{os.geteuid()}"
    if kind == "link":
        (homeless / "elsewhere").mkdir()
        (homeless / name).symlink_to(homeless / "elsewhere")
    else:
        (homeless / name).mkdir()
        (homeless / name).chmod(0o777)
    assert built_path().parent.name not in (name, "elsewhere")
    assert built_path() == built_path()
    assert built_path().parent.stat().st_mode & 0o077 == 0


@needs_compiler
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_build_that_others_could_have_changed_is_not_loaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    assert fresh().usable()
    inside = built_path()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    inside.unlink()  # what is loaded lies in the old file
    inside.write_bytes(b"not to be loaded")
    inside.chmod(mode)
    assert fresh().usable()
    assert built_path().parent.parent == tmp_path
    assert built_path().parent != cache
    inside.chmod(0o755)
    assert built_path() == inside


def compiler_of(folder: Path, script: str) -> str:
    path = folder / "a-compiler"
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n{script}\n')
    path.chmod(0o755)
    return str(path)


def test_builds_are_of_a_target_a_compiler_and_a_c_library(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr("locant.kernels.building._CPUINFO", info)
    paths = []

    def look() -> None:
        paths.append(built_path())
        assert built_path() == paths[-1]

    for features in ("fp asimd", "fp asimd asimddp", "fp asimd asimddp i8mm bf16"):
        info.write_text(f"processor : 0\nBogoMIPS : {len(paths)}\nFeatures : {features}\nCPU part : 0xd40\n")
        look()
    for defined in ('#define __VERSION__ "12"', '#define __VERSION__ "13"', "#define __ARM_FEATURE_SVE 1"):
        monkeypatch.setenv("CXX", compiler_of(tmp_path, f"cat > /dev/null; echo '{defined}'"))
        look()
    assert (tmp_path / "asked").read_text().count("-march=native") == 3, "each is asked once"
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 9.99")
    look()
    assert len(set(paths)) == len(paths) == 7


@needs_compiler
def test_a_compiler_with_arguments(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locant.kernels.building.sources", lambda: SOME_SOURCES)
    (tmp_path / "my tools").mkdir()
    ran, first, second = (tmp_path / "my tools" / name for name in ("ccache", "one-c++", "two-c++"))
    ran.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/asked"\nexec "$@"\n')
    paths = []

    def build_by(*command: object) -> str:
        monkeypatch.setenv("CXX", shlex.join(map(str, command)))
        paths.append(built_path())
        fresh().require()
        assert paths[-1].exists()
        return (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""

    for compiler in (first, second):
        compiler.write_text(f'#!/bin/sh\nexec {shlex.join(find_compiler() or ())} "$@"\n')
    for program in (ran, first, second):
        program.chmod(0o755)
    monkeypatch.setenv("CXX", str(first))  # as it always could be said, without quotes
    assert find_compiler() == (str(first),)
    assert "two-c++" not in build_by(ran, first)
    assert f"{first} -O3 -march=native" in build_by(ran, first)
    assert paths[0] == paths[1]
    assert f"{second} -O1 -DBY_NAME" in build_by(ran, second, "-O1", "-DBY_NAME")
    count = build_by(ran, second, "-O2").count("-dM")
    first.write_text(f"{first.read_text()}# a newer one")
    assert build_by(ran, first).count("-dM") == count + 1, "what is run by another program is asked again as well"
    assert len(set(paths)) == 3
    monkeypatch.setenv("CXX", f"{ran} 'no end")
    assert find_compiler() != (str(ran),)
    assert find_compiler() is not None


@needs_compiler
@pytest.mark.parametrize("refused", ["threads", "processes"])
def test_a_system_that_starts_nothing_more_leaves_pytorch_s_operations(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        if refused == "threads":
            raise RuntimeError("can't start new thread")
        raise BlockingIOError(11, "Resource temporarily unavailable")

    patched = "threading.Thread.start" if refused == "threads" else "subprocess.Popen.__init__"
    monkeypatch.setattr("locant.kernels.building.sources", lambda: SOME_SOURCES)
    monkeypatch.setattr(patched, refuse)
    assert not fresh().usable()
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "new thread" in warning if refused == "threads" else "could not be started to build probe.cpp" in warning


def test_a_compiler_that_dies_is_not_taken_for_one_that_knows_less(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in ((9, "SIGKILL"), (signal.SIGRTMIN + 6, f"signal {signal.SIGRTMIN + 6}")):
        monkeypatch.setenv("CXX", compiler_of(tmp_path, f"kill -{number} $$"))
        with pytest.raises(ConfigError, match=rf"a-compiler was ended by {name} while it built probe\.cpp"):
            fresh().require()
    said = "g++: fatal error: Killed signal terminated program cc1plus"
    monkeypatch.setenv("CXX", compiler_of(tmp_path, f"echo '{said}' >&2; exit 1"))
    with pytest.raises(ConfigError, match=f"could not build probe.cpp. It said: {said.replace('+', '.')}"):
        fresh().require()
    assert "-fopenmp-simd -c" not in (tmp_path / "asked").read_text(), "nothing else was tried"


def test_the_switch() -> None:
    assert locant.kernels.enabled()
    assert locant.kernels.enabled(False) is False
    assert not locant.kernels.enabled()
    assert not fresh().usable()
    with pytest.raises(ConfigError, match="switched off"):
        fresh().require()
    assert locant.kernels.enabled(True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("value", "on"), [("0", False), ("off", False), ("False", False), ("1", True), ("", True)])
def test_the_environment_switches_off_from_the_start(value: str, on: bool) -> None:
    code = "import locant.kernels, sys; sys.exit(locant.kernels.enabled())"
    environment = {**os.environ, "LOCANT_KERNELS": value}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == on


def test_small_tensors_build_nothing(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(rotation, "KERNEL", fresh())
    x, positions = torch.randn(1, 2, 8, 16), torch.arange(8)
    Rotary(16).rotate(x, x, positions, positions)
    assert not cache.exists()


@needs_compiler
def test_the_command_line_says_that_it_builds(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with messages_on_stderr():
        assert fresh().usable()
    assert capsys.readouterr().err.startswith("locant: Building C++ kernels for this processor")
    assert not logging.getLogger("locant").handlers
