"""Texts of any length cut into sentences, and put together again from their translations.

Line breaks and the white space around sentences stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

Splitter = Callable[[str], Sequence[str]]
"""Cuts a line into sentences, which together hold all its characters but white space, in their order."""

_LINES = re.compile(r"(\r\n|\r|\n)")


class Piece(NamedTuple):
    """A part of a text.

    Attributes:
        text: Its characters.
        translated: Whether it is a sentence, and not white space between sentences.
    """

    text: str
    translated: bool


def cut_text(text: str, split: Splitter) -> list[Piece]:
    """Return the sentences of a text and what is between them; joined, they are the text.

    Args:
        text: Any text; a line break always ends a sentence.
        split: Cuts a line without white space around it.
    """
    pieces: list[Piece] = []
    for number, line in enumerate(_LINES.split(text)):
        if number % 2:
            pieces.append(Piece(line, False))
            continue
        inner = line.strip()
        if not inner:
            if line:
                pieces.append(Piece(line, False))
            continue
        start = line.index(inner)
        if start:
            pieces.append(Piece(line[:start], False))
        pieces += _sentences(inner, split)
        if after := line[start + len(inner) :]:
            pieces.append(Piece(after, False))
    return pieces


def _sentences(line: str, split: Splitter) -> Iterator[Piece]:
    place = 0
    found = split(line)
    if len(found) == 1 and found[0] == line:
        yield Piece(line, True)
        return
    for sentence in found:
        words = sentence.strip()
        if not words:
            continue
        start = line.find(words, place)
        if start < 0 or line[place:start].strip():
            break  # the splitter has changed or left out something: the rest stays whole
        if start > place:
            yield Piece(line[place:start], False)
        yield Piece(words, True)
        place = start + len(words)
    rest = line[place:]
    if words := rest.strip():
        start = rest.index(words)
        if start:
            yield Piece(rest[:start], False)
        yield Piece(words, True)
        rest = rest[start + len(words) :]
    if rest:
        yield Piece(rest, False)
