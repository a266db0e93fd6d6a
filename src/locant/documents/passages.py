"""Passages: text that belongs together, with marks in it, and its sentences.

A format takes a document apart into passages and what stands between them. A passage is a row of texts and marks: what
is translated, what only stands there, and how each of it is written in the document. Sentences are cut out of it; what
is not in a sentence is written as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

from locant.documents.kept import find_kept
from locant.documents.segmentation import Splitter, cut_text

_CLAUSE_END = re.compile(r"[\s.,;:!?)\]}»”…。，、！？）]*")  # noqa: RUF001
MOST_MARKS = 16
"""Marks of a sentence that is translated whole; one with more is translated in parts, from mark to mark."""


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that may be translated.

    Attributes:
        text: As they are read.
        raw: As the document writes them; ``None`` where that is the same.
        wrap: Whether they are a space that stands for a line break of the document, to have a place in the translation
            again: ``loose`` where there is one, or ``firm``, with words before and after it.
    """

    text: str
    raw: str | None = None
    wrap: Literal["", "loose", "firm"] = ""

    @property
    def source(self) -> str:
        """What the document has."""
        return self.text if self.raw is None else self.raw


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands between characters and is not translated.

    Attributes:
        kind: ``open`` and ``close`` around characters; ``void`` between them; ``kept`` for words that stay as they are;
            ``space`` for white space that says nothing; ``break`` between sentences.
        raw: What the document has, in whatever way its format writes it.
        name: Of a pair of ``open`` and ``close``.
        text: What a sentence has for ``kept`` words.
    """

    kind: Literal["open", "close", "void", "kept", "space", "break"]
    raw: Any
    name: str = ""
    text: str = ""


Item = Text | Mark
Passage = Sequence[Item]
Written = list["str | Text | Mark"]
"""A translated passage: translations, which the format has to escape, and items of the source."""


def _without_kept(items: Sequence[Item]) -> str:
    """Return the characters of items, with spaces for kept words."""
    return "".join(item.text if isinstance(item, Text) else " " * width(item) for item in items)


def width(item: Item) -> int:
    """Return the number of characters that an item has in its sentence."""
    return len(item.text)


@dataclass(frozen=True)
class Kept:
    """A part of a sentence that its translation has as well.

    Attributes:
        start: Offset of its first character in the sentence.
        end: Offset behind the last one.
        kind: ``mark`` for what a mark keeps, else a kind of :func:`~locant.documents.kept.find_kept`.
        items: How the document has it.
    """

    start: int
    end: int
    kind: str
    items: tuple[Item, ...]


class Sentence:
    """A sentence with what stands in it.

    Attributes:
        items: Texts and marks; the texts and kept words, joined, are the sentence.
        text: The sentence.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.text = "".join(item.text for item in items)

    def placed(self) -> Iterator[tuple[int, Item]]:
        """Yield the items with their offsets in the sentence."""
        offsets = accumulate(map(width, self.items), initial=0)
        yield from zip(offsets, self.items, strict=False)

    @property
    def marks(self) -> list[tuple[int, Mark]]:
        """Marks that need a place in the translation, with their offsets; kept words are not among them."""
        return [
            (at, item)
            for at, item in self.placed()
            if isinstance(item, Mark) and item.kind in ("open", "close", "void")
        ]

    @property
    def wraps(self) -> list[tuple[int, Text]]:
        """Spaces that stand for line breaks, with their offsets."""
        return [(at, item) for at, item in self.placed() if isinstance(item, Text) and item.wrap]

    def kept(self) -> list[Kept]:
        """Return what the translation has as well, in its order."""
        found = [
            Kept(at, at + width(item), "mark", (item,))
            for at, item in self.placed()
            if isinstance(item, Mark) and item.kind == "kept"
        ]
        by_rule = [
            Kept(start, end, kind, tuple(self.between(start, end)))
            for start, end, kind in find_kept(_without_kept(self.items))
        ]
        return sorted([*found, *by_rule], key=lambda each: each.start)

    def between(self, start: int, end: int) -> list[Item]:
        """Return the items from one offset to another, texts cut to fit; marks at the edges are left out."""
        return [
            _part(item, max(start - at, 0), min(end, at + width(item)) - at)
            for at, item in self.placed()
            if start < at + width(item) and at < end and width(item)
        ]

    def parts(self) -> list[Item | Sentence]:
        """Return the sentence as sentences between its marks, and the marks."""
        edges: list[Item | Sentence] = []
        gathered: list[Item] = []

        def close() -> None:
            edges.extend(_cut_edges(gathered))
            gathered.clear()

        cuts = {each.start: each for each in self.kept() if each.kind != "mark"}
        kept_until = 0
        for at, item in self.placed():
            if isinstance(item, Mark) and item.kind == "space":
                continue
            if isinstance(item, Mark) or item.wrap == "firm":
                close()
                edges.append(item)
                continue
            place = max(at, kept_until)
            for start in sorted(start for start in cuts if place <= start < at + width(item)):
                gathered.append(_part(item, place - at, start - at))
                close()
                edges.extend(cuts[start].items)
                place = kept_until = cuts[start].end
            if place < at + width(item):
                gathered.append(_part(item, place - at, width(item)))
        close()
        return edges


def _part(item: Item, start: int, end: int) -> Item:
    """Return some of the characters of an item; one that is written otherwise than it is read is never cut."""
    if isinstance(item, Text) and item.raw is None:
        return Text(item.text[start:end])
    return item


def _cut_edges(items: Sequence[Item]) -> Iterator[Item | Sentence]:
    """Yield texts as a sentence, without the white space around it and the end of a clause before it, which stay."""
    text = "".join(item.text for item in items)
    whole = Sentence(items)
    if not any(character.isalpha() for character in text):
        yield from (item for item in items if item.text)
        return
    begun = _CLAUSE_END.match(text)
    start, end = begun.end() if begun else 0, len(text.rstrip())
    yield from whole.between(0, start)
    yield Sentence(whole.between(start, end))
    yield from whole.between(end, len(text))


def cut_passage(passage: Passage, split: Splitter) -> list[Item | Sentence]:
    """Return the sentences of a passage and what is between them, in their order; nothing is lost.

    Args:
        passage: Texts and marks.
        split: Cuts a line into sentences.
    """
    found: list[Item | Sentence] = []
    chunk: list[Item] = []
    for item in passage:
        if isinstance(item, Mark) and item.kind == "break":
            found += _cut_chunk(chunk, split)
            found.append(item)
            chunk = []
        else:
            chunk.append(item)
    return found + _cut_chunk(chunk, split)


def _cut_chunk(items: Sequence[Item], split: Splitter) -> list[Item | Sentence]:
    text = "".join([item.text for item in items])
    if not any(map(str.isalpha, text)):
        return list(items)
    if all(isinstance(item, Text) and item.raw is None and not item.wrap for item in items):
        return _cut_plain(text, split)
    seen = _without_kept(items)
    spans = _spans(_cannot_be_cut(items, seen), text, split)
    # What stands within each span, and the marks at each edge between two of them.
    inner: list[list[Item]] = [[] for _ in spans]
    edges: list[list[Mark]] = [[] for _ in range(len(spans) + 1)]
    number = place = 0
    for item in items:
        end = place + width(item)
        if isinstance(item, Mark) and item.kind != "kept":
            while number < len(spans) and place >= spans[number][1]:
                number += 1
            if number == len(spans) or place == spans[number][0]:
                edges[number].append(item)
            else:
                inner[number].append(item)
            continue
        while place < end:
            while place >= spans[number][1]:
                number += 1
            stop = min(end, spans[number][1])
            inner[number].append(_part(item, width(item) - (end - place), width(item) - (end - stop)))
            place = stop
    found: list[Item | Sentence] = []
    for number, (start, end, translated) in enumerate(spans):
        before, after = edges[number], edges[number + 1]
        if not (translated and _has_words(seen[start:end])):
            found += [*before, *inner[number]]
            continue
        outside, leading, trailing = _shared_marks(before, inner[number], after)
        edges[number + 1] = after[trailing:]
        found += [*before[:outside], Sentence([*leading, *inner[number], *after[:trailing]])]
    return found + edges[-1]


def _cut_plain(text: str, split: Splitter) -> list[Item | Sentence]:
    """Return the sentences of characters without marks, and what is between them."""
    kept = [(start, end) for start, end, _ in find_kept(text)]
    pieces = [(text[start:end], translated) for start, end, translated in _spans(kept, text, split)]
    return [
        Sentence((Text(piece),))
        if translated and (_has_words(piece) if kept else any(map(str.isalpha, piece)))
        else Text(piece)
        for piece, translated in pieces
    ]


def _cannot_be_cut(items: Sequence[Item], seen: str) -> list[tuple[int, int]]:
    """Return where that stands in items which is one thing: kept parts, and what is written otherwise than read."""
    whole = [(start, end) for start, end, _ in find_kept(seen)]
    place = 0
    for item in items:
        if width(item) > 1 and (isinstance(item, Mark) or item.raw is not None):
            whole.append((place, place + width(item)))
        place += width(item)
    return whole


def _spans(whole: Sequence[tuple[int, int]], text: str, split: Splitter) -> list[tuple[int, int, bool]]:
    """Return where pieces of a text begin and end, and whether each is a sentence; nothing that is whole is cut."""
    barred = {place for start, end in whole for place in range(start + 1, end)}
    spans: list[tuple[int, int, bool]] = []
    place = 0
    for piece in cut_text(text, split):
        end = place + len(piece.text)
        if spans and place in barred:
            start, _, translated = spans.pop()
            spans.append((start, end, translated or piece.translated))
        else:
            spans.append((place, end, piece.translated))
        place = end
    return spans


def _has_words(sentence: str) -> bool:
    """Whether there is anything to translate: letters outside of what is kept."""
    edges = [0, *(edge for start, end, _ in find_kept(sentence) for edge in (start, end)), len(sentence)]
    outside = [sentence[start:end] for start, end in list(pairwise(edges))[::2]]
    return any(character.isalpha() for part in outside for character in part)


def _shared_marks(
    before: Sequence[Mark], inner: Sequence[Item], after: Sequence[Mark]
) -> tuple[int, Sequence[Mark], int]:
    """Decide which marks at the edges of a sentence belong to it: those whose other half stands within.

    Returns:
        How many of those before stay outside, the others, and how many of those after belong to it.
    """
    marks = [item for item in inner if isinstance(item, Mark)]
    row = [*before, *marks, *after]
    first_inner, first_after = len(before), len(before) + len(marks)
    opened: list[int] = []
    names: Counter[str] = Counter()
    outside, trailing = len(before), 0
    for number, mark in enumerate(row):
        if mark.kind == "open":
            opened.append(number)
            names[mark.name] += 1
        elif mark.kind == "close" and names[mark.name]:
            while True:
                partner = opened.pop()
                names[row[partner].name] -= 1
                if row[partner].name == mark.name:
                    break
            if partner < first_inner <= number < first_after:
                outside = min(outside, partner)
            elif number >= first_after and outside <= partner < first_after:
                trailing = number - first_after + 1
    return outside, before[outside:], trailing
