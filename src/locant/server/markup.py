"""HTML cut into sentences, and put together again around their translations.

Tags, comments and attributes stay as they are, character by character: nothing is repaired and no tree is built, so
neither nesting nor missing end tags matter. A block of text is what stands between tags that are not part of a line, as
``<b>`` and ``<a>`` are. A sentence with such tags inside is translated whole, for the sake of its meaning, and besides
in parts, from tag to tag; where the translation of a marked part stands in that of the sentence, it is marked there,
and where it does not, the parts stand for the sentence.
"""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

from locant.server.segmentation import Splitter, cut_text

_INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd mark q s samp small span strike strong "
        "sub sup time tt u var wbr",
    )
)
_KEPT = frozenset(re.findall(r"\w+", "script style noscript template textarea svg math code pre samp kbd var"))
_VOID = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))
_SPACES = re.compile(r"[ \t\n\r\f]+")
_FINAL = ".,;:!?。！？"  # noqa: RUF001
_MOST_TAGS = 16  # in a sentence that is translated whole


@dataclass(frozen=True)
class Token:
    """A stretch of HTML.

    Attributes:
        kind: ``text``; ``open``, ``close`` or ``void`` for a tag inside a line; ``break`` for anything else.
        raw: Its characters.
        name: Of a tag inside a line.
    """

    kind: str
    raw: str
    name: str = ""


def _end_of_tags(source: str) -> tuple[int, bool]:
    """Return where the last tag ends, and whether a comment or declaration without an end begins there.

    For each beginning that has no end, the parser would look through all that follows: a page of nothing else would
    take it minutes.
    """
    end = source.rfind(">") + 1
    unfinished = False
    for opening, closing in (("<!--", "-->"), ("<![", "]>")):
        closed = source.rfind(closing, 0, end)
        first = source.find(opening, closed + len(closing) if closed >= 0 else 0, end)
        if first >= 0:
            end, unfinished = first, True
    return end, unfinished


class _Reader(HTMLParser):
    """Notes where each stretch begins, and what it is."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self._lines = [0]
        for found in re.finditer("\n", source):
            self._lines.append(found.end())
        self.events: list[tuple[int, str, str]] = []
        self._kept: tuple[str, int] | None = None  # the tag whose content stays, and how deep in others like it
        end, unfinished = _end_of_tags(source)
        self.feed(source[:end])
        self.close()
        if end < len(source):
            self.events.append((end, "break" if unfinished or self._kept else "text", ""))

    def _note(self, kind: str, name: str = "") -> None:
        line, column = self.getpos()
        if self._kept and kind == "text":
            kind = "break"
        self.events.append((self._lines[line - 1] + column, kind, name))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._kept:
            if tag == self._kept[0]:
                self._kept = (tag, self._kept[1] + 1)
            self._note("break")
            return
        known = dict(attrs)
        classes = (known.get("class") or "").split()
        if tag not in _VOID and (tag in _KEPT or known.get("translate") == "no" or "notranslate" in classes):
            self._kept = (tag, 1)
            self._note("break")
        elif tag in _INLINE:
            self._note("void" if tag in _VOID else "open", tag)
        else:
            self._note("break")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("void" if tag in _INLINE and not self._kept else "break", tag)

    def handle_endtag(self, tag: str) -> None:
        if self._kept:
            self._note("break")
            if tag == self._kept[0]:
                self._kept = (tag, self._kept[1] - 1) if self._kept[1] > 1 else None
            return
        self._note("close" if tag in _INLINE else "break", tag)

    def handle_data(self, data: str) -> None:
        self._note("text")

    def handle_entityref(self, name: str) -> None:
        self._note("text")

    def handle_charref(self, name: str) -> None:
        self._note("text")

    def handle_comment(self, data: str) -> None:
        self._note("break")

    def handle_decl(self, decl: str) -> None:
        self._note("break")

    def handle_pi(self, data: str) -> None:
        self._note("break")

    def unknown_decl(self, data: str) -> None:
        self._note("break")


def read_tokens(source: str) -> list[Token]:
    """Return the stretches of HTML; their raw characters, joined, are the source."""
    events = sorted(_Reader(source).events, key=lambda event: event[0])
    if not events or events[0][0]:
        events.insert(0, (0, "break", ""))
    ends = [event[0] for event in events[1:]] + [len(source)]
    tokens: list[Token] = []
    for (start, kind, name), end in zip(events, ends, strict=True):
        if start == end:
            continue
        if kind == "text" and tokens and tokens[-1].kind == "text":
            tokens[-1] = Token("text", tokens[-1].raw + source[start:end])
        else:
            tokens.append(Token(kind, source[start:end], name))
    return tokens


@dataclass(frozen=True)
class _Marked:
    """A sentence with tags inside.

    Attributes:
        whole: Number of the sentence among those to be translated; ``None`` where it has too many tags.
        parts: Its stretches: tags, white space, and numbers of the parts to be translated.
    """

    whole: int | None
    parts: Sequence[Token | str | int]


@dataclass
class Page:
    """HTML with gaps where translations go.

    Attributes:
        sentences: What is to be translated.
        layout: Characters that stay, numbers of sentences, and sentences with tags inside.
    """

    sentences: list[str] = field(default_factory=list)
    layout: list[str | int | _Marked] = field(default_factory=list)

    def put_together(self, translations: Sequence[str]) -> str:
        """Return the HTML with the translations of its sentences."""
        written = []
        for part in self.layout:
            if isinstance(part, str):
                written.append(part)
            elif isinstance(part, int):
                written.append(_escaped(translations[part]))
            else:
                written.append(_with_marks(part, translations))
        return "".join(written)

    def _add(self, sentence: str) -> int:
        self.sentences.append(sentence)
        return len(self.sentences) - 1


def cut_html(source: str, split: Splitter) -> Page:
    """Return the sentences of HTML and what is around them.

    Args:
        source: HTML, or a part of it.
        split: Cuts a line into sentences.
    """
    page = Page()
    block: list[Token] = []
    for token in [*read_tokens(source), Token("break", "")]:
        if token.kind != "break":
            block.append(token)
            continue
        _cut_block(page, block, split)
        block = []
        page.layout.append(token.raw)
    return page


def _cut_block(page: Page, block: Sequence[Token], split: Splitter) -> None:
    """Add the sentences of a block of text to a page."""
    if not any(token.kind == "text" and html.unescape(token.raw).strip() for token in block):
        page.layout += [token.raw for token in block]
        return
    # The text of the block, and which tags stand before which of its characters.
    parts: list[str] = []
    tags: deque[tuple[int, Token]] = deque()
    length = 0
    for token in block:
        if token.kind == "text":
            words = _SPACES.sub(" ", html.unescape(token.raw))
            if parts and parts[-1].endswith(" "):
                words = words.lstrip(" ")
            if words:
                parts.append(words)
                length += len(words)
        else:
            tags.append((length, token))
    place = 0
    for piece in cut_text("".join(parts), split):
        end = place + len(piece.text)
        # Tags at the edge of a sentence are not inside it.
        while tags and tags[0][0] <= place:
            page.layout.append(tags.popleft()[1].raw)
        inside = []
        while tags and tags[0][0] < end:
            inside.append(tags.popleft())
        if not piece.translated:
            _add_spaces(page, piece.text, [(at - place, tag) for at, tag in inside])
        elif inside:
            page.layout.append(_marked(page, piece.text, [(at - place, tag) for at, tag in inside]))
        else:
            page.layout.append(page._add(piece.text))
        place = end
    page.layout += [tag.raw for _, tag in tags]


def _add_spaces(page: Page, spaces: str, tags: Sequence[tuple[int, Token]]) -> None:
    place = 0
    for at, tag in tags:
        page.layout += [_escaped(spaces[place:at]), tag.raw]
        place = at
    page.layout.append(_escaped(spaces[place:]))


def _marked(page: Page, sentence: str, tags: Sequence[tuple[int, Token]]) -> _Marked:
    parts: list[Token | str | int] = []
    whole = page._add(sentence) if len(tags) <= _MOST_TAGS else None
    edges = [0, *(at for at, _ in tags), len(sentence)]
    for number, (start, end) in enumerate(pairwise(edges)):
        if number:
            parts.append(tags[number - 1][1])
        words = sentence[start:end]
        if inner := words.strip():
            before = words[: words.index(inner)]
            after = words[len(before) + len(inner) :]
            parts += [before, page._add(inner), after]
        elif words:
            parts.append(words)
    return _Marked(whole, parts)


def _with_marks(marked: _Marked, translations: Sequence[str]) -> str:
    """Return a translated sentence with its tags."""
    plain = "".join(
        part.raw if isinstance(part, Token) else _escaped(translations[part] if isinstance(part, int) else part)
        for part in marked.parts
    )
    if marked.whole is None:
        return plain
    whole, spans = translations[marked.whole], list(_spans(marked.parts))
    places: list[tuple[int, int, Token, Token]] = []
    for opening, number, closing in spans:
        words = translations[number].strip().rstrip(_FINAL)
        found = _find(whole, words, [(start, end) for start, end, *_ in places])
        if found is None:
            break
        places.append((*found, opening, closing))
    tags = sum(isinstance(part, Token) for part in marked.parts)
    if spans and len(places) == len(spans) and tags == 2 * len(spans):
        written, place = "", 0
        for start, end, opening, closing in sorted(places, key=lambda found: found[0]):
            written += _escaped(whole[place:start]) + opening.raw + _escaped(whole[start:end]) + closing.raw
            place = end
        return written + _escaped(whole[place:])
    return plain


def _spans(parts: Sequence[Token | str | int]) -> Iterator[tuple[Token, int, Token]]:
    """Yield the parts of which each is all that stands between a tag and its end."""
    solid = [part for part in parts if not isinstance(part, str)]
    for opening, inner, closing in zip(solid, solid[1:], solid[2:], strict=False):
        if (
            isinstance(opening, Token)
            and isinstance(inner, int)
            and isinstance(closing, Token)
            and (opening.kind, closing.kind, opening.name) == ("open", "close", closing.name)
        ):
            yield opening, inner, closing


def _find(text: str, words: str, taken: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return where words stand in a text, as whole words and not in a place that is taken, whatever their case."""
    if not words:
        return None
    for found in re.finditer(re.escape(words), text, re.IGNORECASE):
        start, end = found.span()
        cut = (start and text[start - 1].isalnum() and words[0].isalnum() and not _runs_on(words[0])) or (
            end < len(text) and text[end].isalnum() and words[-1].isalnum() and not _runs_on(words[-1])
        )
        if not cut and all(end <= other_start or other_end <= start for other_start, other_end in taken):
            return start, end
    return None


def _runs_on(character: str) -> bool:
    """Whether a character is of a script without spaces between words."""
    return "぀" <= character <= "鿿" or "฀" <= character <= "໿"


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)
