"""What every benchmark shares: a quiet machine, medians, peak memory, and a line on the machine."""

from __future__ import annotations

import ctypes
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch


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
