"""Quality for time: variants of a recipe, each trained alone with the same seed, scored on both halves of validation.

    python run.py multi30k.yaml --output multi30k.jsonl --threads 2
    python run.py multi30k.yaml --only muon r-drop --seeds 1 2 3 --output multi30k.jsonl
    python run.py multi30k.yaml --show multi30k.jsonl

The YAML file names the recipe, changes common to all variants and the changes of each. Every variant runs in a process
of its own and adds a line of JSON to the output; a variant that is there already is not run again. The lines of the
validation set take turns: those with an even number choose between variants, those with an odd number report. With
`clock: processor` in the file minutes are those of the processor, so that other work on the machine shortens no
training; such a plan wants one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from locant.training import Evaluation

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import add_line, alone, machine, read_lines, table, warn_when_busy
from processor_clock import use_processor_time

Record = dict[str, Any]


def train_and_score(name: str, recipe: str, changes: list[str], seed: int, decoding: dict[str, Any]) -> Record:
    """Train a variant and return what it took and how it scores."""
    from locant.training import evaluate, load_recipe, train

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        started = time.perf_counter()
        summary = train(load_recipe(recipe, [*changes, f"seed={seed}"]), run)
        scores = scored(run, evaluate(run, "valid", **decoding))
    return {
        "variant": name,
        "recipe": recipe,
        "changes": changes,
        "seed": seed,
        "decoding": decoding,
        "steps": summary.steps,
        "seconds": round(summary.seconds, 1),
        **scores,
        "whole_seconds": round(time.perf_counter() - started, 1),
    }


def scored(run: Path, found: Evaluation) -> Record:
    """Return the validation losses of a run and the scores of a translation, of both halves too."""
    import sacrebleu

    from locant.training import read_metrics

    losses = [[row["step"], round(row["loss"], 4)] for row in read_metrics(run) if row["kind"] == "validation"]
    halves = [
        sacrebleu.corpus_bleu(found.hypotheses[half::2], [found.references[half::2]], force=True).score
        for half in (0, 1)
    ]
    return {
        "losses": losses,
        "bleu": round(found.scores.bleu, 2),
        "bleu_chosen_by": round(halves[0], 2),
        "bleu_reported": round(halves[1], 2),
        "chrf": round(found.scores.chrf, 2),
    }


def show(records: list[Record]) -> None:
    """Print a Markdown table, the best loss first."""
    columns = ["variant", "seed", "updates", "seconds", "best loss", "BLEU, even lines", "BLEU, odd lines", "chrF"]
    rows = [
        [
            *(record["variant"], record["seed"], f"{record['steps']:,}", f"{record['seconds']:,.0f}"),
            f"{best_loss(record):.3f}",
            *(f"{record[name]:.1f}" for name in ("bleu_chosen_by", "bleu_reported", "chrf")),
        ]
        for record in sorted(records, key=best_loss)
    ]
    print(table(columns, rows))


def best_loss(record: Record) -> float:
    """Return the least validation loss of a run."""
    return min(loss for _, loss in record["losses"])


def run_missing(output: Path, script: str, key: Record, *arguments: object, threads: int) -> None:
    """Run a training in a process of its own and add its record to the output, unless it has one with these fields."""
    if any(all(record[name] == value for name, value in key.items()) for record in read_lines(output)):
        return
    said = ", ".join(f"{name} {value}" for name, value in key.items())
    record = alone(script, *arguments, environment={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if record is not None:
        add_line(output, {**record, "threads": threads, "machine": machine()})
        print(f"{said}: BLEU {record['bleu']}", file=sys.stderr)


def main() -> int:
    """Run what is missing of the variants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path, help="YAML file of variants")
    parser.add_argument("--output", type=Path, help="file of records, a line of JSON each")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="variants to run; by default all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="changes of all, a corpus.folder say")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the table of a file of records")
    parser.add_argument("--variant", help=argparse.SUPPRESS)  # in the process of its own
    options = parser.parse_args()
    if options.show:
        show(read_lines(options.show))
        return 0
    plan = yaml.safe_load(options.plan.read_text())
    by_processor = plan.get("clock") == "processor"
    if by_processor and options.threads != 1:
        parser.error("the threads of a process add up to its processor time; a plan by that clock wants --threads 1")
    if options.variant:
        if by_processor:
            use_processor_time()
        changes = [*plan.get("common", []), *options.set, *plan["variants"][options.variant]]
        record = train_and_score(options.variant, plan["recipe"], changes, options.seeds[0], plan.get("decoding", {}))
        print(json.dumps(record))
        return 0
    if not options.output:
        parser.error("say where the records go: --output FILE")
    if not by_processor:
        warn_when_busy()
    for seed in options.seeds:
        for name in options.only or plan["variants"]:
            arguments = [options.plan, "--variant", name, "--seeds", seed, "--threads", options.threads]
            arguments += ["--set", *options.set] if options.set else []
            run_missing(options.output, __file__, {"variant": name, "seed": seed}, *arguments, threads=options.threads)
    show(read_lines(options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
