"""Places in a translation for what is in its sentence: what is kept, marks and line breaks.

First comes what is kept: it is where the translation has it, or in place of what that made of it. Then marks come
in pairs around words, or are alone between them. A pair goes around the translation of its words, the whole of it
once, inside the pairs that it was inside of; so marks balance as they did. Where kept words went is known; where others
went is asked of an alignment, and of words without a link, of the links around them. Where there is no alignment, or
pairs would cross, they are found by translating the words alone. Where something has no place then either, the sentence
is written in parts, each translated for itself between the marks where they were.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product, takewhile
from typing import NamedTuple

from locant.documents.kept import IN_MESSAGES, find_kept
from locant.documents.passages import Item, Mark, Sentence, Text, Written, width
from locant.text.spans import WITHOUT_SPACES, Span, goes_on

Locate = Callable[[int, int], Span | None]
"""Returns where what is between two offsets of a sentence is in its translation."""
Links = Sequence[tuple[int, int]]
"""Of an alignment: numbers of a word of a sentence and of one of its translation."""

_WITHOUT_SPACES = "".join(f"{first}-{last}" for first, last in WITHOUT_SPACES)
# A word: what is between white space, or a character of a script without any.
_WORD = re.compile(rf"[{_WITHOUT_SPACES}]|[^\s{_WITHOUT_SPACES}]+")
_FIRST_LETTER = re.compile(r"(?<!\w)[^\W\d_]")
_NO_SIGN = re.compile(r"[\d.,:/'’\s]")  # noqa: RUF001
_FINAL = ".,;:!?。！？"  # noqa: RUF001


class _NoPlaceError(Exception):
    """A mark has no place."""


def nowhere(start: int, end: int) -> None:
    """Locate nothing."""


class Draft:
    """A translation of a whole sentence, with what is kept in it.

    Attributes:
        text: The translation.
    """

    def __init__(self, sentence: Sentence, text: str, kept: Sequence[_Kept]) -> None:
        self.text, self._sentence, self._kept = text, sentence, kept

    @classmethod
    def of(cls, sentence: Sentence, translation: str) -> Draft | None:
        """Return the draft that a translation gives; ``None`` where something kept has no place, or is there twice."""
        in_message = any(mark.name in IN_MESSAGES for _, mark in sentence.kept)
        spans = _spans_of_kept(sentence, translation, in_message=in_message)
        if spans is None:
            return None
        text, seen, place = "", "", 0
        kept: list[_Kept] = []
        for (start, end), number in sorted((span, number) for number, span in spans.items()):
            at, mark = sentence.kept[number]
            text += translation[place:start]
            seen += translation[place:start] + (mark.text if mark.name else " " * width(mark))
            kept.append(_Kept(len(text), at, mark))
            text += mark.text
            place = end
        text, seen = text + translation[place:], seen + translation[place:]
        # Nothing has grown together with a word, is there another time, garbled, or has a half of it beside it.
        read = _keys(seen, in_message=in_message)
        if not all(read.pop((each.place, each.stop), None) for each in kept if each.mark.name):
            return None
        known = {_family(_key_of(mark)) for _, mark in sentence.kept}
        signs = {sign for _, mark in sentence.kept for sign in mark.text} & set("{}%")
        if any(_family(key) in known for key in read.values()) or any(
            text.count(sign) != sentence.text.count(sign) for sign in signs
        ):
            return None
        return cls(sentence, text, kept)

    def written(self, locate: Locate = nowhere) -> Written | None:
        """Return the translation with all that is in its sentence; ``None`` where something has no place.

        Args:
            locate: Where words of the sentence are in :attr:`text`.
        """
        try:
            nodes = _tree(self._sentence)
            self._settle(nodes, locate)
            atoms: list[tuple[int, int, Item]] = [(each.place, each.stop, each.mark) for each in self._kept]
            atoms += [*self._accelerators(), *self._wraps()]
        except _NoPlaceError:
            return None
        return _assembled(self.text, sorted(atoms, key=lambda atom: atom[:2]), _events(nodes))

    def _in_kept(self, place: int) -> bool:
        """Whether a character of the translation is of something kept."""
        return any(each.place <= place < each.stop for each in self._kept)

    def _find(self, start: int, end: int, locate: Locate) -> Span | None:
        """Return where what is between two offsets of the sentence is in the translation."""
        source = self._sentence.text
        if (start, end) == (0, len(source)):
            return 0, len(self.text)
        inside = [each for each in self._kept if start <= each.at and each.at + width(each.mark) <= end]
        first, last = min((each.place for each in inside), default=0), max((each.stop for each in inside), default=0)
        texts = [item.text for at, item in self._sentence.placed if start <= at < end and isinstance(item, Text)]
        if inside and not any(map(str.isalnum, "".join(texts))):  # nothing but what is kept, and signs
            before = source[start : min(each.at for each in inside)]
            after = source[max(each.at + width(each.mark) for each in inside) : end]
            first -= len(before) * self.text.endswith(before, 0, first)
            return first, last + len(after) * self.text.startswith(after, last)
        found = locate(start, end)
        if found:
            for each in self._kept:  # what is kept is kept whole
                first, last = found
                found = (
                    each.place if each.place < first < each.stop else first,
                    each.stop if each.place < last < each.stop else last,
                )
        return found

    def _settle(self, nodes: Sequence[_Node], locate: Locate) -> None:
        """Give marks their places; raises _NoPlaceError where one has none."""
        for node in nodes:
            self._settle(node.inside, locate)
            if node.is_alone:
                place = self._beside(node.start, locate)
                node.place = place, place
                continue
            spans = [each.place for each in node.inside if not each.is_alone]
            if found := self._find(node.start, node.end, locate):
                spans.append(found)
            if not spans:
                raise _NoPlaceError
            node.place = min(start for start, _ in spans), max(end for _, end in spans)
            is_open = node.after is None
            if (node.before is None and node.place[0] > 0) or (is_open and node.place[1] < len(self.text)):
                raise _NoPlaceError  # words of it would be outside
        around = sorted((node for node in nodes if not node.is_alone), key=lambda node: node.place)
        if any(other.place[0] < one.place[1] for one, other in pairwise(around)):
            raise _NoPlaceError
        for node in nodes:
            for other in around if node.is_alone else ():  # a mark that is alone is outside of pairs, as it was
                if other.place[0] < node.place[0] < other.place[1]:
                    node.place = (other.place[other.end <= node.start],) * 2
        for outer in around:
            for node in outer.inside:
                if node.is_alone:
                    node.place = (min(max(node.place[0], outer.place[0]), outer.place[1]),) * 2

    def _beside(self, at: int, locate: Locate) -> int:
        """Return the place of a mark that is alone: behind the word that it is attached to, or before the next."""
        source = self._sentence.text
        if at in (0, len(source)):
            return len(self.text) if at else 0
        before = _WORD.search(source[:at][::-1])
        after = _WORD.search(source, at)
        behind = self._find(at - before.end(), at - before.start(), locate) if before else None
        ahead = self._find(*after.span(), locate) if after else None
        if behind and ((before and before.start() == 0) or not ahead):
            return behind[1]
        if ahead:
            return ahead[0]
        raise _NoPlaceError

    def _accelerators(self) -> Iterator[tuple[int, int, Item]]:
        """Yield places for the signs of accelerators: before a word with the same first letter, or the first word."""
        for at, item in self._sentence.placed:
            if isinstance(item, Mark) and item.kind == "accelerator":
                letter = self._sentence.text[at : at + 1].lower()
                places = [found.start() for found in _FIRST_LETTER.finditer(self.text)]
                places = [place for place in places if not self._in_kept(place)] or [0]
                place = next((place for place in places if self.text[place].lower() == letter), places[0])
                yield place, place, item

    def _wraps(self) -> Iterator[tuple[int, int, Item]]:
        """Yield which spaces line breaks represent, those nearest to where they were; a firm one must have one."""
        wraps = [(at, item) for at, item in self._sentence.placed if isinstance(item, Text) and item.wrap]
        if not wraps:
            return
        spaces = [found.span() for found in re.finditer(" ", self.text)]
        firm = sum(wrap.wrap == "firm" for _, wrap in wraps)
        if len(spaces) < firm:
            spaces = [(place, place) for place in range(1, len(self.text))]
        free = [span for span in spaces if not self._in_kept(span[0])]
        if len(free) < firm:
            raise _NoPlaceError
        places = [start for start, _ in free]
        first = 0
        for at, wrap in wraps:
            firm -= wrap.wrap == "firm"
            last = len(free) - firm  # so that the others have a place too
            if first >= last:
                continue
            wanted = at * len(self.text) / len(self._sentence.text)
            after = min(max(bisect_left(places, wanted), first), last - 1)
            if after > first and wanted - places[after - 1] <= places[after] - wanted:
                after -= 1
            yield *free[after], wrap
            first = after + 1


class _Kept(NamedTuple):
    """Something kept: its offsets in the translation and in the sentence, and its mark."""

    place: int
    at: int
    mark: Mark

    @property
    def stop(self) -> int:
        """Offset behind it in the translation."""
        return self.place + width(self.mark)


_Key = tuple[str, str, str]
"""What makes two kept parts the same: their family, the signs of a number, and their text or its digits."""


def _key(kind: str, text: str) -> _Key:
    if kind != "number":
        return kind, "", text
    return kind, "".join(sorted(_NO_SIGN.sub("", text))), " ".join(re.findall(r"\d+", text))


def _key_of(mark: Mark) -> _Key:
    return _key(mark.name, mark.text)


def _keys(text: str, *, in_message: bool) -> dict[Span, _Key]:
    """Return the keys of what would be kept in a text, by its place."""
    found = find_kept(text, in_message=in_message)
    return {(start, end): _key(kind, text[start:end]) for start, end, kind in found}


def _family(key: _Key) -> str:
    """Return the digits of a number, or the family of anything else."""
    return key[2] if key[0] == "number" else key[0]


def _spans_of_kept(sentence: Sentence, translation: str, *, in_message: bool) -> dict[int, Span] | None:
    """Return where a translation has what is kept, by number; ``None`` where something is missing, or there too often.

    Numbers are where the translation has the same digits and signs, for languages differ in what separates them. What
    is missing represents others of its kind that the translation has instead, in their order, if these are as many.
    """
    spans: dict[int, Span] = {}

    def free(found: Iterable[Span]) -> list[Span]:
        return [span for span in found if all(span[1] <= start or end <= span[0] for start, end in spans.values())]

    by_key: dict[_Key, list[int]] = {}
    for number, (_, mark) in enumerate(sentence.kept):
        by_key.setdefault(_key_of(mark), []).append(number)
    theirs = _keys(translation, in_message=in_message)
    # Numbers last, and the longest first, so that nothing is found in what something else is.
    for key in sorted(by_key, key=lambda key: (key[0] == "number", -len(key[2]))):
        if key[0] == "number":
            found = free(span for span, other in theirs.items() if other == key)
        else:
            found = free(_occurrences(translation, sentence.text, *sentence.kept[by_key[key][0]]))
        if len(found) > len(by_key[key]):
            return None
        spans.update(zip(by_key[key], found, strict=False))
    missing: dict[tuple[str, str], list[int]] = {}
    for number, (_, mark) in enumerate(sentence.kept):
        if number not in spans:
            missing.setdefault(_key_of(mark)[:2], []).append(number)
    for kind, ours in missing.items():
        found = free(span for span, other in theirs.items() if other[:2] == kind)
        if len(found) != len(ours):
            return None
        spans.update(zip(ours, found, strict=True))
    return spans


def _occurrences(translation: str, source: str, at: int, mark: Mark) -> list[Span]:
    """Return where a kept part is in a translation, and no part of a longer word if it is none in the source."""
    begins, ends = not goes_on(source, at), not goes_on(source, at + width(mark))
    return [
        found.span()
        for found in re.finditer(re.escape(mark.text), translation)
        if found[0]
        and not (begins and goes_on(translation, found.start()))
        and not (ends and goes_on(translation, found.end()))
    ]


@dataclass
class _Node:
    """A pair of marks with all inside, or one mark alone; ``None`` is one in another sentence."""

    start: int
    end: int
    before: Mark | None
    after: Mark | None
    inside: list[_Node] = field(default_factory=list)
    place: Span = (0, 0)  # in the translation

    @property
    def is_alone(self) -> bool:
        """Whether there are no words between the marks."""
        return self.start == self.end


def _tree(sentence: Sentence) -> list[_Node]:
    """Return the marks of a sentence, each inside of those around it."""
    open_nodes: list[_Node] = []
    levels: list[list[_Node]] = [[]]
    for at, mark in sentence.marks:
        if mark.kind == "open":
            open_nodes.append(_Node(at, len(sentence.text), mark, None))
            levels.append([])
        elif mark.kind in ("void", "space"):
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


def _events(nodes: Sequence[_Node]) -> Iterator[tuple[int, Mark]]:
    """Yield marks with their places, in the order in which they are written."""
    for node in sorted(nodes, key=lambda node: node.place):
        if node.before:
            yield node.place[0], node.before
        yield from _events(node.inside)
        if node.after:
            yield node.place[1], node.after


def _assembled(translation: str, atoms: Sequence[tuple[int, int, Item]], events: Iterable[tuple[int, Mark]]) -> Written:
    """Return a translation with items in place of some of it and marks between its characters."""
    written: Written = []
    number = place = last = 0
    for at, mark in [*events, (len(translation) + 1, None)]:
        last = max(at, last)
        while number < len(atoms) and atoms[number][0] < last:
            start, end, item = atoms[number]
            written += [translation[place:start], item]
            number, place = number + 1, end
        written += [translation[place:last], *([mark] if mark else [])]
        place = max(place, last)
    return [part for part in written if part not in ("", Text(""))]


def word_links(source: str, translation: str, spans: Iterable[tuple[Span, Span]]) -> list[tuple[int, int]]:
    """Return links of words from links of characters.

    Args:
        source: A sentence.
        translation: Its translation.
        spans: Offsets in the sentence and in the translation that belong together.
    """
    starts, others = ([found.start() for found in _WORD.finditer(text)] for text in (source, translation))

    def among(words: Sequence[int], span: Span) -> range:
        return range(max(bisect_right(words, span[0]) - 1, 0), bisect_left(words, span[1]))

    return sorted({link for one, other in spans for link in product(among(starts, one), among(others, other))})


class Alignment:
    """Where words of a sentence are in its translation.

    Args:
        source: The sentence.
        translation: Its translation.
        links: Pairs of words.
    """

    def __init__(self, source: str, translation: str, links: Links) -> None:
        self._source, self._translation = source, translation
        self._words, self._others = ([found.span() for found in _WORD.finditer(text)] for text in (source, translation))
        self._linked: dict[int, set[int]] = {}
        for word, other in links:
            if word < len(self._words) and other < len(self._others):
                self._linked.setdefault(word, set()).add(other)

    def locate(self, start: int, end: int) -> Span | None:
        """Return where what is between two offsets is; punctuation that is not part of it is left out.

        Words without a link are between the links of the words around them, white space alone behind the word that it
        is behind of. The end or the beginning of a word is that of its translation where that has the same characters.
        """
        marked = self._source[start:end].strip()
        if not marked:
            before = [span for span in self._words if span[1] <= start]
            behind = self.locate(*before[-1]) if before else None
            # An empty place where the translation has no white space there.
            return (behind[1], behind[1] + self._translation.startswith(" ", behind[1])) if behind else None
        start = self._source.index(marked, start)
        end = start + len(marked)
        numbers = [number for number, (first, last) in enumerate(self._words) if first < end and start < last]
        others = sorted({other for word in numbers for other in self._linked.get(word, ())})
        found = _row(others) if others else self._between(numbers[0], numbers[-1] + 1)
        if found is None:
            return None
        place, stop = self._others[found[0]][0], self._others[found[1]][1]
        within = self._translation[place:stop]
        is_end, is_beginning = goes_on(self._source, start), goes_on(self._source, end)
        if not any(map(str.isalpha, marked)) and (is_end or is_beginning or all(map(_is_punctuation, marked))):
            at = within.rfind(marked)  # signs, and digits of a word
            return (place + at, place + at + len(marked)) if at >= 0 else None
        place += _outside(within, marked, self._source[:start][::-1])
        stop -= _outside(within[::-1], marked[::-1], self._source[end:])
        within, same = self._translation[place:stop].lower(), marked.lower()
        if is_end and not is_beginning and within.endswith(same):
            place = stop - len(marked)
        elif is_beginning and not is_end and within.startswith(same):
            stop = place + len(marked)
        return (place, stop) if place < stop else None

    def _between(self, start: int, end: int) -> Span | None:
        """Return the first and last word of the translation that represent words without a link.

        They are as many, as far as there are any between what the nearest words with links are linked with; else the
        word that the nearer one of these is linked with, the next where both are as near.
        """
        if not self._linked:
            return None
        before = max((word for word in self._linked if word < start), default=None)
        behind = min((word for word in self._linked if word >= end), default=None)
        first = max(self._linked[before]) + 1 if before is not None else 0
        last = (min(self._linked[behind]) if behind is not None else len(self._others)) - 1
        if first <= last:
            return first, min(last, first + end - start - 1)
        is_next = behind is not None and (before is None or behind - end <= start - 1 - before)
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
    return not character.isalnum() and not character.isspace()


def _outside(found: str, marked: str, before: str) -> int:
    """Return how many signs that found words begin with are not marked.

    Args:
        found: Words of the translation.
        marked: Words of the sentence. Where they begin with signs, only those of other signs are outside that are so in
            the sentence.
        before: What is before them in the sentence, from the nearest character on.
    """
    own = set(takewhile(_is_punctuation, marked))
    signs = set(takewhile(_is_punctuation, before)) - own if own else set(filter(_is_punctuation, found))
    return len(found) - len(found.lstrip("".join(signs)))


def parts_alone(translation: str, parts: Sequence[Item | Sentence], known: Mapping[str, str]) -> Locate:
    """Return what locates parts of a sentence as the whole words that each of them alone is translated to.

    Args:
        translation: Of the whole sentence.
        parts: What :meth:`~locant.documents.passages.Sentence.parts` returns.
        known: The translations of those of them that are sentences.
    """
    spans: list[tuple[int, int, str]] = []
    taken: list[Span] = []
    place = 0
    for part in parts:
        end = place + len(part.text)
        if isinstance(part, Sentence):
            spans.append((place, end, known[part.text]))
        place = end

    def locate(start: int, end: int) -> Span | None:
        inside = [words for first, last, words in spans if first < end and start < last]
        if len(inside) != 1 or not (words := inside[0].strip().rstrip(_FINAL)):
            return None
        for found in re.finditer(re.escape(words), translation, re.IGNORECASE):
            first, last = found.span()
            cut = goes_on(translation, first) or goes_on(translation, last)
            if not cut and all(last <= other or after <= first for other, after in taken):
                taken.append((first, last))
                return first, last
        return None

    return locate
