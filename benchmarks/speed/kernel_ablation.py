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
from torch import Tensor
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import LENGTH, SENTENCES, SHAPES
from training_engines import PRECISION, TRAINING_ENGINES

from measure import alone, in_turns, machine, table, warn_when_busy, write_record

# The modules of each kernel, and the positions of the model that it is measured in.
KERNELS = {
    "attention": (("attention",), "sinusoidal"),
    "layer norm": (("layer_norm",), "sinusoidal"),
    "cross-entropy": (("cross_entropy",), "sinusoidal"),
}
LEAST = 0.08
_SDPA = functional.scaled_dot_product_attention


def float32_attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any, **options: Any) -> Tensor:
    """PyTorch's attention, in float32 where texts are short."""
    if q.dtype != torch.bfloat16 or max(q.shape[2], k.shape[2]) >= 512:
        return _SDPA(q, k, v, *rest, **options)
    with torch.autocast("cpu", enabled=False):
        return _SDPA(q.float(), k.float(), v.float(), *rest, **options).bfloat16()


def step(options: argparse.Namespace) -> None:
    """Train without some kernels and print the tokens of a second."""
    functional.scaled_dot_product_attention = float32_attention
    for name in filter(None, options.without.split(",")):
        for module in KERNELS[name][0]:
            kernel = import_module(f"locant.kernels.{module}").KERNEL
            kernel.usable = kernel.expected = lambda: False
    torch.manual_seed(0)
    engine = TRAINING_ENGINES["locant"](SHAPES[options.shape], False, position=options.position)
    generator = torch.Generator().manual_seed(1)
    times: list[float] = []
    while len(times) < 5 or sum(times[2:]) < options.seconds:
        sides = torch.randint(4, SHAPES[options.shape].vocabulary, (2, SENTENCES, LENGTH + 1), generator=generator)
        source, target = sides[0, :, 1:].contiguous(), sides[1]
        start = time.perf_counter()
        engine.step(source, target)
        times.append(time.perf_counter() - start)
    print(json.dumps(SENTENCES * LENGTH / statistics.median(times[2:])))


def measured(shape: str, position: str, without: tuple[str, ...], options: argparse.Namespace) -> float | None:
    """Return the tokens of a second of training, in a process of its own."""
    arguments = ["step", "--shape", shape, "--position", position, "--without", ",".join(without)]
    arguments += ["--seconds", str(options.seconds)]
    found = alone(__file__, *arguments, environment={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    return None if found is None else float(found)


def show(record: dict[str, Any]) -> None:
    """Print the table of a record."""
    rows = []
    for shape, found in record["found"].items():
        for position in dict.fromkeys(position for _, position in KERNELS.values()):
            medians = {
                name.removeprefix(f"{position}: "): statistics.median(speeds)
                for name, speeds in found.items()
                if name.startswith(f"{position}: ")
            }
            whole = medians.get("all", 0.0)
            for name, speed in medians.items():
                saved = 1 - speed / whole if whole else 0.0  # of a step without it
                verdict = "" if not name.startswith("without") else "stays" if saved >= LEAST else "goes"
                rows.append([shape, position, name, f"{speed:,.0f}", f"{speed / whole:.3f}" if whole else "", verdict])
    print(record["machine"])
    print(table(["shape", "positions", "kernels", "tokens/s:", "of all kernels:", f"saves {LEAST:.0%}"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="run", choices=("run", "step", "show"))
    parser.add_argument("record", nargs="?", type=Path)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["tiny-8k", "small-8k"])
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--position", default="sinusoidal")
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
        jobs = {}
        for position in dict.fromkeys(position for _, position in KERNELS.values()):
            own = [name for name, (_, where) in KERNELS.items() if where == position]
            jobs[f"{position}: all"] = partial(measured, shape, position, (), options)
            for name in own:
                jobs[f"{position}: without {name}"] = partial(measured, shape, position, (name,), options)
            jobs[f"{position}: none"] = partial(measured, shape, position, tuple(KERNELS), options)
        found[shape] = in_turns(jobs, options.rounds)
    about = {"threads": options.threads, "precision": str(PRECISION).removeprefix("torch."), "unit": "tokens/s"}
    if options.output:
        write_record(options.output, found=found, **about)
    show({"machine": machine(), "found": found})
    return None


if __name__ == "__main__":
    main()
