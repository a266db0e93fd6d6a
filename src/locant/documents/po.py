"""Catalogues of gettext (PO): messages without a translation get one; all else stays.

Comments, flags, contexts, messages and translations that are there stay as they are, byte by byte.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from locant.documents.formats import Document, DocumentOptions, Layout, decode
from locant.documents.passages import Text, Written
from locant.documents.placeholders import message_marks, with_marks
from locant.errors import DataError

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_STRING = r'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"\s*'
_KEYWORD = re.compile(rf"\s*(?P<word>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<form>\d{{1,2}})\])?)\s*{_STRING}")
_MORE = re.compile(rf"\s*{_STRING}")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_WRITTEN = str.maketrans({"\\": "\\\\", '"': '\\"', **{read: f"\\{letter}" for letter, read in _LETTERS.items()}})


@dataclass
class _Field:
    """A keyword with its string.

    Attributes:
        head: What stands before the string on its first line.
        form: Number of a plural form.
        raw: All its lines.
        end: The end of the last.
        text: The string.
    """

    head: str
    form: int | None
    raw: str
    end: str
    text: str


@dataclass
class _Entry:
    """A message.

    Attributes:
        parts: Comments and empty lines, and keywords with their fields, in their order.
        fields: The first of each keyword.
        flags: What its comments say of it: ``fuzzy``, ``c-format``.
    """

    parts: list[str | tuple[str, _Field]] = field(default_factory=list)
    fields: dict[str, _Field] = field(default_factory=dict)
    flags: Sequence[str] = ()

    def add(self, word: str, found: _Field) -> None:
        """Add a field."""
        self.parts.append((word, found))
        self.fields.setdefault(word, found)


def read_po(content: bytes, options: DocumentOptions) -> Document:
    """Take a catalogue apart.

    Raises:
        DataError: It is no catalogue, or not UTF-8.
    """
    start, text = decode(content)
    entries = _entries(text)
    if not any("msgid" in entry.fields for entry in entries):
        raise DataError("The document is no PO catalogue: it has no msgid.")
    newline = "\r\n" if "\r\n" in text else "\n"
    layout = Layout(lambda passage: _quoted(passage, newline))
    singular = _singular_form(entries)
    for entry in entries:
        message, plural = entry.fields.get("msgid"), entry.fields.get("msgid_plural")
        for part in entry.parts:
            if isinstance(part, str):
                layout.keep(part)
                continue
            word, found = part
            if word != "msgstr" or found.text or message is None or not message.text:
                layout.keep(found.raw)
                continue
            source = message if plural is None or found.form == singular else plural
            layout.keep(found.head)
            layout.add(with_marks([Text(source.text)], partial(message_marks, flags=entry.flags)))
            layout.keep(found.end)
    return layout.document(start)


def _entries(text: str) -> list[_Entry]:
    entries = [_Entry()]
    last: _Field | None = None
    flags: list[str] = []
    for number, found in enumerate(_LINE.finditer(text), start=1):
        line, end = found[1], found[2]
        if not line.strip() or line.lstrip().startswith("#"):
            entries[-1].parts.append(line + end)
            last = None
            if line.startswith(("#,", "#=")):
                flags += map(str.strip, line[2:].split(","))
        elif begun := _KEYWORD.fullmatch(line):
            word = begun["word"].partition("[")[0]
            if word in ("msgctxt", "msgid") and "msgstr" in entries[-1].fields:
                entries.append(_Entry())
            if word == "msgid":
                entries[-1].flags, flags = flags, []
            last = _Field(
                line[: begun.start("text") - 1],
                int(begun["form"]) if begun["form"] else None,
                line + end,
                end,
                _unescaped(begun["text"]),
            )
            entries[-1].add(word, last)
        elif last and (more := _MORE.fullmatch(line)):
            last.raw += line + end
            last.end = end
            last.text += _unescaped(more["text"])
        else:
            raise DataError(
                f"The document is no PO catalogue: line {number} is neither a keyword with a text nor a text."
            )
    return entries


def _unescaped(raw: str) -> str:
    def read(found: re.Match[str]) -> str:
        octal, hexadecimal, letter = found.groups()
        if octal or hexadecimal:
            return chr(int(octal, 8) if octal else int(hexadecimal, 16))
        return _LETTERS.get(letter, letter)

    return _ESCAPE.sub(read, raw)


def _singular_form(entries: Sequence[_Entry]) -> int | None:
    """Return which plural form is that of one; ``None`` where the language has no form of its own for one."""
    header = entries[0].fields.get("msgstr")
    rule = re.search(r"nplurals\s*=\s*(\d{1,3})\s*;\s*plural\s*=\s*([^;\n]{1,1000})", header.text if header else "")
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
