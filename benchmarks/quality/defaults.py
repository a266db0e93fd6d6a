"""Defaults against a search: what `locant train` chooses by itself, beside settings around its choice.

    python defaults.py --multi30k FOLDER --minutes 5 --output defaults.jsonl
    python defaults.py --show defaults.jsonl

For every corpus of defaults.yaml the settings that are left open are chosen as `locant train` chooses them; then each
of them is changed alone, the others following by their rules, and all are trained with one seed in the same time. Where
defaults.yaml names a built-in recipe, its tokenizer, batches, model and training are one more variant (`recipe`). The
lines of the validation set take turns: those with an even number choose the best settings, those with an odd number
compare them with the defaults. Each training runs in a process of its own on one thread, and its minutes are those of
the processor, so that other work on the machine does not shorten it; two can run side by side with two outputs.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from run import Record, best_loss, run_missing, train_and_score

from measure import read_lines, table
from processor_clock import use_processor_time

CORPORA = Path(__file__).with_suffix(".yaml")


def open_recipe(corpus: dict[str, Any], minutes: float, multi30k: str, folder: Path) -> dict[str, Any]:
    """Return a recipe that leaves all but corpus and time open; a cut corpus is written to a folder."""
    corpus = json.loads(json.dumps(corpus).replace("{multi30k}", multi30k))
    corpus.pop("recipe", None)
    cut = corpus.pop("cut", None)
    if cut:
        for side, name in corpus["train"].items():
            text = folder / f"train.{cut}.{side}"
            with gzip.open(Path(corpus["folder"]) / name, "rt") as lines, text.open("w") as file:
                file.writelines(itertools.islice(lines, cut))
            corpus["train"][side] = str(text)
    return {"corpus": corpus, "training": {"minutes": minutes}}


def of_recipe(name: str) -> list[str]:
    """Return the settings of a built-in recipe that do not belong to its text or its time, as changes."""
    from locant.training import load_recipe

    recipe = load_recipe(name).model_dump(mode="json", exclude_unset=True)
    tokenizer, training = recipe["tokenizer"], recipe["training"]
    tokenizer.pop("lowercase", None)
    for of_time in ("minutes", "validate_every", "validation_sentences", "log_every"):
        training.pop(of_time, None)
    sections = {"tokenizer": tokenizer, "batches": recipe["batches"], "model": recipe["model"], "training": training}
    return [f"{section}.{key}={json.dumps(value)}" for section, keys in sections.items() for key, value in keys.items()]


def variants(chosen: dict[str, Any], recipe: str | None) -> dict[str, list[str]]:
    """Return the changes to try around the settings that were chosen, by name."""
    from locant.training.defaults import SHAPES

    model, training, tokenizer = chosen["model"], chosen["training"], chosen["tokenizer"]
    rate, optimizer = training["learning_rate"], training["optimizer"]
    size, dropout, tokens = tokenizer["vocab_size"], model["dropout"], chosen["batches"]["tokens"]
    same_cut = [f"tokenizer.{key}={tokenizer[key]}" for key in ("joint", "character_coverage")]
    found = {"default": []}
    for name, factor in (("halved", 0.5), ("doubled", 2.0)):
        found[f"learning rate {name}"] = [
            f"training.learning_rate={factor * rate:.5f}",
            f"training.optimizer={optimizer}",
            f"training.weight_decay={training['weight_decay']}",
        ]
        found[f"vocabulary {name}"] = [f"tokenizer.vocab_size={round(factor * size)}", *same_cut]
        found[f"batches {name}"] = [f"batches.tokens={round(factor * tokens)}"]
    sizes = ("d_model", "encoder_layers", "decoder_layers", "d_ff", "heads")
    place = [shape[0] for shape in SHAPES].index(model["d_model"])
    for name, other in (("narrower", place - 1), ("wider", place + 1)):
        if 0 <= other < len(SHAPES):
            found[name] = [f"model.{key}={value}" for key, value in zip(sizes, SHAPES[other], strict=True)]
    for other in (dropout - 0.1, dropout + 0.1):
        if 0 <= other < 0.5:
            found[f"dropout {other:.1f}"] = [f"model.dropout={other:.1f}"]
    found["AdamW" if optimizer == "muon" else "Muon"] = [
        f"training.optimizer={'adamw' if optimizer == 'muon' else 'muon'}"
    ]
    found["weight decay"] = ["training.weight_decay=0.1"]
    found["no weight decay"] = ["training.weight_decay=0"]
    found["sinusoids"] = ["model.position=sinusoidal"]
    if recipe:
        found["recipe"] = of_recipe(recipe)
    return found


def planned(name: str, options: argparse.Namespace, folder: Path) -> tuple[Path, dict[str, Any], dict[str, list[str]]]:
    """Write the open recipe of a corpus to a folder; return its path, all settings, and what to change."""
    from locant.training import load_recipe, plan_training

    recipe = folder / "recipe.yaml"
    corpus = yaml.safe_load(CORPORA.read_text())[name]
    recipe.write_text(yaml.safe_dump(open_recipe(corpus, options.minutes, options.multi30k, folder)))
    chosen = plan_training(load_recipe(recipe)).recipe.model_dump(mode="json")
    return recipe, chosen, variants(chosen, corpus.get("recipe"))


def run_one(name: str, variant: str, seed: int, options: argparse.Namespace) -> Record:
    """Train and score one variant of a corpus in this process."""
    use_processor_time()
    with tempfile.TemporaryDirectory() as folder:
        recipe, defaults, changes = planned(name, options, Path(folder))
        if variant not in changes:
            raise SystemExit(f"{name} has no variant '{variant}'; it has {', '.join(changes)}")
        record = train_and_score(variant, str(recipe), changes[variant], seed, {"beam": 4})
    # What the measured speed decides may differ a little from one process to the next.
    kept = {key: defaults["model"][key] for key in ("d_model", "dropout")}
    kept |= {key: defaults["training"][key] for key in ("optimizer", "learning_rate")}
    kept |= {"vocab_size": defaults["tokenizer"]["vocab_size"], "batch": defaults["batches"]["tokens"]}
    return {**record, "recipe": "defaults", "corpus": name, "minutes": options.minutes, "defaults": kept}


def show(records: list[Record]) -> None:
    """Print the defaults beside the best of the search, and every run below."""
    cells: dict[tuple[str, float], list[Record]] = {}
    for record in records:
        cells.setdefault((record["corpus"], record["minutes"]), []).append(record)
    summary, every = [], []
    for (corpus, minutes), runs in cells.items():
        where = (corpus, f"{minutes:g}")
        best = max(runs, key=lambda run: run["bleu_chosen_by"])
        for run in (run for run in runs if run["variant"] == "default"):
            ours, others = run["bleu_reported"], best["bleu_reported"]
            summary.append([*where, f"{ours:.1f}", best["variant"], f"{others:.1f}", f"{ours / others:.2f}"])
        for run in sorted(runs, key=lambda run: -run["bleu_chosen_by"]):
            scores = (f"{best_loss(run):.3f}", f"{run['bleu_chosen_by']:.1f}", f"{run['bleu_reported']:.1f}")
            every.append([*where, run["variant"], run["seed"], f"{run['steps']:,}", *scores])
    columns = ("default, odd lines", "best by even lines", "its odd lines", "default / best")
    print(table(["corpus", "minutes", *columns], summary))
    columns = ("settings", "seed", "updates", "loss", "BLEU, even lines", "BLEU, odd lines")
    print(f"\n{table(['corpus', 'minutes', *columns], every)}")


def main() -> int:
    """Run what is missing of the records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="file of records, a line of JSON each")
    parser.add_argument("--multi30k", default="", metavar="FOLDER", help="with train.en.gz, train.de.gz, val.en.gz ...")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--corpora", nargs="+", metavar="NAME", help="by default all of defaults.yaml")
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="by default all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of a file of records")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)  # corpus and variant, in the process of its own
    options = parser.parse_args()
    if options.show:
        show(read_lines(options.show))
        return 0
    if options.one:
        print(json.dumps(run_one(*options.one, options.seeds[0], options)))
        return 0
    if not options.output:
        parser.error("say where the records go: --output FILE")
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in options.corpora or yaml.safe_load(CORPORA.read_text()):
        with tempfile.TemporaryDirectory() as folder:
            names = options.variants or list(planned(name, options, Path(folder))[2])
        for variant in names:
            for seed in options.seeds:
                key = {"corpus": name, "minutes": options.minutes, "variant": variant, "seed": seed}
                arguments = ["--one", name, variant, "--seeds", seed, "--minutes", options.minutes]
                arguments += ["--multi30k", options.multi30k]
                run_missing(options.output, __file__, key, *arguments, threads=1)
    show(read_lines(options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
