"""Catalogues of gettext (PO): messages without a translation get one; all else stays.

Comments, flags, contexts, messages and translations that are there stay as they are, byte by byte.
"""

from __future__ import annotations

import gettext
import re

from locant.documents.formats import Document, DocumentOptions, TextDocument, decode
from locant.documents.passages import Text, Written, message_marks, with_marks
from locant.errors import DataError

_NEWLINE = r"(?:\r\n|\r|\n)"
_BLANKS = r"[^\S\r\n]*+"
_STRING = r'"((?:[^"\\\r\n]|\\[^\r\n])*+)"'
# An empty line or a comment, or a keyword with its string, which may go over several lines.
_PART = re.compile(
    rf"{_BLANKS}(?:\#[^\r\n]*)?+(?:{_NEWLINE}|\Z)"
    rf"|{_BLANKS}(?P<word>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<form>\d{{1,2}})\])?){_BLANKS}"
    rf"(?P<strings>{_STRING}(?:{_BLANKS}{_NEWLINE}{_BLANKS}{_STRING})*+){_BLANKS}(?:{_NEWLINE}|\Z)"
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', **{read: f"\\{letter}" for letter, read in _LETTERS.items()}})


def read_po(content: bytes, options: DocumentOptions) -> Document:
    """Take a catalogue apart.

    Raises:
        DataError: It is no catalogue, or not UTF-8.
    """
    start, text = decode(content)
    newline = "\r\n" if "\r\n" in text else "\n"
    document = TextDocument(start, lambda passage: _quoted(passage, newline))
    singular: int | None = 0
    message = plural = None
    place = 0
    while place < len(text):
        part = _PART.match(text, place)
        if part is None:
            line = len(re.findall(_NEWLINE, text[:place])) + 1
            raise DataError(
                f"The document is no PO catalogue: line {line} is neither a keyword with a text nor a text."
            )
        place, word = part.end(), part["word"] or ""
        said = "".join(map(_unescaped, re.findall(_STRING, part["strings"] or "")))
        if word == "msgid":
            message, plural = said, None
        elif word == "msgid_plural":
            plural = said
        elif word == "msgstr" and message == "":
            singular = _singular_form(said)
        if not word.startswith("msgstr") or said or not message:
            document.keep(part[0])
            continue
        is_singular = plural is None or (part["form"] and int(part["form"]) == singular)
        document.keep(text[part.start() : part.start("strings")])
        document.add(with_marks([Text(str(message if is_singular else plural))], message_marks))
        document.keep(text[part.end("strings") : place])
    if message is None:
        raise DataError("The document is no PO catalogue: it has no msgid.")
    return document


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
