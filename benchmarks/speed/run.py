"""Training, also on real text or without some kernels, or translating, Locant and its peers: each alone, in turns.

    python run.py training --output training.json
    python run.py text --output text.json
    python run.py kernels --rounds 5 --seconds 15 --output kernels.json
    python run.py translation --shapes small-8k base-32k --searches 32x1 32x4 --output translation.json
    python run.py show training.json

Prints Markdown tables; ``show`` prints those of a record once more. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
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
HERE = Path(__file__).parent
CORES = os.cpu_count() or 1
# What keeps glibc from returning freed memory, for engines that do not do it themselves.
KEEP_MEMORY = {
    "MALLOC_TOP_PAD_": str(64 << 20),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str((1 << 31) - 1),
}


def measured(script: str, arguments: list[object], *, tuned: bool = False, threads: int = CORES) -> Record | None:
    """Run an engine in a process of its own."""
    environment = {**os.environ, **(KEEP_MEMORY if tuned else {}), "OMP_NUM_THREADS": str(threads)}
    return alone(HERE / script, *arguments, environment=environment)


def kept_too(engine: str) -> dict[str, bool]:
    """Return what follows the name of an engine: most peers run as they install, and with freed memory kept."""
    return {"": False} if engine in ("locant", "torch.nn.Transformer") else {"": False, ", memory kept": True}


def training(shape: str, engines: list[str], options: argparse.Namespace) -> dict[str, list[Record]]:
    """Compare training on batches of one size."""
    jobs = {
        engine + ending: partial(
            measured, "train_engine.py", [engine, shape, "--seconds", options.seconds], tuned=tuned
        )
        for engine in engines
        for ending, tuned in kept_too(engine).items()
    }
    return in_turns(jobs, options.rounds)


def kernels(shape: str, engines: list[str], options: argparse.Namespace) -> dict[str, list[Record]]:
    """Compare training with all C++ kernels, without one of them, and without any.

    PyTorch's best form takes the place of a kernel, see :func:`training_engines.float32_attention`.
    """
    modules = ("attention", "layer_norm", "projected_cross_entropy")
    without = {"locant": (), **{f"locant without {module}": (module,) for module in modules}}
    jobs = {
        name: partial(
            measured, "train_engine.py", ["locant", shape, "--seconds", options.seconds, "--without", *missing]
        )
        for name, missing in {**without, "locant without kernels": modules}.items()
    }
    return in_turns(jobs, options.rounds)


def text(shape: str, engines: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Compare training on real text: each engine with batches of its own, and the loss after equally many tokens.

    The text is the King James Version to the World English Bible unless files are given.
    """
    if options.files:
        source, target, valid_source, valid_target = options.files
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
    ways = {"locant": ["locant"], "joeynmt": ["joeynmt"], "transformers": ["random", "grouped"]}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = TokenizerSettings(vocab_size=SHAPES[shape].vocabulary, joint=True)
        prepare(corpus, CleaningSettings(), tokenizer, max_tokens=128, folder=Path(folder))
        jobs = {}
        for engine in engines:
            for way in ways.get(engine, ["random"]):
                arguments = [engine, shape, f"{folder}/cache", "--batches", way, "--tokens", options.tokens]
                label = f"{engine}, group_by_length" if way == "grouped" else engine
                for ending, tuned in kept_too(engine).items():
                    jobs[label + ending] = partial(measured, "text_engine.py", arguments, tuned=tuned)
        return {"text": corpus.name, "tokens": options.tokens, "engines": in_turns(jobs, options.rounds)}


def translation(
    shape: str, engines: list[str], options: argparse.Namespace, batch: str, beam: str
) -> dict[str, list[Record]]:
    """Compare translating; every engine in each of its ways, of which the best counts."""
    jobs = {}
    for engine in engines:
        for variant in variants(engine):
            arguments = [engine, variant, shape, "--batch", batch, "--beam", beam, "--seconds", options.seconds]
            for threads in (1, CORES) if batch == "1" and engine == "transformers" else (CORES,):
                name = f"{engine} {variant}" + ("" if engine == "ctranslate2" else f", threads {threads}")
                tuned = engine == "transformers"
                jobs[name] = partial(measured, "translate_engine.py", arguments, tuned=tuned, threads=threads)
    return in_turns(jobs, options.rounds)


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
    print(f"{record['machine']}. {', '.join(f'{name} {number}' for name, number in record['packages'].items())}.")
    said = (f"{name} {value:.0f}" for name, value in record["limits"].items())
    print(f"The machine's own limits: {', '.join(said)}.")
    limit = max(value for name, value in record["limits"].items() if name.startswith("matmul"))
    for name, found in record["results"].items():
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
        columns = [
            "engine",
            "tokens/s",
            "lowest to highest",
            "Locant is faster by",
            "GFLOP/s",
            "of the limit",
            "peak MB",
        ]
        if "text" in found:
            title = f"Training {shape} on {found['text']}, {found['tokens']:,} target tokens"
            columns = ["engine", "real target tokens/s", columns[3], "padding", "validation loss", "peak MB"]
        elif search:
            beam = "greedy" if search[3] == "1" else f"beam {search[3]}"
            title = f"Translating with {shape}, batch {search[1]}, {beam}"
        else:
            precision = next(iter(engines.values()))[0]["precision"]
            title = f"Training {shape}, {SENTENCES} sentences of {LENGTH} tokens a side, {precision}"
        print(f"\n### {title}\n\n{table(columns, rows)}\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["training", "text", "kernels", "translation", "show"])
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
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.what == "show":
        show(json.loads(options.record.read_text()))
        return
    warn_when_busy()
    results: dict[str, Any] = {}
    highest = limits()
    default = {
        "training": ["tiny-8k", "small-8k", "small-32k", "base-32k"],
        "text": ["tiny-8k"],
        "kernels": ["tiny-8k", "small-8k"],
        "translation": ["small-8k", "base-32k"],
    }
    chosen = TRANSLATORS if options.what == "translation" else TRAINING_ENGINES
    engines = [engine for engine in chosen if engine in options.engines]
    for shape in options.shapes or default[options.what]:
        if options.what == "translation":
            for search in options.searches:
                batch, beam = search.split("x")
                found = translation(shape, engines, options, batch, beam)
                results[f"{shape} batch {batch} beam {beam}"] = found
        else:
            results[shape] = {"training": training, "text": text, "kernels": kernels}[options.what](
                shape, engines, options
            )
        # A machine may be slower for a while, never faster than it is.
        highest = {name: max(value, highest[name]) for name, value in limits().items()}
        if options.output:
            write_record(options.output, limits=highest, results=results)
    show({"machine": machine(), "packages": packages(), "limits": highest, "results": results})


if __name__ == "__main__":
    main()
