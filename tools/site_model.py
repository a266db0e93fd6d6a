"""Write the model that the site's explorer shows: a finished run in half precision, which takes half the room.

Usage: python tools/site_model.py RUN

The run is that of ``locant train bible-german-english tokenizer.vocab_size=4000 --output RUN``: German of the
Elberfelder Bible into English of the World English Bible, both in the public domain. Writes ``site/german-english``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

from locant.translation import Translator

FOLDER = Path(__file__).parents[1] / "site" / "german-english"


def main() -> None:
    """Write the model."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    Translator.from_pretrained(Path(sys.argv[1]), device="cpu").save_pretrained(FOLDER)
    weights = FOLDER / "model.safetensors"
    save_file({name: tensor.half() for name, tensor in load_file(weights).items()}, weights)


if __name__ == "__main__":
    main()
