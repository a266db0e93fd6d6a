"""Places in a translation for what stands in its sentence: marks, kept words and line breaks.

Marks come in pairs around words, or stand alone between them. A pair goes around the translation of its words, the
whole of it once, inside the pairs that it was inside of; so marks balance as they did. Which words these are is asked
of an alignment; of words without a link, of the links around them. Where there is no alignment, or pairs would cross,
they are found by translating the words alone. Where a mark has no place then either, the sentence is written in parts,
each translated for itself between the marks where they were.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from locant.documents.kept import Locate, place_kept
from locant.documents.passages import Item, Mark, Sentence, Text, Written
from locant.documents.word_places import WORD
from locant.text.subword_spans import Span

_WORDS = re.compile(WORD)


@dataclass
class _Node:
    """A pair of marks, or one alone.

    Attributes:
        start: Offset of the first mark in the sentence.
        end: Of the second.
        before: The first; ``None`` where it stands in an earlier sentence.
        after: The second; ``None`` where it stands in a later one, or where the first stands alone.
        inside: Pairs and single marks between them.
        place: Offsets in the translation.
        spaced: Whether it stands alone with a space on either side, of which the translation has one before it.
    """

    start: int
    end: int
    before: Mark | None
    after: Mark | None
    inside: list[_Node] = field(default_factory=list)
    place: Span = (0, 0)
    spaced: bool = False

    def move(self, place: int, translation: str) -> None:
        """Put a mark that stands alone somewhere; where there are two spaces before that, between them."""
        if self.spaced and translation[:place].endswith("  "):
            place -= 1
            self.spaced = False
        self.spaced = self.spaced and translation[:place].endswith(" ")
        self.place = place, place


def _tree(sentence: Sentence) -> list[_Node]:
    """Return the marks of a sentence, each inside of those around it."""
    open_nodes: list[_Node] = []
    levels: list[list[_Node]] = [[]]
    for at, mark in sentence.marks:
        if mark.kind == "open":
            open_nodes.append(_Node(at, len(sentence.text), mark, None))
            levels.append([])
        elif mark.kind == "void":
            levels[-1].append(_Node(at, at, mark, None))
        elif open_nodes and open_nodes[-1].before is not None and open_nodes[-1].before.name == mark.name:
            node = open_nodes.pop()
            node.end, node.after, node.inside = at, mark, levels.pop()
            levels[-1].append(node)
        else:  # begun in an earlier sentence, or pairs that cross each other
            if open_nodes:
                raise _NoPlaceError
            levels[0] = [_Node(0, at, None, mark, levels[0])]
    while open_nodes:
        node = open_nodes.pop()
        node.inside = levels.pop()
        levels[-1].append(node)
    return levels[0]


class _NoPlaceError(Exception):
    """A mark has no place."""


def _settle(nodes: Sequence[_Node], sentence: Sentence, translation: str, locate: Locate) -> None:
    """Give marks their places; raises _NoPlaceError where one has none."""
    for node in nodes:
        _settle(node.inside, sentence, translation, locate)
        if node.start == node.end:
            node.spaced = sentence.text[: node.start].endswith(" ") and sentence.text[node.start :].startswith(" ")
            node.move(_between(sentence.text, node.start, locate), translation)
            continue
        found = locate(node.start, node.end)
        inner = [each.place for each in node.inside if each.start < each.end]
        spans = [*([found] if found else []), *inner]
        if not spans:
            raise _NoPlaceError
        node.place = min(start for start, _ in spans), max(end for _, end in spans)
        if (node.before is None and node.place[0] > 0) or (
            node.after is None
            and node.before is not None
            and node.before.kind == "open"
            and node.place[1] < len(translation)
        ):
            raise _NoPlaceError  # words of it would stand outside
    around = sorted((node for node in nodes if node.start < node.end), key=lambda node: node.place)
    for one, other in pairwise(around):
        if other.place[0] < one.place[1]:
            raise _NoPlaceError
    for node in nodes:
        if node.start == node.end:
            for other in around:  # a single mark stands beside pairs, as it did
                if other.place[0] < node.place[0] < other.place[1]:
                    edge = other.place[1] if other.end <= node.start else other.place[0]
                    node.move(edge, translation)
    for outer in around:
        for node in outer.inside:
            if node.start == node.end:
                node.move(min(max(node.place[0], outer.place[0]), outer.place[1]), translation)


def _between(text: str, at: int, locate: Locate) -> int:
    """Return the place of a mark that stands alone: behind the word that it is attached to, or before the next one."""
    before = _WORDS.search(text[:at][::-1])
    after = _WORDS.search(text, at)
    attached = before is not None and before.start() == 0
    behind = locate(at - before.end(), at - before.start()) if before else None
    ahead = locate(*after.span()) if after else None
    if behind and (attached or not ahead):
        return behind[1]
    if ahead:
        return ahead[0]
    raise _NoPlaceError


def _events(nodes: Sequence[_Node]) -> Iterator[tuple[int, Mark | str]]:
    """Yield marks with their places, and spaces behind them, in the order in which they are written."""
    in_order = sorted(nodes, key=lambda node: node.place)
    for node, following in zip_longest(in_order, in_order[1:]):
        if node.before:
            yield node.place[0], node.before
        yield from _events(node.inside)
        if node.after:
            yield node.place[1], node.after
        if node.spaced and not (following and following.spaced and following.place == node.place):
            yield node.place[1], " "


def nowhere(start: int, end: int) -> None:
    """Locate nothing."""


def write_whole(
    sentence: Sentence, translation: str, locate: Locate = nowhere, replaced: Locate = nowhere
) -> Written | None:
    """Return a translation with all that stands in its sentence.

    Args:
        sentence: The sentence.
        translation: Of the whole of it.
        locate: Where words of the sentence stand in the translation.
        replaced: What the model made of kept words that are not in the translation.

    Returns:
        ``None`` where something has no place.
    """
    kept = place_kept(sentence.kept(), sentence.text, translation, replaced)
    if kept is None:
        return None
    if not kept and all(isinstance(item, Text) and not item.wrap for item in sentence.items):
        return [translation]
    wraps = place_wraps(sentence, translation, [(start, end) for start, end, _ in kept])
    if wraps is None:
        return None
    try:
        nodes = _tree(sentence)
        _settle(nodes, sentence, translation, locate)
    except _NoPlaceError:
        return None
    taken: list[tuple[int, int, Sequence[Item]]] = [
        *((start, end, each.items) for start, end, each in kept),
        *((start, end, [wrap]) for start, end, wrap in wraps),
    ]
    return _assembled(translation, sorted(taken, key=lambda each: each[:2]), list(_events(nodes)))


def _assembled(
    translation: str, taken: Sequence[tuple[int, int, Sequence[Item]]], events: Sequence[tuple[int, Mark | str]]
) -> Written:
    """Return a translation with parts of it replaced and marks between its characters."""
    written: Written = []
    remaining = deque(taken)
    place = last = 0

    def fill(until: int) -> None:
        nonlocal place
        while remaining and remaining[0][0] < until:
            start, end, items = remaining.popleft()
            if place < start:
                written.append(translation[place:start])
            written.extend(items)
            place = end
        if words := translation[place:until]:
            written.append(words)
            place = until

    for at, mark in events:
        for start, end, _ in taken:  # what is kept is kept whole
            if start < at < end:
                at = end if isinstance(mark, Mark) and mark.kind == "close" else start
        last = max(at, last)
        fill(last)
        written.append(mark)
    fill(len(translation) + 1)
    return written


def place_wraps(sentence: Sentence, translation: str, taken: Sequence[Span]) -> list[tuple[int, int, Text]] | None:
    """Return which spaces of a translation line breaks stand for: those nearest to where they were.

    Args:
        sentence: The sentence.
        translation: Its translation.
        taken: Where no line may break.

    Returns:
        Offsets in their order; ``None`` where a firm line break has no place.
    """
    wraps = sentence.wraps
    if not wraps:
        return []
    spaces = [(match.start(), match.end()) for match in re.finditer(" ", translation)]
    firm = sum(wrap.wrap == "firm" for _, wrap in wraps)
    if len(spaces) < firm:
        spaces = [(place, place) for place in range(1, len(translation))]
    free = [span for span in spaces if not any(start <= span[0] < end for start, end in taken)]
    if len(free) < firm:
        return None
    places = [start for start, _ in free]
    found = []
    first, firm_left = 0, firm
    for at, wrap in wraps:
        firm_left -= wrap.wrap == "firm"
        last = len(free) - firm_left  # so that the others have a place too
        if first >= last:
            continue
        wanted = at * len(translation) / len(sentence.text)
        after = min(max(bisect_left(places, wanted), first), last - 1)
        if after > first and wanted - places[after - 1] <= places[after] - wanted:
            after -= 1
        found.append((*free[after], wrap))
        first = after + 1
    return found
