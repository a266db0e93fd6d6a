"""Training and translating beside other work, Locant and its peers: every engine alone in its process, in turns.

    python contention.py --output contention.json

Each engine runs as its users run it, with as many threads as it takes by itself, on a quiet machine; with one thread;
with a process that keeps one core busy; and under a quota of so many cores as there are, less a half. Prints a Markdown
table with the share of the quiet speed that is left. Nothing else should run meanwhile; takes half an hour, and with
``--only "locant int8"`` some minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.translation import supports
from measure import alone, in_turns, machine, table, warn_when_busy, write_record

HERE = Path(__file__).parent
CORES = os.cpu_count() or 1
QUOTA = max(0.5, CORES - 0.5)
LONGEST = 240
"""Seconds after which an engine is given up."""

CONDITIONS = ("quiet", "one thread", "busy core", "quota")
SPINNING = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


def jobs(seconds: float) -> dict[str, list[str]]:
    """Return what is measured, by name: a script and its arguments."""
    found = {
        f"training tiny-8k | {engine}": ["train_engine.py", engine, "tiny-8k", "--seconds", str(seconds)]
        for engine in ("locant", "transformers")
    }
    kinds = ("float32", "int8")
    engines = [("locant", kind) for kind in kinds if supports(kind)]
    engines += [("ctranslate2", f"{kind}-{share}") for kind in kinds for share in (f"1x{CORES}", f"{CORES}x1")]
    engines += [("transformers", "float32")]
    for shape, batch, beam in (("small-8k", 32, 1), ("small-8k", 1, 4), ("base-32k", 1, 1), ("base-32k", 32, 1)):
        for engine, variant in engines:
            options = ["--batch", str(batch), "--beam", str(beam), "--seconds", str(seconds)]
            name = f"translating {shape}, batch {batch}, beam {beam} | {engine} {variant}"
            found[name] = ["translate_engine.py", engine, variant, shape, *options]
    return found


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep the last core busy meanwhile."""
    with subprocess.Popen([sys.executable, "-c", SPINNING, str(CORES - 1)]) as other:
        try:
            yield
        finally:
            other.kill()


@contextmanager
def quota(cores: float) -> Iterator[Path | None]:
    """Yield the file of processes of a control group with a quota; ``None`` where none can be made."""
    limits = {"cpu.max": f"{int(cores * 100_000)} 100000"}
    places = {Path("/sys/fs/cgroup"): limits}
    places[Path("/sys/fs/cgroup/cpu")] = {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": str(int(cores * 100_000)),
    }
    for root, files in places.items():
        group = root / "locant-contention"
        with suppress(OSError):
            group.mkdir()
            try:
                for name, text in files.items():
                    if not (group / name).exists():
                        raise FileNotFoundError(name)
                    (group / name).write_text(text)
                yield group / "cgroup.procs"
                return
            finally:
                group.rmdir()
    yield None


def under(condition: str, job: list[str]) -> float | None:
    """Return the tokens a second of an engine under one of the conditions; ``None`` where it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
    if condition == "one thread":  # CTranslate2 is told so by its arguments
        job = [part.replace(f"-1x{CORES}", "-1x1").replace(f"-{CORES}x1", "-1x1") for part in job]
        environment["OMP_NUM_THREADS"] = "1"
    with ExitStack() as stack:
        group = stack.enter_context(quota(QUOTA)) if condition == "quota" else None
        if condition == "busy core":
            stack.enter_context(busy_core())
        script, *arguments = job
        found = alone(HERE / script, *arguments, environment=environment, timeout=LONGEST, group=group)
        return found and found["tokens_per_second"]


def show(found: dict[str, list[float]], names: Iterable[str]) -> None:
    """Print the medians, and what is left of the quiet speed."""
    columns = ["work", "engine", "quiet, tokens/s", "one thread", "beside a busy core", "left"]
    rows = []
    for name in names:
        speeds = {one: statistics.median(found[f"{name} | {one}"]) for one in CONDITIONS if f"{name} | {one}" in found}
        cells = {condition: f"{speed:,.0f}" for condition, speed in speeds.items()}
        left = {one: f"{speed / speeds['quiet']:.0%}" for one, speed in speeds.items() if "quiet" in speeds}
        work, engine = name.split(" | ")
        rows.append(
            [
                *(work, engine, cells.get("quiet", "-"), cells.get("one thread", "-")),
                *(part.get(condition, "-") for condition in ("busy core", "quota") for part in (cells, left)),
            ]
        )
    print(table([*columns, f"quota of {QUOTA:g} cores", "left"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", help="the work and engines whose names have this in them")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    warn_when_busy()
    chosen = {name: job for name, job in jobs(arguments.seconds).items() if (arguments.only or "") in name}
    with quota(QUOTA) as group:
        if group is None:
            print("No control group can be made here, so there are no numbers under a quota.", file=sys.stderr)
    turns = {
        f"{name} | {condition}": partial(under, condition, job)
        for name, job in chosen.items()
        for condition in CONDITIONS
        if condition != "quota" or group
    }
    found = in_turns(turns, arguments.rounds)
    if arguments.output:
        write_record(arguments.output, quota=QUOTA, results=found)
    print(f"{machine()}\n")
    show(found, chosen)


if __name__ == "__main__":
    main()
