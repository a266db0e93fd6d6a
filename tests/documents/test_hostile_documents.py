"""Documents of strangers: what is wrong is told in a sentence, and work and memory grow no faster than they do."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import locant
from locant.documents import find_format
from locant.errors import DataError

LONG = "9" * 5_000
WORD = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/d.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
CUE = "00:00:01,000 --> 00:00:02,000\n"


def zipped(files: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in files.items():
            package.writestr(name, data)
    return content.getvalue()


def word(body: str) -> bytes:
    names = 'xmlns="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    return zipped({"[Content_Types].xml": WORD, "d.xml": f"<document {names}><body>{body}</body></document>"})


def odt(body: str) -> bytes:
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "style")
    )
    return zipped(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<office:text {names}>{body}</office:text>",
        }
    )


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
        ("ass", "[Events]\nFormat: Text\nDialogue: a"),
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


PATTERNS = [
    *(
        ("html", part)
        for part in ("<b>a</b> ", "<ruby>a<rt>b</ruby>", "<p translate=no>", "<code>", "&amp;a ", "<a b='")
    ),
    *(("html", part) for part in ("<!--", "<span class=translate>a</i>", "<", "</b>", "<![CDATA[", "<script>")),
    *(
        ("markdown", part)
        for part in ("*a* ", "[a](b) ", "{{< a >}} b ", "{{< a >}}\n\n", "{{", "{% a", "`a`\n\n", "<b>")
    ),
    *(
        ("markdown", part)
        for part in (":::note a\n", ":::{code}\n", "!!! a\n    b\n\n", "a\n: b\n\n", "{% if %}", "|a")
    ),
    *(("srt", CUE + part) for part in ("a,\n\n", "<i>a\\N", "{\\an8}", "<b a")),
    *(("vtt", "00:01.000 --> 00:02.000\n" + part) for part in ("a &amp; <c>\n\n", "<rt>a", "a,\n")),
    *(("ass", "Dialogue: 1," + part) for part in ("a\\Nb\n", "{\\i1}a{\n", "a,\n")),
    *(("xliff", part) for part in ("<trans-unit><source>a <g>b</g></source></trans-unit>", "<g><x/></g>")),
    *(("docx", part) for part in ("<p/>", "<p><r><t>a</t></r></p>", "<p><hyperlink><r><t>a</t></r></hyperlink></p>")),
    *(("odt", part) for part in ("<text:p/>", "<text:p>a<text:span>b</text:span></text:p>")),
    ("json", '"a {b}",'),
    ("po", 'msgid "a %s"\nmsgstr ""\n\n'),
    ("text", "- a b. c\n"),
]
AROUND = {
    "vtt": ("WEBVTT\n\n", ""),
    "ass": ("[Events]\nFormat: Layer, Text\n", ""),
    "xliff": ('<xliff version="1.2">', "</xliff>"),
    "json": ("[", "1]"),
}


@pytest.mark.parametrize(("format", "pattern"), PATTERNS)
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
        "import resource, sys; sys.path.insert(0, sys.argv[1]); from test_hostile_documents import word\n"
        "from locant.documents import find_format\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "find_format('docx').read(word('<p/>'))\n"
        "before = peak(); find_format('docx').read(word('<p/>' * 500_000)); print(peak() - before)"
    )
    here, source = Path(__file__).parent, Path(locant.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script, str(here)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(source)},
    )
    assert int(done.stdout) < 150
