"""Borders of words, in scripts with spaces between words and in those without."""

from __future__ import annotations

import unicodedata

from locant.text.subword_spans import Span

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
    """Whether a word stands on both sides of a place of a text.

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
    """Return where words stand in a text as whole words, from left to right; no two of the places overlap.

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
