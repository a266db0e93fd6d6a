"""Plain text: sentences are translated, white space stays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import IO

from locant.documents.formats import Document, DocumentOptions, TextDocument, decode
from locant.documents.kept import find_kept
from locant.documents.passages import Item, Mark, Text
from locant.documents.sentences import Splitter
from locant.errors import DataError

_LINE = re.compile(r"([ \t]*+)((?:[^\r\n]*[^ \t\r\n])?+)([ \t]*+)(\r\n|\r|\n|\Z)")  # indent, words, blanks, end
_LISTED = re.compile(r"(?:[-*+•–—]|\d{1,3}[.)]|\(?[A-Za-z0-9]{1,2}\))[ \t]+")  # noqa: RUF001
_BREAK = re.compile(r"[\r\n]")
_EMPTY_LINES = re.compile(rb"\n(?:[ \t]*\r?\n)+")
_BLOCK = 1_000_000  # bytes
_LONGEST = 4_000_000  # bytes of a line or paragraph


def read_plain(content: bytes, options: DocumentOptions) -> Document:
    """Take plain text apart.

    A line break ends a sentence. In wrapped text only that does which is followed by an empty line, by one with another
    indent, or by one that begins like an item of a list; those between have their places in the translation.

    Raises:
        DataError: It is not UTF-8 text.
    """
    start, text = decode(content)
    return plain_text(text, start, wrapped=options.wrapped)


def plain_text(text: str, start: bytes = b"", *, wrapped: bool = False) -> TextDocument:
    """Return the document that a plain text is; ``start`` are the bytes before it."""
    document = TextDocument(start)
    document.add(list(_lines(text, wrapped=wrapped)))
    return document


def is_plain_sentence(text: str, split: Splitter) -> bool:
    """Whether a plain text is one sentence from end to end, without anything that its translation has as well.

    Args:
        text: Any text.
        split: Cuts a line into sentences.
    """
    return not (
        text.strip() != text
        or _BREAK.search(text)
        or _LISTED.match(text)
        or not any(map(str.isalpha, text))
        or find_kept(text)
        or list(split(text)) != [text]
    )


def _lines(text: str, *, wrapped: bool) -> Iterator[Item]:
    """Yield text with the signs of lists apart, and line breaks within wrapped paragraphs as spaces for them."""
    lines = [match.groups() for match in _LINE.finditer(text) if match[0]]
    if lines and lines[0][0]:
        yield Text(lines[0][0])
    begins = True  # a paragraph
    for (indent, words, trailing, end), (next_indent, next_words, *_) in pairwise([*lines, ("", "", "", "")]):
        listed = _LISTED.match(words) if begins else None
        if listed:
            yield Mark("break", listed[0])
        if own_words := words[listed.end() :] if listed else words:
            yield Text(own_words)
        between = trailing + end + next_indent
        # The first line of a paragraph, or of an item of a list, may have an indent of its own.
        alike = next_indent == indent or (begins and bool(listed) == (len(next_indent) > len(indent)))
        if wrapped and words and next_words and alike and not _LISTED.match(next_words):
            yield Text(" ", between, "loose")
            begins = False
        else:
            if between:
                yield Text(between)
            begins = True


def plain_windows(file: IO[bytes], *, wrapped: bool) -> Iterator[bytes]:
    """Yield plain text of any size in parts that can be translated one by one: lines, or paragraphs of wrapped text.

    Args:
        file: What it is read from.
        wrapped: Whether its lines are wrapped.

    Raises:
        DataError: A line, or a paragraph of wrapped text, is too long to be held.
    """
    rest = b""
    while block := file.read(_BLOCK):
        rest += block
        end = rest.rfind(b"\n") + 1
        if wrapped:
            end = max((match.end() for match in _EMPTY_LINES.finditer(rest)), default=0)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > _LONGEST:
            what = "paragraph" if wrapped else "line"
            raise DataError(f"The document has a {what} of more than {_LONGEST:,} bytes.")
    if rest:
        yield rest
