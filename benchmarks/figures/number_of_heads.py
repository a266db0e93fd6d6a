"""The record of the figure `number-of-heads`: translators with 1, 2, 4 and 8 heads, from the lab's own records.

Usage: python benchmarks/figures/number_of_heads.py [FOLDER]

FOLDER is what `locant compare --task heads` wrote; docs/results/lab/heads unless given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from locant.lab import build_task, load_records
from locant.training import load_recipe

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "src" / "locant" / "figures" / "records" / "number_of_heads.json"


def main(folder: Path) -> None:
    """Write the record."""
    bleu: dict[str, dict[str, float]] = {}
    trials = sorted(load_records(folder), key=lambda trial: (int(trial.variant), trial.seed))
    for trial in trials:
        (value,) = (each.value for each in trial.outcome.measurements if each.metric == "bleu" and each.length is None)
        assert value is not None
        bleu.setdefault(trial.variant, {})[str(trial.seed)] = value
    first = trials[0]
    assert all(trial.configuration == first.configuration for trial in trials)
    assert len({trial.outcome.parameters for trial in trials}) == 1
    ran = first.environment
    record = {
        "command": "python benchmarks/figures/number_of_heads.py",
        "machine": f"{ran['processor']}, {ran['cores']} cores, torch {ran['packages']['torch']}",
        "recipe": first.configuration["task"]["recipe"],
        "updates": first.configuration["budget"]["steps"],
        "sentences": first.configuration["task"]["test_sentences"],
        "parameters": first.outcome.parameters,
        "width": load_recipe(first.configuration["task"]["recipe"]).sized_model(100, 100).d_model,
        "bleu": bleu,
        "paper": {each.what.split()[2]: each.value for each in build_task("heads", {}).published("")},
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "results" / "lab" / "heads")
