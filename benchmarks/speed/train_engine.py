"""One engine's training, alone in its process: prints a JSON object.

On random batches of one size, or on a text that is tokenised beforehand (``--text``, see run.py) in batches of the
engine's own kind. There the speed counts real target tokens, no padding, over everything from the choice of sentences
to the step, and the loss on the validation text is taken after the given number of target tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from locant.runtime import prepare_threads

if "locant" in sys.argv:  # as its command line does, before torch is loaded
    prepare_threads()

import numpy as np
import torch
from shapes import LENGTH, SENTENCES, SHAPES, Shape
from torch import Tensor
from training_engines import PRECISION, TRAINING_ENGINES, TrainingEngine, float32_attention

from locant.text import BOS, BatchSettings, TokenCache, collate, plan_batches

TOKENS = 4096
PEAK_LEARNING_RATE = 1e-3


def random_batches(text: TokenCache, seed: int) -> Iterator[np.ndarray]:
    """Yield as many sentences as fill the budget on average, in random order: what a DataLoader does by itself."""
    count = round(TOKENS / (1 + float(text.target.lengths.mean())))
    order = np.random.default_rng(seed).permutation(len(text))
    for start in range(0, len(order) - count + 1, count):
        yield order[start : start + count]


def grouped_batches(text: TokenCache, seed: int) -> Iterator[np.ndarray]:
    """Yield batches of Hugging Face's Trainer with ``group_by_length``."""
    from transformers.trainer_pt_utils import LengthGroupedSampler

    count = round(TOKENS / (1 + float(text.target.lengths.mean())))
    generator = torch.Generator().manual_seed(seed)
    order = list(LengthGroupedSampler(count, lengths=text.source.lengths.tolist(), generator=generator))
    for start in range(0, len(order) - count + 1, count):
        yield np.array(order[start : start + count])


def locant_batches(text: TokenCache, seed: int) -> Iterator[np.ndarray]:
    """Yield Locant's batches."""
    settings = BatchSettings(tokens=TOKENS)
    yield from plan_batches(text.source.lengths, text.target.lengths, settings, seed=seed, epoch=0)


BATCHES: dict[str, Callable[[TokenCache, int], Iterator[np.ndarray]]] = {
    "locant": locant_batches,
    "random": random_batches,
    "grouped": grouped_batches,
}


def padded(text: TokenCache, indices: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return source and target ids, the target with its begin mark."""
    batch = collate(text, indices)
    begin = torch.full((len(batch), 1), BOS)
    return batch.source, torch.cat((begin, batch.target_output), dim=1)


def on_text(engine: TrainingEngine, folder: Path, kind: str, wanted: int) -> dict[str, Any]:
    """Train on a text until that many target tokens are seen."""
    train, valid = TokenCache(folder / "train"), TokenCache(folder / "valid")
    seen, cells, timed, seconds, epoch, steps = 0, 0, 0, 0.0, 0, 0
    batches = BATCHES[kind](train, epoch)
    while seen < wanted:
        start = time.perf_counter()
        indices = next(batches, None)
        if indices is None:
            epoch += 1
            batches = BATCHES[kind](train, epoch)
            continue
        # Warms up over the first fifth; by tokens and not by steps, because engines' batches differ in size.
        engine.optimizer.param_groups[0]["lr"] = PEAK_LEARNING_RATE * min(1.0, (seen + 1) / (0.2 * wanted))
        source, target = padded(train, indices)
        tokens = engine.step(source, target)
        seen += tokens
        cells += target[:, 1:].numel()
        steps += 1
        if steps > 3:
            seconds += time.perf_counter() - start
            timed += tokens
    losses = [engine.negative_log_likelihood(*padded(valid, indices)) for indices in locant_batches(valid, 0)]
    return {
        "tokens_per_second": timed / seconds,
        "padding": 1 - seen / cells,
        "validation_loss": sum(losses) / float((valid.target.lengths + 1).sum()),
        "target_tokens": seen,
        "steps": steps,
    }


def on_random_ids(engine: TrainingEngine, shape: Shape, wanted: float) -> dict[str, Any]:
    """Train on batches of one size for some seconds."""
    generator = torch.Generator().manual_seed(1)
    times: list[float] = []
    while len(times) < 5 or sum(times[2:]) < wanted:
        sides = torch.randint(4, shape.vocabulary, (2, SENTENCES, LENGTH + 1), generator=generator)
        source = sides[0, :, 1:].contiguous()
        start = time.perf_counter()
        engine.step(source, sides[1])
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times[2:])
    return {
        "tokens_per_second": SENTENCES * LENGTH / seconds,
        "gigaflops": shape.training_flops(SENTENCES, LENGTH) / seconds / 1e9,
        "steps": len(times) - 2,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=TRAINING_ENGINES)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--without", nargs="*", default=[], help="modules of kernels that Locant does without")
    parser.add_argument("--text", type=Path, help="folder with the token caches train and valid")
    parser.add_argument("--batches", choices=BATCHES, default="random")
    parser.add_argument("--tokens", type=int, default=200_000, help="of a text: real target tokens to train on")
    arguments = parser.parse_args()
    for module in arguments.without:
        import_module(f"locant.kernels.{module}").is_usable = lambda: False
        torch.nn.functional.scaled_dot_product_attention = float32_attention
    shape = SHAPES[arguments.shape]
    torch.manual_seed(0)
    engine = TRAINING_ENGINES[arguments.engine](shape, arguments.text is not None)
    if arguments.text:
        found = on_text(engine, arguments.text, arguments.batches, arguments.tokens)
    else:
        found = on_random_ids(engine, shape, arguments.seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**found, "peak_megabytes": peak, "precision": str(PRECISION).removeprefix("torch.")}))


if __name__ == "__main__":
    main()
