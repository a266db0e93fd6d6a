"""What every benchmark shares: one runner, one record, one table, and what is measured in a quiet machine."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import torch

Found = TypeVar("Found")
PACKAGES = ("locant", "torch", "transformers", "x-transformers", "ctranslate2")


def alone(
    script: Path | str,
    *arguments: object,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
    group: Path | None = None,
) -> Any:
    """Run a script in a process of its own and return its last line's JSON; ``None`` where it fails, which is said.

    Args:
        script: A Python file.
        arguments: Of its command line.
        environment: All of the process; by default this one's.
        timeout: Seconds after which it has failed.
        group: The file of processes of a control group that it joins first.
    """
    command = [sys.executable, str(script), *map(str, arguments)]
    said = f"{Path(script).name} {' '.join(command[2:])}"
    if group is not None:
        command = ["sh", "-c", f'echo $$ > {group} && exec "$@"', "sh", *command]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=timeout)
    except subprocess.TimeoutExpired:
        print(f"{said} took longer than {timeout:g} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"{said} failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turns(jobs: Mapping[str, Callable[[], Found | None]], rounds: int) -> dict[str, list[Found]]:
    """Run all jobs once a round, each round in another order, and return what each found; without those that failed."""
    found: dict[str, list[Found]] = {name: [] for name in jobs}
    order = list(jobs)
    for number in range(rounds):
        random.Random(number).shuffle(order)
        for name in order:
            if (result := jobs[name]()) is not None:
                found[name].append(result)
    return {name: results for name, results in found.items() if results}


def write_record(path: Path, **found: Any) -> None:
    """Write a record: what was found, with the machine and the versions of the packages that are there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "packages": packages(), **found}, indent=1) + "\n", "utf-8")


def add_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record to a file that has one in each line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file that has one in each line; none where it does not exist."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def packages() -> dict[str, str]:
    """Return the versions of Locant and of the peers that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def row(*cells: object) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def header(*columns: str) -> str:
    """Return the first two rows of a Markdown table; numbers are on the right of columns that end with a colon."""
    ruled = ("---:" if column.endswith(":") else "---" for column in columns)
    return f"{row(*(column.removesuffix(':') for column in columns))}\n{row(*ruled)}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    return "\n".join([header(*columns), *(row(*cells) for cells in rows)])


def machine() -> str:
    """Return the processor, its cores and the versions that matter."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, torch {torch.__version__}, {time.strftime('%B %Y')}"


def use_device(name: str) -> str:
    """Make every new tensor one of a device, so that peers put theirs there too, and return what the device is."""
    torch.set_default_device(name)
    return f"{torch.cuda.get_device_name()}, {machine()}" if name == "cuda" else machine()


def warn_when_busy() -> None:
    """Print a warning where something else keeps the machine busy, because every number would be wrong."""
    load = os.getloadavg()[0]
    if load > 0.5 * (os.cpu_count() or 1):
        print(f"WARNING: the load average is {load:.1f}; other work distorts every number below.")


def median_seconds(function: Callable[[], object], *, seconds: float = 1.5, warm_up: int = 3) -> float:
    """Return the median time of a call, over as many calls as fit into the given seconds, at least five."""
    for _ in range(warm_up):
        function()
    times: list[float] = []
    while len(times) < 5 or (sum(times) < seconds and len(times) < 200):
        times.append(_seconds(function))
    return statistics.median(times)


def median_ratio(function: Callable[[], object], reference: Callable[[], object], *, seconds: float = 2.0) -> float:
    """Return the median time of a call over that of a reference, called in turns so that both see the same machine."""
    for _ in range(3):
        function()
        reference()
    ours: list[float] = []
    theirs: list[float] = []
    while len(ours) < 5 or sum(ours) + sum(theirs) < seconds:
        for call, times in ((function, ours), (reference, theirs)):
            times.append(_seconds(call))
    return statistics.median(ours) / statistics.median(theirs)


def peak_megabytes(function: Callable[[], object]) -> float:
    """Return by how much a call raises the memory of this process at its peak, in MB.

    On CUDA it is that of the device's tensors, else the resident memory (Linux only).
    """
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()
        allocated = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        function()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - allocated) / 2**20
    # What earlier calls have freed would hide as much of what this one takes.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    function()
    return (_status("VmHWM") - before) / 1024


def processor_seconds_of_children() -> float:
    """Return the processor time of all processes that this one has begun, and they, and that go on (Linux only)."""
    parents, seconds = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        seconds[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ours(number: int) -> bool:
        while number in parents:
            number = parents[number]
            if number == os.getpid():
                return True
        return False

    return sum(spent for number, spent in seconds.items() if ours(number))


def _seconds(function: Callable[[], object]) -> float:
    """Return how long a call takes, on CUDA until the device has done it."""
    on_device = torch.get_default_device().type == "cuda"
    if on_device:
        torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    if on_device:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key))
