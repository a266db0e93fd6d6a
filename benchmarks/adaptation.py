"""A trained model adapted to other text, against training from scratch for five times as long; and what it forgets.

Usage: python benchmarks/adaptation.py FOLDER [--minutes 2] [--source web] [--target bbe] [--pairs N]
    [--old-weights 1 3] [--seed 1] [--processor-time]

The parent is the demonstration's model (recipe bible-modern-english, the King James Version into modern English),
which is trained into FOLDER/parent unless a run is there. It is adapted to another pair of versions, once with the
new text alone and for each of the weights with old and new text mixed; these models and one that is trained on the
new text from scratch translate both tests, whose chapters nobody was trained on. `--pairs` leaves only that many
verses of the new text to train on, drawn by the seed, as where somebody adapts a model because there is little of it.
With `--source kjv` both pairs have the same sources, so that a mixture cannot tell which translation is wanted.
Nothing else should run meanwhile, except with `--processor-time`: then minutes are those of the processor, on one
thread. The record is FOLDER/adaptation.json.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from locant.analysis import paired_bootstrap
from locant.text import BibleCorpus, Corpus, load_corpus
from locant.training import Evaluation, evaluate, read_metrics
from locant.translation import load_translator
from measure import machine, table, warn_when_busy, write_record

RECIPE = "bible-modern-english"
OLD = ("kjv", "web")
LONGER = 5
"""Time of training from scratch, in times of adapting."""


def train(run: Path, *arguments: str, processor_time: bool) -> None:
    """Train a run unless it is there."""
    if not (run / "recipe.yaml").exists():
        locant = [str(Path(__file__).parent / "processor_clock.py")] if processor_time else ["-m", "locant"]
        subprocess.run([sys.executable, *locant, "train", *arguments, "--output", str(run)], check=True)


def translated(run: Path, folder: Path) -> dict[str, Evaluation]:
    """Return the old and the new test, translated by a run."""
    translator = load_translator(run, engine="auto")[0]
    return {
        test: evaluate(run, source=folder / f"{test}.source", target=folder / f"{test}.target", translator=translator)
        for test in ("old", "new")
    }


def open_bible(source: str, target: str) -> Corpus:
    """Return the text of two versions of the Bible."""
    return load_corpus(BibleCorpus(kind="bible", source=source, target=target))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines into a file."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Train, translate and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--source", default="web")
    parser.add_argument("--target", default="bbe")
    parser.add_argument("--pairs", type=int, help="train on that many verses of the new text alone")
    parser.add_argument(
        "--old-weights", type=int, nargs="+", default=[1], help="old verses for each new one in mixtures"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processor-time", action="store_true", help="minutes of the processor, on one thread")
    options = parser.parse_args()
    if not options.processor_time:
        warn_when_busy()
    train_run = functools.partial(train, processor_time=options.processor_time)
    folder, parent = options.folder, options.folder / "parent"
    folder.mkdir(parents=True, exist_ok=True)
    minutes, seed = options.minutes, f"seed={options.seed}"
    old_text, new_text = open_bible(*OLD), open_bible(options.source, options.target)
    for name, corpus in (("old", old_text), ("new", new_text)):
        for side, ending in enumerate(("source", "target")):
            write_lines(folder / f"{name}.{ending}", (pair[side] for pair in corpus.test))
    new, old = (f"{{kind: bible, source: {s}, target: {t}}}" for s, t in ((options.source, options.target), OLD))
    corpora = [new, old]
    if options.pairs:
        drawn = random.Random(options.seed).sample(list(new_text.train), options.pairs)
        for name, pairs in (("train", drawn), ("valid", new_text.valid)):
            write_lines(folder / f"{name}.tsv", map("\t".join, pairs))
        new = f"{{kind: tsv, folder: {json.dumps(str(folder.resolve()))}, train: train.tsv, valid: valid.tsv, "
        new += "source_language: en, target_language: en}"
    runs = {
        "parent": "the parent",
        "scratch": f"from scratch, {LONGER * minutes:g} minutes",
        "adapted": f"adapted, {minutes:g} minutes",
    }
    train_run(parent, RECIPE)
    train_run(folder / "scratch", RECIPE, f"corpus={new}", "--minutes", f"{LONGER * minutes}", seed)
    start = ["--from", str(parent), "--minutes", f"{minutes}", seed, "finetuning.test_sentences=0"]
    train_run(folder / "adapted", *start, RECIPE, f"corpus={new}")
    sizes = options.pairs or len(new_text.train), len(old_text.train)
    for weight in options.old_weights:
        mixed = f"mixed-{weight}"
        drawn = weight * sizes[0] / sizes[1]  # text is drawn by its size, unless it has a weight
        old_part = f"{{weight: {drawn:.4f}, corpus: {old}}}"
        mixture = f"corpus={{kind: mixture, sources: {{new: {{corpus: {new}}}, old: {old_part}}}}}"
        train_run(folder / mixed, *start, RECIPE, mixture)
        runs[mixed] = f"adapted, {weight} old for each new verse, {minutes:g} minutes"

    found = {name: translated(folder / name, folder) for name in runs}
    record: dict[str, Any] = {"models": {}, "gains": []}
    for name, label in runs.items():
        new_bleu, old_bleu = (round(found[name][test].scores.bleu, 2) for test in ("new", "old"))
        updates = max(row["step"] for row in read_metrics(folder / name))
        record["models"][label] = {"updates": updates, "new": new_bleu, "old": old_bleu}
    rows = ([label, f"{m['updates']:,}", f"{m['new']:.1f}", f"{m['old']:.1f}"] for label, m in record["models"].items())
    print(f"{table(['model', 'updates', 'BLEU, new test', 'BLEU, old test'], rows)}\n")
    mixtures = [name for name in runs if name.startswith("mixed")]
    compared = [("scratch", name, "new") for name in ("adapted", *mixtures)]
    compared += [("parent", name, "old") for name in mixtures]
    for one, other, test in compared:
        first, second = found[one][test], found[other][test]
        tested = paired_bootstrap(first.hypotheses, second.hypotheses, first.references)
        gain, p_value = round(tested.bleu_gain, 2), round(tested.bleu_p_value, 4)
        record["gains"].append({"test": test, "of": other, "against": one, "bleu": gain, "p": p_value})
        print(f"{test} test, {other} against {one}: {gain:+.1f} BLEU (p {p_value:.3f})")
    record |= {"signature": found["parent"]["new"].scores.bleu_signature, "corpora": corpora, "pairs": options.pairs}
    record |= {"minutes": minutes, "processor_time": options.processor_time}
    print(f"\n{record['signature']}; {machine()}")
    write_record(folder / "adaptation.json", **record)


if __name__ == "__main__":
    main()
