"""Terms of a glossary in translations: each as often as in its source, whatever the model writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from property_examples import TIMES
from tiny_models import WORDS

from locant.errors import DataError
from locant.text.spans import goes_on
from locant.translation import Alignment, Glossary, Translator
from locant.translation.glossary import begins_sentence
from locant.translation.terms import place_terms

# Words that the model writes and words that it cannot, one inside of another, a phrase, and one that stays.
TERMS = {
    "alpha": "Xaquor",
    "beta": "beta",
    "gamma delta": "great Xaquor",
    "delta": "mu nu",
    "Vlim": None,
    "mu": "\u6771\u4eac",
    "epsilon": "kappa kappa",
}
GLOSSARY = Glossary(TERMS)
TEXT = st.lists(st.sampled_from([*WORDS[:6], "mu", "Vlim", "Vlim,", "alpha", "alpha", "Alpha", "."]), max_size=9).map(
    " ".join
)


def count(text: str, words: str) -> int:
    """How often words stand in a text as whole words, none of them used twice."""
    number = place = 0
    while (place := text.find(words, place)) >= 0:
        if goes_on(text, place) or goes_on(text, place + len(words)):
            place += 1
        else:
            number, place = number + 1, place + len(words)
    return number


def needed(source: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for match in GLOSSARY.find(source):
        found[match.words] = found.get(match.words, 0) + 1
    return found


def require_terms(source: str, translation: str, before: str) -> None:
    """Every term is there, longer ones first, and there are no more of it than the model wrote or the source has."""
    wanted, rest, old = needed(source), translation, before
    for words in sorted({*wanted, *(str(term) for term in TERMS.values() if term)}, key=lambda words: -len(words)):
        times, had, number = wanted.get(words, 0), count(old, words), count(rest, words)
        if words.partition(" ")[0].islower():
            capital = words[0].upper() + words[1:]
            number += sum(begins_sentence(rest, place) for place in range(len(rest)) if rest.startswith(capital, place))
        assert number >= times, (source, before, translation, words)
        assert number <= max(times, had), (source, before, translation, words)
        rest, old = rest.replace(words, "|"), old.replace(words, "|")


@settings(max_examples=15 * TIMES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXT, min_size=1, max_size=5), st.sampled_from([1, 4]))
def test_every_term_is_in_the_translation(translator: Translator, sources: list[str], beam: int) -> None:
    before = translator.translate(sources, beam=beam)
    after = translator.translate(sources, beam=beam, glossary=GLOSSARY)
    for source, old, new in zip(sources, before, after, strict=True):
        require_terms(source, new, old)
        if not needed(source):
            assert new == old


def aligned(links: dict[int, Sequence[int]]) -> object:
    """An aligner that links words by their numbers."""

    def align(sources: list[str], translations: list[str]) -> list[Alignment]:
        found = []
        for source, translation in zip(sources, translations, strict=True):
            one, other = spans(source), spans(translation)
            pairs = sorted((place, number) for number, places in links.items() for place in places)
            subwords = tuple((one[number], other[place]) for place, number in pairs)
            found.append(Alignment(tuple(source.split()), tuple(translation.split()), (), subwords))
        return found

    return align


def spans(text: str) -> list[tuple[int, int]]:
    found, place = [], 0
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        found.append((start, place))
    return found


@pytest.mark.parametrize(
    ("terms", "source", "translation", "links", "expected"),
    [
        # In the place of what is linked with it, without the punctuation beside it.
        ({"dog": "Hund"}, "the dog barks", "die Katze, bellt", {0: [0], 1: [1], 2: [2]}, "die Hund, bellt"),
        ({"sea dog": "Seeb\u00e4r"}, "a sea dog!", "ein alter Hund!", {1: [1], 2: [2]}, "ein Seeb\u00e4r!"),
        # It is there: nothing changes, whatever the links are.
        ({"dog": "Hund"}, "the dog barks", "bellt der Hund", {1: [0]}, "bellt der Hund"),
        # Equal terms side by side, of which one is there, or linked with the same word.
        ({"dog": "Hund"}, "dog dog", "Tier Hund", {0: [0], 1: [1]}, "Hund Hund"),
        ({"dog": "Hund"}, "dog dog", "Hund Tier", {0: [0], 1: [1]}, "Hund Hund"),
        ({"dog": "Hund"}, "dog, dog", "Tier", {0: [0], 1: [0]}, "Hund Hund"),
        ({"dog": "Hund"}, "dog dog dog", "", {}, "Hund Hund Hund"),
        # Linked with nothing: beside the neighbours, not inside of a word or of another term.
        ({"dog": "Hund"}, "the dog barks", "die bellt.", {0: [0], 2: [1]}, "die Hund bellt."),
        ({"dog": "Hund"}, "dog barks", "(Er bellt.)", {1: [1]}, "(Er Hund bellt.)"),
        ({"dog": "Hund"}, "dog barks", "(bellt)", {1: [0]}, "(Hund bellt)"),
        ({"dog": "Hund", "cat": "die Katze"}, "cat dog", "die Katze", {0: [0]}, "die Katze Hund"),
        ({"dog": "Hund"}, "and the dog", "abc", {}, "abc Hund"),
        # Of words far apart, the longest row.
        ({"sea dog": "B"}, "sea dog barks", "a xx yy bellt zz", {0: [1, 4], 1: [2], 2: [3]}, "a B bellt zz"),
        # No more words than the term has, and none that the source has elsewhere.
        ({"dog": "Hund"}, "the dog barks", "das Tier bellt", {0: [0], 1: [1, 2]}, "das Hund bellt"),
        ({"dog": "der Hund"}, "the dog barks", "das Tier bellt", {1: [0, 1], 2: [2]}, "der Hund bellt"),
        ({"dog": "Hund"}, "dog Anna", "Anna Tier", {0: [0, 1]}, "Anna Hund"),
        # Capital letters where a sentence begins, unless a word stays as it is.
        ({"dog": "hond"}, "Dog here", "Kat hier", {0: [0], 1: [1]}, "Hond hier"),
        ({"dog": "hond"}, "Dog here", "Hond hier", {}, "Hond hier"),
        ({"dog": "hond"}, "Here dog", "Hier Kat", {0: [0], 1: [1]}, "Hier hond"),
        ({"npm": None}, "npm works", "Es geht", {0: [0], 1: [1]}, "npm geht"),
        ({"npm": None}, "We know. Npm works", "Es. Es geht", {2: [1], 3: [2]}, "Es. Npm geht"),
        # Scripts without spaces.
        ({"dog": "\u72ac"}, "the dog", "\u732b", {1: [0]}, "\u72ac"),
        ({"dog": "Hund"}, "the dog barks", "\u9cf4\u304f", {2: [0]}, "Hund\u9cf4\u304f"),
    ],
)
def test_where_terms_are_put(terms, source, translation, links, expected) -> None:
    assert place_terms(Glossary(terms), [source], [translation], aligned(links)) == [expected]


def test_all_translations_of_a_sentence_have_its_terms(translator: Translator) -> None:
    (found,) = translator.translate_n_best(["Vlim alpha"], glossary=GLOSSARY, beam=4, n_best=4)
    (plain,) = translator.translate_n_best(["Vlim alpha"], beam=4, n_best=4)
    assert len(found) == 4
    assert [each.score for each in found] == [each.score for each in plain]
    for one, other in zip(found, plain, strict=True):
        require_terms("Vlim alpha", one.text, other.text)
    sampled = translator.translate(["Vlim alpha"] * 5, glossary=GLOSSARY, sampling={"seed": 3})
    assert all(count(text, "Vlim") and count(text, "Xaquor") for text in sampled)
    streamed = list(translator.stream(["Vlim alpha", "zeta"], glossary=GLOSSARY))
    assert streamed == [*translator.translate(["Vlim alpha"], glossary=GLOSSARY), translator.translate("zeta")]


def test_a_term_is_not_cut_where_a_sentence_is_split(translator: Translator) -> None:
    glossary = Glossary({"alpha beta. gamma, delta mu": "Xaquor Vlim"})
    source = "zeta eta " * 3 + "alpha beta. gamma, delta mu " + "theta iota " * 3
    (found,) = translator.translate_chunks([[source]], on_long="split", glossary=glossary, max_source_length=14)
    assert count(found[0][0].text, "Xaquor Vlim") == 1


def test_the_command_takes_a_glossary(
    translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from locant.cli import main

    translator.save_pretrained(tmp_path / "model")
    terms = tmp_path / "terms.tsv"
    terms.write_text("alpha\tXaquor\nVlim\n", encoding="utf-8")
    command = ["translate", str(tmp_path / "model"), "--engine", "pytorch", "--device", "cpu"]
    assert main([*command, "--glossary", str(terms), "zeta alpha Vlim", "eta"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert (count(first, "Xaquor"), count(first, "Vlim")) == (1, 1)
    assert second == translator.translate("eta")
    notes = tmp_path / "notes.md"
    notes.write_text("alpha\n", encoding="utf-8")
    assert main([*command, "--glossary", str(terms), "--input", str(notes)]) == 0
    assert count(capsys.readouterr().out, "Xaquor") == 1
    terms.write_text("alpha\tXaquor\nalpha\tVlim\n", encoding="utf-8")
    assert main([*command, "--glossary", str(terms), "zeta"]) == DataError.exit_code
    assert "terms.tsv, line 2: 'alpha' has another translation already" in capsys.readouterr().err
