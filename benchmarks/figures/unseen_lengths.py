"""The record of errata on longer texts: copying letters at trained lengths and beyond, from the lab's own records.

Usage: python benchmarks/figures/unseen_lengths.py [FOLDER]

FOLDER is what `locant compare --task copy,reverse` wrote; docs/results/lab/copy-reverse unless given.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "src" / "locant" / "figures" / "records" / "unseen_lengths.json"
SCHEMES = ("sinusoidal", "rotary")


def main(folder: Path) -> None:
    """Write the record."""
    exact, tasks, versions = {}, [], []
    for scheme in SCHEMES:
        (path,) = (folder / "records" / "copy" / scheme).glob("*.json")
        trial = json.loads(path.read_text(encoding="utf-8"))
        measured = {
            each["length"]: each["value"] for each in trial["outcome"]["measurements"] if each["metric"] == "exact"
        }
        exact[scheme] = [measured[length] for length in sorted(measured)]
        tasks.append(trial["configuration"])
        ran = trial["environment"]
        versions.append(f"{ran['processor']}, {ran['cores']} cores, torch {ran['packages']['torch']}")
    assert all(task["task"] == tasks[0]["task"] for task in tasks)
    task = tasks[0]["task"]
    record = {
        "command": "python benchmarks/figures/unseen_lengths.py",
        "machine": versions[0],
        "training": {"longest": task["train_length"], "updates": tasks[0]["budget"]["steps"], "model": task["model"]},
        "exact": exact,
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "results" / "lab" / "copy-reverse")
