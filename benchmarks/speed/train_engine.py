"""One engine's training speed on batches of one size, alone in its process: prints a JSON object."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from importlib import import_module

from locant.runtime import prepare_threads

if "locant" in sys.argv:  # as its command line does, before torch is loaded
    prepare_threads()

import torch
from shapes import LENGTH, SENTENCES, SHAPES
from torch import Tensor
from training_engines import PRECISION, TRAINING_ENGINES, float32_attention


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=TRAINING_ENGINES)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--without", nargs="*", default=[], help="modules of kernels that Locant does without")
    arguments = parser.parse_args()
    for module in arguments.without:
        import_module(f"locant.kernels.{module}").is_usable = lambda: False
        torch.nn.functional.scaled_dot_product_attention = float32_attention
    shape = SHAPES[arguments.shape]
    torch.manual_seed(0)
    training_engine = TRAINING_ENGINES[arguments.engine](shape, False)
    generator = torch.Generator().manual_seed(1)

    def batch() -> tuple[Tensor, Tensor]:
        sides = torch.randint(4, shape.vocabulary, (2, SENTENCES, LENGTH + 1), generator=generator)
        return sides[0, :, 1:].contiguous(), sides[1]

    times: list[float] = []
    for _ in range(2):
        training_engine.step(*batch())
    while len(times) < 3 or sum(times) < arguments.seconds:
        source, target = batch()
        start = time.perf_counter()
        training_engine.step(source, target)
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    result = {
        "tokens_per_second": SENTENCES * LENGTH / seconds,
        "gigaflops": shape.training_flops(SENTENCES, LENGTH) / seconds / 1e9,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "precision": str(PRECISION).removeprefix("torch."),
        "steps": len(times),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
