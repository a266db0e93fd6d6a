"""The record of the figure `word-energy`: the energy of a trained model's word vectors by pair.

Usage: python benchmarks/figures/trained_model.py RUN

RUN is the folder of a run; that of the record is made by these (an hour on two cores):

    locant train bible-german-english training.minutes=null training.steps=3000 training.validate_every=500 --output RUN
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from locant.figures import FIGURES

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "src" / "locant" / "figures" / "records" / "trained.json"


def main(run: Path) -> None:
    """Write the record."""
    ran = json.loads((run / "environment.json").read_text("utf-8"))
    energy = FIGURES["word-energy"].numbers(run=run)
    record = {
        "command": f"locant {' '.join(ran['command'][:-2])}; python benchmarks/figures/trained_model.py RUN",
        "machine": f"{ran['processor']}, {ran['cores']} cores, torch {ran['packages']['torch']}",
        "word_energy": {name: energy[name].round(4).tolist() for name in ("words", "frequent")},
    }
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
