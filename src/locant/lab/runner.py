"""Trials of a comparison: several at once, each in a process of its own, and none that is finished already.

``python -m locant.lab.runner FOLDER TASK VARIANT SEED DEVICE [MODULE ...]`` runs one trial. An empty variant prepares
what the trials of a seed share; the modules register schemes that are not Locant's. A line that is a number is the
share that is done; the last line of a trial that fails says what went wrong.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import torch

from locant import kernels
from locant.errors import ConfigError, DataError, LocantError
from locant.files import write_json
from locant.kernels.library import build_all
from locant.lab.comparison import Comparison, Job, load_comparison, save_comparison
from locant.lab.record import Record, record_path
from locant.lab.task import Outcome, Trial
from locant.lab.variants import modules_of
from locant.locks import holding
from locant.runtime import (
    choose_device,
    environment,
    granted_cores,
    keep_freed_memory,
    limit_onednn_cache,
)


class ComparisonCallback:
    """Base of callbacks of a comparison; every method does nothing unless overridden."""

    def on_start(self, waiting: int, finished: int, at_once: int) -> None:
        """Trials begin; ``finished`` ones have a record already."""

    def on_progress(self, job: Job, share: float) -> None:
        """A trial has done a share of its budget, 0 to 1."""

    def on_end(self, job: Job, error: str) -> None:
        """A trial is over; ``error`` is empty where it went well."""


def run_comparison(
    folder: Path,
    comparison: Comparison,
    *,
    device: str = "auto",
    at_once: int | None = None,
    callback: ComparisonCallback | None = None,
) -> dict[Job, str]:
    """Run all trials that have no record yet.

    Args:
        folder: Where records are kept; made if it is not there.
        comparison: What to compare.
        device: ``auto``, ``cpu`` or ``cuda``.
        at_once: Trials that run at the same time; by default one for each core, or four for each GPU, which models this
            small do not fill, as long as there are cores. The cores are divided evenly among that many, even where
            fewer are left to run, so that no trial has more threads than another.
        callback: Called as it goes on.

    Returns:
        The trials that failed, and why; all others have a record. A failed trial runs again the next time.

    Raises:
        LocantError: Something is wrong with the comparison, before any trial runs.
        CheckpointError: Another process compares in the folder.
    """
    callback = callback or ComparisonCallback()
    tasks = {name: comparison.build(name) for name in comparison.tasks}
    for name, task in tasks.items():
        for variant in comparison.variants_of(name):
            task.check_variant(variant)
    kind = choose_device(device).type
    with holding(folder, "comparing"):
        jobs = comparison.jobs()
        waiting = [job for job in jobs if comparison.finished_record(folder, job) is None]
        for name in dict.fromkeys(job.task for job in waiting):
            tasks[name].check()
        save_comparison(folder, comparison)
        cores = granted_cores()
        at_once = at_once or (min(cores, 4 * torch.cuda.device_count()) if kind == "cuda" else cores)
        callback.on_start(len(waiting), len(jobs) - len(waiting), min(at_once, len(waiting)))
        if waiting and kind == "cpu":
            build_all()  # here, where it is announced, and not in every process at the same time
        pool = _Pool(folder, kind, at_once, modules_of(job.variant for job in waiting), callback)
        needed = dict.fromkeys(Job(job.task, "", job.seed) for job in waiting if tasks[job.task].prepares)
        failures = pool.run([job for job in needed if not _prepared(folder, job).exists()])
        missing = {(job.task, job.seed) for job in failures}
        return failures | pool.run([job for job in waiting if (job.task, job.seed) not in missing])


def _prepared(folder: Path, job: Job) -> Path:
    """Return where what a task prepared for the seed of a job is kept."""
    return folder / "prepared" / job.task / f"seed-{job.seed}"


class _Pool:
    """Runs jobs in processes of their own."""

    def __init__(
        self, folder: Path, kind: str, at_once: int, modules: Sequence[str], callback: ComparisonCallback
    ) -> None:
        self.folder, self.at_once, self.callback = folder, at_once, callback
        self._last_words = [kind, *modules]
        self._started: list[subprocess.Popen[str]] = []
        threads = str(max(1, granted_cores() // at_once))
        self._environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        if not kernels.enabled():
            self._environment[kernels.SWITCH] = "0"
        if modules:  # they are found where they were found here
            self._environment["PYTHONPATH"] = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
        self._devices: list[str] = []
        if kind == "cuda":
            listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
            self._devices = listed.split(",") if listed else [str(one) for one in range(torch.cuda.device_count())]

    def run(self, jobs: Sequence[Job]) -> dict[Job, str]:
        """Run jobs and return those that failed, and why; when interrupted, end all that run."""
        failures: dict[Job, str] = {}
        with ThreadPoolExecutor(self.at_once) as threads:
            try:
                futures = {threads.submit(self._run, job, number): job for number, job in enumerate(jobs)}
                for future in as_completed(futures):
                    job, error = futures[future], future.result()
                    self.callback.on_end(job, error)
                    if error:
                        failures[job] = error
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                for process in self._started:
                    process.kill()
                raise
        return failures

    def _run(self, job: Job, number: int) -> str:
        """Run one job and return what went wrong."""
        words = [str(self.folder), job.task, job.variant, str(job.seed), *self._last_words]
        device = {"CUDA_VISIBLE_DEVICES": self._devices[number % len(self._devices)]} if self._devices else {}
        said = ""
        with subprocess.Popen(
            [sys.executable, "-u", "-m", "locant.lab.runner", *words],
            env={**self._environment, **device},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process:
            self._started.append(process)
            for line in process.stdout or ():
                try:
                    self.callback.on_progress(job, float(line))
                except ValueError:  # a warning, something that a library prints, or what went wrong
                    said = line.strip() or said
        return (said or f"the process ended with code {process.returncode}") if process.returncode else ""


def main(arguments: list[str]) -> int:
    """Run the trial that the arguments name and write its record, or prepare what the trials of a seed share.

    Returns:
        The exit code.
    """
    name, task_name, variant, seed, device_name, *modules = arguments
    folder, started, job = Path(name), time.perf_counter(), Job(task_name, variant, int(seed))
    try:
        for module in modules:
            import_module(module)
        keep_freed_memory()
        limit_onednn_cache()
        comparison, device = load_comparison(folder), choose_device(device_name)
        task = comparison.build(job.task)
        trial = Trial(
            job.variant,
            job.seed,
            comparison.budget,
            device,
            _prepared(folder, job),
            _say,
        )
        if not job.variant:
            task.prepare(trial)
            return 0
        try:
            outcome = task.run(trial)
        except (ConfigError, DataError) as error:
            outcome = Outcome(cannot=str(error))
        record = Record(
            task=job.task,
            variant=job.variant,
            seed=job.seed,
            configuration=comparison.configuration(job.task),
            outcome=outcome,
            wall_seconds=time.perf_counter() - started,
            peak_memory=_peak_memory(device),
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            # The command of this process says nothing that the configuration does not.
            environment={key: value for key, value in environment().items() if key != "command"},
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        write_json(record_path(folder, job.task, job.variant, job.seed), record.to_dict())
    except LocantError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _say(share: float) -> None:
    sys.stdout.write(f"{share:.4f}\n")


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:
        return 0  # Windows
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
