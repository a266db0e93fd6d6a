"""What a sample of a corpus tells: its languages, and what is doubtful."""

from __future__ import annotations

import gzip

import pytest

from locant.text import load_corpus
from locant.text.corpus_settings import FilesCorpus, TsvCorpus
from locant.text.samples import corpus_doubts, with_found_languages

WORDS = [("dog", "Hund"), ("man", "Mann"), ("house", "Hund im Haus"), ("table", "Tisch"), ("garden", "Garten")]
PAIRS = [
    (f"The {one} of my brother stands beside the {two} there, {n}.", f"Der {eins} meines Bruders ist beim {zwei}, {n}.")
    for n, ((one, eins), (two, zwei)) in enumerate((a, b) for a in WORDS for b in WORDS)
]
FRENCH = "Le chien de mon frère est dans le jardin derrière la maison."


def doubts(folder, rows, **settings):
    path = folder / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    corpus = TsvCorpus(kind="tsv", train=(path,), valid_size=1, **settings)
    return {doubt.code: doubt for doubt in corpus_doubts(load_corpus(corpus))}


CHANGES = {
    "no-letters": lambda n, a, b: (f"0.{n}", b),
    "copies": lambda n, a, b: (a, a if n % 5 < 2 else b),
    "tokenised": lambda n, a, b: (a.replace(".", " ."), b.replace(".", " .")),
    "lower-case": lambda n, a, b: (a.lower(), b.lower()),
    "language": lambda n, a, b: (a, b if n % 2 else FRENCH),
}


@pytest.mark.parametrize("code", CHANGES)
def test_each_doubt_is_told_alone(tmp_path, code):
    found = doubts(tmp_path, [CHANGES[code](n, a, b) for n, (a, b) in enumerate(PAIRS)])
    assert list(found) == [code]
    assert found[code].share > 0
    assert found[code].where in found[code].sentence


@pytest.mark.parametrize("languages", [{}, {"source_language": "en", "target_language": "deu_Latn"}])
def test_nothing_is_told_of_a_good_text(tmp_path, languages):
    assert doubts(tmp_path, PAIRS, **languages) == {}


@pytest.mark.parametrize(
    ("languages", "side"),
    [
        ({"source_language": "ru", "target_language": "de"}, "source"),  # by the script
        ({"source_language": "en", "target_language": "fr"}, "target"),
        ({"target_language": "zh"}, "target"),
    ],
)
def test_a_language_that_is_not_the_one_that_was_said_is_told(tmp_path, languages, side):
    found = doubts(tmp_path, PAIRS, **languages)
    assert list(found) == ["language"]
    assert found["language"].where.endswith(side)
    assert found["language"].share == 1


def test_a_language_may_be_in_each_of_its_scripts(tmp_path):
    rows = [("Moj brat ima psa.", f"Mein Bruder hat einen Hund, {n}.") for n in range(20)]
    assert "language" not in doubts(tmp_path, rows, source_language="sr")
    assert "language" in doubts(tmp_path, rows, source_language="sr_Cyrl")


def test_escaped_words_are_told_in_either_side(tmp_path):
    found = doubts(tmp_path, [(a.replace("my", "Ann &apos;s"), b) for a, b in PAIRS])
    assert list(found) == ["tokenised"]
    assert found["tokenised"].where.endswith("source")


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
def test_languages_are_found(names, texts, found, tmp_path):
    for name, text in zip(names, texts, strict=True):
        with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write("".join(f"{text} {number}\n" for number in range(60)))
    train = {"source": str(tmp_path / names[0]), "target": str(tmp_path / names[1])}
    for said, expected in (({}, found), ({"source_language": "fr", "target_language": "it"}, ("fr", "it"))):
        settings = FilesCorpus.parse({"kind": "files", "train": train, **said})
        corpus = with_found_languages(load_corpus(settings), settings, tell=True)
        assert (corpus.source_language, corpus.target_language) == expected
