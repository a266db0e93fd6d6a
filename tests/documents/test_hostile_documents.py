"""Documents of strangers: what is wrong is told in a sentence, and work and memory grow no faster than they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from translated import ODT_TYPE, WORD_TYPES, odt, translated, word, zipped

import locant
from locant.documents import DocumentOptions, find_format
from locant.errors import DataError

LONG = "9" * 5_000
CUE = "00:00:01,000 --> 00:00:02,000\n"


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("html", "<p>The man</p><![foo]>"),
        ("html", "<![1]>"),
        ("html", f"<p>The man &#{LONG}; <code>&#{LONG};</code> <a title='&#{LONG};'>x</a>"),
        ("markdown", f"<div>&#{LONG};<![1]></div>\n\nThe &#{LONG}; man"),
        ("vtt", f"WEBVTT\n\n00:01.000 --> 00:02.000\nThe &#{LONG}; man"),
        ("xliff", f'<xliff version="1.2"><trans-unit><source>&#{LONG};</source></trans-unit></xliff>'),
        ("po", f'msgid ""\nmsgstr "Plural-Forms: nplurals={LONG}; plural=0;\\n"\n'),
        ("po", 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n%0;\\n"\n'),
        ("odt", odt(f'<text:p>The <text:s text:c="{LONG}"/>man</text:p>')),
        ("xliff", '<xliff version="1.2"><!DOCTYPE x>'),
        ("xliff", '<xliff version="1.2"><trans-unit><source>a<?x <b>?></source></trans-unit></xliff>'),
    ],
)
def test_what_parsers_do_not_expect_is_read_or_told(format, content):
    raw = content.encode() if isinstance(content, str) else content
    try:
        document = find_format(format).read(raw)
    except DataError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert document.written([list(passage) for passage in document.passages])[:2] == raw[:2]


def test_any_error_of_a_reader_is_a_sentence(monkeypatch):
    for error in (AssertionError, ValueError, ZeroDivisionError, OverflowError, RecursionError, IndexError):

        def fail(content, options, error=error):
            raise error("x")

        monkeypatch.setattr("locant.documents.plain.read_plain", fail)
        with pytest.raises(DataError):
            find_format("text").read(b"The man")


PATTERNS = {
    "html": [
        *("<b>a</b> ", "<ruby>a<rt>b</ruby>", "<p translate=no>", "<code>", "&amp;a ", "<a b='", "<!--", "<", "</b>"),
        *("<span class=translate>a</i>", "<![CDATA[", "<script>"),
    ],
    "markdown": [
        *("*a* ", "[a](b) ", "{{< a >}} b ", "{{< a >}}\n\n", "{{", "{% a", "`a`\n\n", "<b>", ":::note a\n"),
        *(":::{code}\n", "!!! a\n    b\n\n", "a\n: b\n\n", "{% if %}", "|a", "é*a* "),
    ],
    "srt": [CUE + part for part in ("a,\n\n", "<i>a\\N", "{\\an8}", "<b a")],
    "vtt": ["00:01.000 --> 00:02.000\n" + part for part in ("a &amp; <c>\n\n", "<rt>a", "a,\n")],
    "xliff": ["<trans-unit><source>a <g>b</g></source></trans-unit>", "<g><x/></g>"],
    "docx": ["<p/>", "<p><r><t>a</t></r></p>", "<p><hyperlink><r><t>a</t></r></hyperlink></p>"],
    "odt": ["<text:p/>", "<text:p>a<text:span>b</text:span></text:p>"],
    "json": ['"a {b}",'],
    "po": ['msgid "a %s"\nmsgstr ""\n\n'],
    "text": ["- a b. c\n"],
}
AROUND = {
    "vtt": ("WEBVTT\n\n", ""),
    "xliff": ('<xliff version="1.2">', "</xliff>"),
    "json": ("[", "1]"),
}


@pytest.mark.parametrize(("format", "pattern"), [(name, each) for name in PATTERNS for each in PATTERNS[name]])
def test_work_grows_with_the_size(format, pattern):
    def calls(times: int) -> int:
        body = pattern * times
        start, end = AROUND.get(format, ("", ""))
        packed = {"docx": word, "odt": odt}.get(format)
        content = packed(body) if packed else f"{start}{body}{end}".encode()
        read = find_format(format).read
        counted = 0

        def count(frame, event, argument) -> None:
            nonlocal counted
            counted += 1

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            read(content)
        finally:
            sys.setprofile(before)
        return counted

    calls(10)  # what is imported and compiled once
    small, large = calls(400), calls(800)
    assert large < 2.2 * small + 1_000


@pytest.mark.parametrize("format", ["docx", "odt", "html", "markdown", "xliff"])
def test_a_document_of_too_many_elements_is_refused(format, monkeypatch):
    monkeypatch.setattr("locant.documents.formats.MOST_ITEMS", 1_000)
    contents = {"docx": word, "odt": odt, "xliff": str.encode, "html": str.encode, "markdown": str.encode}
    part = {"docx": "<p/>", "odt": "<text:p/>"}.get(format, "<b>a</b>")
    find_format("html").read(b"<b>a</b>" * 100)
    with pytest.raises(DataError):
        find_format(format).read(contents[format](part * 1_000))


def test_paragraphs_without_words_cost_little_memory():
    """What half a million take, which a process of its own is asked for."""
    script = (
        "import resource, sys; sys.path.insert(0, sys.argv[1]); from translated import word\n"
        "from locant.documents import find_format\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "find_format('docx').read(word('<p/>'))\n"
        "before = peak(); find_format('docx').read(word('<p/>' * 500_000)); print(peak() - before)"
    )
    here, source = Path(translated.__code__.co_filename).parent, Path(locant.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script, str(here)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(source)},
    )
    assert int(done.stdout) < 150


EXPANDING = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><x>&b;</x>'


@pytest.mark.parametrize(
    ("format", "content", "sentence"),
    [
        ("text", b"caf\xe9\n", "is not UTF-8: line 1 has other bytes"),
        ("markdown", "x".encode("utf-16"), "is UTF-16"),
        ("html", b"a\0b", "has characters of value 0"),
        ("json", b'{"a": ', "is no valid JSON"),
        ("json", b"[" * 100_000, "is no valid JSON: it is nested more than 50 levels deep"),
        ("json", b'["\\ud800"]', "half of a character"),
        ("srt", b"Hello\n", "is not SubRip: it has no line of times"),
        ("vtt", b"1\n00:01.000 --> 00:02.000\nx\n", "is not WebVTT"),
        ("po", b"Hello\n", "is no PO catalogue: line 1"),
        ("po", b'msgid "a\n', "is no PO catalogue: line 1"),
        ("po", b"# nothing\n", "has no msgid"),
        ("docx", b"no zip", "is no Word document: it is no zip file"),
        pytest.param("docx", word("")[:100], "is no Word document: it is no zip file", id="cut"),
        ("docx", zipped({"a": "b"}), "[Content_Types].xml is missing"),
        ("docx", zipped({"[Content_Types].xml": EXPANDING}), "declares a document type"),
        ("docx", zipped({"[Content_Types].xml": "<x>"}), "is no XML"),
        (
            "docx",
            zipped({"[Content_Types].xml": WORD_TYPES.replace("/d.xml", "/e.xml"), "d.xml": "<x/>"}),
            "has no text",
        ),
        (
            "docx",
            zipped({"[Content_Types].xml": WORD_TYPES, "d.xml": EXPANDING}),
            "d.xml in it declares a document type",
        ),
        ("docx", zipped({"[Content_Types].xml": WORD_TYPES, "d.xml": "<x>" * 5_000 + "</x>" * 5_000}), "is no XML"),
        (
            "docx",
            zipped({"[Content_Types].xml": WORD_TYPES, "d.xml": "<x>" + " " * 2_000_000 + "</x>"}),
            "at most 10,000 of 1,000",
        ),
        ("docx", zipped({str(number): "" for number in range(10_001)}), "has 10,001 files"),
        ("odt", b"PK\x05\x06" + b"\0" * 18, "mimetype is missing"),
        ("odt", zipped({"mimetype": "text/plain"}), "its file mimetype says that it is another"),
        ("odt", zipped({"mimetype": ODT_TYPE}), "content.xml is missing"),
        ("odt", zipped({"mimetype": ODT_TYPE, "content.xml": EXPANDING}), "declares a document type"),
        ("odt", zipped({"mimetype": ODT_TYPE, "META-INF/manifest.xml": "<encryption-data/>"}), "is encrypted"),
    ],
)
def test_what_is_not_of_a_format_is_told_in_a_sentence(format, content, sentence):
    with pytest.raises(DataError, match=r"^The document ") as error:
        find_format(format).read(content, DocumentOptions(largest_unpacked=1_000_000))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_documents_have_a_largest_size():
    with pytest.raises(DataError, match="has 11 bytes; at most 10 are read"):
        find_format("text").read(b"hello world", DocumentOptions(largest=10))


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("format", "bomb"),
    [
        ("text", " " * 100_000 + "x"),
        ("text", "- " * 50_000),
        ("text", "1." * 50_000),
        ("text", "a@" * 50_000),
        ("markdown", "[" * 20_000),
        ("markdown", "*a" * 4_000),
        ("markdown", "<b>" * 5_000),
        ("markdown", "`" * 50_000 + "a"),
        ("markdown", "> " * 2_000 + "a"),
        ("json", json.dumps("{a" * 30_000)),
        ("json", json.dumps("<a" * 30_000 + "b" * 50_000)),
        ("json", json.dumps("<a " + "b" * 90_000)),
        ("json", json.dumps("{x{y}" * 5_000)),
        ("json", json.dumps("{n, plural, one {" * 5_000 + "}" * 10_000)),
        ("srt", "00:00:01,000 --> 00:00:02,000\n" + "<b a" * 20_000),
        ("srt", "00:00:01,000 --> 00:00:02,000\n" * 5_000 + "a"),
        ("vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\n" + "a,\n" * 10_000),
        ("po", 'msgid "a"\n' * 10_000),
        ("po", 'msgid "a"\nmsgstr ""\n' + '"\\\\"\n' * 10_000),
        ("html", "<div>" * 20_000 + "a" + "</div>" * 20_000),
        ("html", "<b>a</b>" * 3_000),
        ("html", "<b>" * 30_000),
        ("html", "<a " + "x" * 99_000 + ">a</a>"),
        ("html", "<" * 100_000),
        ("html", "<!--" * 25_000),
        ("html", "&" * 100_000),
        ("html", "&#x" * 30_000),
        ("html", "<script>" * 12_000),
        ("html", "</b>" * 25_000),
        ("html", '<a b="' * 15_000),
        ("html", "<!-->" + "<!-- >" * 16_000),
        ("html", "<![CDATA[>" * 10_000),
        ("html", "<?>" * 30_000),
        ("html", '<a b=">' * 14_000),
        ("html", "<a b='\">" * 12_000),
    ],
    ids=lambda value: value[:12],
)
def test_hostile_documents_are_cut_like_any_other(format, bomb):
    assert translated(format, bomb, lambda sentence: sentence).decode() == bomb
    assert len(translated(format, bomb, str.upper)) >= len(bomb) * 0.9


def test_a_file_within_that_is_damaged_is_told():
    source = bytearray(word("<p><r><t>One two.</t></r></p>"))
    start = source.find(b"d.xml") + len("d.xml")
    source[start : start + 30] = b"\0" * 30
    with pytest.raises(DataError, match=r"d\.xml in it cannot be unpacked"):
        find_format("docx").read(bytes(source))
