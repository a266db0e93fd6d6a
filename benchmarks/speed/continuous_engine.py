"""Continuous batching against whole batches in one process: prints a JSON object.

Sentences of 10 to 40 tokens are translated into as many, with random weights (the embedding of the end mark is zero, so
that it never wins). Offline they are sorted by length and come in batches; the continuous search has as many of them as
there are clients, in random order, and gets a new one for each that is finished. The two take turns, and medians are
printed: target tokens a second, the continuous search's share of offline's, and how long a sentence took from coming to
being finished.

    python continuous_engine.py int8 small-8k --beam 4
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

from locant.runtime import prepare_threads

if __name__ == "__main__":  # as the command line does, before torch is loaded
    prepare_threads()

import torch
from shapes import SHAPES

from locant.models import DecodingSettings
from locant.runtime import keep_freed_memory
from locant.text import BOS, EOS
from locant.translation import CompiledEngine, Engine, continuous_search
from models import locant_model

SHORTEST, LONGEST = 10, 40


def offline(engine: Engine, sources: list[list[int]], settings: DecodingSettings, batch: int) -> float:
    """Return target tokens a second."""
    start = time.perf_counter()
    ordered = sorted(sources, key=len)
    for first in range(0, len(ordered), batch):
        chunk = ordered[first : first + batch]
        found = dict(engine.translate(chunk, [len(source) for source in chunk], (BOS,), settings))
        assert all(len(found[place][0].tokens) == len(source) for place, source in enumerate(chunk))
    return sum(map(len, sources)) / (time.perf_counter() - start)


def continuous(
    engine: Engine, sources: list[list[int]], settings: DecodingSettings, clients: int, rows: int
) -> tuple[float, list[float]]:
    """Return target tokens a second and each sentence's seconds, while there are as many sentences as clients."""
    search = continuous_search(engine, rows=rows)
    came: dict[int, float] = {}
    times: list[float] = []
    tokens, begun, start = 0, 0, time.perf_counter()
    while begun < len(sources):
        while search.active < clients and begun < len(sources):
            came[begun] = time.perf_counter()
            search.add(begun, sources[begun], len(sources[begun]), (BOS,), settings)
            begun += 1
        for key, outcome in search.step():
            assert isinstance(key, int)
            assert isinstance(outcome, list)
            assert len(outcome[0].tokens) == len(sources[key])
            if key < clients:  # these began together: the clock starts when they are gone
                tokens, times, start = 0, [], time.perf_counter()
                continue
            tokens += len(sources[key])
            times.append(time.perf_counter() - came[key])
    return tokens / (time.perf_counter() - start), times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("precision")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32, help="sentences of an offline batch")
    parser.add_argument("--clients", type=int, default=64, help="sentences in flight")
    parser.add_argument("--rows", type=int, help="hypotheses at once; by default as many as the clients need")
    parser.add_argument("--sentences", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.sentences < 4 * arguments.clients:
        parser.error("the clients need four sentences each, or nothing is left to be measured")
    shape = SHAPES[arguments.shape]
    keep_freed_memory()
    torch.manual_seed(0)
    model = locant_model(shape).eval()
    with torch.no_grad():
        model.target_embedding.weight[EOS] = 0
    engine = CompiledEngine(model, arguments.precision)
    settings = DecodingSettings(beam=arguments.beam, batch_tokens=10_000_000)
    draw = random.Random(1)
    sources = [
        [draw.randrange(4, shape.vocabulary) for _ in range(draw.randint(SHORTEST, LONGEST))]
        for _ in range(arguments.sentences)
    ]
    rows = arguments.rows or arguments.clients * arguments.beam
    whole, running, times = [], [], []
    for _ in range(arguments.rounds):
        whole.append(offline(engine, sources, settings, arguments.batch))
        speed, taken = continuous(engine, sources, settings, arguments.clients, rows)
        running.append(speed)
        times += taken
    middle, late = statistics.median(times), statistics.quantiles(times, n=100)[98]
    result = {
        "offline_tokens_per_second": statistics.median(whole),
        "continuous_tokens_per_second": statistics.median(running),
        "share": statistics.median(running) / statistics.median(whole),
        "p50_milliseconds": 1000 * middle,
        "p99_milliseconds": 1000 * late,
        "p99_by_p50": late / middle,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
