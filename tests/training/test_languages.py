"""Runs on toy corpora of several languages: one token in each language stands for one in every other."""

from __future__ import annotations

import random
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from locant import generate_corpus
from locant.app import write_run_report
from locant.app.run_report import next_steps
from locant.cli import main
from locant.errors import ConfigError
from locant.text import BOS, EOS, LanguagesCorpus, TokenCache, collate, load_corpus
from locant.training import (
    Recipe,
    load_run_evaluation,
    load_run_recipe,
    plan_training,
    read_metrics,
    train,
)
from locant.training.recipe import apply_overrides
from locant.translation import Translator

WORDS = {
    "en": ["one", "two", "red", "sea"],
    "de": ["eins", "zwei", "rot", "meer"],
    "fr": ["un", "deux", "rouge", "mer"],
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """Parallel files of three languages, another text for each pair."""
    folder, rng = tmp_path_factory.mktemp("texts"), random.Random(0)
    for pair in ("en-de", "en-fr", "de-fr"):
        for split, count in (("train", 300), ("valid", 30), ("test", 20)):
            numbers = [rng.choices(range(4), k=rng.randint(2, 5)) for _ in range(count)]
            for code in pair.split("-"):
                lines = [" ".join(WORDS[code][number] for number in line) + "\n" for line in numbers]
                (folder / f"{split}.{pair}.{code}").write_text("".join(lines), encoding="utf-8")
    return folder


def languages_corpus(texts: Path, *pairs: str, **more: object) -> dict:
    def files(pair: str) -> dict:
        source, target = pair.split("-")
        return {
            "kind": "files",
            "folder": str(texts),
            "source_language": source,
            "target_language": target,
            **{
                split: {"source": f"{split}.{pair}.{source}", "target": f"{split}.{pair}.{target}"}
                for split in ("train", "valid", "test")
            },
        }

    return {"kind": "languages", "pairs": [files(pair) for pair in pairs], **more}


@pytest.fixture(scope="module")
def data(texts, recipe_data) -> dict:
    """Trains between English and the others; German to French and back are zero-shot."""
    corpus = languages_corpus(texts, "en-de", "en-fr", "de-fr", zero_shot=["de-fr", "fr-de"])
    return apply_overrides({**recipe_data, "corpus": corpus, "tokenizer": {"vocab_size": 35}}, [])


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "several"
    steps = ["training.steps=200", "training.validate_every=200", "training.schedule=linear", "training.log_every=50"]
    model = ["model.norm=pre", "model.dropout=0", "training.validation_sentences=30", "batches.tokens=512"]
    train(Recipe.parse(apply_overrides(data, [*steps, *model])), run)
    return run


def typed(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command of Locant as it is written, and return its exit code and what it printed."""
    program, *arguments = shlex.split(command)
    assert program == "locant"
    return main(arguments), capsys.readouterr().out


DIRECTIONS = ["en-de", "de-en", "en-fr", "fr-en", "de-fr", "fr-de"]


def test_rows_name_their_languages(finished):
    tokenizers = Translator.from_pretrained(finished, device="cpu").tokenizers
    ids = tokenizers.languages.ids
    assert ids == {"en": 4, "de": 5, "fr": 6}
    cache = TokenCache(finished / "cache" / "train")
    assert [part.prefixes for part in cache.parts[:2]] == [
        ([ids["en"]], [EOS, ids["de"]]),
        ([ids["de"]], [EOS, ids["en"]]),
    ]
    assert [part.pairs > 0 for part in cache.parts] == [True] * 4 + [False] * 2
    batch = collate(cache, torch.arange(len(cache)).numpy())
    told = {tuple(row) for row in torch.stack((batch.source[:, 0], batch.target_input[:, 1]), dim=1).tolist()}
    assert told == {(4, 5), (5, 4), (4, 6), (6, 4)}
    assert (batch.target_input[:, 0] == EOS).all()
    assert (batch.target_output[:, 0] == batch.target_input[:, 1]).all()
    assert not (batch.source == BOS).any()
    assert [part.pairs > 0 for part in TokenCache(finished / "cache" / "valid").parts] == [True] * 4 + [False] * 2


def test_every_direction_is_measured_and_zero_shot_is_marked(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished, run)  # Others read what is not evaluated.
    rows = [row for row in read_metrics(run) if row["kind"] == "validation"]
    assert list(rows[-1]["parts"]) == DIRECTIONS
    trained = [rows[-1]["parts"][name] for name in DIRECTIONS[:4]]
    assert rows[-1]["bleu"] == pytest.approx(sum(trained) / 4)
    assert main(["evaluate", str(run), "--engine", "pytorch"]) == 0
    shown = capsys.readouterr().out
    assert "this model, de-fr, zero-shot" in shown
    assert "this model, en-de, zero-shot" not in shown
    result = load_run_evaluation(run)
    assert {name: part.zero_shot for name, part in result.parts.items()} == {
        name: name in ("de-fr", "fr-de") for name in DIRECTIONS
    }
    assert result.scores.bleu == pytest.approx(sum(result.parts[name].scores.bleu for name in DIRECTIONS[:4]) / 4)
    assert result.scores.bleu > 60
    assert result.copy_scores.bleu < 30
    page = write_run_report(run).read_text(encoding="utf-8")
    assert "de-fr, zero-shot" in page
    code, translated = typed(next_steps(run, load_run_recipe(run), result).splitlines()[0], capsys)
    assert (code, translated) == (0, f"{result.hypotheses[0]}\n")


def test_one_direction_is_evaluated_and_translated_by_its_languages(finished, capsys):
    languages = ["--source-language", "en", "--target-language", "fr", "--engine", "pytorch"]
    assert main(["evaluate", str(finished), *languages]) == 0
    assert "en-fr, test split: 20 sentences" in capsys.readouterr().out
    assert main(["translate", str(finished), *languages, "one two red"]) == 0
    assert capsys.readouterr().out == "un deux rouge\n"
    assert main(["translate", str(finished), "--source-language", "de", "--target-language", "en", "zwei rot"]) == 0
    assert capsys.readouterr().out == "two red\n"
    assert main(["evaluate", str(finished), "--source-language", "en"]) == 2
    assert "go together" in capsys.readouterr().err
    assert main(["translate", str(finished), "one"]) == 2
    assert "must be told the source language" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pairs", "more", "message"),
    [
        (
            ["en-de", "en-fr"],
            {"directions": ["de-fr"]},
            "no text for the direction de-fr.*en-de, de-en",
        ),
        (["en-de"], {"zero_shot": ["en-de", "de-en"]}, "No direction is left to train on"),
        (["en-de"], {"directions": ["en-de"], "zero_shot": ["en-de"]}, "in both 'directions' and 'zero_shot'"),
        (["en-de"], {"directions": ["de-en"], "zero_shot": ["en-de"]}, "translates from 'en', which no trained"),
    ],
)
def test_directions_that_cannot_be_are_named(texts, pairs, more, message):
    with pytest.raises(ConfigError, match=message):
        load_corpus(LanguagesCorpus.parse(languages_corpus(texts, *pairs, **more)))


@pytest.mark.parametrize(
    ("languages", "missing"),
    [({}, "source"), ({"source_language": "en"}, "target"), ({"target_language": "de"}, "source")],
)
def test_fine_tuning_on_text_without_languages_says_where_they_go(finished, texts, languages, missing):
    train_on = {"source": str(texts / "train.en-de.en"), "target": str(texts / "train.en-de.de")}
    recipe = {"corpus": {"kind": "files", "train": train_on, **languages}, "training": {"steps": 1}}
    with pytest.raises(ConfigError, match=f"The corpus 'files .*must be told the {missing} language"):
        plan_training(recipe, start_from=finished)


def test_text_is_generated_in_one_direction_of_a_model_for_several(finished, texts, tmp_path, capsys):
    generate = ["generate", str(finished), "--corpus", str(finished), "--engine", "pytorch", "--beam", "1", "--output"]
    made = tmp_path / "made"
    for languages, message in (
        ([], "must be told the"),
        (["--source-language", "en", "--target-language", "dee"], "Did you mean 'de'?"),
        (
            ["--source-language", "de", "--target-language", "fr"],
            "the model translates de to fr. Take a model for that",
        ),
    ):
        assert main([*generate, str(made), *languages]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(ConfigError, match="must be told the"):
        generate_corpus(finished, texts / "test.en-de.en", output=made)
    assert not made.exists()
    assert main([*generate, str(made), "--source-language", "de", "--target-language", "en"]) == 0
    written = [line.split("\t") for line in (made / "train.tsv").read_text(encoding="utf-8").splitlines()]
    known = set((texts / "train.en-de.de").read_text(encoding="utf-8").splitlines())
    assert {row[0] for row in written} <= known
    assert {word for row in written for word in row[1].split()} <= {*WORDS["en"]}
    test = [line.split("\t") for line in (made / "test.tsv").read_text(encoding="utf-8").splitlines()]
    assert [row[0] for row in test] == (texts / "test.en-de.de").read_text(encoding="utf-8").splitlines()


def tuned(data: dict, parent: Path, run: Path, *pairs: str, **corpus: object) -> Path:
    texts = Path(data["corpus"]["pairs"][0]["folder"])
    training = {**data["training"], "steps": 2, "validate_every": 2, "validation_sentences": 0}
    recipe = {"corpus": languages_corpus(texts, *pairs, **corpus), "batches": data["batches"], "training": training}
    train(recipe, run, start_from=parent, finetuning={"test_sentences": 0})
    return run


def test_languages_that_do_not_fit_the_parent_are_refused(data, finished, recipe_data, tmp_path):
    with pytest.raises(ConfigError, match=r"the layout 'fairseq'\. Set corpus\.layout=fairseq"):
        tuned(data, finished, tmp_path / "run", "en-de", layout="marian")
    quick = ["training.steps=1", "training.validate_every=1", "training.validation_sentences=0"]
    train(Recipe.parse(apply_overrides(recipe_data, quick)), tmp_path / "plain")
    with pytest.raises(ConfigError, match=r"has none\. Start from a model for several languages"):
        tuned(data, tmp_path / "plain", tmp_path / "run", "en-de")
    assert not (tmp_path / "run" / "recipe.yaml").exists()
