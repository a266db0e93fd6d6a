"""One trial in a process of its own: ``python -m locant.lab.worker FOLDER TASK VARIANT SEED DEVICE [MODULE ...]``.

An empty variant prepares what the trials of a seed share; the modules register schemes that are not Locant's. Standard
output carries a share that is done on each line; the last line of standard error says what went wrong.
"""

from __future__ import annotations

import platform
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from locant.errors import ConfigError, DataError, LocantError
from locant.lab.comparison import Job, load_comparison
from locant.lab.record import Record, prepared_path, save_record
from locant.lab.task import Outcome, Trial
from locant.runtime import choose_device, environment, keep_freed_memory, limit_onednn_cache


def run_job(folder: Path, job: Job, device_name: str) -> None:
    """Run one trial and write its record, or prepare what the trials of a seed share.

    Raises:
        LocantError: It could not be done.
    """
    keep_freed_memory()
    limit_onednn_cache()
    started = time.perf_counter()
    comparison, device = load_comparison(folder), choose_device(device_name)
    task = comparison.build(job.task)
    prepared = prepared_path(folder, job.task, job.seed)
    trial = Trial(job.variant, job.seed, comparison.budget, device, prepared, _say)
    if not job.variant:
        task.prepare(trial)
        return
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
        environment=_environment(),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    save_record(folder, record)


def main(arguments: list[str]) -> int:
    """Run the job that the arguments name; returns the exit code."""
    folder, task, variant, seed, device, *modules = arguments
    try:
        for module in modules:
            import_module(module)
        run_job(Path(folder), Job(task, variant, int(seed)), device)
    except LocantError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _environment() -> dict[str, Any]:
    """Return versions and machine; the command of this process says nothing that the configuration does not."""
    return {key: value for key, value in environment().items() if key != "command"}


def _say(share: float) -> None:
    sys.stdout.write(f"{share:.4f}\n")
    sys.stdout.flush()


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
