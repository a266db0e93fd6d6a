"""Small stand-ins for the runs, models and texts that examples name."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

SOURCES = [
    "A man is riding a horse.",
    "Two dogs play.",
    "Thou hast spoken well.",
    "Two men are riding.",
    "The dogs play well.",
    "A horse has spoken.",
]
TARGETS = [
    "Ein Mann reitet auf einem Pferd.",
    "Zwei Hunde spielen.",
    "Du hast wohl gesprochen.",
    "Zwei Männer reiten.",
    "Die Hunde spielen gut.",
    "Ein Pferd hat gesprochen.",
]


def write_text(path: Path, sentences: list[str]) -> None:
    """Write 60 lines, each of two of the sentences."""
    draw = random.Random(0)
    pairs = [(draw.randrange(len(sentences)), draw.randrange(len(sentences))) for _ in range(60)]
    path.write_text("".join(f"{sentences[a]} {sentences[b]}\n" for a, b in pairs), encoding="utf-8")


def train_translator(folder: Path) -> None:
    """Train a model of a few thousand parameters for ten steps."""
    from locant.training import load_recipe, train

    text = folder.with_name(f"{folder.name}-text")
    text.mkdir()
    write_text(text / "train.en", SOURCES)
    write_text(text / "train.de", TARGETS)
    changes = [
        "corpus.kind=files",
        f"corpus.train.source='{text / 'train.en'}'",
        f"corpus.train.target='{text / 'train.de'}'",
        "corpus.valid_size=10",
        "cleaning.duplicates=false",
        "cleaning.overlap=false",
        "tokenizer.vocab_size=60",
        "model.preset=tiny",
        "model.norm=post",  # as Marian has it
        "model.d_model=16",
        "model.d_ff=16",
        "model.heads=2",
        "model.position=sinusoidal",  # which Marian can express
        "batches.tokens=512",
        "training.steps=10",
        "training.validate_every=10",
        "training.device=cpu",
    ]
    train(load_recipe("translator", changes), folder)


def export(to: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        from locant import interop

        run = make_file("runs/en-de", folder.parent)
        getattr(interop, f"export_{to}")(run, folder)

    return make


def save_llama(folder: Path) -> None:
    """Save a random language model of two layers, made for 8192 tokens, with a tokenizer of letters."""
    from extend_models import save_model, save_tokenizer

    save_model(folder, "llama")
    save_tokenizer(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 8192}))


def save_config(**entries: object) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(entries))

    return make


def write_texts(*sentences: str) -> Callable[[Path], None]:
    return lambda path: write_text(path, list(sentences))


FILES: dict[str, Callable[[Path], None]] = {
    "runs/en-de": train_translator,
    "runs/bible": train_translator,
    "en-de-marian": export("huggingface"),
    "en-de-ct2": export("ctranslate2"),
    "models/llama": save_llama,
    "models/llama-long": save_config(
        model_type="llama",
        head_dim=128,
        rope_theta=10000.0,
        max_position_embeddings=16384,
        rope_scaling={
            "rope_type": "yarn",
            "factor": 8.0,
            "original_max_position_embeddings": 4096,
            "attention_factor": 1.0,
        },
    ),
    "train.en": write_texts(*SOURCES),
    "train.de": write_texts(*TARGETS),
    "test.en": write_texts(*SOURCES),
    "test.de": write_texts(*TARGETS),
    "book.en": write_texts(*SOURCES),
    "book.txt": write_texts(*SOURCES),
}
"""What makes the file or folder that an example names."""


def make_file(name: str, store: Path) -> Path:
    """Return the stand-in for a name in a folder that keeps them; make it where it is not there yet."""
    path = store / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        FILES[name](path)
    return path


def prepare(text: str, folder: Path, store: Path) -> None:
    """Copy what a text names into a folder."""
    for name in FILES:
        if re.search(rf"{re.escape(name)}(?![\w-])", text):
            made, copy = make_file(name, store), folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if made.is_dir():
                shutil.copytree(made, copy)
            else:
                shutil.copyfile(made, copy)
