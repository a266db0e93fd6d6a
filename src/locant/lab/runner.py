"""Trials of a comparison: several at once, each in a process of its own, and none that is finished already."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import torch

from locant import kernels
from locant.kernels.library import build_all
from locant.lab.comparison import Comparison, Job, finished_record, require_same_way, save_comparison
from locant.lab.record import prepared_path
from locant.lab.variants import modules_of
from locant.locks import holding
from locant.runtime import choose_device, most_threads, usable_cores


class ComparisonCallback:
    """Base of what is told how a comparison goes; every method does nothing unless overridden."""

    def on_start(self, waiting: int, finished: int, at_once: int) -> None:
        """Trials begin; ``finished`` ones have a record already."""

    def on_progress(self, job: Job, share: float) -> None:
        """A trial has done a share of its budget, 0 to 1."""

    def on_end(self, job: Job, error: str) -> None:
        """A trial is over; ``error`` is empty where it went well."""


@dataclass(frozen=True)
class Failure:
    """A trial that ended without a record, and why."""

    job: Job
    reason: str


def run_comparison(
    folder: Path,
    comparison: Comparison,
    *,
    device: str = "auto",
    at_once: int | None = None,
    callback: ComparisonCallback | None = None,
) -> list[Failure]:
    """Run all trials that have no record yet.

    Args:
        folder: Where records are kept; made if it is not there.
        comparison: What to compare.
        device: ``auto``, ``cpu`` or ``cuda``.
        at_once: Trials that run at the same time; by default one for each core, or four for each GPU, which models this
            small do not fill, as long as there are cores. The cores are divided evenly among so many, even where
            fewer are left to run, so that no trial has more threads than another.
        callback: Is told how it goes.

    Returns:
        The trials that failed; all others have a record. A failed trial runs again the next time.

    Raises:
        LocantError: Something is wrong with the comparison, before any trial runs.
        CheckpointError: Another process compares in the folder.
    """
    callback = callback or ComparisonCallback()
    comparison.check_names()
    kind = choose_device(device).type
    with holding(folder, "comparing"):
        require_same_way(folder, comparison)
        jobs = comparison.jobs()
        waiting = [job for job in jobs if finished_record(folder, comparison, job) is None]
        for name in dict.fromkeys(job.task for job in waiting):
            comparison.build(name).check()
        save_comparison(folder, comparison)
        places = min(_cores(), 4 * torch.cuda.device_count()) if kind == "cuda" else _cores()
        at_once = at_once or places
        callback.on_start(len(waiting), len(jobs) - len(waiting), min(at_once, len(waiting)))
        if waiting and kind == "cpu":
            build_all()  # here, where it is announced, and not in every process at the same time
        modules = modules_of(job.variant for job in waiting)
        pool = _Pool(folder, kind, at_once, modules, callback)
        needed = dict.fromkeys(Job(job.task, "", job.seed) for job in waiting if comparison.build(job.task).prepares)
        failures = pool.run([job for job in needed if not prepared_path(folder, job.task, job.seed).exists()])
        missing = {(failure.job.task, failure.job.seed) for failure in failures}
        return failures + pool.run([job for job in waiting if (job.task, job.seed) not in missing])


class _Pool:
    """Runs jobs in processes of their own."""

    def __init__(
        self, folder: Path, kind: str, at_once: int, modules: Sequence[str], callback: ComparisonCallback
    ) -> None:
        self.folder, self.kind, self.at_once, self.callback = folder, kind, at_once, callback
        self.modules = modules
        self._running: set[subprocess.Popen[str]] = set()
        self._places: SimpleQueue[int] = SimpleQueue()
        for place in range(at_once):
            self._places.put(place)

    def run(self, jobs: Sequence[Job]) -> list[Failure]:
        """Run jobs and return those that failed; when interrupted, end all that run."""
        failures = []
        with ThreadPoolExecutor(self.at_once) as threads:
            try:
                futures = {threads.submit(self._run, job): job for job in jobs}
                for future in as_completed(futures):
                    job, error = futures[future], future.result()
                    self.callback.on_end(job, error)
                    if error:
                        failures.append(Failure(job, error))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                for process in list(self._running):
                    process.kill()
                raise
        return failures

    def _run(self, job: Job) -> str:
        """Run one job and return what went wrong."""
        place = self._places.get()
        command = [sys.executable, "-m", "locant.lab.worker", str(self.folder), job.task, job.variant, str(job.seed)]
        try:
            with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
                process = subprocess.Popen(
                    [*command, self.kind, *self.modules],
                    env=self._environment(place),
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
                self._running.add(process)
                try:
                    _follow(process, lambda share: self.callback.on_progress(job, share))
                finally:
                    self._running.discard(process)
                errors.seek(0)
                said = errors.read().strip().splitlines()
        finally:
            self._places.put(place)
        if process.returncode == 0:
            return ""
        return said[-1] if said else f"the process ended with code {process.returncode}"

    def _environment(self, place: int) -> dict[str, str]:
        threads = max(1, _cores() // self.at_once)
        found = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if not kernels.enabled():
            found[kernels.SWITCH] = "0"
        if self.modules:  # they are found where they were found here
            found["PYTHONPATH"] = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
        if self.kind == "cuda":
            listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            known = listed.split(",") if listed else [str(index) for index in range(torch.cuda.device_count())]
            found["CUDA_VISIBLE_DEVICES"] = known[place % len(known)]
        return found


def _follow(process: subprocess.Popen[str], progress: Callable[[float], None]) -> None:
    """Pass on what a worker says until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        try:
            progress(float(line))
        except ValueError:
            continue  # something else that a library prints
    process.wait()


def _cores() -> int:
    cores = usable_cores() or 1
    return min(cores, most_threads() or cores)
