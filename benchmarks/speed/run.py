"""Training, also on real text or without some kernels, or translating, Locant and its peers: each alone, in turns.

    python run.py training --output training.json
    python run.py text --output text.json
    python run.py kernels --rounds 5 --seconds 15 --output kernels.json
    python run.py translation --shapes small-8k base-32k --searches 32x1 32x4 --output translation.json
    python run.py contention --rounds 1 --seconds 5 --output contention.json
    python run.py show training.json

Prints Markdown tables; ``show`` prints those of a record again. Nothing else should run meanwhile. ``contention`` runs
every engine as its users do, with as many threads as it takes by itself, on a quiet machine; with one thread; with a
process that keeps one core busy; and under a quota of all cores less a half.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import LENGTH, SENTENCES, SHAPES
from training_engines import TRAINING_ENGINES
from translate_engine import ENGINES as TRANSLATORS
from translate_engine import variants

from locant.runtime import has_fast_bfloat16
from locant.text import BibleCorpus, CleaningSettings, FilePair, FilesCorpus, TokenizerSettings, load_corpus, prepare
from measure import alone, in_turns, machine, median_seconds, packages, table, warn_when_busy, write_record

Record = dict[str, Any]
Jobs = dict[str, Callable[[], Any]]
HERE = Path(__file__).parent
CORES = os.cpu_count() or 1
# What keeps glibc from returning freed memory, for engines that do not do it themselves.
KEEP_MEMORY = {
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1),
}
SHAPES_OF = {
    "training": ["tiny-8k", "small-8k", "small-32k", "base-32k"],
    "text": ["tiny-8k"],
    "kernels": ["tiny-8k", "small-8k"],
    "translation": ["small-8k", "base-32k"],
    "contention": [],
}
"""Models that are measured where nobody names others."""
CONDITIONS = ("quiet", "one thread", "busy core", "quota")
QUOTA = max(0.5, CORES - 0.5)
SPINNING = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
LONGEST = 240
"""Seconds after which an engine beside other work is given up."""


def measured(script: str, arguments: list[object], *, tuned: bool = False, threads: int = CORES) -> Record | None:
    """Run an engine in a process of its own."""
    environment = {**os.environ, **(KEEP_MEMORY if tuned else {}), "OMP_NUM_THREADS": str(threads)}
    return alone(HERE / script, *arguments, environment=environment)


def both(engine: str, script: str, arguments: list[object]) -> Jobs:
    """Return how an engine runs: most peers as they install, and with freed memory kept."""
    jobs: Jobs = {engine: partial(measured, script, arguments)}
    if not engine.startswith(("locant", "torch.nn.Transformer")):
        jobs[f"{engine}, memory kept"] = partial(measured, script, arguments, tuned=True)
    return jobs


def training(shape: str, engines: list[str], options: argparse.Namespace) -> Jobs:
    """Training on batches of one size."""
    jobs: Jobs = {}
    for engine in engines:
        jobs |= both(engine, "train_engine.py", [engine, shape, "--seconds", options.seconds])
    return jobs


def kernels(shape: str, engines: list[str], options: argparse.Namespace) -> Jobs:
    """Training with all C++ kernels, without one of them, and without any.

    PyTorch's best form replaces a kernel, see :func:`training_engines.float32_attention`.
    """
    modules = ("attention", "layer_norm", "projected_cross_entropy")
    without = {"locant": (), **{f"locant without {module}": (module,) for module in modules}}
    arguments = ["locant", shape, "--seconds", options.seconds, "--without"]
    return {
        name: partial(measured, "train_engine.py", [*arguments, *missing])
        for name, missing in {**without, "locant without kernels": modules}.items()
    }


def text(shape: str, engines: list[str], options: argparse.Namespace, folder: Path) -> Jobs:
    """Training on real text: each engine with batches of its own, and the loss after equally many tokens.

    The text is the King James Version to the World English Bible unless files are given.
    """
    corpus: Any = BibleCorpus(kind="bible", source="kjv", target="web")
    if options.files:
        source, target, valid_source, valid_target = options.files
        corpus = FilesCorpus(
            kind="files",
            train=FilePair(source=[source], target=[target]),
            valid=FilePair(source=[valid_source], target=[valid_target]),
        )
    tokenizer = TokenizerSettings(vocab_size=SHAPES[shape].vocabulary, joint=True)
    prepare(load_corpus(corpus), CleaningSettings(), tokenizer, max_tokens=128, folder=folder)
    ways = {"locant": ["locant"], "transformers": ["random", "grouped"]}
    jobs: Jobs = {}
    for engine in engines:
        for way in ways.get(engine, ["random"]):
            arguments = [engine, shape, "--text", folder / "cache", "--batches", way, "--tokens", options.tokens]
            label = f"{engine}, group_by_length" if way == "grouped" else engine
            jobs |= both(label, "train_engine.py", arguments)
    return jobs


def translation(shape: str, engines: list[str], options: argparse.Namespace, batch: str, beam: str) -> Jobs:
    """Translating; every engine in each of its ways, of which the best counts."""
    jobs: Jobs = {}
    for engine in engines:
        for variant in variants(engine):
            arguments = [engine, variant, shape, "--batch", batch, "--beam", beam, "--seconds", options.seconds]
            for threads in (1, CORES) if batch == "1" and engine == "transformers" else (CORES,):
                name = f"{engine} {variant}" + ("" if engine == "ctranslate2" else f", threads {threads}")
                tuned = engine == "transformers"
                jobs[name] = partial(measured, "translate_engine.py", arguments, tuned=tuned, threads=threads)
    return jobs


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
    allowed = str(int(cores * 100_000))
    places = {
        Path("/sys/fs/cgroup"): {"cpu.max": f"{allowed} 100000"},
        Path("/sys/fs/cgroup/cpu"): {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": allowed},
    }
    for root, files in places.items():
        group = root / "locant-contention"
        with suppress(OSError):
            group.mkdir()
            try:
                if all((group / name).exists() for name in files):
                    for name, text in files.items():
                        (group / name).write_text(text)
                    yield group / "cgroup.procs"
                    return
            finally:
                group.rmdir()
    yield None


def under(condition: str, script: str, arguments: list[object]) -> float | None:
    """Return the tokens a second of an engine under one of the conditions; ``None`` where it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
    if condition == "one thread":  # CTranslate2 takes it from its arguments
        arguments = [str(part).replace(f"-1x{CORES}", "-1x1").replace(f"-{CORES}x1", "-1x1") for part in arguments]
        environment["OMP_NUM_THREADS"] = "1"
    with ExitStack() as stack:
        group = stack.enter_context(quota(QUOTA)) if condition == "quota" else None
        if condition == "quota" and group is None:
            return None
        if condition == "busy core":
            stack.enter_context(busy_core())
        found = alone(HERE / script, *arguments, environment=environment, timeout=LONGEST, group=group)
        return found and found["tokens_per_second"]


def contention(options: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Measure training and translating beside other work; the rows of a table by their conditions."""
    jobs: dict[str, tuple[str, list[object]]] = {
        f"training tiny-8k | {engine}": ("train_engine.py", [engine, "tiny-8k", "--seconds", options.seconds])
        for engine in ("locant", "transformers")
    }
    kinds = ("float32", "int8")
    engines = [("locant", kind) for kind in kinds] + [("transformers", "float32")]
    engines += [("ctranslate2", f"{kind}-{share}") for kind in kinds for share in (f"1x{CORES}", f"{CORES}x1")]
    for shape, batch, beam in (("small-8k", 32, 1), ("small-8k", 1, 4), ("base-32k", 1, 1), ("base-32k", 32, 1)):
        for engine, variant in engines:
            search = ["--batch", batch, "--beam", beam, "--seconds", options.seconds]
            name = f"translating {shape}, batch {batch}, beam {beam} | {engine} {variant}"
            jobs[name] = ("translate_engine.py", [engine, variant, shape, *search])
    turns = {
        f"{name} | {condition}": partial(under, condition, *job)
        for name, job in jobs.items()
        if options.only in name
        for condition in CONDITIONS
    }
    results: dict[str, dict[str, list[float]]] = {}
    for turn, found in in_turns(turns, options.rounds).items():
        name, _, condition = turn.rpartition(" | ")
        results.setdefault(name, {})[condition] = found
    return results


def limits() -> dict[str, float]:
    """Measure what the machine itself can do now."""
    size, found = 2048, {}
    for kind in [torch.float32] + ([torch.bfloat16] if has_fast_bfloat16(torch.device("cpu")) else []):
        one, other = (torch.randn(size, size).to(kind) for _ in range(2))
        out = torch.empty(size, size, dtype=kind)
        seconds = median_seconds(lambda one=one, other=other, out=out: torch.mm(one, other, out=out))
        found[f"matmul_{str(kind).removeprefix('torch.')}_gigaflops"] = 2 * size**3 / seconds / 1e9
    source = torch.randn(64 << 18)
    target = torch.empty_like(source)
    found["copy_gigabytes_per_second"] = 2 * source.nbytes / median_seconds(lambda: target.copy_(source)) / 1e9
    return found


def show(record: Record) -> None:
    """Print all tables of a record: medians over the rounds, and how many times faster Locant is."""
    print(
        f"{record['machine']}. {', '.join(f'{name} {number}' for name, number in record.get('packages', {}).items())}."
    )
    results = record["results"]
    if any("quiet" in found for found in results.values()):
        print(f"\n{contention_table(results)}")
        return
    said = (f"{name} {value:.0f}" for name, value in record["limits"].items())
    print(f"The machine's own limits: {', '.join(said)}.")
    limit = max(value for name, value in record["limits"].items() if name.startswith("matmul"))
    for name, found in results.items():
        shape, *search = name.split()
        engines = found["engines"] if "text" in found else found
        speeds = {engine: [one["tokens_per_second"] for one in records] for engine, records in engines.items()}
        medians = {engine: statistics.median(values) for engine, values in speeds.items()}
        own = max((median for engine, median in medians.items() if engine.startswith("locant")), default=float("nan"))
        rows = []
        for engine, records in engines.items():
            faster, peak = f"{own / medians[engine]:.2f}", f"{max(one['peak_megabytes'] for one in records):,.0f}"
            if "text" in found:
                loss = statistics.mean(one["validation_loss"] for one in records)
                cells = [f"{medians[engine]:,.0f}", faster, f"{records[0]['padding']:.0%}", f"{loss:.3f}", peak]
            else:
                reach = f"{min(speeds[engine]):,.0f} to {max(speeds[engine]):,.0f}"
                flops = statistics.median(one["gigaflops"] for one in records)
                cells = [f"{medians[engine]:,.0f}", reach, faster, f"{flops:.0f}", f"{flops / limit:.0%}", peak]
            rows.append([engine, *cells])
        columns = ["tokens/s", "lowest to highest", "Locant is faster by", "GFLOP/s", "of the limit", "peak MB"]
        if "text" in found:
            title = f"Training {shape} on {found['text']}, {found['tokens']:,} target tokens"
            columns = ["real target tokens/s", "Locant is faster by", "padding", "validation loss", "peak MB"]
        elif search:
            beam = "greedy" if search[3] == "1" else f"beam {search[3]}"
            title = f"Translating with {shape}, batch {search[1]}, {beam}"
        else:
            precision = next(iter(engines.values()))[0]["precision"]
            title = f"Training {shape}, {SENTENCES} sentences of {LENGTH} tokens a side, {precision}"
        print(f"\n### {title}\n\n{table(['engine', *columns], rows)}\n", flush=True)


def contention_table(results: dict[str, dict[str, list[float]]]) -> str:
    """Return the medians under every condition, and what is left of the quiet speed beside other work."""
    rows = []
    for name, found in results.items():
        speeds = {condition: statistics.median(values) for condition, values in found.items()}
        cells = [f"{speeds[one]:,.0f}" if one in speeds else "-" for one in CONDITIONS]
        left = [f"{speeds[one] / speeds['quiet']:.0%}" if one in speeds else "-" for one in CONDITIONS]
        rows.append([*name.split(" | "), cells[0], cells[1], cells[2], left[2], cells[3], left[3]])
    columns = [
        "work",
        "engine",
        "quiet, tokens/s",
        "one thread",
        "beside a busy core",
        "left",
        "under the quota",
        "left",
    ]
    return table(columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["training", "text", "kernels", "translation", "contention", "show"])
    parser.add_argument("record", nargs="?", type=Path, help="of show")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES)
    known = sorted({*TRAINING_ENGINES, *TRANSLATORS})
    parser.add_argument("--engines", nargs="+", choices=known, default=known, help="of those that do this work")
    searches = ["1x1", "1x4", "32x1", "32x4"]
    parser.add_argument(
        "--searches", nargs="+", choices=searches, default=searches, help="of translation: batch x beam"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--tokens", type=int, default=200_000, help="of text: real target tokens to train on")
    parser.add_argument("--files", nargs=4, help="of text: source, target, validation source, validation target")
    parser.add_argument("--only", default="", help="of contention: work and engines whose names have this in them")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.what == "show":
        show(json.loads(options.record.read_text()))
        return
    warn_when_busy()
    results: dict[str, Any] = {}
    highest = limits()
    if options.what == "contention":
        results = contention(options)
    chosen = TRANSLATORS if options.what == "translation" else TRAINING_ENGINES
    engines = [engine for engine in chosen if engine in options.engines]
    for shape in options.shapes or SHAPES_OF[options.what]:
        if options.what == "translation":
            for search in options.searches:
                batch, beam = search.split("x")
                jobs = translation(shape, engines, options, batch, beam)
                results[f"{shape} batch {batch} beam {beam}"] = in_turns(jobs, options.rounds)
        elif options.what == "text":
            with tempfile.TemporaryDirectory() as folder:
                found = in_turns(text(shape, engines, options, Path(folder)), options.rounds)
            name = options.files[0] if options.files else "King James Version to World English Bible"
            results[shape] = {"text": name, "tokens": options.tokens, "engines": found}
        else:
            jobs = {"training": training, "kernels": kernels}[options.what](shape, engines, options)
            results[shape] = in_turns(jobs, options.rounds)
        # A machine may be slower for a while, never faster than it is.
        highest = {name: max(value, highest[name]) for name, value in limits().items()}
    record = {"limits": highest, "results": results}
    if options.output:
        write_record(options.output, **record)
    show({"machine": machine(), "packages": packages(), **record})


if __name__ == "__main__":
    main()
