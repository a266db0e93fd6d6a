"""What is prepared of a text and then damaged: one sentence, never a traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated_bytes, mutated_data

from locant.errors import CheckpointError, LocantError
from locant.text import CleaningSettings, Corpus, FilesCorpus, TextStore, TokenizerSettings, load_corpus, prepare

UNHURRIED = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
TOKENIZER = TokenizerSettings(vocab_size=200)
HELD_OUT = "text/*/held-out-20.json"


def open_corpus(folder: Path) -> Corpus:
    data = {"kind": "files", "folder": folder, "train": {"source": "a", "target": "b"}, "valid_size": 20}
    return load_corpus(FilesCorpus.parse(data), TextStore(folder / "run" / "cache" / "text", 1, 0))


def prepare_again(folder: Path) -> None:
    prepare(open_corpus(folder), CleaningSettings(), TOKENIZER, max_tokens=40, folder=folder / "run", resume=True)


@pytest.fixture(scope="module")
def prepared(pairs: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    for name, side in (("a", 0), ("b", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    corpus = open_corpus(folder)
    prepare(corpus, CleaningSettings(), TOKENIZER, max_tokens=40, folder=folder / "run", processes=1)
    return folder


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["prepared.json", "train/cache.json", HELD_OUT, "text/*/text.json"])
@UNHURRIED
@given(data=st.data())
def test_any_damage_of_a_record(name: str, data: st.DataObject, prepared: Path) -> None:
    (path,) = (prepared / "run" / "cache").glob(name)
    content = path.read_bytes()
    changed = mutated_data(json.loads(content)).map(lambda each: json.dumps(each).encode())
    try:
        path.write_bytes(data.draw(st.one_of(mutated_bytes(content), changed)))
        with suppress(LocantError):
            prepare_again(prepared)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("prepared.json", '"fingerprint"', '"finger"'),
        ("prepared.json", '"parts": [', '"parts": [], "x": ['),
        ("train/cache.json", '"uint16"', '"object"'),
        ("train/cache.json", '"target": [', '"target": 1.5, "x": ['),
        (HELD_OUT, '"rows": [', '"rows": ["x", '),
        (HELD_OUT, '"rows": [', '"rows": [1000000, '),
    ],
)
def test_the_damaged_file_is_named(name: str, old: str, new: str, prepared: Path) -> None:
    (path,) = (prepared / "run" / "cache").glob(name)
    content = path.read_text()
    assert old in content
    changed = content.replace(old, new)
    unsealed = {key: value for key, value in json.loads(changed).items() if key != "sha256_of_the_rest"}
    try:
        for written in (changed, json.dumps(unsealed)):  # earlier versions sealed none
            path.write_text(written)
            with pytest.raises(CheckpointError) as error:
                prepare_again(prepared)
            assert path.name in str(error.value)
    finally:
        path.write_text(content)
