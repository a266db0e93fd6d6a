"""Places of words of a sentence in its translation: by an alignment, or as what they are translated to alone."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import product

from locant.documents.passages import Sentence
from locant.text.subword_spans import Span
from locant.text.word_borders import WITHOUT_SPACES, goes_on

Links = Sequence[tuple[int, int]]
"""Of an alignment: numbers of a :data:`WORD` of a sentence and of one of its translation."""

_WITHOUT_SPACES = "".join(f"{first}-{last}" for first, last in WITHOUT_SPACES)
WORD = rf"[{_WITHOUT_SPACES}]|[^\s{_WITHOUT_SPACES}]+"
"""The pattern of a word: what stands between white space, or a character of a script without any."""
_WORDS = re.compile(WORD)
_FINAL = ".,;:!?。！？"  # noqa: RUF001


def words_of(text: str) -> list[Span]:
    """Return where the words of a text stand."""
    return [match.span() for match in _WORDS.finditer(text)]


def word_links(source: str, translation: str, spans: Iterable[tuple[Span, Span]]) -> list[tuple[int, int]]:
    """Return links of words from links of characters.

    Args:
        source: A sentence.
        translation: Its translation.
        spans: Offsets in the sentence and in the translation that belong together.
    """
    starts, others = ([start for start, _ in words_of(text)] for text in (source, translation))

    def among(words: Sequence[int], span: Span) -> range:
        return range(max(bisect_right(words, span[0]) - 1, 0), bisect_left(words, span[1]))

    return sorted({link for one, other in spans for link in product(among(starts, one), among(others, other))})


class Alignment:
    """Where words of a sentence stand in its translation.

    Args:
        source: The sentence.
        translation: Its translation.
        links: Pairs of words.
    """

    def __init__(self, source: str, translation: str, links: Links) -> None:
        self._source, self._translation = source, translation
        self._words, self._others = words_of(source), words_of(translation)
        self._linked: dict[int, set[int]] = {}
        self._sources: dict[int, set[int]] = {}
        for word, other in links:
            if word < len(self._words) and other < len(self._others):
                self._linked.setdefault(word, set()).add(other)
                self._sources.setdefault(other, set()).add(word)

    def locate(self, start: int, end: int) -> Span | None:
        """Return where what is between two offsets stands; punctuation that is not part of it is left out.

        Words without a link stand between the links of the words around them, white space alone behind the word that it
        is behind of. The end or the beginning of a word is that of its translation where that has the same characters.
        """
        marked = self._source[start:end].strip()
        if not marked:
            return self._locate_space(start)
        start = self._source.index(marked, start)
        end = start + len(marked)
        words = self._numbers(start, end)
        others = sorted({other for word in words for other in self._linked.get(word, ())})
        found = _row(others) if others else self._between(words)
        if found is None:
            return None
        place, stop = self._others[found[0]][0], self._others[found[1]][1]
        within = self._translation[place:stop]
        is_end, is_beginning = goes_on(self._source, start), goes_on(self._source, end)
        if not any(map(str.isalpha, marked)) and (is_end or is_beginning or all(map(_is_punctuation, marked))):
            at = within.rfind(marked)  # signs, and digits of a word
            return (place + at, place + at + len(marked)) if at >= 0 else None
        if not _is_punctuation(marked[0]):
            place += len(within) - len(within.lstrip(_punctuation(within)))
        if not _is_punctuation(marked[-1]):
            stop -= len(within) - len(within.rstrip(_punctuation(within)))
        if is_end != is_beginning:
            if is_end and self._translation.endswith(marked, place, stop):
                place = stop - len(marked)
            elif is_beginning and self._translation.startswith(marked, place, stop):
                stop = place + len(marked)
        return (place, stop) if place < stop else None

    def _locate_space(self, start: int) -> Span | None:
        """Return where white space alone stands, an empty place where the translation has none behind the word."""
        before = [span for span in self._words if span[1] <= start]
        behind = self.locate(*before[-1]) if before else None
        if behind is None:
            return None
        return behind[1], behind[1] + self._translation.startswith(" ", behind[1])

    def replaced(self, start: int, end: int) -> Span | None:
        """Return where the translation of what stands between two offsets stands, and of nothing else."""
        words = self._numbers(start, end)
        others = sorted({other for word in words for other in self._linked.get(word, ())})
        around = [word for word in (words.start - 1, words.stop) if 0 <= word < len(self._words)]
        is_apart = all(self._sources[other] <= set(words) for other in others)
        if (
            not others
            or others[-1] - others[0] >= len(others)
            or not is_apart
            or not all(map(self._linked.get, around))
        ):
            return None
        return self.locate(start, end)

    def _numbers(self, start: int, end: int) -> range:
        """Return the numbers of the words that stand, at least with a part, between two offsets."""
        numbers = [number for number, (first, last) in enumerate(self._words) if first < end and start < last]
        return range(numbers[0], numbers[-1] + 1) if numbers else range(0)

    def _between(self, words: range) -> Span | None:
        """Return the first and last word of the translation that stand for words without a link.

        They are as many, as far as there are any between what the nearest words with links are linked with; else the
        word that the nearer one of these is linked with, the next where both are as near.
        """
        if not words or not self._linked:
            return None
        before = max((word for word in self._linked if word < words.start), default=None)
        behind = min((word for word in self._linked if word >= words.stop), default=None)
        first = max(self._linked[before]) + 1 if before is not None else 0
        last = (min(self._linked[behind]) if behind is not None else len(self._others)) - 1
        if first <= last:
            return first, min(last, first + len(words) - 1)
        is_next = behind is not None and (before is None or behind - words.stop <= words.start - 1 - before)
        return (last + 1, last + 1) if is_next else (first - 1, first - 1)


def _row(others: Sequence[int]) -> Span:
    """Return the first and the last of linked words; of words far apart, of the longest row of neighbours."""
    if 2 * (others[-1] - others[0] + 1 - len(others)) <= len(others):
        return others[0], others[-1]
    rows = [[others[0]]]
    for other in others[1:]:
        if other == rows[-1][-1] + 1:
            rows[-1].append(other)
        else:
            rows.append([other])
    longest = max(rows, key=len)
    return longest[0], longest[-1]


def _is_punctuation(character: str) -> bool:
    return bool(character) and not character.isalnum() and not character.isspace()


def _punctuation(text: str) -> str:
    return "".join(filter(_is_punctuation, set(text)))


class PartsAlone:
    """Where the translations of parts of a sentence stand in the translation of the whole.

    Args:
        sentence: The sentence.
        translation: Of the whole.
        parts: Of each of :meth:`~locant.documents.passages.Sentence.parts` that is a sentence.
    """

    def __init__(self, sentence: Sentence, translation: str, parts: Sequence[str]) -> None:
        self._translation = translation
        self._parts: dict[Span, str] = {}
        self._taken: list[Span] = []
        place = 0
        remaining = iter(parts)
        for part in sentence.parts():
            end = place + len(part.text)
            if isinstance(part, Sentence):
                self._parts[place, end] = next(remaining)
            place = end

    def locate(self, start: int, end: int) -> Span | None:
        """Return where a part stands, as whole words in a place that no other has, whatever their case."""
        inside = [words for (first, last), words in self._parts.items() if first < end and start < last]
        if len(inside) != 1 or not (words := inside[0].strip().rstrip(_FINAL)):
            return None
        for found in re.finditer(re.escape(words), self._translation, re.IGNORECASE):
            first, last = found.span()
            cut = goes_on(self._translation, first) or goes_on(self._translation, last)
            if not cut and all(last <= other or after <= first for other, after in self._taken):
                self._taken.append((first, last))
                return first, last
        return None
