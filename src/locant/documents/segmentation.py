"""Texts of any length cut into sentences, and put together again from their translations.

Line breaks and the white space around sentences stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

Splitter = Callable[[str], Sequence[str]]
"""Cuts a line into sentences, which together hold all its characters but white space, in their order."""

_LINE = re.compile(r"[^\r\n]+")


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
    spans: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        place, end = line.span()
        inner = line[0].strip()
        for sentence in split(inner) if inner else ():
            words = sentence.strip()
            start = text.find(words, place, end)
            if start < 0 or text[place:start].strip():
                break  # the splitter has changed or left out something: the rest stays whole
            if words:
                place = start + len(words)
                spans.append((start, place))
        if rest := text[place:end].strip():
            start = text.index(rest, place)
            spans.append((start, start + len(rest)))
    pieces: list[Piece] = []
    place = 0
    for start, end in [*spans, (len(text), len(text))]:
        pieces += [Piece(text[place:start], False), Piece(text[start:end], True)]
        place = end
    return [piece for piece in pieces if piece.text]
