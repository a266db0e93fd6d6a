"""HTML: texts are translated, tags stay.

Tags, comments and attributes stay as they are, character by character: nothing is repaired and no tree is built, so
neither nesting nor missing end tags matter. A passage is what stands between tags that are not part of a line, as
``<b>`` and ``<a>`` are.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

from locant.documents.formats import Document, DocumentOptions, Layout, TextDocument, decode, write_with
from locant.documents.passages import Item, Mark, Text

_INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd mark q s samp small span strike "
        "strong sub sup time tt u var wbr",
    )
)
KEPT_TAGS = frozenset(re.findall(r"\w+", "script style noscript template textarea svg math code pre samp kbd var"))
VOID_TAGS = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))
_LEXEMES = re.compile(r"[ \t\n\r\f]+|&#?\w+;?|[^ \t\n\r\f&]+|&")
_SPACES = re.compile(r"[ \t\n\r\f]+")
_LONGEST_KEPT = 100  # characters of what a sentence may have inside and is not translated


@dataclass(frozen=True)
class Token:
    """A stretch of HTML.

    Attributes:
        kind: ``text``; ``open``, ``close`` or ``void`` for a tag inside a line; ``kept`` for an element inside a line
            whose words stay; ``break`` for anything else.
        raw: Its characters.
        name: Of a tag inside a line.
        text: Of what is kept.
    """

    kind: str
    raw: str
    name: str = ""
    text: str = ""


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
        if self._kept:
            # Of an element inside a line, what it begins with, what is within, and its words.
            inside = self._kept[0] in _INLINE
            kind = ("kept words" if kind == "text" else "kept") if inside else "break"
        self.events.append((self._lines[line - 1] + column, kind, name))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._kept:
            if tag == self._kept[0]:
                self._kept = (tag, self._kept[1] + 1)
            self._note("break")
            return
        known = dict(attrs)
        classes = (known.get("class") or "").split()
        if tag not in VOID_TAGS and (tag in KEPT_TAGS or known.get("translate") == "no" or "notranslate" in classes):
            self._note("kept begin" if tag in _INLINE else "break")
            self._kept = (tag, 1)
        elif tag in _INLINE:
            self._note("void" if tag in VOID_TAGS else "open", tag)
        else:
            self._note("break")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note("void" if tag in _INLINE else "break", tag)

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
    gathered: list[tuple[str, str]] = []  # stretches of what becomes one token, with their kinds

    def close() -> None:
        if gathered:
            tokens.append(_one_token(gathered))
            gathered.clear()

    for (start, kind, name), end in zip(events, ends, strict=True):
        if start == end:
            continue
        family = kind.partition(" ")[0]
        if gathered and (family != gathered[0][0].partition(" ")[0] or kind == "kept begin"):
            close()
        if family in ("text", "kept"):
            gathered.append((kind, source[start:end]))
        else:
            tokens.append(Token(kind, source[start:end], name))
    close()
    return tokens


def _one_token(gathered: list[tuple[str, str]]) -> Token:
    raw = "".join(part for _, part in gathered)
    if gathered[0][0] == "text":
        return Token("text", raw)
    words = _SPACES.sub(" ", html.unescape("".join(part for kind, part in gathered if kind == "kept words"))).strip()
    if not gathered[-1][1].startswith("</") or len(words) > _LONGEST_KEPT:
        return Token("break", raw)  # what has no end is not inside a line
    return Token("kept", raw, text=words) if words else Token("void", raw)


def read_html(content: bytes, options: DocumentOptions) -> Document:
    """Take HTML apart.

    Raises:
        DataError: It is not UTF-8 text.
    """
    start, source = decode(content)
    return cut_html(source, start)


def cut_html(source: str, start: bytes = b"") -> TextDocument:
    """Return the passages of HTML, or of a part of it, and what is around them.

    Args:
        source: The HTML.
        start: Bytes before it.
    """
    layout = Layout(write_html)
    block: list[Item] = []
    for token in [*read_tokens(source), Token("break", "")]:
        if token.kind == "break":
            if block:
                layout.add(block)
                block = []
            layout.keep(token.raw)
        elif token.kind == "text":
            block += _texts(token.raw, follows_space=_ends_in_space(block))
        else:
            block.append(_mark(token))
    return layout.document(start)


def _mark(token: Token) -> Mark:
    if token.kind == "kept":
        return Mark("kept", token.raw, text=token.text)
    return Mark("open" if token.kind == "open" else "close" if token.kind == "close" else "void", token.raw, token.name)


def _ends_in_space(block: list[Item]) -> bool:
    """Whether white space that follows is not shown: it is behind other white space, and no picture is between."""
    last = next(
        (item for item in reversed(block) if item.text or (isinstance(item, Mark) and item.kind == "void")), None
    )
    return last is not None and last.text.endswith(" ")


def _texts(raw: str, *, follows_space: bool) -> Iterator[Item]:
    """Yield text as a browser shows it: white space is one space."""
    for found in _LEXEMES.finditer(raw):
        lexeme = found[0]
        if lexeme[0] in " \t\n\r\f":
            if follows_space:
                yield Mark("space", lexeme)
            else:
                yield Text(" ", None if lexeme == " " else lexeme)
            follows_space = True
            continue
        read = html.unescape(lexeme) if lexeme[0] == "&" else lexeme
        yield Text(read, None if read == lexeme else lexeme)
        follows_space = False


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


write_html = write_with(_escaped)
"""Returns a translated passage as HTML."""
