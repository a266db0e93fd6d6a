"""Terms of a glossary put into their places in translations, by alignment.

A translation is made as ever. Where a term of its source is not in it, the term takes the place of the words that the
alignment links it with; where there are none, it is beside the words that its neighbours are linked with. So every
term is in the translation as often as in the source, whatever the model has written, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from locant.text.spans import Span, find_words, goes_on, has_no_spaces, in_word, whole_words
from locant.translation.alignment import Alignment
from locant.translation.glossary import Glossary, Match, begins_sentence

Align = Callable[[list[str], list[str]], Sequence[Alignment]]
"""Aligns sources with their translations; what cannot be aligned has no links."""

_OPENING = "([{\u00ab\u201e\u201c\u2018\u00bf\u00a1/-"
_JOINS = " -\u2010\u2011\u2013'\u2019"  # what is between words that a term is linked with, and goes with them


def place_terms(glossary: Glossary, sources: Sequence[str], translations: Sequence[str], align: Align) -> list[str]:
    """Return translations in each of which every term of a glossary is at least as often as in its source.

    ``align`` aligns them; it is called at most once, with those pairs alone that lack a term.
    """
    placed = list(translations)
    matches = {source: glossary.find(source) for source in set(sources)}
    lacking: dict[int, _Places] = {}
    for index, (source, translation) in enumerate(zip(sources, translations, strict=True)):
        if matches[source]:
            places = _Places(source, translation, matches[source])
            if places.are_missing:
                lacking[index] = places
    if lacking:
        alignments = align([sources[index] for index in lacking], [translations[index] for index in lacking])
        for (index, places), alignment in zip(lacking.items(), alignments, strict=True):
            placed[index] = places.filled(alignment.subword_links)
    return placed


@dataclass(frozen=True)
class _Edit:
    """A term that takes the place of the words between two offsets, or is between words where they are the same."""

    start: int
    end: int
    match: Match


class _Places:
    """Where the terms of a source, which are given in their order, are in its translation, or could."""

    def __init__(self, source: str, translation: str, matches: Sequence[Match]) -> None:
        self._source, self._text, self._matches = source, translation, matches
        self._taken: list[Span] = []
        by_words: dict[str, list[int]] = {}
        for number, match in enumerate(matches):
            by_words.setdefault(match.words, []).append(number)
        # Of each term which of the matches need it, and where it is: longer ones first, for others may be part of them.
        self._groups: list[tuple[list[int], list[Span]]] = []
        for words in sorted(by_words, key=lambda words: (-len(words), words)):
            numbers = by_words[words]
            spans = []
            for span in _occurrences(translation, words, all(matches[number].may_begin for number in numbers)):
                if self._is_free(span):
                    spans.append(span)
                    self._taken.append(span)
            self._groups.append((numbers, spans))

    @property
    def are_missing(self) -> bool:
        """Whether a term is not in the translation as often as in the source."""
        return any(len(spans) < len(numbers) for numbers, spans in self._groups)

    def filled(self, links: Sequence[tuple[Span, Span]]) -> str:
        """Return the translation with all terms in it; links are the parts of both that belong together."""
        words = ((source, whole_words(self._text, *target)) for source, target in links)
        self._links = [(source, target) for source, target in words if target]
        gaps = pairwise([0, *(edge for match in self._matches for edge in (match.start, match.end)), len(self._source)])
        self._rest = " ".join(self._source[start:end] for start, end in list(gaps)[::2])
        edits: list[_Edit] = []
        beside: list[Match] = []
        for match in self._missing():
            if (span := self._replaced(match)) is None:
                beside.append(match)
            else:
                self._taken.append(span)
                edits.append(_Edit(*span, match))
        for match in beside:
            place = self._place_beside(match)
            edits.append(_Edit(place, place, match))
        return self._written(edits)

    def _missing(self) -> list[Match]:
        """Return the terms that have to be put into the translation, in the order of the source.

        Of equal terms it is those whose words the places of the others are not linked with.
        """
        missing: list[int] = []
        for numbers, spans in self._groups:
            left = numbers[:]
            if len(spans) < len(numbers):
                linked = {number: self._linked(self._matches[number]) for number in numbers}
                for span in spans:
                    own = (number for number in left if any(_overlap(span, place) for place in linked[number]))
                    if (number := next(own, None)) is not None:
                        left.remove(number)
                missing += left[len(spans) - (len(numbers) - len(left)) :]
        return [self._matches[number] for number in sorted(missing)]

    def _linked(self, match: Match) -> list[Span]:
        return [target for source, target in self._links if _overlap(source, (match.start, match.end))]

    def _replaced(self, match: Match) -> Span | None:
        """Return the words that a term takes the place of: neighbours that most of what is linked with it belongs to.

        They are no more than the term has words in either language, so that less is lost of what is linked by mistake.
        Words that the source has elsewhere, names say, are translations of these.
        """
        linked: dict[Span, int] = {}
        for target in self._linked(match):
            linked[target] = linked.get(target, 0) + 1
        own = (span for span in linked if not find_words(self._rest, self._text[span[0] : span[1]]))
        spans = sorted(span for span in own if self._is_free(span))
        most = max(len(match.words.split()), len(self._source[match.start : match.end].split()))
        rows: list[list[Span]] = []
        for span in spans:
            row = rows[-1] if rows else []
            follows = row and not self._text[row[-1][1] : span[0]].strip(_JOINS)
            rows.append([*row, span][-most:] if follows else [span])
        if not rows:
            return None
        row = max(rows, key=lambda row: sum(linked[span] for span in row))
        return row[0][0], row[-1][1]

    def _place_beside(self, match: Match) -> int:
        """Return where a term is that is linked with nothing: behind or before what its neighbours are there."""
        before = [(match.start - source[1], target[1]) for source, target in self._links if source[1] <= match.start]
        after = [(source[0] - match.end, target[0]) for source, target in self._links if match.end <= source[0]]
        gap, other_gap = (min((gap for gap, _ in side), default=len(self._source)) for side in (before, after))
        step = 1
        if before and gap <= other_gap:
            place = max(end for distance, end in before if distance == gap)
        elif after:
            place = min(start for distance, start in after if distance == other_gap)
            step = -1
        else:
            place = len(self._text) * match.start // len(self._source)
        while goes_on(self._text, place) or any(start < place < end for start, end in self._taken):
            place += step  # out of words and of other terms
        return place

    def _is_free(self, span: Span) -> bool:
        return not any(_overlap(span, other) for other in self._taken)

    def _written(self, edits: Sequence[_Edit]) -> str:
        written = ""
        place = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            written = _joined(written, self._text[place : edit.start])
            words = self._capitalised(edit, written)
            place = edit.end
            if edit.start == edit.end:
                after = self._text[place : place + 1]
                written += _space(written, words) + words
                if in_word(after) or (after and after in _OPENING):
                    written += _space(words, after)
            else:
                written = _joined(written, words)
        return _joined(written, self._text[place:])

    def _capitalised(self, edit: _Edit, written: str) -> str:
        """Return the words of a term, with a capital letter where they begin a sentence as another word did."""
        words = edit.match.words
        if edit.match.may_begin and begins_sentence(written, len(written)):
            replaced = next(filter(in_word, self._text[edit.start :]), self._source[edit.match.start])
            if replaced.isupper():
                return words[0].upper() + words[1:]
        return words


def _occurrences(text: str, words: str, may_begin: bool) -> list[Span]:
    """Return where a term is in a translation, at the beginning of a sentence also with a capital letter."""
    found = find_words(text, words)
    if may_begin:
        capital = find_words(text, words[0].upper() + words[1:])
        found += [span for span in capital if begins_sentence(text, span[0])]
    return sorted(found)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _joined(before: str, after: str) -> str:
    """Return two texts one behind the other, with a space where they would be one word."""
    is_word = before and after and goes_on(before[-1] + after[0], 1)
    return f"{before} {after}" if is_word else before + after


def _space(before: str, after: str) -> str:
    """Return the space that words of their own have between them, if they have one."""
    edge = before[-1:] + after[:1]
    is_close = len(edge) < 2 or edge[0] in _OPENING or any(map(str.isspace, edge)) or any(map(has_no_spaces, edge))
    return "" if is_close else " "
