"""Subtitles of SubRip, WebVTT and SubStation Alpha: texts of cues are translated; times, settings and styles stay.

A sentence that goes over several cues is translated whole, and each cue gets as much of the translation as it had of
the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from locant.documents.formats import Document, DocumentOptions, TextDocument, decode, write_with
from locant.documents.markup import entity_texts, escaping
from locant.documents.passages import FoundMark, Item, Mark, Text, tag_mark, with_marks
from locant.errors import DataError

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_TIMES = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}\s*-->\s*(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}(?:\s.*)?")
_SUBRIP_MARK = re.compile(r"<(?P<end>/?)(?P<name>b|i|u|s|font)(?:\s[^<>]*)?>|(?P<void>\{\\[^{}]*\})", re.IGNORECASE)
_WEBVTT_MARK = re.compile(
    r"<(?P<end>/?)(?P<name>c|b|i|u|v|ruby|lang)(?:[\s.][^<>]*)?>"
    r"|(?P<void><[\d:.]+>|<rt(?:[\s.][^<>]*)?>.*?(?:</rt>|(?=</ruby>)|\Z))"
)
_ASS_MARK = re.compile(r"(?P<void>\{[^{}]*\})")
_BREAK = re.compile(r"(\\[Nn])")  # of a line, in what comes from SubStation Alpha
_LINE_BREAK = re.compile(rf"\r\n|\r|\n|{_BREAK.pattern}")
_BLANK = r"\h"
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_DASH = re.compile(r"\s*[-–—]\s*(?=\S)")  # noqa: RUF001
_MOST_CUES = 4  # over which a sentence goes


class _Line(NamedTuple):
    """A line of a file, or a part of one up to a sign for a line break.

    Attributes:
        text: Without its end.
        end: Of the line.
        cue: Number of its cue; ``None`` where it is no text of one.
    """

    text: str
    end: str
    cue: int | None = None


def read_subrip(content: bytes, options: DocumentOptions) -> Document:
    """Take subtitles of SubRip apart.

    Raises:
        DataError: The file is not UTF-8, or has no times.
    """
    start, text = decode(content)
    lines = _lines(text)
    if not any(_TIMES.fullmatch(line.text) for line in lines):
        raise DataError("The document is not SubRip: it has no line of times (00:00:01,000 --> 00:00:02,000).")
    # Words that look like times are not taken for them.
    return _document(
        _with_cues(lines, is_webvtt=False),
        partial(_texts, _SUBRIP_MARK),
        lambda items: lambda words: words.replace("-->", "->"),
        start,
    )


def read_webvtt(content: bytes, options: DocumentOptions) -> Document:
    """Take subtitles of WebVTT apart.

    Raises:
        DataError: The file is not UTF-8, or does not begin with ``WEBVTT``.
    """
    start, text = decode(content)
    if not re.match(r"WEBVTT(?:[ \t\r\n]|\Z)", text):
        raise DataError("The document is not WebVTT: its first line does not begin with WEBVTT.")

    def texts(line: str) -> Iterator[Item]:
        for item in with_marks([Text(line)], _marks(_WEBVTT_MARK)):  # in what is written, so that `&lt;b>` is no tag
            yield from [item] if isinstance(item, Mark) else entity_texts(item.text)

    def writing(passage: Sequence[Item]) -> Callable[[str], str]:
        escape = escaping(passage)
        return lambda words: escape(words).replace("-->", "--&gt;")

    return _document(_with_cues(_lines(text), is_webvtt=True), texts, writing, start)


def read_ass(content: bytes, options: DocumentOptions) -> Document:
    """Take subtitles of SubStation Alpha (.ass, .ssa) apart; comments and drawings stay.

    Raises:
        DataError: The file is not UTF-8, or has no format of events that ends with the text.
    """
    start, text = decode(content)
    lines: list[_Line] = []
    fields = cues = 0
    is_events = False
    for line in _lines(text):
        kind, _, values = line.text.partition(":")
        if line.text.startswith("["):
            is_events = line.text.strip().lower() == "[events]"
        elif is_events and kind == "Format" and values.rpartition(",")[2].strip().lower() == "text":
            fields = values.count(",")
        *before, words = line.text.split(",", fields)
        if is_events and kind == "Dialogue" and 0 < fields == len(before) and not _DRAWING.search(words):
            lines += [_Line(line.text.removesuffix(words), ""), *_cue_lines(words, line.end, cues)]
            cues += 1
        else:
            lines.append(line)
    if not fields:
        raise DataError("The document is no SubStation Alpha: it has no [Events] with a Format that ends with Text.")
    return _document(lines, partial(_texts, _ASS_MARK), lambda items: _without_codes, start)


def _without_codes(words: str) -> str:
    """Return words in which nothing is a code; no sign represents a brace or a backslash."""
    return re.sub(r"\\(?=[Nnh])", "\\\\\u2060", words.replace("{", "(").replace("}", ")"))


def _lines(text: str) -> list[_Line]:
    return [_Line(found[1], found[2]) for found in _LINE.finditer(text)]


def _cue_lines(text: str, end: str, cue: int) -> Iterator[_Line]:
    """Yield a line of a cue, which may go on behind a sign for a line break."""
    parts = _BREAK.split(text)
    for words, own_end in zip(parts[::2], [*parts[1::2], end], strict=True):
        yield _Line(words, own_end, cue)


def _with_cues(lines: Sequence[_Line], *, is_webvtt: bool) -> Iterator[_Line]:
    """Yield lines, those that are texts of cues with the number of their cue."""
    cue, in_cue = -1, False
    for line, following in zip_longest(lines, lines[1:], fillvalue=_Line("", "")):
        is_text = False
        if _TIMES.fullmatch(line.text):
            cue, in_cue = cue + 1, True
        elif not line.text.strip():
            in_cue = in_cue and not is_webvtt  # some of SubRip have empty lines in a cue
        else:
            is_name = _TIMES.fullmatch(following.text) and (is_webvtt or line.text.strip().isdigit())
            is_text = in_cue and not is_name
        yield from _cue_lines(line.text, line.end, cue) if is_text else [line]


def _document(
    lines: Iterable[_Line],
    texts: Callable[[str], Iterable[Item]],
    escape: Callable[[Sequence[Item]], Callable[[str], str]],
    start: bytes,
) -> Document:
    document = TextDocument(start)
    passage: list[Item] = []
    last: _Line | None = None  # with text
    between = ""
    joined = 1
    for line in lines:
        if line.cue is None:
            between += line.text + line.end
            continue
        if last is None or (last.cue != line.cue and (joined == _MOST_CUES or not _goes_on(last.text, line.text))):
            if passage:
                document.add(passage, write_with(escape(passage)))
            passage, joined = [], 1
            document.keep(between)
        elif last.cue != line.cue:
            passage.append(Text(" ", between, "firm"))
            joined += 1
        elif not _LINE_BREAK.fullmatch(between) or _DASH.match(line.text):
            passage.append(Mark("break", between))
        else:
            passage.append(Text(" ", between, "loose"))
        words = line.text
        if dash := _DASH.match(words):
            passage.append(Mark("break", dash[0]))
            words = words[dash.end() :]
        passage += texts(words)
        last, between = line, line.end
    if passage:
        document.add(passage, write_with(escape(passage)))
    document.keep(between)
    return document


def _goes_on(before: str, after: str) -> bool:
    """Whether the text of a cue goes on in the next one: it has no end, and nothing begins."""
    before, after = before.rstrip(), after.lstrip()
    ends = not before or not (before[-1].isalnum() or before[-1] in ",;")
    return not ends and after[:1].islower() and not any(sign in text for text in (before, after) for sign in "<{")


def _marks(pattern: re.Pattern[str]) -> Callable[[str], Iterator[FoundMark]]:
    def find(text: str) -> Iterator[FoundMark]:
        for found in pattern.finditer(text):
            mark = Mark("void", None) if found["void"] else tag_mark(found["name"], is_end=bool(found["end"]))
            yield *found.span(), mark

    return find


def _texts(marks: re.Pattern[str], line: str) -> list[Item]:
    r"""Return the texts and marks of a line in which ``\h`` is a blank."""
    texts: list[Text] = []
    for number, part in enumerate(line.split(_BLANK)):
        texts += [*([Text(" ", _BLANK)] if number else []), Text(part)]
    return with_marks(texts, _marks(marks))
