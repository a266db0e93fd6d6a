"""Passages: text that belongs together, with marks in it, and its sentences.

A format takes a document apart into passages and what is between them. A passage is a row of texts and marks: what
is translated, what only is there, and how each of it is written in the document. Sentences are cut out of it; what
is not in a sentence is written as it was. Placeholders, accelerators and tags in messages of programs are marks too.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, takewhile
from typing import Any, Literal

from locant.documents.kept import find_kept
from locant.documents.sentences import Splitter, sentence_spans
from locant.text.spans import Span

# What stays before a part of a sentence: signs and white space, but no bracket or quote that begins with it.
_HEAD = re.compile(r"\W*?(?=\w|\Z|(?<=\s)[(\[{<\"'“„«‚‘¿¡]\w)")  # noqa: RUF001
_TAIL = "([{<“„«‚‘¿¡#@&=+*/|~^–—-"  # noqa: RUF001
_TAG = re.compile(r"[<\[](/?)([\w:-]+)[^<>]*?(/?)[>\]]")
_BEFORE_ACCELERATOR = re.compile(r"(?<!\w)(?:[A-Z][a-z]*)?\Z")
_VOID = frozenset({"br", "hr", "img", "input", "wbr"})
_MOST_MARKS, _MOST_KEPT, _MOST_CHARACTERS = 16, 64, 4_000


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that may be translated.

    Attributes:
        text: As they are read.
        raw: As the document writes them; ``None`` where that is the same.
        wrap: Whether they are a space that represents a line break of the document, to have a place in the translation
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
    """What is between characters and is not translated.

    Attributes:
        kind: ``open`` and ``close`` around characters; ``void`` between them; ``kept`` for words that stay as they are;
            ``accelerator`` before a letter, for any other letter will do; ``space`` for white space that says nothing;
            ``break`` between sentences; ``text`` for characters of markup that have not been read yet.
        raw: What the document has, in whatever way its format writes it.
        name: Of a pair of ``open`` and ``close``; of ``kept`` words the family that they are of.
        text: What a sentence has in place of ``kept`` words.
    """

    kind: Literal["text", "open", "close", "void", "kept", "accelerator", "space", "break"]
    raw: Any
    name: str = ""
    text: str = ""


Item = Text | Mark
Passage = Sequence[Item]
Written = list["str | Text | Mark"]
"""A translated passage: translations, which the format has to escape, and items of the source."""


def width(item: Item) -> int:
    """Return the number of characters that an item has in its sentence."""
    return len(item.text)


def cut_items(items: Sequence[Item], edges: Sequence[int]) -> list[list[Item]]:
    """Cut items at some of their characters: as many rows as edges and one more.

    Args:
        items: Marks at an edge are behind it. What is written otherwise than it is read is not cut: it is before
            an edge that is within.
        edges: Offsets, from left to right.
    """
    rows: list[list[Item]] = [[]]
    place = 0
    for item in items:
        while len(rows) <= len(edges):
            size = edges[len(rows) - 1] - place
            if size <= 0:
                rows.append([])
            elif size < width(item) and isinstance(item, Text) and item.raw is None:
                rows[-1].append(Text(item.text[:size]))
                item, place = Text(item.text[size:]), place + size
            else:
                break
        if item != Text(""):
            rows[-1].append(item)
        place += width(item)
    return rows + [[] for _ in edges[len(rows) - 1 :]]


class Sentence:
    """A sentence with what is in it.

    Attributes:
        items: Texts and marks; the texts and kept words, joined, are the sentence.
        text: The sentence.
        placed: The items with their offsets in it.
        kept: Words that the translation has as well, with their offsets.
        marks: Those that are around or between words, with their offsets.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = tuple(items)
        self.text = "".join([item.text for item in items])
        self.placed = list(zip(accumulate(map(width, items), initial=0), items, strict=False))
        edges = 0, len(self.text)
        marks = [(at, item) for at, item in self.placed if isinstance(item, Mark)]
        self.kept = [(at, mark) for at, mark in marks if mark.kind == "kept"]
        self.marks = [
            (at, mark)
            for at, mark in marks
            if mark.kind in ("open", "close", "void") or (mark.kind == "space" and at in edges)
        ]

    @property
    def is_manageable(self) -> bool:
        """Whether it is translated whole; one of very many marks, kept parts or characters is translated in parts."""
        return len(self.text) <= _MOST_CHARACTERS and len(self.kept) <= _MOST_KEPT and len(self.marks) <= _MOST_MARKS

    def parts(self) -> list[Item | Sentence]:
        """Return the sentence as sentences between its marks and what is kept, and these."""
        parts: list[Item | Sentence] = []
        gathered: list[Item] = []
        for item in self.items:
            is_firm = item.wrap == "firm" if isinstance(item, Text) else item.kind not in ("accelerator", "space")
            if is_firm:
                parts += [*_cut_edges(gathered), item]
                gathered.clear()
            elif isinstance(item, Text) or item.kind == "accelerator":
                gathered.append(item)
        return parts + _cut_edges(gathered)


def _cut_edges(items: Sequence[Item]) -> list[Item | Sentence]:
    """Return items as a sentence, and the signs and the white space around it, which stay."""
    text = "".join([item.text for item in items])
    if not any(map(str.isalpha, text)):
        return list(items)
    head = _HEAD.match(text)
    start, end = head.end() if head else 0, len(text)
    while text[end - 1].isspace() or text[end - 1] in _TAIL or (text[end - 1] in "\"'" and text[end - 2].isspace()):
        end -= 1
    before, inner, after = cut_items(items, [start, end])
    return [*before, Sentence(inner), *after]


def cut_passage(passage: Passage, split: Splitter) -> list[Item | Sentence]:
    """Return the sentences of a passage and what is between them, in their order; nothing is lost.

    Args:
        passage: Texts and marks.
        split: Cuts a line into sentences.
    """
    found: list[Item | Sentence] = []
    for is_break, row in groupby(passage, lambda item: isinstance(item, Mark) and item.kind == "break"):
        items = list(row)
        found += items if is_break else _cut_chunk(items, split)
    return found


def _cut_chunk(items: Sequence[Item], split: Splitter) -> list[Item | Sentence]:
    if not any(character.isalpha() for item in items for character in item.text):
        return list(items)
    items = _with_spaces_in_marks(with_marks(items, _prose_marks))
    barred = _within(items)
    spans: list[Span] = []
    for start, end in sentence_spans("".join([item.text for item in items]), split):
        if spans and (start in barred or spans[-1][1] in barred):  # the border is in what cannot be cut
            start, _ = spans.pop()
        spans.append((start, end))
    rows = cut_items(items, [edge for span in spans for edge in span])
    found: list[Item | Sentence] = [*rows[0]]
    for number in range(1, len(rows), 2):
        row = rows[number]
        behind = next((each for each in rows[number + 1 : number + 3] if each), [])
        closing = list(takewhile(lambda item: isinstance(item, Mark) and item.kind == "close", behind))
        row += closing  # what ends with a sentence belongs to it
        del behind[: len(closing)]
        has_words = any(any(map(str.isalpha, item.text)) for item in row if isinstance(item, Text))
        found += [*([Sentence(row)] if has_words else row), *rows[number + 1]]
    return found


def _with_spaces_in_marks(items: Sequence[Item]) -> list[Item]:
    """Return items in which a mark that is alone between two spaces holds the second, which translations leave out."""
    found: list[Item] = []
    before = ""
    for item in items:
        last = found[-1] if found else Text("")
        is_second = before == " " and isinstance(item, Text) and item.text.startswith(" ") and not item.wrap
        if is_second and isinstance(last, Mark) and last.kind == "void" and isinstance(last.raw, str):
            found[-1] = replace(last, raw=last.raw + (item.raw or " "))
            item = Text(item.text[1:])
        found.append(item)
        before = item.text[-1:] or before
    return found


FoundMark = tuple[int, int, Mark]
"""Offsets in a text, and the mark for what is between them, but for its ``raw``."""


def _prose_marks(text: str) -> Iterator[FoundMark]:
    for start, end, kind in find_kept(text):
        yield start, end, Mark("kept", None, kind, text[start:end])


def message_marks(text: str) -> Iterator[FoundMark]:
    """Yield what messages of programs have besides words: placeholders, the sign of an accelerator (``_Open``), tags.

    Messages in braces with others inside, as ICU has them for plurals, are one placeholder: their syntax would not
    survive a translation.
    """
    found = find_kept(text, in_message=True)
    accelerators = [
        start
        for start, _, kind in found
        if kind == "accelerator" and _BEFORE_ACCELERATOR.search(text[max(start - 30, 0) : start])
    ]
    for start, end, kind in found:
        if kind == "accelerator":
            if accelerators == [start]:  # a message has one
                yield start, end, Mark("accelerator", None)
        elif kind == "tag" and (tag := _TAG.fullmatch(text, start, end)):
            yield start, end, tag_mark(tag[2], is_end=bool(tag[1]), is_empty=bool(tag[3]))
        else:
            yield start, end, Mark("kept", None, kind, text[start:end])


def tag_mark(name: str, *, is_end: bool, is_empty: bool = False) -> Mark:
    """Return the mark for a tag, but for its ``raw``."""
    name = name.lower()
    return Mark("void" if is_empty or name in _VOID else "close" if is_end else "open", None, name)


def with_marks(items: Sequence[Item], find: Callable[[str], Iterable[FoundMark]]) -> list[Item]:
    """Return items with marks in their texts.

    Args:
        items: Texts, in which marks are found as in one, and marks and line breaks between them.
        find: Yields the marks of characters, in their order. One is left out that holds marks or line breaks, or cuts
            a text apart that is written otherwise than it is read.
    """
    places = accumulate(map(width, items), initial=0)
    borders = [at for at, item in zip(places, items, strict=False) if isinstance(item, Mark) or item.wrap]
    within = _within(items)
    text = "".join([item.text if isinstance(item, Text) else " " * width(item) for item in items])
    marks = [
        (start, end, mark)
        for start, end, mark in find(text)
        if within.isdisjoint((start, end)) and bisect_right(borders, start) == bisect_left(borders, end)
    ]
    rows = cut_items(items, [edge for start, end, _ in marks for edge in (start, end)])
    written = rows[0]
    for (_, _, mark), inside, behind in zip(marks, rows[1::2], rows[2::2], strict=True):
        before = [item for item in inside if isinstance(item, Mark)]
        raw = "".join(item.source for item in inside if isinstance(item, Text))
        written += [*before, Mark(mark.kind, raw, mark.name, mark.text), *behind]
    return written


def _within(items: Iterable[Item]) -> set[int]:
    """Return the offsets at which items cannot be cut: in marks, and in what is written otherwise than it is read."""
    within: set[int] = set()
    place = 0
    for item in items:
        if isinstance(item, Mark) or item.raw is not None:
            within.update(range(place + 1, place + width(item)))
        place += width(item)
    return within
