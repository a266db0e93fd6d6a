"""Subtitles of SubRip and WebVTT: texts of cues are translated; times, settings and styles stay.

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
_SUBRIP_MARK = re.compile(
    r"<(?P<end>/?)(?P<name>b|i|u|s|font)(?:\s[^<>]*)?>|(?P<void>\{\\[^{}]*\}|\\[Nh])", re.IGNORECASE
)
_WEBVTT_MARK = re.compile(
    r"<(?P<end>/?)(?P<name>c|b|i|u|v|ruby|lang)(?:[\s.][^<>]*)?>"
    r"|(?P<void><[\d:.]+>|<rt(?:[\s.][^<>]*)?>.*?(?:</rt>|(?=</ruby>)|\Z))"
)
_DASH = re.compile(r"\s*[-–—]\s*(?=\S)")  # noqa: RUF001
_MOST_CUES = 4  # over which a sentence goes


class _Line(NamedTuple):
    """A line of a file, without its end and with the number of its cue; ``None`` where it is no text of one."""

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

    def texts(line: str) -> list[Item]:
        return with_marks([Text(line)], partial(_marks, _SUBRIP_MARK))

    # Words that look like times are not taken for them.
    return _document(_with_cues(lines), texts, lambda items: lambda words: words.replace("-->", "->"), start)


def read_webvtt(content: bytes, options: DocumentOptions) -> Document:
    """Take subtitles of WebVTT apart.

    Raises:
        DataError: The file is not UTF-8, or does not begin with ``WEBVTT``.
    """
    start, text = decode(content)
    if not re.match(r"WEBVTT(?:[ \t\r\n]|\Z)", text):
        raise DataError("The document is not WebVTT: its first line does not begin with WEBVTT.")

    def texts(line: str) -> Iterator[Item]:
        # In what is written, so that `&lt;b>` is no tag.
        for item in with_marks([Text(line)], partial(_marks, _WEBVTT_MARK)):
            yield from [item] if isinstance(item, Mark) else entity_texts(item.text)

    def writing(passage: Sequence[Item]) -> Callable[[str], str]:
        escape = escaping(passage)
        return lambda words: escape(words).replace("-->", "--&gt;")

    return _document(_with_cues(_lines(text), is_webvtt=True), texts, writing, start)


def _lines(text: str) -> list[_Line]:
    return [_Line(found[1], found[2]) for found in _LINE.finditer(text)]


def _with_cues(lines: Sequence[_Line], *, is_webvtt: bool = False) -> Iterator[_Line]:
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
        yield line._replace(cue=cue) if is_text else line


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
        elif len(between.splitlines()) != 1 or _DASH.match(line.text):
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


def _marks(pattern: re.Pattern[str], text: str) -> Iterator[FoundMark]:
    for found in pattern.finditer(text):
        mark = Mark("void", None) if found["void"] else tag_mark(found["name"], is_end=bool(found["end"]))
        yield *found.span(), mark
