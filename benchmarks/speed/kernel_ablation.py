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
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import SHAPES
from training_engines import PRECISION

from measure import alone, in_turns, machine, table, warn_when_busy, write_record

# The module of each kernel of training.
KERNELS = {"attention": "attention", "layer norm": "layer_norm", "cross-entropy": "cross_entropy"}
LEAST = 0.08


def measured(shape: str, without: tuple[str, ...], options: argparse.Namespace) -> float | None:
    """Return the tokens of a second of training, in a process of its own."""
    arguments = ["locant", shape, "--seconds", options.seconds, "--without", *without]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    found = alone(Path(__file__).with_name("train_engine.py"), *arguments, environment=environment)
    return None if found is None else found["tokens_per_second"]


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
    parser.add_argument("what", nargs="?", default="run", choices=("run", "show"))
    parser.add_argument("record", nargs="?", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["tiny-8k", "small-8k"])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.what == "show":
        show(json.loads(options.record.read_text(encoding="utf-8")))
        return
    warn_when_busy()
    found = {}
    for shape in options.shapes:
        jobs = {"all": partial(measured, shape, (), options)}
        jobs |= {f"without {name}": partial(measured, shape, (module,), options) for name, module in KERNELS.items()}
        jobs["none"] = partial(measured, shape, tuple(KERNELS.values()), options)
        found[shape] = in_turns(jobs, options.rounds)
    about = {"threads": options.threads, "precision": str(PRECISION).removeprefix("torch."), "unit": "tokens/s"}
    if options.output:
        write_record(options.output, found=found, **about)
    show({"machine": machine(), "found": found})


if __name__ == "__main__":
    main()
