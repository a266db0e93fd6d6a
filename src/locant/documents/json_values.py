"""JSON: texts are translated; keys, numbers and white space stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from locant.documents.formats import Document, DocumentOptions, TextDocument, decode, write_with
from locant.documents.passages import Text, message_marks, with_marks
from locant.errors import DataError
from locant.parsing import parse_json

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_LEXEME = re.compile(rf'(?P<string>{_STRING})|(?P<sign>[{{}}\[\],:])|[^"{{}}\[\],:]+')
_STRETCH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]+")


def read_json_values(content: bytes, options: DocumentOptions) -> Document:
    """Take JSON apart; placeholders and tags in its texts stay.

    Raises:
        DataError: It is no JSON, too deep, or not UTF-8.
    """
    start, text = decode(content)
    try:
        parse_json(text)
    except ValueError as error:
        raise DataError(f"The document is no valid JSON: {error}.") from None
    keys = [tuple(key.split(".")) for key in options.keys]
    only_ascii = text.isascii() and "\\u" in text
    document = TextDocument(start, write_with(lambda words: json.dumps(words, ensure_ascii=only_ascii)[1:-1]))
    for raw, is_translated in _stretches(text, keys):
        if is_translated:
            document.keep('"')
            document.add(with_marks(list(_texts(raw[1:-1])), message_marks))
            document.keep('"')
        else:
            document.keep(raw)
    return document


def _stretches(text: str, keys: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, bool]]:
    """Yield JSON, which is valid, in stretches, each with whether it is a string to be translated."""
    path: list[str | None] = []  # of each group the key that the reader is at; of each list nothing
    groups: list[bool] = []  # of each level whether it is a group
    at_key = False
    for found in _LEXEME.finditer(text):
        raw = found[0]
        if found["string"]:
            if at_key:
                path[-1] = str(json.loads(raw))
                yield raw, False
            else:
                known = [key for key in path if key is not None]
                yield raw, not keys or any(tuple(known[-len(key) :]) == key for key in keys)
            continue
        if raw in ("{", "["):
            path.append(None)
            groups.append(raw == "{")
        elif raw in ("}", "]"):
            path.pop()
            groups.pop()
        if found["sign"]:
            at_key = raw == "{" or (raw == "," and groups[-1])
        yield raw, False


def _texts(raw: str) -> Iterator[Text]:
    """Yield the characters of a string as they are read and written."""
    for found in _STRETCH.finditer(raw):
        escaped = found[0].startswith("\\")
        yield Text(json.loads(f'"{found[0]}"') if escaped else found[0], found[0] if escaped else None)
