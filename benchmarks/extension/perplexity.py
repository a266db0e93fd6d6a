"""Perplexity of one long text: Locant's chunked reading and a plain loop of transformers, one process each.

Usage: python benchmarks/extension/perplexity.py [MODEL] [LENGTH]   (smollm2 and 8192 by default)

The plain loop is what transformers' own documentation has for perplexity: model(tokens, labels=tokens) over each
window; for one window of the whole length, one forward pass. Both keep freed memory, as ``locant`` does on CPU.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import torch

from locant.extension.evaluate.documents import cut_documents, read_texts
from locant.extension.evaluate.prefill import Reader
from locant.extension.load import load_model, load_tokenizer
from locant.extension.source import resolve_model
from locant.runtime import keep_freed_memory
from measure import alone, header, machine, peak_megabytes, row, warn_when_busy

ENGINES = ("locant", "transformers")
_ROUNDS = 3


def _measure(engine: str, name: str, length: int) -> dict[str, float]:
    keep_freed_memory()
    path = resolve_model(name)
    model = load_model(path)
    (document,) = cut_documents(read_texts(), load_tokenizer(path), length=length, count=1)
    tokens = document.window(0, length)

    def read() -> float:
        if engine == "locant":
            return Reader(model).losses(tokens).double().mean().item()
        with torch.no_grad():
            return model(tokens[None], labels=tokens[None]).loss.item()

    megabytes = peak_megabytes(read)  # warms up, too
    times, loss = [], 0.0
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        loss = read()
        times.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(times), "megabytes": megabytes, "loss": loss}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "smollm2"
    length = int(sys.argv[2]) if len(sys.argv) > 2 else 8192
    if engine := os.environ.get("ENGINE"):
        print(json.dumps(_measure(engine, name, length)))
        return
    warn_when_busy()
    print(f"{name}, {length} tokens of one text, median of {_ROUNDS}. {machine()}, {torch.get_num_threads()} threads\n")
    print(header("engine", "seconds", "tokens a second", "memory on top, MB", "nats a token"))
    for engine in ENGINES:
        if found := alone(__file__, name, length, environment={**os.environ, "ENGINE": engine}):
            speed, seconds = length / found["seconds"], f"{found['seconds']:.1f}"
            print(row(engine, seconds, f"{speed:.0f}", f"{found['megabytes']:.0f}", f"{found['loss']:.5f}"), flush=True)


if __name__ == "__main__":
    main()
