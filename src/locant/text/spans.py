"""Places in a text as it was written: its words, their borders, and the subwords that a tokenizer makes of it."""

from __future__ import annotations

import re
import unicodedata
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
    for text, (ids, places) in zip(texts, tokenizer.encode_with_places(texts), strict=True):
        locate = Locator(text, tokenizer.normalize(text))
        found.append((ids, [locate(begin, end) for begin, end in places]))
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
        """Return where in the text as it was given is what the normalised one has from ``begin`` to ``end``."""
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


WITHOUT_SPACES = (
    ("\u0e00", "\u0eff"),
    ("\u1000", "\u109f"),
    ("\u1780", "\u17ff"),
    ("\u3005", "\u3007"),
    ("\u3040", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0003ffff"),
)
"""Chinese, Japanese, Thai, Lao, Burmese, Khmer: first and last characters of what is written without spaces."""


def has_no_spaces(character: str) -> bool:
    """Whether a character is of a script without spaces between words; so of the empty string none is."""
    return any(first <= character <= last for first, last in WITHOUT_SPACES)


def goes_on(text: str, place: int) -> bool:
    """Whether a word is on both sides of a place of a text.

    In a script without spaces between words, which end anywhere, none does, unless the place is before a mark that
    belongs to the character before it.

    Example:
        >>> goes_on("Locant's", 3), goes_on("Locant's", 6)
        (True, False)
    """
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if _is_mark(after):
        return in_word(before)
    return in_word(before) and in_word(after) and not (has_no_spaces(before) or has_no_spaces(after))


def in_word(character: str) -> bool:
    """Whether a character is a letter, a digit or a mark of one."""
    return character.isalnum() or _is_mark(character)


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character).startswith("M")


def find_words(text: str, words: str) -> list[Span]:
    """Return where words are in a text as whole words, from left to right; no two of the places overlap.

    Example:
        >>> find_words("a cat and a catalogue", "a cat")
        [(0, 5)]
    """
    found = []
    start = text.find(words) if words else -1
    while start >= 0:
        end = start + len(words)
        if goes_on(text, start) or goes_on(text, end):
            end = start + 1
        else:
            found.append((start, end))
        start = text.find(words, end)
    return found


def whole_words(text: str, start: int, end: int) -> Span | None:
    """Return a part of a text, the rest of its first and last word with it and no punctuation around them.

    Returns:
        ``None`` where there is no word.

    Example:
        >>> whole_words("two dogs, here", 6, 9)
        (4, 8)
    """
    while start < end and not in_word(text[start]):
        start += 1
    while start < end and not in_word(text[end - 1]):
        end -= 1
    if start == end:
        return None
    while goes_on(text, start):
        start -= 1
    while goes_on(text, end):
        end += 1
    return start, end
