"""Placeholders, accelerators and tags in the messages of programs, and how marks come into texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from locant.documents.kept import find_kept, message_families
from locant.documents.passages import Item, Mark, Text, cut_items, width

_TAG = re.compile(r"[<\[](/?)([\w:-]+)[^<>]*?(/?)[>\]]")
_BEFORE_ACCELERATOR = re.compile(r"(?<!\w)(?:[A-Z][a-z]*)?\Z")
_VOID = frozenset({"br", "hr", "img", "input", "wbr"})

Found = tuple[int, int, Mark]
"""Offsets in a text, and the mark for what stands between them, but for its ``raw``."""


def message_marks(text: str, flags: Iterable[str] = ()) -> Iterator[Found]:
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


def with_marks(items: Sequence[Text], find: Callable[[str], Iterable[Found]]) -> list[Item]:
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
