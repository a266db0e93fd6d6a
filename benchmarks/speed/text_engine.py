"""One engine trains on real text in batches of its own kind, alone in its process: prints a JSON object.

The text is tokenised beforehand (see run.py). Speed counts real target tokens, no padding, over everything from the
choice of sentences to the step; the loss on the validation text is taken after the given number of target tokens.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from shapes import SHAPES
from torch import Tensor
from training_engines import PRECISION, TRAINING_ENGINES

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


def joeynmt_batches(text: TokenCache, seed: int) -> Iterator[np.ndarray]:
    """Yield JoeyNMT's batches with ``batch_type: token``."""
    from joeynmt.datasets import TokenBatchSampler
    from torch.utils.data import Dataset, RandomSampler

    class Pairs(Dataset):
        indices = np.arange(len(text))

        def __len__(self) -> int:
            return len(text)

        def __getitem__(self, index: int) -> tuple[int, np.ndarray, np.ndarray]:
            return index, text.source[index], text.target[index]

    sampler = RandomSampler(Pairs(), generator=torch.Generator().manual_seed(seed))
    for batch in TokenBatchSampler(sampler, batch_size=TOKENS, drop_last=True, seed=seed):
        yield np.array(batch)


def locant_batches(text: TokenCache, seed: int) -> Iterator[np.ndarray]:
    """Yield Locant's batches."""
    settings = BatchSettings(tokens=TOKENS)
    yield from plan_batches(text.source.lengths, text.target.lengths, settings, seed=seed, epoch=0)


BATCHES = {
    "locant": locant_batches,
    "random": random_batches,
    "grouped": grouped_batches,
    "joeynmt": joeynmt_batches,
}


def padded(text: TokenCache, indices: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return source and target ids, the target with its begin mark."""
    batch = collate(text, indices)
    begin = torch.full((len(batch), 1), BOS)
    return batch.source, torch.cat((begin, batch.target_output), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=TRAINING_ENGINES)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("text", type=Path, help="folder with the token caches train and valid")
    parser.add_argument("--batches", choices=BATCHES, default="random")
    parser.add_argument("--tokens", type=int, default=200_000, help="real target tokens to train on")
    arguments = parser.parse_args()
    train, valid = TokenCache(arguments.text / "train"), TokenCache(arguments.text / "valid")
    torch.manual_seed(0)
    training_engine = TRAINING_ENGINES[arguments.engine](SHAPES[arguments.shape], True)
    seen, cells, timed, seconds, epoch, steps = 0, 0, 0, 0.0, 0, 0
    batches = BATCHES[arguments.batches](train, epoch)
    while seen < arguments.tokens:
        start = time.perf_counter()
        indices = next(batches, None)
        if indices is None:
            epoch += 1
            batches = BATCHES[arguments.batches](train, epoch)
            continue
        # Warms up over the first fifth; by tokens and not by steps, because engines' batches differ in size.
        share = min(1.0, (seen + 1) / (0.2 * arguments.tokens))
        training_engine.optimizer.param_groups[0]["lr"] = PEAK_LEARNING_RATE * share
        source, target = padded(train, indices)
        tokens = training_engine.step(source, target)
        seen += tokens
        cells += target[:, 1:].numel()
        steps += 1
        if steps > 3:
            seconds += time.perf_counter() - start
            timed += tokens
    plan = list(plan_batches(valid.source.lengths, valid.target.lengths, BatchSettings(tokens=TOKENS), seed=0, epoch=0))
    losses = [training_engine.negative_log_likelihood(*padded(valid, indices)) for indices in plan]
    result = {
        "tokens_per_second": timed / seconds,
        "padding": 1 - seen / cells,
        "validation_loss": sum(losses) / float((valid.target.lengths + 1).sum()),
        "target_tokens": seen,
        "steps": steps,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "precision": str(PRECISION).removeprefix("torch."),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
