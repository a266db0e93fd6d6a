"""Passages: whatever is translated to whatever, nothing of a document is lost or doubled."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st
from translated import FUNCTIONS, functions

from locant.documents import Mark, Text
from locant.documents.passages import Sentence, cut_passage
from locant.documents.sentences import fitting_splitter, sentence_splitter
from locant.documents.steps import Sentences, answer_steps, translation_steps

ENGLISH = sentence_splitter("en")
WORDS = re.split(" ", "One two three. Four! 1990 3.5 https://a.b/c?d=1, x@y.org Zwei-drei 你好。 e B2B ")


@st.composite
def passages(draw: st.DrawFn) -> list[Text | Mark]:
    """A passage with marks of all kinds, pairs inside each other."""
    found: list[Text | Mark] = []
    opened: list[str] = []
    for number in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["text", "text", "open", "close", "void", "kept", "space", "break", "wrap", "raw"]))
        if kind == "text":
            found.append(Text(" ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5)))))
        elif kind == "raw":
            found.append(Text("&", f"&amp;{number}"))
        elif kind == "wrap":
            found.append(Text(" ", f"\n{number}", draw(st.sampled_from(["loose", "firm"]))))
        elif kind == "open":
            opened.append(f"t{number}")
            found.append(Mark("open", f"<{opened[-1]}>", opened[-1]))
        elif kind == "close":
            if opened:
                found.append(Mark("close", f"</{opened[-1]}>", opened.pop()))
        else:
            found.append(Mark(kind, f"<{kind}{number}/>", text="as is" if kind == "kept" else ""))
    return [*found, *(Mark("close", f"</{name}>", name) for name in reversed(opened))]


def raw(items: list) -> str:
    return "".join(item.source if isinstance(item, Text) else str(item.raw) for item in items)


@st.composite
def links(draw: st.DrawFn) -> list[tuple[int, int]]:
    return draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))


@settings(max_examples=100, deadline=None)
@given(passages())
def test_sentences_and_what_is_between_them_are_the_passage(passage):
    pieces = cut_passage(passage, ENGLISH)
    items = [item for piece in pieces for item in (piece.items if isinstance(piece, Sentence) else [piece])]
    assert raw(items) == raw(passage)
    parts = [part for piece in pieces if isinstance(piece, Sentence) for part in piece.parts()]
    for part in parts:
        if isinstance(part, Sentence):
            assert part.text.strip() == part.text


@settings(max_examples=120, deadline=None)
@given(passages(), functions, st.none() | links())
def test_every_mark_is_written_once_and_pairs_stay_pairs(passage, name, linked):
    steps = translation_steps([passage], ENGLISH, aligned=linked is not None)
    align = None if linked is None else lambda pairs: [linked for _ in pairs]
    (written,) = answer_steps(steps, lambda texts: [FUNCTIONS[name](text) for text in texts], align)
    marks = [item for item in written if isinstance(item, Mark) and not (item.kind == "kept" and item.name)]
    firm = [item.source for item in written if isinstance(item, Text) and item.wrap == "firm"]
    wanted = [item for item in passage if isinstance(item, Mark)]
    assert Counter(mark.raw for mark in marks if mark.kind != "space") == Counter(
        mark.raw for mark in wanted if mark.kind != "space"
    )
    assert sorted(firm) == sorted(item.source for item in passage if isinstance(item, Text) and item.wrap == "firm")
    opened = []
    for mark in marks:
        if mark.kind == "open":
            opened.append(mark.name)
        elif mark.kind == "close":
            assert opened.pop() == mark.name
    assert not opened
    if name == "same":
        assert raw(written) == raw(passage)
    pieces = cut_passage(passage, ENGLISH)
    kept = [[mark] for piece in pieces if isinstance(piece, Sentence) for _, mark in piece.kept]
    text = "".join(
        item if isinstance(item, str) else item.source if isinstance(item, Text) else item.raw for item in written
    )
    for items in kept:
        assert re.sub("<[^<>]*>", "", raw(items)) in re.sub("<[^<>]*>", "", text)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["Eins zwei.", "Drei! ", "vier, fünf", "\n", "  ", "12", "http://a.b"]), max_size=12).map(
        "".join
    )
)
def test_every_sentence_has_its_own_place(text):
    asked: list[str] = []

    def translate(texts: list[str]) -> list[str]:
        asked.extend(texts)
        return [f"⟦{asked.index(each)}⟧" for each in texts]

    (written,) = answer_steps(translation_steps([[Text(text)]], ENGLISH, aligned=False), translate)
    pieces = cut_passage([Text(text)], ENGLISH)
    plain = [piece for piece in pieces if isinstance(piece, Sentence) and not piece.kept]
    for piece in plain:
        assert written.count(f"⟦{asked.index(piece.text)}⟧") >= sum(other.text == piece.text for other in plain)
    assert "".join(item if isinstance(item, str) else raw([item]) for item in written).count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("translation", "linked", "expected"),
    [
        ("Der Ball ist rot", [(0, 0), (1, 3), (2, 1)], "Der Ball ist <b>rot</b>"),
        ("rote Bälle sind rund", [(1, 0), (2, 1)], "<b>rote</b> Bälle sind rund"),
        # Words that follow each other are marked together; of words far apart the longest row.
        ("das sehr rote Spielzeug", [(0, 0), (1, 1), (1, 2), (2, 3)], "das <b>sehr rote</b> Spielzeug"),
        (
            "es ist rot und auch der Ball ist rot",
            [(1, 2), (1, 7), (1, 8)],
            "es ist rot und auch der Ball <b>ist rot</b>",
        ),
        # Punctuation that is not among the marked words stays outside.
        ("der Ball, rot.", [(1, 2)], "der Ball, <b>rot</b>."),
        # No link: the parts stand for the sentence.
        ("nichts davon", [], "[The] <b>[red]</b> [ball]"),
    ],
)
def test_marks_go_where_the_alignment_says(translation, linked, expected):
    passage = [Text("The "), Mark("open", "<b>", "b"), Text("red"), Mark("close", "</b>", "b"), Text(" ball")]

    def translate(texts):
        return [translation if text == "The red ball" else f"[{text}]" for text in texts]

    (written,) = answer_steps(translation_steps([passage], ENGLISH, aligned=True), translate, lambda pairs: [linked])
    assert "".join(item if isinstance(item, str) else raw([item]) for item in written) == expected


def test_a_mark_alone_stays_with_its_word():
    passage = [Text("See the note"), Mark("void", "¹"), Text(" and go on.")]
    linked = [(0, 0), (1, 4), (2, 3), (3, 5), (4, 6), (5, 6)]
    steps = translation_steps([passage], ENGLISH, aligned=True)
    (written,) = answer_steps(
        steps, lambda texts: ["Siehe bitte gern Anmerkung die und weiter."], lambda pairs: [linked]
    )
    assert "".join(item if isinstance(item, str) else raw([item]) for item in written) == (
        "Siehe bitte gern Anmerkung¹ die und weiter."
    )


@pytest.mark.parametrize(
    ("sentence", "translation", "expected"),
    [
        ("In 1990 he had 3.5 dogs.", "1990 hatte er 3,5 Hunde.", "1990 hatte er 3.5 Hunde."),
        ("In 1990 he slept.", "Im Jahr 1890 schlief er.", "Im Jahr 1990 schlief er."),
        ("See https://a.b/c_d, please.", "Bitte sehen Sie https://a.b/cd an.", "Bitte sehen Sie https://a.b/c_d an."),
        ("Write to x@y.org.", "Schreiben Sie an x@y.org.", "Schreiben Sie an x@y.org."),
        ("He was 3rd of B2B.", "Er war Dritter von B2B.", "Er war Dritter von B2B."),
        # What has no place: the parts around it are translated.
        ("He has 3 dogs", "Er hat Hunde", "[He has] 3 [dogs]"),
        ("See www.a.b now", "www.a.b www.a.b", "[See] www.a.b [now]"),
        # Signs that a model does not know are missing in what it writes.
        ("Good night \u263a\ufe0f.", "Gute Nacht \u263a\ufe0f.", "Gute Nacht \u263a\ufe0f."),
        ("♪ We sing ♪", "Wir singen", "♪ [We sing] ♪"),
        ("Press → now", "Jetzt", "[Press] → [now]"),
        ("He ran 👩‍🚀👍🏽!", "Er lief!", "[He ran] 👩‍🚀👍🏽!"),
    ],
)
def test_numbers_and_addresses_are_kept(sentence, translation, expected):
    def translate(texts):
        return [translation if text == sentence else f"[{text}]" for text in texts]

    (written,) = answer_steps(translation_steps([[Text(sentence)]], ENGLISH, aligned=False), translate)
    assert "".join(item if isinstance(item, str) else raw([item]) for item in written) == expected


def test_what_is_no_text_is_not_translated():
    texts = ["1990", "* * *", "https://a.b", "…", "x@y.org, www.a.b", "♪ ♪", "👍🏽"]
    steps = translation_steps([[Text(text)] for text in texts], ENGLISH, aligned=False)
    assert [raw(written) for written in answer_steps(steps, lambda asked: pytest.fail(str(asked)))] == texts


def test_sentences_too_long_are_cut_at_clauses():
    split = fitting_splitter(ENGLISH, lambda text: len(text) <= 30)
    passage = [Text("This is a long sentence, which has clauses, and more of them. Short.")]
    steps = translation_steps([passage], split, aligned=False)
    question = next(steps)
    assert isinstance(question, Sentences)
    assert question.texts == ["This is a long sentence,", "which has clauses,", "and more of them.", "Short."]


def test_long_lines_are_cut_window_by_window(monkeypatch):
    """The package takes time with the square of a line's length, in which nothing else of the process goes on."""
    longest, whole = [], sentencex.segment

    def segment(language, line):
        longest.append(len(line))
        return whole(language, line)

    monkeypatch.setattr(sentencex, "segment", segment)
    split = sentence_splitter.__wrapped__("en")
    prose = " ".join(f"Dr. {'word ' * (number % 40)}ends here at 3.5 km." for number in range(200))
    assert split(prose) == whole("en", prose)
    for line in ("`" * 30_000, "a" * 9_001, "“A. " * 3_000, "word " * 2_500 + "end. Next one."):
        assert "".join("".join(split(line)).split()) == "".join(line.split())
    assert max(longest) <= 4_000
