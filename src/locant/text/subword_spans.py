"""Places of the subwords of a text in it, as it was written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from locant.text.tokenizer import Tokenizer

Span = tuple[int, int]
"""The indices of the first character, and of the one after the last."""

# What Tokenizer.normalize divides text at: white space and NUL.
_WORD = re.compile(r"[^\s\0]+")


def word_spans(text: str) -> list[Span]:
    """Return the spans of the words of a text, which white space separates.

    Example:
        >>> word_spans(" Guten  Morgen!")
        [(1, 6), (8, 15)]
    """
    return [word.span() for word in _WORD.finditer(text)]


def encode_with_spans(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
    """Return the ids of each text's subwords, without BOS and EOS, and the span of each.

    Spans are of the text as it was given and have no white space at their ends; that of a subword without characters
    of its own is empty. A word that normalisation changes (composed letters, lower case) is not divided: each of its
    subwords has the span of the whole word.
    """
    found = []
    for text, subwords in zip(texts, tokenizer.encode_with_places(texts), strict=True):
        locate = Locator(text, tokenizer.normalize(text))
        found.append(([index for index, _, _ in subwords], [locate(begin, end) for _, begin, end in subwords]))
    return found


class Locator:
    """Finds places of a normalised text in the text as it was given: both have the same words, written otherwise.

    Args:
        text: As it was given.
        normal: The normalised text.
    """

    def __init__(self, text: str, normal: str) -> None:
        self._text, self._normal = text, normal
        self._given, self._words = word_spans(text), word_spans(normal)
        self._starts = [start for start, _ in self._words]

    def __call__(self, begin: int, end: int) -> Span:
        """Return where in the text as it was given stands what the normalised one has from ``begin`` to ``end``."""
        while begin < len(self._normal) and self._normal[begin] == " ":
            begin += 1
        end = max(begin, end)
        return self._place(begin, begin)[0], self._place(max(begin, end - 1), end)[1]

    def _place(self, character: int, end: int) -> Span:
        """Return the places of a character and of ``end``, or the ends of a word that normalisation changes."""
        number = bisect_right(self._starts, character) - 1
        (start, stop), (first, last) = self._words[number], self._given[number]
        if self._normal[start:stop] != self._text[first:last]:
            return first, last
        return first + character - start, first + end - start
