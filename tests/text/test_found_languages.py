"""The languages of a corpus that does not say them."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest

from locant.text.corpus import load_corpus
from locant.text.corpus_settings import FilesCorpus
from locant.text.samples import with_found_languages

ENGLISH = "The old man and the boy walked slowly along the river every morning before breakfast."
GERMAN = "Der alte Mann und der Junge gingen jeden Morgen vor dem Frühstück langsam am Fluss entlang."


@pytest.mark.parametrize(
    ("names", "texts", "found"),
    [
        (("a.en", "a.de"), (ENGLISH, GERMAN), ("en", "de")),
        (("a.pt-BR", "a.zh_Hans.gz"), (ENGLISH, "河"), ("pt-BR", "zh_Hans")),
        (("source.txt", "target.txt"), (ENGLISH, GERMAN), ("en", "de")),
        (("a.src", "a.tgt"), (ENGLISH, GERMAN), ("en", "de")),
        (("a.ru", "a.de"), (ENGLISH, GERMAN), ("en", "de")),  # no such script
        (("a.txt", "a.ja"), ("12 34", "12 34"), (None, "ja")),
    ],
)
def test_languages_are_found(names, texts, found, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, text in zip(names, texts, strict=True):
        opened = gzip.open if name.endswith(".gz") else open
        with opened(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("".join(f"{text} {number}\n" for number in range(60)))
    train = {"source": str(tmp_path / names[0]), "target": str(tmp_path / names[1])}
    settings = FilesCorpus.parse({"kind": "files", "train": train})
    with caplog.at_level(logging.INFO, logger="locant"):
        corpus = with_found_languages(load_corpus(settings), settings, tell=True)
    assert (corpus.source_language, corpus.target_language) == found
    assert all(code in caplog.text for code in found if code)
    own = FilesCorpus.parse({**settings.to_dict(), "source_language": "fr", "target_language": "it"})
    corpus = with_found_languages(load_corpus(own), own, tell=True)
    assert (corpus.source_language, corpus.target_language) == ("fr", "it")
