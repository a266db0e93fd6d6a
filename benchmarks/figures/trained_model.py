"""The record of the figures of a trained model: word vectors of a sentence, their energy, and what the heads look at.

Usage: python benchmarks/figures/trained_model.py RUN

RUN is the folder of an evaluated run; that of the record is made by these (an hour on two cores):

    locant train bible-german-english training.minutes=null training.steps=3000 training.validate_every=500 --output RUN
    locant evaluate RUN
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from locant.figures import FIGURES
from locant.figures.heads import profiles_of

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "src" / "locant" / "figures" / "records" / "trained.json"


def main(run: Path) -> None:
    """Write the record."""
    ran = json.loads((run / "environment.json").read_text("utf-8"))
    total, energy = (FIGURES[name].numbers(run=run) for name in ("embedding-sum", "word-energy"))
    record = {
        "command": f"locant {' '.join(ran['command'][:-2])}; python benchmarks/figures/trained_model.py RUN",
        "machine": f"{ran['processor']}, {ran['cores']} cores, torch {ran['packages']['torch']}",
        "embedding_sum": {"tokens": total["tokens"], "words": _rounded(total["words"])},
        "word_energy": {name: _rounded(energy[name]) for name in ("words", "frequent")},
        "heads": {
            kind: {name: value if name == "offsets" else _rounded(np.array(value)) for name, value in profile.items()}
            for kind, profile in profiles_of(run).items()
        },
    }
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


def _rounded(values: Any) -> Any:
    return values.round(4).tolist()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
