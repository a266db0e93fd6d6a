"""HTML: texts are translated, tags stay.

Tags, comments and attributes stay as they are, character by character: nothing is repaired and no tree is built, so
neither nesting nor missing end tags matter. A passage is what is between tags that are not part of a line, as
``<b>`` and ``<a>`` are.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from locant.documents.formats import (
    LONGEST_KEPT,
    Document,
    DocumentOptions,
    TextDocument,
    decode,
    write_with,
)
from locant.documents.passages import Item, Mark, Text
from locant.languages import parse_language

_INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd mark math q rb ruby s samp small "
        "span strike strong sub sup svg time tt u var wbr",
    )
)
KEPT_TAGS = frozenset(re.findall(r"\w+", "script style noscript template textarea svg math code pre samp kbd var"))
VOID_TAGS = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))
_READINGS = frozenset({"rt", "rp"})  # of a word, which are no part of the sentence
_UNSEEN = _READINGS | {""}  # and comments
_RAW = frozenset({"script", "style", "textarea"})  # in which tags are none
_RIGHT_TO_LEFT = {"Adlm", "Arab", "Hebr", "Nkoo", "Rohg", "Syrc", "Thaa"}  # scripts
_TAG = re.compile(
    r"(?:<!--(?:-?|.*?--!?)|<!\[CDATA\[.*?\]\]|<\?(?:php|=)(?:[^?<]|\?(?!>)|<(?!\?))*+\?"
    r"|<(?!!--|!\[CDATA\[)(?:[!?]|/(?![A-Za-z]))[^>]*"
    r"|<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*)(?P<attributes>(?:=\s*(?:\"[^\"]*\"|'[^']*')|[^>])*+))>"
    r"|(?P<unfinished><[A-Za-z/!?])",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>]+))?""")
_ENTITY = r"&(?:#\w{1,12}|[A-Za-z]\w{0,31});?"
ENTITIES = re.compile(_ENTITY)
_LEXEMES = re.compile(rf"[ \t\n\r\f]+|{_ENTITY}|[^ \t\n\r\f&]+(?: [^ \t\n\r\f&]+)*|&")
_SPACES = re.compile(r"[ \t\n\r\f]+")


def unescaped(text: str) -> str:
    """Return text with its entities as characters; numbers that are too long for one stay."""
    return ENTITIES.sub(lambda found: html.unescape(found[0]), text)


def entity_texts(raw: str) -> Iterator[Text]:
    """Yield text as it is read, its entities apart."""
    place = 0
    for found in ENTITIES.finditer(raw):
        read = unescaped(found[0])
        yield from (Text(raw[place : found.start()]), Text(read, None if read == found[0] else found[0]))
        place = found.end()
    yield Text(raw[place:])


def stretches(source: str, *, is_xml: bool = False) -> Iterator[Mark]:
    """Yield HTML as marks: tags as ``open``, ``close`` and ``void``, texts as ``text``, and what else there is.

    The characters that they hold, joined, are the source; what is no tag and no text is a ``break``.

    Args:
        source: The HTML.
        is_xml: Whether it is XML, in which no names have meanings of their own.
    """
    place, end = 0, source.rfind(">") + 1
    while found := _TAG.search(source, place, end):
        if place < found.start():
            yield Mark("text", source[place : found.start()])
        if found["unfinished"]:  # all that follows is a comment
            yield Mark("break", source[found.start() :])
            return
        place = found.end()
        if not found["name"]:
            is_comment = found[0].startswith("<!--") and not is_xml  # which is not seen
            yield Mark("void" if is_comment else "break", found[0])
            continue
        name = found["name"].lower()
        is_void = (name in VOID_TAGS and not is_xml) or found["attributes"].endswith("/")
        yield Mark("close" if found["end"] else "void" if is_void else "open", found[0], name)
        if name in _RAW and not found["end"] and not is_xml:
            closed = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(source, place)
            stop = closed.start() if closed else len(source)
            if place < stop:
                yield Mark("text", source[place:stop])
            place = stop
    if place < len(source):
        yield Mark("text", source[place:])


def attributes(tag: str) -> dict[str, str]:
    """Return the attributes of a tag, with names in lower case; the name of the tag is there without a value."""
    return {found[1].lower(): (found[2] or "").strip("\"'") for found in _ATTRIBUTE.finditer(tag)}


def _is_translated(tag: Mark) -> bool | None:
    """Return whether the content of an element is translated; ``None`` where it does not say so."""
    if tag.name not in _RAW and "translate" in tag.raw.lower():
        given = attributes(tag.raw)
        said = given["translate"].lower() if "translate" in given else None
        classes = given.get("class", "").lower().split()
        if said == "no" or "notranslate" in classes:
            return False
        if said in ("yes", "") or "translate" in classes:
            return True
    return False if tag.name in KEPT_TAGS or tag.name in _READINGS else None


def read_tokens(source: str) -> Iterator[Mark]:
    """Yield the stretches of HTML; their raw characters, joined, are the source."""
    # Elements that say whether they are translated, and those of the same names within, with what holds in them.
    around: list[tuple[str, bool]] = []
    names: Counter[str] = Counter()
    kept: list[Mark] = []  # stretches of an element that stays

    def leave(name: str) -> None:
        while True:
            last, _ = around.pop()
            names[last] -= 1
            if last == name:
                return

    for token in stretches(source):
        ends_reading = token.name == "ruby" or (token.kind == "open" and token.name in _READINGS)
        if ends_reading and around and around[-1][0] in _READINGS:  # one without an end tag
            leave(around[-1][0])
        before = not around or around[-1][1]
        if token.kind == "open":
            says = _is_translated(token)
            if says is not None or names[token.name]:
                around.append((token.name, before if says is None else says))
                names[token.name] += 1
        elif token.kind == "close" and names[token.name]:
            leave(token.name)
        after = not around or around[-1][1]
        is_kept = not (after if token.kind == "open" else before)
        if kept and (not is_kept or (before and token.kind == "open")):
            yield _one_token(kept)
            kept = []
        if is_kept:
            kept.append(token)
            if after:
                yield _one_token(kept)
                kept = []
        else:
            is_inside = not token.name or token.name in _INLINE
            yield token if is_inside else replace(token, kind="break")
    if kept:
        yield _one_token(kept)


def _one_token(kept: Sequence[Mark]) -> Mark:
    """Return an element that stays, or a part of one, as one stretch."""
    raw = "".join(token.raw for token in kept)
    if kept[0].kind == "open" and kept[0].name in _READINGS:
        return Mark("void", raw, kept[0].name)
    texts = () if kept[0].name == "svg" else (token.raw for token in kept if token.kind == "text")
    words = _SPACES.sub(" ", unescaped("".join(texts))).strip()
    is_whole = kept[0].kind == "open" and kept[-1].kind == "close" and kept[0].name in _INLINE
    if not is_whole or len(words) > LONGEST_KEPT:
        return Mark("break", raw)  # what has no end is not inside a line
    return Mark("kept", raw, text=words) if words else Mark("void", raw, kept[0].name)


def read_html(content: bytes, options: DocumentOptions) -> Document:
    """Take HTML apart.

    Raises:
        DataError: It is not UTF-8 text, or has too many tags.
    """
    start, source = decode(content)
    return cut_html(source, start)


def cut_html(source: str, start: bytes = b"") -> TextDocument:
    """Return the passages of HTML, or of a part of it, and what is around them.

    Args:
        source: The HTML.
        start: Bytes before it.

    Raises:
        DataError: It has too many tags.
    """
    document = TextDocument(start)
    block: list[Item] = []
    for token in [*read_tokens(source), Mark("break", "")]:
        if token.kind == "break":
            if block:
                document.add(block, write_with(escaping(block)))
                block = []
            document.keep(partial(_in_language, token.raw) if token.name == "html" else token.raw)
        elif token.kind == "text":
            block += shown_texts(token.raw, follows_space=_ends_in_space(block))
        else:
            block.append(token)
    return document


def _in_language(tag: str, language: str | None) -> str:
    """Return the first tag of a page with the language in the place of another, and with the way it is written."""
    if language is None:
        return tag
    said = parse_language(language)
    values = {"lang": said.tag, "xml:lang": said.tag, "dir": "rtl" if said.script in _RIGHT_TO_LEFT else "ltr"}

    def say(found: re.Match[str]) -> str:
        value = values.get(found[1].lower())
        if value is None or found[2] is None:
            return found[0]
        quote = found[2][0] if found[2][0] in "\"'" else ""
        return f"{found[0].removesuffix(found[2])}{quote}{value}{quote}"

    return _ATTRIBUTE.sub(say, tag)


def _ends_in_space(block: list[Item]) -> bool:
    """Whether white space that follows is not shown: it is behind other white space, and no picture is between."""
    for item in reversed(block):
        if item.text or (isinstance(item, Mark) and item.kind == "void" and item.name not in _UNSEEN):
            return item.text.endswith(" ")
    return False


def shown_texts(raw: str, *, follows_space: bool) -> Iterator[Item]:
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
        read = html.unescape(lexeme) if lexeme[0] == "&" and lexeme != "&" else lexeme
        yield Text(read, None if read == lexeme else lexeme)
        follows_space = False


def escaping(passage: Sequence[Item]) -> Callable[[str], str]:
    """Return what escapes the translation of a passage: signs that it has without need of an entity have none."""
    bare = "".join(item.text for item in passage if isinstance(item, Text) and item.raw is None)
    is_tag = re.compile("<(?=[A-Za-z/!?])")  # which is no tag only as long as none ends it

    def escape(text: str) -> str:
        if "&" in bare:
            text = ENTITIES.sub(
                lambda found: found[0] if html.unescape(found[0]) == found[0] else f"&amp;{found[0][1:]}", text
            )
        else:
            text = text.replace("&", "&amp;")
        text = is_tag.sub("&lt;", text) if "<" in bare else text.replace("<", "&lt;")
        return text if ">" in bare and not is_tag.search(bare) else text.replace(">", "&gt;")

    return escape
