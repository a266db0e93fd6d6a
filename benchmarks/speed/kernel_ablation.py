"""What each C++ kernel saves of a training step: all kernels, all but one, and none, each in its own process, in turns.

    python kernel_ablation.py --rounds 5 --output ../../docs/results/speed/kernel-ablation.json
    python kernel_ablation.py show ../../docs/results/speed/kernel-ablation.json

Without a kernel PyTorch's best form takes its place; its attention then computes in float32 below 512 tokens, where its
bfloat16 is slower. A kernel is worth its code where it saves at least 8% of a step. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from locant.runtime import prepare_threads

if "step" in sys.argv:  # as the command line of Locant does, before torch is loaded
    prepare_threads()

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import LENGTH, SENTENCES, SHAPES
from training_engines import PRECISION, TRAINING_ENGINES, float32_attention

from measure import alone, in_turns, machine, table, warn_when_busy, write_record

# The module of each kernel of training.
KERNELS = {"attention": "attention", "layer norm": "layer_norm", "cross-entropy": "cross_entropy"}
LEAST = 0.08


def step(options: argparse.Namespace) -> None:
    """Train without some kernels and print the tokens of a second."""
    functional.scaled_dot_product_attention = float32_attention
    for name in filter(None, options.without.split(",")):
        kernel = import_module(f"locant.kernels.{KERNELS[name]}").KERNEL
        kernel.usable = kernel.expected = lambda: False
    torch.manual_seed(0)
    engine = TRAINING_ENGINES["locant"](SHAPES[options.shape], False)
    generator = torch.Generator().manual_seed(1)
    times: list[float] = []
    while len(times) < 5 or sum(times[2:]) < options.seconds:
        sides = torch.randint(4, SHAPES[options.shape].vocabulary, (2, SENTENCES, LENGTH + 1), generator=generator)
        source, target = sides[0, :, 1:].contiguous(), sides[1]
        start = time.perf_counter()
        engine.step(source, target)
        times.append(time.perf_counter() - start)
    print(json.dumps(SENTENCES * LENGTH / statistics.median(times[2:])))


def measured(shape: str, without: tuple[str, ...], options: argparse.Namespace) -> float | None:
    """Return the tokens of a second of training, in a process of its own."""
    arguments = ["step", "--shape", shape, "--without", ",".join(without)]
    arguments += ["--seconds", str(options.seconds)]
    found = alone(__file__, *arguments, environment={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    return None if found is None else float(found)


def show(record: dict[str, Any]) -> None:
    """Print the table of a record."""
    rows = []
    for shape, found in record["found"].items():
        medians = {name: statistics.median(speeds) for name, speeds in found.items()}
        for name, speed in medians.items():
            prefix, _, kernels = name.rpartition(": ")  # earlier records name the positions of the model
            share = speed / medians[f"{prefix}: all" if prefix else "all"]
            verdict = "" if not kernels.startswith("without") else "stays" if 1 - share >= LEAST else "goes"
            rows.append([shape, name, f"{speed:,.0f}", f"{share:.3f}", verdict])
    print(record["machine"])
    print(table(["shape", "kernels", "tokens/s:", "of all kernels:", f"saves {LEAST:.0%}"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="run", choices=("run", "step", "show"))
    parser.add_argument("record", nargs="?", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["tiny-8k", "small-8k"])
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--without", default="")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.what == "step":
        return step(options)
    if options.what == "show":
        return show(json.loads(options.record.read_text(encoding="utf-8")))
    warn_when_busy()
    found = {}
    for shape in options.shapes:
        jobs = {"all": partial(measured, shape, (), options)}
        jobs |= {f"without {name}": partial(measured, shape, (name,), options) for name in KERNELS}
        jobs["none"] = partial(measured, shape, tuple(KERNELS), options)
        found[shape] = in_turns(jobs, options.rounds)
    about = {"threads": options.threads, "precision": str(PRECISION).removeprefix("torch."), "unit": "tokens/s"}
    if options.output:
        write_record(options.output, found=found, **about)
    show({"machine": machine(), "found": found})
    return None


if __name__ == "__main__":
    main()
