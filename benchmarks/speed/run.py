"""Training, also on real text, or translating, Locant and its peers: every engine alone in its process, in turns.

    python run.py training --output training.json
    python run.py text --output text.json
    python run.py translation --shapes small-8k base-32k --searches 32x1 32x4 --output translation.json

Prints Markdown tables; tables.py prints those of a record once more. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import SHAPES
from tables import Record, show_record
from training_engines import TRAINING_ENGINES
from translate_engine import ENGINES as TRANSLATORS
from translate_engine import variants

from locant.text import BibleCorpus, CleaningSettings, FilePair, FilesCorpus, TokenizerSettings, load_corpus, prepare
from measure import machine, warn_when_busy

HERE = Path(__file__).parent
# What keeps glibc from returning freed memory, for engines that do not do it themselves.
KEEP_MEMORY = {
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1),
}
PACKAGES = ["locant", "torch", "transformers", "x-transformers", "joeynmt", "ctranslate2"]


def measure(script: str, arguments: list[str], *, tuned: bool = False, threads: int | None = None) -> Record | None:
    """Run an engine in a process of its own; ``None`` where it fails."""
    environment = {**os.environ, **(KEEP_MEMORY if tuned else {})}
    environment["OMP_NUM_THREADS"] = str(threads or os.cpu_count() or 1)
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, env=environment, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{' '.join(arguments)} failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turns(jobs: dict[str, dict[str, Any]], rounds: int) -> dict[str, list[Record]]:
    """Run all jobs once a round, each round in another order."""
    found: dict[str, list[Record]] = defaultdict(list)
    order = list(jobs)
    for number in range(rounds):
        random.Random(number).shuffle(order)
        for name in order:
            record = measure(**jobs[name])
            if record:
                found[name].append(record)
    return {name: found[name] for name in jobs if found[name]}


def training(shape: str, engines: list[str], rounds: int, seconds: float) -> dict[str, list[Record]]:
    """Compare training; peers as they install and with freed memory kept."""
    jobs: dict[str, dict[str, Any]] = {}
    for engine in engines:
        arguments = [engine, shape, "--seconds", str(seconds)]
        jobs[engine] = {"script": "train_engine.py", "arguments": arguments}
        if engine != "locant":
            jobs[f"{engine}, memory kept"] = {"script": "train_engine.py", "arguments": arguments, "tuned": True}
    return in_turns(jobs, rounds)


def prepare_text(files: list[str] | None, vocabulary: int, folder: Path) -> str:
    """Tokenise the text, King James Version to World English Bible unless files are given; return its name."""
    if files:
        source, target, valid_source, valid_target = files
        settings: Any = FilesCorpus(
            kind="files",
            name=Path(source).parent.name,
            train=FilePair(source=[source], target=[target]),
            valid=FilePair(source=[valid_source], target=[valid_target]),
        )
    else:
        settings = BibleCorpus(
            kind="bible", name="King James Version to World English Bible", source="kjv", target="web"
        )
    corpus = load_corpus(settings)
    tokenizer = TokenizerSettings(vocab_size=vocabulary, joint=True)
    prepare(corpus, CleaningSettings(), tokenizer, max_tokens=128, folder=folder)
    return corpus.name


def text(shape: str, engines: list[str], rounds: int, tokens: int, files: list[str] | None) -> dict[str, Any]:
    """Compare training on real text: each engine with batches of its own, and the loss after equally many tokens."""
    with tempfile.TemporaryDirectory() as temporary:
        name = prepare_text(files, SHAPES[shape].vocabulary, Path(temporary))
        jobs: dict[str, dict[str, Any]] = {}
        for engine in engines:
            ways = {"locant": ["locant"], "joeynmt": ["joeynmt"], "transformers": ["random", "grouped"]}
            for way in ways.get(engine, ["random"]):
                arguments = [engine, shape, f"{temporary}/cache", "--batches", way, "--tokens", str(tokens)]
                label = f"{engine}, group_by_length" if way == "grouped" else engine
                for tuned in (False, True) if engine != "locant" else (False,):
                    full = f"{label}, memory kept" if tuned else label
                    jobs[full] = {"script": "text_engine.py", "arguments": arguments, "tuned": tuned}
        return {"text": name, "tokens": tokens, "engines": in_turns(jobs, rounds)}


def translation(
    shape: str, batch: int, beam: int, engines: list[str], rounds: int, seconds: float
) -> dict[str, list[Record]]:
    """Compare translating; every engine in each of its ways, of which the best counts."""
    jobs: dict[str, dict[str, Any]] = {}
    for engine in engines:
        for variant in variants(engine):
            options = [engine, variant, shape, "--batch", str(batch), "--beam", str(beam), "--seconds", str(seconds)]
            for threads in (1, os.cpu_count() or 1) if batch == 1 and engine == "transformers" else (os.cpu_count(),):
                name = f"{engine} {variant}" + ("" if engine == "ctranslate2" else f", threads {threads}")
                tuned = engine == "transformers"
                jobs[name] = {
                    "script": "translate_engine.py", "arguments": options, "tuned": tuned, "threads": threads
                }  # fmt: skip
    return in_turns(jobs, rounds)


def best_limits(*measured: dict[str, float]) -> dict[str, float]:
    """Return the highest of each limit: a machine may be slower for a while, never faster than it is."""
    return {name: max(one[name] for one in measured) for name in measured[0]}


def measured_limits() -> dict[str, float]:
    """Measure what the machine can do now."""
    limits = measure("limits.py", [])
    assert limits
    return limits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["training", "text", "translation"])
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
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    warn_when_busy()
    packages = {}
    for package in PACKAGES:
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            packages[package] = None
    records: dict[str, Any] = {"machine": machine(), "packages": packages, "limits": measured_limits()}
    results = records["results"] = {}
    default = {
        "training": ["tiny-8k", "small-8k", "small-32k", "base-32k"],
        "text": ["tiny-8k"],
        "translation": ["small-8k", "base-32k"],
    }
    chosen = TRANSLATORS if arguments.what == "translation" else TRAINING_ENGINES
    engines = [engine for engine in chosen if engine in arguments.engines]
    for shape in arguments.shapes or default[arguments.what]:
        if arguments.what == "training":
            results[shape] = training(shape, engines, arguments.rounds, arguments.seconds)
        elif arguments.what == "text":
            results[shape] = text(shape, engines, arguments.rounds, arguments.tokens, arguments.files)
        else:
            for batch, beam in (map(int, search.split("x")) for search in arguments.searches):
                found = translation(shape, batch, beam, engines, arguments.rounds, arguments.seconds)
                results[f"{shape} batch {batch} beam {beam}"] = found
        records["limits"] = best_limits(records["limits"], measured_limits())
        if arguments.output:
            arguments.output.write_text(json.dumps(records, indent=1))
    show_record(records)


if __name__ == "__main__":
    main()
