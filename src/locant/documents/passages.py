"""Passages: text that belongs together, with marks in it, and its sentences.

A format takes a document apart into passages and what stands between them. A passage is a row of texts and marks: what
is translated, what only stands there, and how each of it is written in the document. Sentences are cut out of it; what
is not in a sentence is written as it was. Placeholders, accelerators and tags in messages of programs are marks too.
"""

from __future__ import annotations

import re
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
            ``accelerator`` before a letter, for any other letter will do; ``space`` for white space that says nothing;
            ``break`` between sentences.
        raw: What the document has, in whatever way its format writes it.
        name: Of a pair of ``open`` and ``close``; of ``kept`` words the family that they are of.
        text: What a sentence has for ``kept`` words.
    """

    kind: Literal["open", "close", "void", "kept", "accelerator", "space", "break"]
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
        items: Marks at an edge stand behind it. What is written otherwise than it is read is not cut: it stands before
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


@dataclass(frozen=True)
class Kept:
    """A part of a sentence that its translation has as well.

    Attributes:
        start: Offset of its first character in the sentence.
        end: Offset behind the last one.
        kind: A family of :func:`~locant.documents.kept.find_kept`; ``mark`` for what a mark keeps that says none.
        items: How the document has it.
    """

    start: int
    end: int
    kind: str
    items: tuple[Item, ...]

    @property
    def text(self) -> str:
        """Its characters."""
        return "".join(item.text for item in self.items)


class Sentence:
    """A sentence with what stands in it.

    Attributes:
        items: Texts and marks; the texts and kept words, joined, are the sentence.
        text: The sentence.
    """

    def __init__(self, items: Sequence[Item], found: Sequence[Found] = ()) -> None:
        self.items, self._found = tuple(items), found
        self.text = "".join([item.text for item in items])

    def placed(self) -> Iterator[tuple[int, Item]]:
        """Yield the items with their offsets in the sentence."""
        yield from zip(accumulate(map(width, self.items), initial=0), self.items, strict=False)

    @property
    def marks(self) -> list[tuple[int, Mark]]:
        """Marks that stand around or between words, with their offsets."""
        last = len(self.text)
        return [
            (at, item)
            for at, item in self.placed()
            if isinstance(item, Mark)
            and (item.kind in ("open", "close", "void") or (item.kind == "space" and at in (0, last)))
        ]

    def _rows(self) -> list[list[Item]]:
        """Return the items before what a rule keeps, of what it keeps, behind it, and so on."""
        return cut_items(self.items, [edge for start, end, _ in self._found for edge in (start, end)])

    @cached_property
    def kept(self) -> list[Kept]:
        """What the translation has as well, in its order."""
        kept = [
            Kept(at, at + width(item), item.name or "mark", (item,))
            for at, item in self.placed()
            if isinstance(item, Mark) and item.kind == "kept"
        ]
        for found, row in zip(self._found, self._rows()[1::2], strict=True):
            kept.append(Kept(*found, tuple(filter(width, row))))
        return sorted(kept, key=lambda each: each.start)

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
                if number % 2 or _is_firm(item):
                    parts += _cut_edges(gathered)
                    gathered.clear()
                    parts.append(item)
                else:
                    gathered.append(item)
        return parts + _cut_edges(gathered)


def _is_firm(item: Item) -> bool:
    return item.wrap == "firm" if isinstance(item, Text) else item.kind != "accelerator"


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
    # What is kept by marks is no text in which anything is found.
    seen = "".join([item.text if isinstance(item, Text) else " " * width(item) for item in items])
    barred: set[int] = set()  # where nothing is cut
    place = 0
    for item in items:
        if isinstance(item, Mark) or item.raw is not None:
            barred.update(range(place + 1, place + width(item)))
        place += width(item)
    kept = [each for each in find_kept(seen) if each.start not in barred and each.end not in barred]
    for start, end, _ in kept:
        barred.update(range(start + 1, end))
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
    number = 0
    for (start, end, translated), row, following in zip(spans, rows, rows[1:], strict=False):
        closing = list(takewhile(lambda item: isinstance(item, Mark) and item.kind == "close", following))
        row += closing  # what ends with a sentence belongs to it
        del following[: len(closing)]
        own = []
        while number < len(kept) and kept[number].start < end:
            own.append(Found(kept[number].start - start, kept[number].end - start, kept[number].kind))
            number += 1
        found += [Sentence(row, own)] if translated and _has_words(seen[start:end], own) else row
    return found + rows[-1]


def _has_words(text: str, kept: Sequence[Found]) -> bool:
    """Whether there is anything to translate: letters outside of what is kept."""
    place = 0
    for start, end, _ in kept:
        if any(map(str.isalpha, text[place:start])):
            return True
        place = end
    return any(map(str.isalpha, text[place:]))


FoundMark = tuple[int, int, Mark]
"""Offsets in a text, and the mark for what stands between them, but for its ``raw``."""


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


def in_messages(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items with the marks that messages of programs have in their texts."""
    for _, row in groupby(items, type):
        group = list(row)
        texts = [item for item in group if isinstance(item, Text)]
        yield from with_marks(texts, message_marks) if texts else group


def with_marks(items: Sequence[Text], find: Callable[[str], Iterable[FoundMark]]) -> list[Item]:
    """Return texts with marks in them.

    Args:
        items: Texts.
        find: Yields the marks of their characters, joined, in their order; one that cuts a text apart that is written
            otherwise than it is read is left out.
    """
    within: set[int] = set()  # of what cannot be cut
    place = 0
    for item in items:
        if item.raw is not None:
            within.update(range(place + 1, place + width(item)))
        place += width(item)
    text = "".join(item.text for item in items)
    marks = [each for each in find(text) if each[0] not in within and each[1] not in within]
    rows = cut_items(items, [edge for start, end, _ in marks for edge in (start, end)])
    written: list[Item] = list(rows[0])
    for (_, _, mark), inside, behind in zip(marks, rows[1::2], rows[2::2], strict=True):
        raw = "".join(item.source for item in inside if isinstance(item, Text))
        written += [Mark(mark.kind, raw, mark.name, mark.text), *behind]
    return written
