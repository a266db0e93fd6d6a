"""Word differences of two sentences."""

from __future__ import annotations

import difflib
import re
import unicodedata
from dataclasses import dataclass

# Scripts written without spaces between words: Thai, Lao, Burmese, Khmer, Japanese syllables and Chinese characters.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_APOSTROPHES = "'\u2019"


@dataclass(frozen=True)
class Span:
    """A stretch of a sentence.

    Attributes:
        text: Its characters.
        differs: Whether it has no counterpart in the other sentence.
    """

    text: str
    differs: bool


def compare(first: str, second: str) -> tuple[list[Span], list[Span]]:
    """Mark in each of two sentences the words that the other does not have in the same order.

    Words are compared letter by letter as they are; in scripts without spaces every character counts as a word.

    Args:
        first: A sentence.
        second: Another.

    Returns:
        The spans of ``first`` and those of ``second``; put together they are the sentences again.
    """
    words, others = _split(first), _split(second)
    matcher = difflib.SequenceMatcher(
        a=[word for word in words if not word.isspace()],
        b=[word for word in others if not word.isspace()],
        autojunk=False,  # which would take frequent words for noise
    )
    blocks = matcher.get_matching_blocks()
    return (
        _mark(words, {index for block in blocks for index in range(block.a, block.a + block.size)}),
        _mark(others, {index for block in blocks for index in range(block.b, block.b + block.size)}),
    )


def _split(sentence: str) -> list[str]:
    """Split into words, single signs and stretches of space."""
    words: list[str] = []
    kind = ""
    for index, character in enumerate(sentence):
        before = kind
        kind = _kind(character)
        if character in _APOSTROPHES and before == "word" and sentence[index + 1 : index + 2].isalpha():
            kind = "word"  # don't is one word
        joins = kind == before and kind in ("word", "space")
        if kind == "mark":
            # An accent or vowel sign belongs to the letter before it.
            joins, kind = bool(words), before or "word"
        if joins:
            words[-1] += character
        else:
            words.append(character)
    return words


def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    if unicodedata.category(character)[0] == "M" or character in "\u200c\u200d":
        return "mark"
    if _UNSPACED.match(character) or unicodedata.category(character)[0] in "PS":
        return "sign"
    return "word"


def _mark(words: list[str], matched: set[int]) -> list[Span]:
    """Return spans in which neighbours of the same kind are one; a space between two differing words differs too."""
    differs: list[bool | None] = []
    count = 0
    for word in words:
        differs.append(None if word.isspace() else count not in matched)
        count += not word.isspace()
    spans: list[Span] = []
    for index, word in enumerate(words):
        state = differs[index]
        if state is None:
            state = all(index + step in range(len(words)) and differs[index + step] is True for step in (-1, 1))
        if spans and spans[-1].differs == state:
            spans[-1] = Span(spans[-1].text + word, state)
        else:
            spans.append(Span(word, state))
    return spans
