"""What a step of the compiled decoder costs, and what lies between two: a line for each shape, precision and beam.

    python benchmarks/speed/decoding_steps.py --shapes small-8k base-32k --beams 1 4 --seconds 3

Medians of wall-clock microseconds in a step of the search and outside of it (of batches, in a step of a group that a
thread translates by itself; outside is then less than nothing where groups run side by side), and means of processor time, of how
often a helper went to sleep, and of how often the system took a core away from a thread, for each step. Nothing else
should run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from locant.runtime import prepare_threads

prepare_threads()  # as the command line does, before torch is loaded

# ruff: noqa: E402
import torch
from shapes import LENGTH, SHAPES
from translate_engine import locant

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.translation.compiled_search import CompiledSearch
from measure import machine, warn_when_busy


def switches() -> tuple[int, int]:
    """Return how often threads other than the main one slept, and how often any thread lost its core."""
    slept = lost = 0
    for task in Path("/proc/self/task").iterdir():
        lines = dict(
            line.split(":", 1) for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line
        )
        lost += int(lines["nonvoluntary_ctxt_switches"])
        slept += int(lines["voluntary_ctxt_switches"]) if task.name != str(os.getpid()) else 0
    return slept, lost


def measure(shape: str, precision: str, batch: int, beam: int, seconds: float) -> str:
    """Translate for some seconds; return a line of a table."""
    torch.manual_seed(0)
    translate = locant(SHAPES[shape], beam, precision)
    inside: list[float] = []
    plain = CompiledSearch.run

    def timed(self: CompiledSearch, *wanted: Any) -> Any:
        start = time.perf_counter()
        found = plain(self, *wanted)
        inside.append((time.perf_counter() - start) / LENGTH)
        return found

    CompiledSearch.run = timed  # type: ignore[method-assign]
    try:
        generator, sentences, wall = torch.Generator().manual_seed(1), 0, []
        while len(wall) < 8 or sum(wall) < seconds:
            if sentences == 3:
                inside.clear()
                wall.clear()
                before, processor = switches(), time.process_time()
            sources = torch.randint(4, SHAPES[shape].vocabulary, (batch, LENGTH), generator=generator).tolist()
            start = time.perf_counter()
            translate(sources)
            wall.append(time.perf_counter() - start)
            sentences += 1
        steps, used = len(inside) * LENGTH, time.process_time() - processor
        slept, lost = (now - then for now, then in zip(switches(), before, strict=True))
        each = statistics.median(wall) / LENGTH * 1e6
        step = statistics.median(inside) * 1e6
        return (
            f"{shape:9} {precision:9} {batch:5} {beam:5} {batch * LENGTH / statistics.median(wall):9.0f} {step:9.1f} "
            f"{each - step:9.1f} {used / steps * 1e6:11.1f} {slept / steps:8.3f} {lost / steps:8.3f}"
        )
    finally:
        CompiledSearch.run = plain  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["small-8k", "base-32k"])
    parser.add_argument("--precisions", nargs="+", default=["int8"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    warn_when_busy()
    print(f"{machine()}, {torch.get_num_threads()} threads")
    print("shape     precision batch  beam  tokens/s  in step   outside   processor    slept     lost")
    for shape in options.shapes:
        for precision in options.precisions:
            for batch in options.batches:
                for beam in options.beams:
                    print(measure(shape, precision, batch, beam, options.seconds), flush=True)


if __name__ == "__main__":
    main()
