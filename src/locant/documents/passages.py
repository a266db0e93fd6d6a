"""Passages: text that belongs together, with marks in it, and its sentences.

A format takes a document apart into passages and what is between them. A passage is a row of texts and marks: what
is translated, what only is there, and how each of it is written in the document. Sentences are cut out of it; what
is not in a sentence is written as it was. Placeholders, accelerators and tags in messages of programs are marks too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby, takewhile
from typing import Any, Literal

from locant.documents.kept import Found, find_kept, message_families
from locant.documents.sentences import Splitter, cut_text

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
        text: What a sentence has for ``kept`` words.
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
        end = place + width(item)
        while len(rows) <= len(edges) and edges[len(rows) - 1] <= place:
            rows.append([])
        if isinstance(item, Text) and item.raw is None:
            if not item.text:
                continue
            while len(rows) <= len(edges) and (edge := edges[len(rows) - 1]) < end:
                rows[-1].append(Text(item.text[len(item.text) - (end - place) : len(item.text) - (end - edge)]))
                rows.append([])
                place = edge
            item = Text(item.text[len(item.text) - (end - place) :])
        rows[-1].append(item)
        place = end
    return rows + [[] for _ in edges[len(rows) - 1 :]]


class Sentence:
    """A sentence with what is in it.

    Attributes:
        items: Texts and marks; the texts and kept words, joined, are the sentence.
        text: The sentence.
        placed: The items with their offsets in it.
        marks: Those that are around or between words, with their offsets.
    """

    def __init__(self, items: Sequence[Item], found: Sequence[Found] = ()) -> None:
        self.items, self._found = tuple(items), found
        self.text = "".join([item.text for item in items])
        self.placed = list(zip(accumulate(map(width, items), initial=0), items, strict=False))
        edges = 0, len(self.text)
        self.marks = [
            (at, item)
            for at, item in self.placed
            if isinstance(item, Mark)
            and (item.kind in ("open", "close", "void") or (item.kind == "space" and at in edges))
        ]

    def _rows(self) -> list[list[Item]]:
        """Return the items before what a rule keeps, of what it keeps, behind it, and so on."""
        return cut_items(self.items, [edge for start, end, _ in self._found for edge in (start, end)])

    @cached_property
    def kept(self) -> dict[Found, list[Item]]:
        """What the translation has as well, in its order, and how the document has each; ``mark`` is a family too."""
        kept: dict[Found, list[Item]] = {
            Found(at, at + width(item), item.name or "mark"): [item]
            for at, item in self.placed
            if isinstance(item, Mark) and item.kind == "kept"
        }
        kept |= {
            found: [item for item in row if item.text]
            for found, row in zip(self._found, self._rows()[1::2], strict=True)
        }
        return dict(sorted(kept.items(), key=lambda pair: pair[0].start))

    @property
    def is_manageable(self) -> bool:
        """Whether it is translated whole; one of very many marks, kept parts or characters is translated in parts."""
        return len(self.text) <= _MOST_CHARACTERS and len(self.kept) <= _MOST_KEPT and len(self.marks) <= _MOST_MARKS

    def parts(self) -> list[Item | Sentence]:
        """Return the sentence as sentences between its marks and what is kept, and these."""
        parts: list[Item | Sentence] = []
        gathered: list[Item] = []
        for number, row in enumerate(self._rows()):
            for item in row:
                if isinstance(item, Mark) and item.kind == "space":
                    continue
                is_firm = item.wrap == "firm" if isinstance(item, Text) else item.kind != "accelerator"
                if number % 2 or is_firm:
                    parts += [*_cut_edges(gathered), item]
                    gathered.clear()
                else:
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
    text = "".join([item.text for item in items])
    if not any(map(str.isalpha, text)):
        return list(items)
    # What is kept by marks is no text in which anything is found.
    seen = "".join([item.text if isinstance(item, Text) else " " * width(item) for item in items])
    barred = _within(items)
    kept = [each for each in find_kept(seen) if barred.isdisjoint(each[:2])]
    letters = list(map(str.isalpha, seen))  # that are translated
    for start, end, _ in kept:
        barred.update(range(start + 1, end))
        letters[start:end] = [False] * (end - start)
    spans: list[tuple[int, int, bool]] = []  # of pieces, and whether each is a sentence
    place = 0
    for piece in cut_text(text, split):
        first, translated = place, piece.translated
        if spans and place in barred:
            first, _, begun = spans.pop()
            translated = translated or begun
        place += len(piece.text)
        spans.append((first, place, translated))
    rows = cut_items(items, [end for _, end, _ in spans])
    found: list[Item | Sentence] = []
    for (start, end, translated), row, following in zip(spans, rows, rows[1:], strict=False):
        closing = list(takewhile(lambda item: isinstance(item, Mark) and item.kind == "close", following))
        row += closing  # what ends with a sentence belongs to it
        del following[: len(closing)]
        own = kept[bisect_left(kept, (start,)) : bisect_left(kept, (end,))]
        own = [Found(first - start, last - start, kind) for first, last, kind in own]
        found += [Sentence(row, own)] if translated and any(letters[start:end]) else row
    return found + rows[-1]


FoundMark = tuple[int, int, Mark]
"""Offsets in a text, and the mark for what is between them, but for its ``raw``."""


def message_marks(text: str, flags: Iterable[str] = ()) -> Iterator[FoundMark]:
    """Yield what messages of programs have besides words: placeholders, the sign of an accelerator (``_Open``), tags.

    Messages in braces with others inside, as ICU has them for plurals, are one placeholder: their syntax would not
    survive a translation. What any text may have is not among them.

    Args:
        text: The message.
        flags: Of its entry in a catalogue; see :func:`~locant.documents.kept.message_families`.
    """
    prose = {(each.start, each.end) for each in find_kept(text)}
    found = [each for each in find_kept(text, message_families(flags)) if each[:2] not in prose]
    accelerators = [
        each
        for each in found
        if each.kind == "accelerator" and _BEFORE_ACCELERATOR.search(text[max(each.start - 30, 0) : each.start])
    ]
    for each in found:
        start, end, kind = each
        if kind == "accelerator":
            if accelerators == [each]:  # a message has one
                yield start, end, Mark("accelerator", None)
        elif kind == "tag" and (tag := _TAG.fullmatch(text, start, end)):
            yield start, end, tag_mark(tag[2], is_end=bool(tag[1]), is_empty=bool(tag[3]))
        else:
            yield start, end, Mark("kept", None, kind, text[start:end])


def tag_mark(name: str, *, is_end: bool, is_empty: bool = False) -> Mark:
    """Return the mark for a tag, but for its ``raw``."""
    name = name.lower()
    return Mark("void" if is_empty or name in _VOID else "close" if is_end else "open", None, name)


def with_marks(items: Iterable[Item], find: Callable[[str], Iterable[FoundMark]]) -> list[Item]:
    """Return items with marks in their texts.

    Args:
        items: Texts, in which marks are found as in one, and marks between them.
        find: Yields the marks of characters, in their order; one that cuts a text apart that is written otherwise than
            it is read is left out.
    """
    written: list[Item] = []
    for is_mark, row in groupby(items, lambda item: isinstance(item, Mark)):
        texts = list(row)
        if is_mark:
            written += texts
            continue
        within = _within(texts)
        marks = [each for each in find("".join(item.text for item in texts)) if within.isdisjoint(each[:2])]
        rows = cut_items(texts, [edge for start, end, _ in marks for edge in (start, end)])
        written += rows[0]
        for (_, _, mark), inside, behind in zip(marks, rows[1::2], rows[2::2], strict=True):
            raw = "".join(item.source for item in inside if isinstance(item, Text))
            written += [Mark(mark.kind, raw, mark.name, mark.text), *behind]
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
