"""Every word of a document has its place in the translation, once, wherever its sentences are cut."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import docx
import polib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from odf import opendocument, style, teletype, text
from translated import odt as odt_body
from translated import reversed_words, translated
from translated import word as word_body

from locant.documents.sentences import Splitter


@dataclass(frozen=True)
class Piece:
    """A word of a document, each of which there is once, with what follows it, and whether it is marked."""

    word: str
    after: str
    is_marked: bool


Paragraph = Sequence[Piece]


@st.composite
def documents(draw: st.DrawFn) -> list[Paragraph]:
    ends = st.sampled_from([" ", " ", " ", ", ", ". ", "! ", "? ", "; ", "... ", ' ("', ".) "])
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    names = (f"x{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(100))
    return [[Piece(next(names), draw(ends), draw(st.integers(0, 5)) == 0) for _ in range(length)] for length in lengths]


@st.composite
def splitters(draw: st.DrawFn, *, kinds: Sequence[str]) -> Splitter:
    """What cuts lines at spaces or anywhere, leaves something out, or makes up what is not there."""
    seed, kind = draw(st.integers(0, 1000)), draw(st.sampled_from(kinds))

    def split(line: str) -> list[str]:
        if kind == "lost":
            return line.split(".")[1:]
        if kind == "made up":
            return [line[:9], "something else", line[9:]]
        places = [place for place in range(1, len(line)) if kind == "anywhere" or line[place].isspace()]
        rng = random.Random(f"{seed} {line}")
        cuts = sorted(rng.sample(places, min(len(places), rng.randrange(4))))
        return [line[start:end].strip() for start, end in zip([0, *cuts], [*cuts, len(line)], strict=True)]

    return split


def joined(paragraph: Paragraph, before: str, after: str) -> str:
    return "".join(
        f"{before}{piece.word}{after}{piece.after}" if piece.is_marked else piece.word + piece.after
        for piece in paragraph
    ).strip()


def plain(paragraphs: Sequence[Paragraph]) -> str:
    return "\n\n".join(joined(each, "", "") for each in paragraphs)


def markdown(paragraphs: Sequence[Paragraph]) -> str:
    starts = ["", "# ", "- ", "> ", "1. "]
    texts = [joined(each, "[", "](http://a.b)") for each in paragraphs]
    return "\n\n".join(starts[number % 5] + each for number, each in enumerate(texts))


def html(paragraphs: Sequence[Paragraph]) -> str:
    texts = [joined(each, "<i title='XA'>", "</i>") for each in paragraphs]
    return "<script>XB</script>" + "".join(f"<p>{each.replace('; ', '; <br>')}</p>\n" for each in texts)


def subtitles(paragraphs: Sequence[Paragraph]) -> str:
    cues = []
    for number, paragraph in enumerate(paragraphs, start=1):
        words = joined(paragraph, "<i>", "</i>").replace(", ", ",\n")
        cues.append(f"{number}\n00:00:{number:02},000 --> 00:00:{number:02},900\n{words}\n")
    return "\n".join(cues)


def webvtt(paragraphs: Sequence[Paragraph]) -> str:
    return "WEBVTT\n\n" + re.sub(r"(?<=\d),(?=\d{3})", ".", subtitles(paragraphs))


def exchange(paragraphs: Sequence[Paragraph]) -> str:
    texts = [joined(each, '<g id="1">', "</g>") for each in paragraphs]
    units = [f'<trans-unit id="XC{number}"><source>{each}</source></trans-unit>' for number, each in enumerate(texts)]
    return f'<xliff version="1.2"><file>{"".join(units)}</file></xliff>'


def values(paragraphs: Sequence[Paragraph]) -> str:
    return json.dumps([{f"XK{number}": joined(each, "<b>", "</b>")} for number, each in enumerate(paragraphs)])


def catalogue(paragraphs: Sequence[Paragraph]) -> str:
    found = polib.POFile()
    for number, each in enumerate(paragraphs):
        found.append(polib.POEntry(msgid=joined(each, "<b>", "</b>"), msgstr="", msgctxt=f"XC{number}"))
    return str(found)


def word(paragraphs: Sequence[Paragraph]) -> bytes:
    document, content = docx.Document(), io.BytesIO()
    for paragraph in paragraphs:
        written = document.add_paragraph()
        for piece in paragraph:
            written.add_run(piece.word).bold = piece.is_marked or None
            written.add_run(piece.after)
    document.save(content)
    return content.getvalue()


def open_document(paragraphs: Sequence[Paragraph]) -> bytes:
    document, content = opendocument.OpenDocumentText(), io.BytesIO()
    bold = style.Style(name="Bold", family="text")
    bold.addElement(style.TextProperties(fontweight="bold"))
    document.automaticstyles.addElement(bold)
    for paragraph in paragraphs:
        written = text.P()
        for piece in paragraph:
            target = text.Span(stylename=bold) if piece.is_marked else written
            teletype.addTextToElement(target, piece.word)
            if piece.is_marked:
                written.addElement(target)
            teletype.addTextToElement(written, piece.after)
        document.text.addElement(written)
    document.write(content)
    return content.getvalue()


def characters(content: bytes) -> list[str]:
    return [content.decode()]


def texts_of_word(content: bytes) -> list[str]:
    return [paragraph.text for paragraph in docx.Document(io.BytesIO(content)).paragraphs]


def texts_of_open_document(content: bytes) -> list[str]:
    return [teletype.extractText(each) for each in opendocument.load(io.BytesIO(content)).getElementsByType(text.P)]


def messages(content: bytes) -> list[str]:
    return [entry.msgstr or entry.msgid for entry in polib.pofile(content.decode())]


def targets(content: bytes) -> list[str]:
    units = etree.fromstring(content).iter("trans-unit")
    return ["".join((each.find("target") if len(each) > 1 else each.find("source")).itertext()) for each in units]


FORMS: dict[str, tuple[Callable[..., str | bytes], Callable[[bytes], list[str]]]] = {
    "text": (plain, characters),
    "markdown": (markdown, characters),
    "html": (html, characters),
    "srt": (subtitles, characters),
    "vtt": (webvtt, characters),
    "xliff": (exchange, targets),
    "json": (values, characters),
    "po": (catalogue, messages),
    "docx": (word, texts_of_word),
    "odt": (open_document, texts_of_open_document),
}


def upper_words(sentence: str) -> str:
    return re.sub(r"[a-z]+", lambda found: found[0].upper(), sentence)


def frame(format: str, number: int) -> list[str]:
    """What stands around the paragraphs of a form, each of which the translation has once."""
    if format == "html":
        return ["<script>XB</script>"]
    patterns = {
        "srt": "{0}\n00:00:{0:02},000 --> 00:00:{0:02},900\n",
        "vtt": "{0}\n00:00:{0:02}.000 --> 00:00:{0:02}.900\n",
        "xliff": '<trans-unit id="XC{0}"><source>',
        "json": '{{"XK{0}": ',
        "po": 'msgctxt "XC{0}"\nmsgid "',
    }
    first = format in ("srt", "vtt")
    return [patterns[format].format(k) for k in range(first, number + first)] if format in patterns else []


def check(format: str, paragraphs: list[Paragraph], split: Splitter, translate: Callable[[str], str], align: bool):
    write, read = FORMS[format]
    source = write(paragraphs)
    written = translated(format, source, translate, align=align, split=split)
    wanted = [piece.word for paragraph in paragraphs for piece in paragraph]
    found = [word.lower() for word in re.findall(r"[xX][a-zA-Z]{2}\b", " ".join(read(written)))]
    for each in frame(format, len(paragraphs)):
        assert written.decode().count(each) == 1
    if format == "po":
        assert [one.msgid for one in polib.pofile(written.decode())] == [one.msgid for one in polib.pofile(source)]
    if format == "html":
        assert sorted(re.findall("<[^<>]*>", written.decode())) == sorted(re.findall("<[^<>]*>", source))
    return found, wanted


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format", sorted(FORMS))
@settings(max_examples=12, deadline=None)
@given(documents(), splitters(kinds=("anywhere", "lost", "made up")), st.booleans())
def test_every_word_has_its_place_wherever_sentences_are_cut(format, paragraphs, split, align):
    found, wanted = check(format, paragraphs, split, upper_words, align)
    assert found == wanted


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format", sorted(FORMS))
@settings(max_examples=12, deadline=None)
@given(documents(), splitters(kinds=("spaces", "lost")), st.booleans())
def test_every_word_is_there_once_in_whatever_order(format, paragraphs, split, align):
    found, wanted = check(format, paragraphs, split, lambda sentence: upper_words(reversed_words(sentence)), align)
    assert sorted(found) == sorted(wanted)


def check_same(format: str, source: bytes | str, **options: object) -> None:
    source = source.encode() if isinstance(source, str) else source
    written = translated(format, source, str, **options)
    if format == "po":  # whose messages have got what was missing: nothing is left to do
        source, written = written, translated(format, written, str.upper, **options)
    assert written == source


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format", sorted(FORMS))
@settings(max_examples=12, deadline=None)
@given(documents(), splitters(kinds=("spaces", "anywhere", "lost", "made up")), st.booleans())
def test_a_document_translated_to_itself_is_itself_byte_for_byte(format, paragraphs, split, align):
    check_same(format, FORMS[format][0](paragraphs), split=split, align=align)


SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
@settings(max_examples=6, deadline=None)
@given(st.booleans(), st.booleans(), st.sampled_from([b"\n", b"\r\n"]), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_real_documents_translated_to_themselves_are_the_same(path, align, wrapped, newline, start):
    name = path.name.split(".")[1]
    if name in ("docx", "odt"):
        source = {"docx": word_body, "odt": odt_body}[name](path.read_text())
    else:
        source = start + path.read_bytes().removeprefix(start).replace(b"\r\n", b"\n").replace(b"\n", newline)
    check_same({"md": "markdown", "txt": "text"}.get(name, name), source, align=align, wrapped=wrapped)
