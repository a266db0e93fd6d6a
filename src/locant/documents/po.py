"""Catalogues of gettext (PO): messages without a translation get one; all else stays.

Comments, flags, contexts, messages and translations that are there stay as they are, byte by byte.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from locant.documents.formats import Document, DocumentOptions, TextDocument, decode
from locant.documents.passages import Text, Written, message_marks, with_marks
from locant.errors import DataError

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_STRING = r'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"\s*'
_KEYWORD = re.compile(rf"\s*(?P<word>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{{1,2}}\])?)\s*{_STRING}")
_MORE = re.compile(rf"\s*{_STRING}")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', **{read: f"\\{letter}" for letter, read in _LETTERS.items()}})


@dataclass
class _Field:
    """A keyword with its string.

    Attributes:
        word: The keyword, without the number of a plural form.
        form: That number.
        head: What stands before the string on its first line.
        lines: All its lines.
        end: The end of the last.
        texts: The string, in parts.
    """

    word: str
    form: int | None
    head: str
    lines: list[str]
    end: str
    texts: list[str]

    @cached_property
    def text(self) -> str:
        """The string."""
        return "".join(self.texts)


def read_po(content: bytes, options: DocumentOptions) -> Document:
    """Take a catalogue apart.

    Raises:
        DataError: It is no catalogue, or not UTF-8.
    """
    start, text = decode(content)
    newline = "\r\n" if "\r\n" in text else "\n"
    document = TextDocument(start, lambda passage: _quoted(passage, newline))
    singular: int | None = 0
    flags: list[str] = []  # of the message that follows
    own_flags: list[str] = []
    message = plural = None
    for part in _parts(text):
        if isinstance(part, str):
            document.keep(part)
            if part.startswith(("#,", "#=")):
                flags += map(str.strip, part[2:].split(","))
            continue
        if part.word == "msgid":
            message, plural, own_flags, flags = part.text, None, flags, []
        elif part.word == "msgid_plural":
            plural = part.text
        if part.word != "msgstr" or part.text or not message:
            document.keep("".join(part.lines))
            if part.word == "msgstr" and message == "":
                singular = _singular_form(part.text)
            continue
        source = message if plural is None or part.form == singular else plural
        document.keep(part.head)
        document.add(with_marks([Text(source)], partial(message_marks, flags=own_flags)))
        document.keep(part.end)
    if message is None:
        raise DataError("The document is no PO catalogue: it has no msgid.")
    return document


def _parts(text: str) -> Iterator[str | _Field]:
    """Yield comments and empty lines, and keywords with their strings."""
    last: _Field | None = None
    for number, found in enumerate(_LINE.finditer(text), start=1):
        line, end = found[1], found[2]
        if last and (more := _MORE.fullmatch(line)):
            last.lines.append(line + end)
            last.end = end
            last.texts.append(_unescaped(more["text"]))
            continue
        if last:
            yield last
            last = None
        if not line.strip() or line.lstrip().startswith("#"):
            yield line + end
        elif begun := _KEYWORD.fullmatch(line):
            word, _, form = begun["word"].rstrip("]").partition("[")
            head = line[: begun.start("text") - 1]
            last = _Field(word, int(form) if form else None, head, [line + end], end, [_unescaped(begun["text"])])
        else:
            raise DataError(
                f"The document is no PO catalogue: line {number} is neither a keyword with a text nor a text."
            )
    if last:
        yield last


def _unescaped(raw: str) -> str:
    def read(found: re.Match[str]) -> str:
        octal, hexadecimal, letter = found.groups()
        if octal or hexadecimal:
            return chr(int(octal, 8) if octal else int(hexadecimal, 16))
        return _LETTERS.get(letter, letter)

    return _ESCAPE.sub(read, raw)


def _singular_form(header: str) -> int | None:
    """Return which plural form is that of one; ``None`` where the language has no form of its own for one."""
    rule = re.search(r"nplurals\s*=\s*(\d{1,3})\s*;\s*plural\s*=\s*([^;\n]{1,1000})", header)
    if rule is None:
        return 0
    if int(rule[1]) < 2:
        return None
    try:
        return int(gettext.c2py(rule[2].strip())(1))
    except (ValueError, ArithmeticError, RecursionError):  # it is no rule
        return 0


def _quoted(passage: Written, newline: str) -> str:
    """Return a text as PO has it: a line of the file for each of its lines."""
    text = "".join(
        part if isinstance(part, str) else part.source if isinstance(part, Text) else part.raw for part in passage
    )
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    quoted = [f'"{line.translate(_WRITTEN)}"' for line in lines]
    return newline.join(quoted if len(quoted) < 2 else ['""', *quoted]) or '""'
