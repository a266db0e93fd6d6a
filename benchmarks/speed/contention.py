"""Training and translating beside other work, Locant and its peers: every engine alone in its process, in turns.

    python contention.py --output contention.json

Each engine runs as its users run it, with as many threads as it takes by itself, on a quiet machine; with one thread;
with a process that keeps one core busy; and under a quota of so many cores as there are, less a half. Prints a Markdown
table with the share of the quiet speed that is left. Nothing else should run meanwhile; takes half an hour, and with
``--only "locant int8"`` some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.translation import supports
from measure import machine, warn_when_busy

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


def run(job: list[str], threads: int | None, group: Path | None = None) -> dict[str, Any] | None:
    """Run an engine in a process of its own; ``None`` where it fails."""
    script, *arguments = job
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    command = [sys.executable, str(HERE / script), *arguments]
    if group is not None:
        command = ["sh", "-c", f'echo $$ > {group} && exec "$@"', "sh", *command]
    try:
        done = subprocess.run(
            command, env=environment, cwd=HERE, capture_output=True, text=True, check=False, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        print(f"{' '.join(arguments)} took longer than {LONGEST} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"{' '.join(arguments)} failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def under(condition: str, job: list[str]) -> dict[str, Any] | None:
    """Run an engine under one of the conditions."""
    if condition == "busy core":
        with busy_core():
            return run(job, None)
    if condition == "quota":
        with quota(QUOTA) as group:
            return None if group is None else run(job, None, group)
    if condition == "one thread":  # CTranslate2 is told so by its arguments
        return run([part.replace(f"-1x{CORES}", "-1x1").replace(f"-{CORES}x1", "-1x1") for part in job], 1)
    return run(job, None)


def show(found: dict[str, dict[str, list[float]]]) -> None:
    """Print the medians, and what is left of the quiet speed."""
    print("| work | engine | quiet, tokens/s | one thread | beside a busy core | left | quota of "
          f"{QUOTA:g} cores | left |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, speeds in found.items():
        median = {key: statistics.median(values) for key, values in speeds.items() if values}
        quiet = median.get("quiet")

        def speed(condition: str, median: dict[str, float] = median) -> str:
            return f"{median[condition]:,.0f}" if condition in median else "-"

        def left(condition: str, median: dict[str, float] = median, quiet: float | None = quiet) -> str:
            return f"{median[condition] / quiet:.0%}" if quiet and condition in median else "-"

        cells = [
            speed("quiet"),
            speed("one thread"),
            speed("busy core"),
            left("busy core"),
            speed("quota"),
            left("quota"),
        ]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", help="the work and engines whose names have this in them")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    warn_when_busy()
    chosen = {name: job for name, job in jobs(arguments.seconds).items() if (arguments.only or "") in name}
    found: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in chosen}
    with quota(QUOTA) as group:
        if group is None:
            print("No control group can be made here, so there are no numbers under a quota.", file=sys.stderr)
    turns = [(name, condition) for name in chosen for condition in CONDITIONS if condition != "quota" or group]
    for number in range(arguments.rounds):
        random.Random(number).shuffle(turns)
        for name, condition in turns:
            if record := under(condition, chosen[name]):
                found[name][condition].append(record["tokens_per_second"])
            if arguments.output:
                arguments.output.write_text(
                    json.dumps({"machine": machine(), "quota": QUOTA, "results": found}, indent=1)
                )
    print(f"{machine()}\n")
    show(found)


if __name__ == "__main__":
    main()
