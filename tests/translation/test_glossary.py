"""Glossaries: what is read from files, and which terms are found in sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from locant.errors import DataError
from locant.text.spans import goes_on
from locant.translation import Glossary

FILE = """\ufeff# terms of the department
machine\tMaschine
  New   York \tNeu York

Locant
caf\u0065\u0301\tCaf\u00e9
"""


def found(glossary: Glossary, sentence: str) -> list[tuple[str, str]]:
    return [(sentence[match.start : match.end], match.words) for match in glossary.find(sentence)]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_file_has_terms_and_words_that_stay(tmp_path: Path, newline: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(FILE.replace("\n", newline).encode())
    expected = {"machine": "Maschine", "New York": "Neu York", "Locant": None, "caf\u00e9": "Caf\u00e9"}
    assert Glossary.read(path).terms == expected


def test_a_csv_file_has_quotation_marks(tmp_path: Path) -> None:
    path = tmp_path / "terms.csv"
    path.write_text('# a comment, with a comma\n"red, white","rot, wei\u00df"\nLocant\n\ndog,Hund\n', encoding="utf-8")
    assert Glossary.read(path).terms == {"red, white": "rot, wei\u00df", "Locant": None, "dog": "Hund"}


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("dog\tHund\ncat\tKatze\tfem.", "line 2: a line has a term and its translation; this one has 3 columns"),
        ("dog\tHund\n# b\ndog\tK\u00f6ter", r"line 3: 'dog' has another translation already \(.*line 1\)"),
        ("--\tx", "line 1: the term '--' has no letter or digit"),
        ("dog\t" + "x" * 201, "line 1: the translation has 201 characters; at most 200 are possible"),
        ("", "has no term"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path: Path, lines: str, sentence: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(DataError, match=sentence) as error:
        Glossary.read(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("caf\u00e9".encode("latin-1"), "it is not UTF-8"),
        (b'dog,"Hund\n', "line 1: this is no line of a table"),
        (b"# terms\ndog;Hund\n", "line 2: there is a semicolon and no comma"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    with pytest.raises(DataError, match="does not exist"):
        Glossary.read(tmp_path / "none.tsv")
    path = tmp_path / "terms.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        Glossary.read(path)


def test_terms_are_whole_words_and_the_longest_first() -> None:
    glossary = Glossary({"York": "J", "New York": "NJ", "York Times Square": "JTS", "cat": "K", "C": None, "C++": None})
    assert found(glossary, "New York, York-shire and Yorks") == [("New York", "NJ"), ("York", "J")]
    assert found(glossary, "New  \t York Times Square") == [("York Times Square", "JTS")]
    assert found(glossary, "a cat's catalogue (cat)cat2 cat") == [("cat", "K")] * 3
    assert found(glossary, "C, C++ and C") == [("C", "C"), ("C++", "C++"), ("C", "C")]
    assert found(glossary, "") == found(glossary, " \n ") == []


def test_case_decides_but_at_the_beginning_of_a_sentence() -> None:
    terms = {"dog": "Hund", "May": "Mai", "may": "d\u00fcrfen", "iPhone": None, "npm": None, "sea dog": "b"}
    glossary = Glossary(terms)
    assert found(glossary, "Dog! The Dog and a DOG. \u201eDog and dog.") == [
        ("Dog", "Hund"),
        ("Dog", "Hund"),
        ("dog", "Hund"),
    ]
    assert found(glossary, "May we? In May we may.") == [("May", "Mai"), ("May", "Mai"), ("may", "d\u00fcrfen")]
    assert found(glossary, "IPhone, iPhone. Npm npm Npm") == [("iPhone", "iPhone"), ("Npm", "Npm"), ("npm", "npm")]
    assert found(glossary, "Sea dog") == [("Sea dog", "b")]


def test_letters_are_compared_in_composed_form_and_scripts_without_spaces_have_no_borders() -> None:
    glossary = Glossary({"caf\u00e9": "K", "\u6771\u4eac": "Tokyo", "\u0915": "ka"})
    assert found(glossary, "un cafe\u0301  noir") == [("cafe\u0301", "K")]
    assert found(glossary, "\u79c1\u306f\u6771\u4eac\u306b\u4f4f\u3080") == [("\u6771\u4eac", "Tokyo")]
    assert found(glossary, "\u0915\u0947 \u0915") == [("\u0915", "ka")]  # with a vowel sign it is another word


WORDS = st.lists(st.sampled_from(["a", "b", "ab", "A", "a b", "b,", "-", "\u0301", "\u4e2d"]), max_size=8).map(" ".join)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(WORDS.filter(lambda words: re.search(r"\w", words)), st.just("x"), max_size=6), WORDS)
@example({"a A": "x"}, "A A")
def test_matches_are_in_order_apart_and_what_they_say(terms: dict[str, str], sentence: str) -> None:
    place = 0
    for match in Glossary(terms).find(sentence):
        assert place <= match.start < match.end
        assert not goes_on(sentence, match.start)
        assert not goes_on(sentence, match.end)
        words = " ".join(sentence[match.start : match.end].split())
        place = match.end
        known = [" ".join(term.split()) for term in terms]
        assert any(words in (term, term[0].upper() + term[1:]) for term in known)
