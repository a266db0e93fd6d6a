"""Whole runs of the recurrent model, through the same commands as the Transformer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from locant.cli import main
from locant.errors import ConfigError
from locant.training import Recipe, evaluate, train
from locant.translation import Translator

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs", "red": "rot"}


@pytest.fixture(scope="module")
def recipe_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A toy language pair: word by word in reversed order, so that attention must find the place."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(1)
    for split, count in (("train", 500), ("valid", 30), ("test", 40)):
        sources = [rng.choices(list(WORDS), k=rng.randint(2, 5)) for _ in range(count)]
        (folder / f"{split}.en").write_text("".join(" ".join(s) + "\n" for s in sources), encoding="utf-8")
        targets = [" ".join(WORDS[word] for word in reversed(s)) for s in sources]
        (folder / f"{split}.de").write_text("".join(f"{t}\n" for t in targets), encoding="utf-8")
    splits = {split: {"source": f"{split}.en", "target": f"{split}.de"} for split in ("train", "valid", "test")}
    return {
        "corpus": {"kind": "files", "folder": str(folder), **splits},
        "cleaning": {"overlap": False, "duplicates": False},
        # So few words that each becomes one piece.
        "tokenizer": {"algorithm": "bpe", "vocab_size": 60},
        "batches": {"tokens": 768},
        "model": {"architecture": "rnn", "cell": "gru", "d_model": 32, "hidden_size": 40},
        "training": {
            "steps": 20,
            "learning_rate": 0.01,
            "warmup_steps": 20,
            "schedule": "linear",
            "validate_every": 10,
            "validation_sentences": 8,
            "log_every": 1,
            "device": "cpu",
        },
        "decoding": {"beam": 2},
    }


@pytest.fixture(scope="module")
def short_run(recipe_data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates, which tests only read."""
    run = tmp_path_factory.mktemp("runs") / "short"
    train(with_changes(recipe_data, training={"steps": 10}), run)
    return run


def with_changes(data: dict[str, Any], **sections: dict[str, Any]) -> Recipe:
    return Recipe.parse({**data, **{name: {**data[name], **changes} for name, changes in sections.items()}})


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_toy_language_is_learned_without_a_mistake(recipe_data: dict[str, Any], tmp_path: Path, cell: str) -> None:
    recipe = with_changes(recipe_data, model={"cell": cell}, training={"steps": 200, "validate_every": 200})
    train(recipe, tmp_path / "run")
    assert evaluate(tmp_path / "run", "test").scores.bleu == pytest.approx(100)


def test_the_commands(recipe_data: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, run = tmp_path / "recipe.yaml", str(tmp_path / "run")
    recipe.write_text(yaml.safe_dump(recipe_data), encoding="utf-8")
    assert main(["train", str(recipe), "model.cell=lstm", "--output", run]) == 0
    assert main(["evaluate", run, "--beam", "1"]) == 0
    assert main(["report", run]) == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "A recurrent network of" in page
    assert "LSTM, additive attention" in page
    capsys.readouterr()
    assert main(["translate", run, "one two", "six"]) == 0
    assert capsys.readouterr().out.splitlines() == Translator.from_pretrained(run).translate(["one two", "six"])


def test_a_saved_model_is_the_same(short_run: Path, tmp_path: Path) -> None:
    first = Translator.from_pretrained(short_run, device="cpu")
    first.save_pretrained(tmp_path / "copy")
    second = Translator.from_pretrained(tmp_path / "copy", device="cpu")
    assert second.model.config == first.model.config
    sentences = ["one two three", "red six"]
    assert second.translate_n_best(sentences, n_best=2) == first.translate_n_best(sentences, n_best=2)


@pytest.mark.parametrize(("to", "name"), [("huggingface", "Marian"), ("ctranslate2", "CTranslate2")])
def test_exports_refuse_it(
    short_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], to: str, name: str
) -> None:
    pytest.importorskip("ctranslate2" if to == "ctranslate2" else "transformers")
    assert main(["export", str(short_run), "--to", to, "--output", str(tmp_path / "out")]) == 2
    assert "needs a Transformer, but this model's architecture is rnn" in (error := capsys.readouterr().err)
    assert name in error
    assert not (tmp_path / "out").exists()


def test_what_means_nothing_is_refused(recipe_data: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"training\.compile is for a Transformer"):
        with_changes(recipe_data, training={"compile": True})
    with pytest.raises(ConfigError, match="a Transformer has the option heads, but the architecture rnn has not"):
        with_changes(recipe_data, model={"heads": 4})
