"""A pair of languages learned in both directions first, then in one, from its own text and its translations.

    python both_directions.py FOLDER --multi30k MULTI30K [--minutes 58] [--seed 1] [--processor-time]

One small model learns both directions (Ding et al. 2021, "Improving Neural Machine Translation by Bidirectional
Training", EMNLP), translates the training text both ways, and then learns one direction alone from the text three
times: as it is, with its sources translated, and with its targets translated back (Nguyen et al. 2020, "Data
Diversification", arXiv:1911.01986). No other text is used. The first training has a quarter of the minutes, the last
what the translations leave. The lines of the validation set take turns: those with an even number choose the length
penalty, and those with an odd number are reported apart. Called again it goes on where it stopped, and
the record is FOLDER/both-directions.json. Nothing else should run meanwhile, except with `--processor-time`: then
minutes are those of the processor, on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from run import Record, best_loss, scored

from measure import table, warn_when_busy, write_record

BOTH = 0.25
"""Share of the minutes in which both directions are learned."""
TRANSLATING = 0.03
"""Share that is kept for translating the training text; unused, it is not spent."""
DECODING = {"beam": 4, "length_penalty": 2.0}
"""Of the recipe `multi30k-en-de`."""
LENGTH_PENALTIES = (0.6, 1.0, 1.5, 2.0)
TRAINING = {"optimizer": "muon", "learning_rate": 0.008, "schedule": "cosine"}


def captions(folder: str) -> dict[str, Any]:
    """Return the corpus of a folder of Multi30k."""
    return {
        "kind": "files",
        "folder": folder,
        "source_language": "en",
        "target_language": "de",
        "train": {"source": "train.en.gz", "target": "train.de.gz"},
        "valid": {"source": "val.en.gz", "target": "val.de.gz"},
    }


def both_recipe(corpus: dict[str, Any], minutes: float, seed: int) -> dict[str, Any]:
    """Return the recipe of both directions in one model, of the size and vocabulary of `multi30k-en-de`."""
    return {
        "seed": seed,
        "corpus": {"kind": "languages", "pairs": [corpus]},
        "tokenizer": {"algorithm": "bpe", "vocab_size": 6000, "lowercase": True},
        "model": {"preset": "tiny", "norm": "pre", "position": "rotary", "dropout": 0.1},
        "batches": {"tokens": 2048},
        "training": {**TRAINING, "minutes": minutes, "warmup_steps": 200, "validation_sentences": 400},
        "decoding": DECODING,
    }


def one_recipe(corpus: dict[str, Any], folder: Path, minutes: float, seed: int) -> dict[str, Any]:
    """Return the recipe that goes on in one direction, with the text three times."""
    languages = {key: corpus[key] for key in ("source_language", "target_language")}
    made = {
        name: {"corpus": {"kind": "tsv", "train": str(folder / name / "train.tsv"), **languages}}
        for name in ("forward", "back")
    }
    return {
        "seed": seed,
        "corpus": {
            "kind": "languages",
            "directions": ["en-de"],
            "pairs": [{"kind": "mixture", "sources": {"original": {"corpus": corpus}, **made}}],
        },
        "finetuning": {"parent": str(folder / "both")},
        "model": {"dropout": 0.15},
        "batches": {"tokens": 2048},
        "training": {**TRAINING, "minutes": minutes, "warmup_steps": 300, "validation_sentences": 1014},
        "decoding": DECODING,
    }


def main() -> None:
    """Train what is missing in the folder, score the result, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--multi30k", required=True, metavar="FOLDER", help="with train.en.gz, val.de.gz ...")
    parser.add_argument("--minutes", type=float, default=58)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processor-time", action="store_true", help="minutes of the processor, on one thread")
    options = parser.parse_args()
    if not options.processor_time:
        warn_when_busy()
    folder, corpus, minutes = options.folder.resolve(), captions(str(Path(options.multi30k).resolve())), options.minutes
    folder.mkdir(parents=True, exist_ok=True)
    clock = str(Path(__file__).parents[1] / "processor_clock.py")
    locant = [sys.executable, *([clock] if options.processor_time else ["-m", "locant"])]

    def run(name: str, *arguments: str) -> None:
        subprocess.run([*locant, *arguments, "--output", str(folder / name)], check=True)

    def train(name: str, recipe: dict[str, Any]) -> None:
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(recipe))
        run(name, "train", str(file), "--resume-if-exists")

    train("both", both_recipe(corpus, BOTH * minutes, options.seed))
    both, ways = str(folder / "both"), {"forward": ("en", "de"), "back": ("de", "en")}
    for way, (source, target) in ways.items():
        languages = ("--source-language", source, "--target-language", target)
        run(way, "generate", both, "--corpus", both, "--direction", way, *languages)
    train("one", one_recipe(corpus, folder, (1 - BOTH - TRANSLATING) * minutes, options.seed))
    record = {
        "variant": "both directions first",
        "seed": options.seed,
        "minutes": minutes,
        "both": of_run(folder / "both", "en-de"),
        "translating_seconds": [
            round(json.loads((folder / way / "generation.json").read_text())["report"]["seconds"], 1) for way in ways
        ],
        "one": of_run(folder / "one"),
        "threads": 1 if options.processor_time else os.cpu_count(),
    }
    write_record(folder / "both-directions.json", **record)
    show(record)


def of_run(run: Path, part: str | None = None) -> Record:
    """Return how long a training took, and its scores with the length penalty that even lines choose."""
    from locant.training import evaluate, read_metrics

    rows = read_metrics(run)
    last = [row for row in rows if row["kind"] == "validation"][-1]
    found = {
        penalty: scored(run, evaluate(run, "valid", part=part, beam=4, length_penalty=penalty))
        for penalty in LENGTH_PENALTIES
    }
    chosen = max(found, key=lambda penalty: found[penalty]["bleu_chosen_by"])
    return {
        "steps": last["step"],
        "seconds": round(last["seconds"], 1),
        "length_penalty": chosen,
        **found[chosen],
        "bleu_by_length_penalty": {penalty: scores["bleu"] for penalty, scores in found.items()},
    }


def show(record: Record) -> None:
    """Print the scores of both models."""
    columns = ["training", "updates", "minutes", "loss", "BLEU", "even lines", "odd lines", "chrF", "length penalty"]
    rows = []
    for name in ("both", "one"):
        found = record[name]
        scores = (f"{found[key]:.1f}" for key in ("bleu", "bleu_chosen_by", "bleu_reported", "chrf"))
        took = (f"{found['steps']:,}", f"{found['seconds'] / 60:.1f}", f"{best_loss(found):.3f}")
        rows.append([name, *took, *scores, f"{found['length_penalty']:g}"])
    print(table(columns, rows))


if __name__ == "__main__":
    main()
