"""Training text made by a model: back-translation and distillation."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from locant import generate_corpus
from locant.errors import CheckpointError, ConfigError, DataError, LocantError, UsageError
from locant.text import JsonlCorpus, TsvCorpus, load_corpus
from locant.training import Recipe, train
from locant.translation import Translator

LINES = ["one two", "red", "two red five", "six four four four", "five five six", "one four", "six", "two two one"] * 6


@pytest.fixture(scope="module")
def run(finished) -> Path:
    return finished


@pytest.fixture(scope="module")
def translator(run) -> Translator:
    return Translator.from_pretrained(run, device="cpu")


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.en"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_forward_gives_each_line_its_translation_and_score(translator, text, tmp_path):
    result = generate_corpus(translator, text, output=tmp_path / "made", chunk=20)
    found = rows(result.path)
    best = translator.translate_n_best(LINES)
    assert [row[:2] for row in found] == [[line, each[0].text] for line, each in zip(LINES, best, strict=True)]
    scores = [each[0].log_probability / each[0].tokens for each in best]
    assert [float(row[2]) for row in found] == pytest.approx(scores, abs=1e-4)
    report = result.report
    assert (report.lines, report.done, report.translations, report.kept) == (48, 48, 48, 48)
    assert report.score == pytest.approx(
        sum(each[0].log_probability for each in best) / sum(each[0].tokens for each in best), rel=1e-5
    )
    assert sorted(entry.name for entry in (tmp_path / "made").iterdir()) == ["generation.json", "train.tsv"]
    corpus = load_corpus(TsvCorpus(kind="tsv", train=result.path, valid=result.path))
    assert [list(pair) for pair in corpus.train] == [row[:2] for row in found]


def test_back_translations_are_sources(translator, text, tmp_path):
    result = generate_corpus(translator, text, output=tmp_path / "made", direction="back", form="jsonl.gz", n_best=2)
    found = [json.loads(line) for line in gzip.decompress(result.path.read_bytes()).splitlines()]
    best = translator.translate_n_best(LINES, n_best=2)
    assert [(row["source"], row["target"]) for row in found] == [
        (each.text, line) for line, two in zip(LINES, best, strict=True) for each in two
    ]
    split = {"train": result.path, "valid": result.path}
    assert next(iter(load_corpus(JsonlCorpus(kind="jsonl", **split)).train)) == (best[0][0].text, LINES[0])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", ["tsv", "jsonl.gz"])
def test_it_goes_on_from_a_stop_before_any_step_on_disk(form, translator, text, tmp_path, monkeypatch):
    """Stops at each flush in turn: of the new folder, of pairs, of records, of the last renaming."""
    arguments = {"chunk": 16, "form": form, "sampling": {"seed": 3}}
    whole = generate_corpus(translator, text, output=tmp_path / "whole", **arguments).path.read_bytes()
    flush, stops = os.fsync, 0
    for stop in range(1, 50):
        left = stop

        def stopping(descriptor: int) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt
            flush(descriptor)

        folder = tmp_path / f"stopped{stop}"
        monkeypatch.setattr(os, "fsync", stopping)
        try:
            generate_corpus(translator, text, output=folder, **arguments)
        except KeyboardInterrupt:
            stops += 1
        monkeypatch.setattr(os, "fsync", flush)
        for unfinished in folder.glob("*.partial"):
            with unfinished.open("ab") as file:
                file.write(b"half a li")
        result = generate_corpus(translator, text, output=folder, **arguments)
        assert result.path.read_bytes() == whole
        assert result.report.finished
        assert sorted(entry.name for entry in folder.iterdir()) == ["generation.json", f"train.{form}"]
        if stops < stop:
            break
    assert stops > 10


def test_a_finished_corpus_is_left_as_it_is(translator, text, tmp_path, monkeypatch):
    first = generate_corpus(translator, text, output=tmp_path / "made")
    asked = []
    monkeypatch.setattr(translator.engine, "translate", lambda sources, *_: asked.extend(sources) or iter([]))
    assert generate_corpus(translator, text, output=tmp_path / "made") == first
    assert not asked


def test_other_text_model_or_settings_are_refused(translator, run, text, tmp_path):
    def again(**changes):
        arguments = {"chunk": 20, "filters": {"max_ratio": 9.0}, **changes}
        model = arguments.pop("model", translator)
        return generate_corpus(model, arguments.pop("files", text), output=tmp_path / "made", **arguments)

    before = again().path.read_bytes()
    other = tmp_path / "other.en"
    other.write_text(text.read_text() + "one\n", encoding="utf-8")
    shutil.copytree(run, tmp_path / "trained-on")
    weights = tmp_path / "trained-on" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    for changes, key in (
        ({"files": other}, "text"),
        ({"model": Translator.from_pretrained(tmp_path / "trained-on", device="cpu")}, "model"),
        ({"direction": "back"}, "direction"),
        ({"sampling": {}}, "decoding.sampling"),
        ({"filters": {"max_ratio": 8.0}}, "filters.max_ratio"),
        ({"chunk": 30}, "chunk"),
    ):
        with pytest.raises(CheckpointError, match=rf"\b{key}\b"):
            again(**changes)
    assert (tmp_path / "made" / "train.tsv").read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for output in (tmp_path / "mine", tmp_path / "mine" / "thesis.txt"):
        with pytest.raises(CheckpointError):
            generate_corpus(translator, text, output=output)
    record = json.loads((tmp_path / "made" / "generation.json").read_text())
    for key in record:
        rest = {name: value for name, value in record.items() if name != key}
        (tmp_path / "made" / "generation.json").write_text(json.dumps(rest))
        with pytest.raises(CheckpointError, match=rf"generation\.json is damaged.*'{key}'"):
            again()


def test_what_is_left_out_is_counted(translator, tmp_path):
    path = tmp_path / "text.en"
    lines = ["one two", "", "   ", "one " * 2000, "two\tred five", *LINES[:20]]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    plain = generate_corpus(translator, path, output=tmp_path / "plain").report
    assert plain.skipped == {"empty line": 2, "too long": 1}
    assert plain.translations == len(lines) - 3
    found = rows(tmp_path / "plain" / "train.tsv")
    assert found[1][0] == "two red five"
    middle = sorted(float(row[2]) for row in found)[len(found) // 2]
    result = generate_corpus(
        translator, path, output=tmp_path / "made", filters={"min_score": middle, "max_repetitions": 2}
    )
    removed = result.report.removed
    assert removed["low score"] > 5
    assert result.report.kept == len(rows(result.path)) == plain.translations - sum(removed.values())
    assert all(float(row[2]) >= middle - 1e-4 for row in rows(result.path))


def test_the_training_text_of_a_run_is_distilled(run, recipe_data, translator, tmp_path, corpus):
    result = generate_corpus(translator, corpus=run, output=tmp_path / "made", beam=1)
    trained_on = (corpus / "train.en").read_text(encoding="utf-8").splitlines()
    assert [row[0] for row in rows(result.path)] == trained_on
    for split in ("valid", "test"):
        sides = [(corpus / f"{split}.{side}").read_text(encoding="utf-8").splitlines() for side in ("en", "de")]
        assert rows(tmp_path / "made" / f"{split}.tsv") == [list(pair) for pair in zip(*sides, strict=True)]
    splits = {split: f"{split}.tsv" for split in ("train", "valid", "test")}
    data = {"kind": "tsv", "folder": str(tmp_path / "made"), **splits}
    student = tmp_path / "student"
    train(Recipe.parse({**recipe_data, "corpus": data, "training": {**recipe_data["training"], "steps": 5}}), student)
    assert json.loads((student / "data.json").read_text())["test_pairs"] == 30
    with pytest.raises(ConfigError, match="its source side is to be generated, but the model translates en to de"):
        generate_corpus(translator, corpus=run, direction="back", output=tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_mistakes_are_told_before_any_work(translator, run, text, tmp_path):
    output = tmp_path / "made"
    (tmp_path / "empty.en").write_text("")
    (tmp_path / "latin.en").write_bytes(b"one\ntwo\nd\xe9j\xe0 vu\n")
    for files, changes, error, named in (
        (tmp_path / "missing.en", {}, DataError, "missing.en"),
        (tmp_path / "empty.en", {}, DataError, "empty.en"),
        ([text, tmp_path / "latin.en"], {}, DataError, "latin.en, line 3"),
        ((), {}, UsageError, "text files"),
        (text, {"corpus": run}, UsageError, "text files"),
        (text, {"direction": "bak"}, UsageError, "'back'"),
        (text, {"form": "csv"}, UsageError, "'tsv'"),
        (text, {"chunk": 0}, UsageError, "got 0"),
        (text, {"beem": 3}, UsageError, "'beam'"),
        (text, {"filters": {"min_score": 2}}, UsageError, "min_score"),
        ((), {"corpus": tmp_path}, UsageError, tmp_path.name),  # a folder of something else
        ((), {"corpus": tmp_path / "missing"}, UsageError, "missing"),
        ((), {"corpus": tmp_path / "missing.yaml"}, DataError, r"missing\.yaml"),
        ((), {"corpus": text}, UsageError, text.name),
        ((), {"corpus": "bible-modern-englis"}, UsageError, "'bible-modern-english'"),
    ):
        with pytest.raises(error, match=named):
            generate_corpus(translator, files, output=output, **changes)
    with pytest.raises(LocantError, match="not saved yet"):
        generate_corpus(Translator(translator.model, translator.tokenizers), text, output=output)
    assert not output.exists()


def test_ctranslate2_searches_and_does_not_sample(run, text, tmp_path):
    pytest.importorskip("ctranslate2")
    theirs = Translator.from_pretrained(run, engine="ctranslate2", device="cpu")
    with pytest.raises(ConfigError, match="no seed repeats"):
        generate_corpus(theirs, text, output=tmp_path / "made", sampling={})
    assert not (tmp_path / "made").exists()
    result = generate_corpus(theirs, text, output=tmp_path / "made", beam=1)
    ours = generate_corpus(Translator.from_pretrained(run, device="cpu"), text, output=tmp_path / "ours", beam=1)
    assert [row[:2] for row in rows(result.path)] == [row[:2] for row in rows(ours.path)]
