"""Target tokens that models of the sizes which recipes choose from train on in a second, by the tokens of a batch.

    python batch_sizes.py [--device cuda]

Random ids in sentences of 16 tokens, 6,000 subwords, in the precision that the device has for training; the mean of
eight updates after one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.models.config import TransformerConfig
from locant.training.defaults import SHAPES, measure_speed
from locant.training.settings import TrainingSettings
from measure import header, row, use_device, warn_when_busy

BATCHES = (1024, 4096, 16384, 65536)
UPDATES = 8
WIDEST_OF_MUON = 256


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    device = torch.device(parser.parse_args().device)
    warn_when_busy()
    where = use_device(device.type)
    torch.set_default_device("cpu")  # models are built there
    print(f"Thousands of target tokens a second (milliseconds of an update). {where}.\n")
    print(header("width", "layers", "optimiser", *(f"{batch:,} tokens" for batch in BATCHES)))
    for shape in SHAPES:
        for optimizer in ("muon", "adamw") if shape[0] <= WIDEST_OF_MUON else ("adamw",):
            sizes = dict(zip(("d_model", "encoder_layers", "decoder_layers", "d_ff", "heads"), shape, strict=True))
            model = TransformerConfig(
                source_vocab_size=6000,
                target_vocab_size=6000,
                norm="pre",
                position="rotary",
                dropout=0.1,
                **sizes,
            )
            settings = TrainingSettings.parse({"optimizer": optimizer, "steps": 1}, "training")
            cells = []
            for batch in BATCHES:
                speed = measure_speed(model, settings, device, (16.0, 16.0), batch, updates=UPDATES)
                cells.append(f"{speed / 1000:.1f} ({1000 * batch / speed:.1f})")
            print(row(shape[0], f"{shape[1]} + {shape[2]}", optimizer, *cells), flush=True)


if __name__ == "__main__":
    main()
