"""The record of the figure `bias`: what T5, KERPLE and FIRE learn in a small language model of characters.

Usage: python benchmarks/figures/biases.py TEXT

TEXT is a UTF-8 file, such as tiny-shakespeare. A quarter of an hour on one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.figures.bias import distance_biases
from locant.lab import Budget
from locant.lab.characters import read_characters, window_batches
from locant.lab.training import OptimiserSettings, train_language_model
from locant.models import LanguageModel, LanguageModelConfig
from measure import machine

RECORD = Path(__file__).parents[2] / "src" / "locant" / "figures" / "records" / "biases.json"
SCHEMES = ("t5", "kerple", "fire")
LENGTH, ROWS, UPDATES = 200, 8, 1000
OPTIMISER = OptimiserSettings(learning_rate=3e-3, weight_decay=0.01)


def main(text: Path) -> None:
    """Train one model for each scheme, and write the biases of its first layer's heads."""
    torch.set_num_threads(1)
    characters = read_characters(text)
    record = {
        "command": "python benchmarks/figures/biases.py TEXT",
        "machine": machine(),
        "characters": len(characters.train),
        "updates": UPDATES,
        "losses": {},
        "schemes": {},
    }
    for scheme in SCHEMES:
        torch.manual_seed(1)
        config = LanguageModelConfig(
            vocab_size=characters.vocabulary_size,
            layers=2,
            d_model=64,
            d_ff=256,
            heads=8,
            dropout=0.0,
            position=scheme,
        )
        model = LanguageModel(config)
        batches = window_batches(characters.train, LENGTH, ROWS, 1)
        trained = train_language_model(model, batches, Budget(steps=UPDATES), OPTIMISER, lambda _: None)
        values = distance_biases(model.stack.scheme(0), LENGTH)
        record["losses"][scheme] = round(trained["training_loss"], 3)
        record["schemes"][scheme] = values.round(2).tolist()
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
