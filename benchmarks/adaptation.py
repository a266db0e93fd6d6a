"""A trained model adapted to other text, against training from scratch for five times as long; and what it forgets.

Usage: python benchmarks/adaptation.py FOLDER [--minutes 2] [--source web] [--target bbe] [--old-weight 1] [--seed 1]

The parent is the demonstration's model (recipe bible-modern-english, the King James Version into modern English), which
is trained into FOLDER/parent unless a run is there. It is adapted to another pair of versions, once with the new text
alone and once with old and new text mixed; both models and one that is trained on the new text from scratch translate
both tests, whose chapters nobody was trained on. With `--source kjv` both pairs have the same sources, so that a
mixture cannot tell which translation is wanted. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from locant.analysis import paired_bootstrap
from locant.training import Evaluation, evaluate, load_run_recipe
from locant.translation import load_translator
from measure import machine, warn_when_busy

RECIPE = "bible-modern-english"
LONGER = 5
"""Time of training from scratch, in times of adapting."""


def train(run: Path, *arguments: str) -> None:
    """Train a run unless it is there."""
    if not (run / "recipe.yaml").exists():
        subprocess.run([sys.executable, "-m", "locant", "train", *arguments, "--output", str(run)], check=True)


def translated(run: Path, folder: Path) -> dict[str, Evaluation]:
    """Return the old and the new test, translated by a run."""
    translator = load_translator(run, engine="auto")[0]
    return {
        test: evaluate(run, source=folder / f"{test}.source", target=folder / f"{test}.target", translator=translator)
        for test in ("old", "new")
    }


def write_test(run: Path, folder: Path, name: str) -> None:
    """Write the test of a run's corpus as two files."""
    text = load_run_recipe(run).open_corpus().test
    assert text is not None
    for side, ending in enumerate(("source", "target")):
        lines = "".join(f"{pair[side]}\n" for pair in text)
        (folder / f"{name}.{ending}").write_text(lines, encoding="utf-8")


def main() -> None:
    """Train, translate and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--source", default="web")
    parser.add_argument("--target", default="bbe")
    parser.add_argument("--old-weight", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warn_when_busy()
    folder, parent = options.folder, options.folder / "parent"
    folder.mkdir(parents=True, exist_ok=True)
    minutes, seed = options.minutes, f"seed={options.seed}"
    new = f"{{kind: bible, source: {options.source}, target: {options.target}}}"
    old = "{kind: bible, source: kjv, target: web}"
    weighted = f"{{weight: {options.old_weight}, corpus: {old}}}"
    mixture = f"corpus={{kind: mixture, sources: {{new: {{corpus: {new}}}, old: {weighted}}}}}"
    runs = {
        "parent": "the parent",
        "scratch": f"from scratch, {LONGER * minutes:g} minutes",
        "adapted": f"adapted, {minutes:g} minutes",
        "mixed": f"adapted with old text, {minutes:g} minutes",
    }
    train(parent, RECIPE)
    train(folder / "scratch", RECIPE, f"corpus={new}", "--minutes", f"{LONGER * minutes}", seed)
    start = ["--from", str(parent), "--minutes", f"{minutes}", seed, "finetuning.test_sentences=0"]
    train(folder / "adapted", *start, RECIPE, f"corpus={new}")
    train(folder / "mixed", *start, RECIPE, mixture)

    write_test(parent, folder, "old")
    write_test(folder / "adapted", folder, "new")
    found = {name: translated(folder / name, folder) for name in runs}
    print("| model | BLEU, new test | BLEU, old test |")
    print("| --- | --- | --- |")
    for name, label in runs.items():
        print(f"| {label} | {found[name]['new'].scores.bleu:.1f} | {found[name]['old'].scores.bleu:.1f} |")
    print()
    for one, other, test in (("scratch", "adapted", "new"), ("scratch", "mixed", "new"), ("parent", "mixed", "old")):
        first, second = found[one][test], found[other][test]
        tested = paired_bootstrap(first.hypotheses, second.hypotheses, first.references)
        print(f"{test} test, {other} against {one}: {tested.bleu_gain:+.1f} BLEU (p {tested.bleu_p_value:.3f})")
    print(f"\n{found['parent']['new'].scores.bleu_signature}; {machine()}")


if __name__ == "__main__":
    main()
