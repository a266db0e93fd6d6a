"""The tables of a record that run.py has written: python tables.py training.json prints them as Markdown."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from shapes import LENGTH, SENTENCES

Record = dict[str, Any]


def matmul_limit(limits: dict[str, float]) -> float:
    """Return the highest speed of matrix products, in GFLOP/s."""
    return max(value for name, value in limits.items() if name.startswith("matmul"))


def table(found: dict[str, list[Record]], limit: float, ours: str) -> None:
    """Print a row for every engine: medians over the rounds, and how many times faster ours is."""
    speeds = {name: [record["tokens_per_second"] for record in records] for name, records in found.items()}
    own = statistics.median(speeds[ours]) if ours in speeds else float("nan")
    print("| engine | tokens/s | lowest to highest | Locant is faster by | GFLOP/s | of the limit | peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, records in found.items():
        median = statistics.median(speeds[name])
        flops = statistics.median(record["gigaflops"] for record in records)
        peak = max(record["peak_megabytes"] for record in records)
        print(
            f"| {name} | {median:,.0f} | {min(speeds[name]):,.0f} to {max(speeds[name]):,.0f} | {own / median:.2f} | "
            f"{flops:.0f} | {flops / limit:.0%} | {peak:,.0f} |"
        )
    print(flush=True)


def show_training(shape: str, found: dict[str, list[Record]], limit: float) -> None:
    """Print a table of training on batches of one size."""
    precision = next(iter(found.values()))[0]["precision"]
    print(f"\n### Training {shape}, {SENTENCES} sentences of {LENGTH} tokens a side, {precision}\n")
    table(found, limit, "locant")


def show_text(shape: str, record: dict[str, Any]) -> None:
    """Print a table of training on real text."""
    found = record["engines"]
    own = statistics.median(one["tokens_per_second"] for one in found["locant"])
    print(f"\n### Training {shape} on {record['text']}, {record['tokens']:,} target tokens\n")
    print("| engine | real target tokens/s | Locant is faster by | padding | validation loss | peak MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for label, records in found.items():
        median = statistics.median(one["tokens_per_second"] for one in records)
        losses = statistics.mean(one["validation_loss"] for one in records)
        peak = max(one["peak_megabytes"] for one in records)
        padding = records[0]["padding"]
        print(f"| {label} | {median:,.0f} | {own / median:.2f} | {padding:.0%} | {losses:.3f} | {peak:,.0f} |")
    print(flush=True)


def show_translation(shape: str, batch: int, beam: int, found: dict[str, list[Record]], limit: float) -> None:
    """Print a table of translating; Locant's best way is what others are compared with."""
    best = max(
        (name for name in found if name.startswith("locant")),
        key=lambda name: statistics.median(record["tokens_per_second"] for record in found[name]),
    )
    print(f"\n### Translating with {shape}, batch {batch}, {'greedy' if beam == 1 else f'beam {beam}'}\n")
    table(found, limit, best)


def show(name: str, found: dict[str, Any], limit: float) -> None:
    """Print the table of one result."""
    shape, *batch_and_beam = name.split()
    if batch_and_beam:
        show_translation(shape, int(batch_and_beam[1]), int(batch_and_beam[3]), found, limit)
    elif "text" in found:
        show_text(shape, found)
    else:
        show_training(shape, found, limit)


def show_record(records: dict[str, Any]) -> None:
    """Print all tables of a record."""
    packages = ", ".join(f"{name} {number}" for name, number in records["packages"].items())
    print(f"{records['machine']}. {packages}.")
    print(f"The machine's own limits: {', '.join(f'{name} {value:.0f}' for name, value in records['limits'].items())}.")
    for name, found in records["results"].items():
        show(name, found, matmul_limit(records["limits"]))


if __name__ == "__main__":
    show_record(json.loads(Path(sys.argv[1]).read_text()))
