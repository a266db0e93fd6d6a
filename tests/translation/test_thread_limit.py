"""Threads follow what the system grants while a process runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from with_kernels import needs_compiler

from locant.translation import thread_limit
from locant.translation.thread_limit import ThreadLimit


class System:
    """A system whose cores and quota change; looking at it takes no time to wait for."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.cores, self.seconds = folder, 8, 0.0
        patch.setattr("locant.runtime._FIXED", False)
        patch.setattr(thread_limit, "usable_cores", lambda: self.cores)
        patch.setattr(thread_limit, "time", SimpleNamespace(monotonic=lambda: self.seconds))
        self.quota("max")

    def quota(self, microseconds: str) -> None:
        for name, text in (("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", f"{microseconds} 100000\n")):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.seconds += 3


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(tmp_path, monkeypatch)


def test_a_quota_that_changes(system: System) -> None:
    limit = ThreadLimit(8, system.folder)
    assert limit.of(8) == 8
    system.quota("300000")
    assert limit.of(8) == 3
    system.quota("100000")
    assert limit.of(8) == 1
    system.quota("max")
    assert limit.of(8) == 8


def test_a_quota_that_was_small_at_first(system: System) -> None:
    """Its process was told to have as many threads, or has one for each core."""
    system.quota("200000")
    for threads in (2, 8):
        system.quota("200000")
        limit = ThreadLimit(threads, system.folder)
        assert limit.of(threads) == 2
        system.quota("600000")
        assert limit.of(threads) == 6
        system.quota("9900000")
        assert limit.of(threads) == 8


def test_cores_that_change(system: System) -> None:
    limit = ThreadLimit(8, system.folder)
    for cores in (2, 12, 8):
        system.cores = cores
        assert limit.of(8) != cores, "it does not look at every call"
        system.seconds += 3
        assert limit.of(8) == cores


def test_threads_that_were_chosen(system: System) -> None:
    """Never more than were asked for, and as many as were asked for where the system grants what it did."""
    limit = ThreadLimit(8, system.folder)
    assert (limit.of(3), limit.of(11)) == (3, 11)
    system.cores, system.seconds = 2, system.seconds + 3
    assert (limit.of(1), limit.of(3), limit.of(11)) == (1, 2, 2)
    system.cores, system.seconds = 20, system.seconds + 3
    assert (limit.of(3), limit.of(11)) == (3, 11)
    chosen = ThreadLimit(3, system.folder)
    system.cores, system.seconds = 40, system.seconds + 3
    assert chosen.of(3) == 3


def test_threads_that_the_environment_fixes(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locant.runtime._FIXED", True)
    limit = ThreadLimit(8, system.folder)
    system.cores = 1
    system.quota("100000")
    assert limit.of(8) == 8


@needs_compiler
@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: [0])(0)) < 2, reason="needs two cores")
def test_an_engine_follows_its_cores() -> None:
    code = (
        "import os, time, torch\n"
        "from tiny_models import tiny_model\n"
        "from locant.translation import CompiledTransformer\n"
        "cores = os.sched_getaffinity(0)\n"
        "torch.set_num_threads(len(cores))\n"
        "model = CompiledTransformer(tiny_model(40))\n"
        "found = [model.threads]\n"
        "for given in ({min(cores)}, cores):\n"
        "    os.sched_setaffinity(0, given)\n"
        "    time.sleep(2.1)\n"
        "    found.append(model.threads)\n"
        "assert found == [len(cores), 1, len(cores)], found\n"
    )
    support = str(Path(__file__).parents[1] / "support")
    inherited = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    path = os.pathsep.join([support, *filter(None, [inherited.get("PYTHONPATH")])])
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env={**inherited, "PYTHONPATH": path})
