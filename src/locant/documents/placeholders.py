"""Placeholders and tags in the messages of programs: what a program fills in, and marks that are no text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from locant.documents.passages import Item, Mark, Text, width

_PRINTF = r"%(?:\d+\$)?(?:\([\w.]+\))?[-+#0]*(?:\d+|\*)?(?:\.\d+)?(?:hh|ll|[hlLzjtq])?[diouxXeEfFgGaAcCsSpn@]|%%"
_NESTED = r"\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)+\}"
_BRACES = rf"\$?{_NESTED}|\$?\{{[^{{}}\s]*\}}|\$\{{[^{{}}]*\}}"
_ENTITY = r"&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});"
_TAG = r"<(?P<end>/?)(?P<name>[A-Za-z][\w:-]{0,60})(?:\s[^<>]{0,1000}?)?(?P<empty>/?)>"
_MESSAGE = re.compile(f"(?P<kept>{_PRINTF}|{_BRACES}|{_ENTITY})|{_TAG}")
_VOID = frozenset({"br", "hr", "img", "input", "wbr"})

Found = tuple[int, int, Mark]
"""Offsets in a text, and the mark for what stands between them, but for its ``raw``."""


def message_marks(text: str) -> Iterator[Found]:
    """Yield placeholders of printf (``%s``, ``%(name)d``), in braces (``{name}``, ``{{name}}``, ``${name}``), and tags.

    Messages in braces with others inside, as ICU has them for plurals, are one placeholder: their syntax would not
    survive a translation.
    """
    for found in _MESSAGE.finditer(text):
        if found["kept"]:
            yield *found.span(), Mark("kept", None, text=found[0])
        else:
            yield *found.span(), tag_mark(found["name"], is_end=bool(found["end"]), is_empty=bool(found["empty"]))


def tag_mark(name: str, *, is_end: bool, is_empty: bool = False) -> Mark:
    """Return the mark for a tag, but for its ``raw``."""
    name = name.lower()
    return Mark("void" if is_empty or name in _VOID else "close" if is_end else "open", None, name)


def with_marks(items: Sequence[Text], find: Callable[[str], Iterable[Found]]) -> list[Item]:
    """Return texts with marks in them.

    Args:
        items: Texts.
        find: Yields the marks of their characters, joined, in their order; one that cuts a text apart that is written
            otherwise than it is read is left out.
    """
    text = "".join(item.text for item in items)
    starts: set[int] = set()
    ends: set[int] = set()
    place = 0
    for item in items:
        if item.raw is None:
            starts.update(range(place, place + width(item)))
            ends.update(range(place + 1, place + width(item) + 1))
        else:
            starts.add(place)
            ends.add(place + width(item))
        place += width(item)
    marks = iter([each for each in find(text) if each[0] in starts and each[1] in ends])
    written: list[Item] = []
    start, end, mark = next(marks, (place, place, None))
    raw: list[str] = []
    at = 0
    for item in items:
        item_end = at + width(item)
        while at < item_end:
            inside = start <= at < end
            stop = min(item_end, end if inside else start if at < start else item_end)
            part = item if item.raw is not None else Text(item.text[len(item.text) - (item_end - at) :][: stop - at])
            if inside:
                raw.append(part.source)
            else:
                written.append(part)
            at = stop
            if inside and at == end and mark:
                written.append(Mark(mark.kind, "".join(raw), mark.name, mark.text))
                raw = []
                start, end, mark = next(marks, (place, place, None))
    return written
