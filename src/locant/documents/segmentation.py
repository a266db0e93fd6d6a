"""Texts of any length cut into sentences, and put together again from their translations.

Line breaks and the white space around sentences stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Splitter = Callable[[str], Sequence[str]]
"""Cuts a line into sentences, which together hold all its characters but white space, in their order."""

_LINES = re.compile(r"(\r\n|\r|\n)")
_EDGES = re.compile(r"(\s*)(.*?)(\s*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Piece:
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
        found = _EDGES.match(line)
        assert found
        before, inner, after = found.groups()
        if before:
            pieces.append(Piece(before, False))
        if inner:
            pieces += _sentences(inner, split)
        if after:
            pieces.append(Piece(after, False))
    return pieces


def _sentences(line: str, split: Splitter) -> Iterator[Piece]:
    place = 0
    for sentence in split(line):
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
