"""HTML: texts are translated, tags stay.

Tags, comments and attributes stay as they are, character by character: nothing is repaired and no tree is built, so
neither nesting nor missing end tags matter. A passage is what is between tags that are not part of a line, as
``<b>`` and ``<a>`` are.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from locant.documents.formats import LONGEST_KEPT, Document, DocumentOptions, TextDocument, decode, write_with
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
_TAG_START = re.compile("<(?=[A-Za-z/!?])")  # in a text, of a tag that has no end
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


def _is_kept(tag: Mark) -> bool:
    """Whether the content of an element stays."""
    if tag.name not in _RAW and "translate" in tag.raw.lower():
        given = attributes(tag.raw)
        classes = given.get("class", "").lower().split()
        if given.get("translate", "").lower() == "no" or "notranslate" in classes:
            return True
        if "translate" in given or "translate" in classes:
            return False
    return tag.name in KEPT_TAGS or tag.name in _READINGS


def read_tokens(source: str) -> Iterator[Mark]:
    """Yield the stretches of HTML, what stays of an element as one; their raw characters, joined, are the source."""
    kept: list[Mark] = []  # stretches of an element that stays
    depth = 0  # of elements of its name
    for token in stretches(source):
        if kept and kept[0].name in _READINGS and (token.name == "ruby" or token.name in _READINGS):
            if token.kind == "close" and token.name == kept[0].name:
                kept.append(token)
            yield _one_token(kept)
            is_end, kept = kept[-1] is token, []
            if is_end:
                continue
        if kept:
            kept.append(token)
            depth += {"open": 1, "close": -1}.get(token.kind, 0) * (token.name == kept[0].name)
            if not depth:
                yield _one_token(kept)
                kept = []
        elif token.kind == "open" and _is_kept(token):
            kept, depth = [token], 1
        else:
            yield token if not token.name or token.name in _INLINE else replace(token, kind="break")
    if kept:
        yield _one_token(kept)


def _one_token(kept: Sequence[Mark]) -> Mark:
    """Return an element that stays as one stretch."""
    raw = "".join(token.raw for token in kept)
    if kept[0].name in _READINGS:
        return Mark("void", raw, kept[0].name)
    texts = () if kept[0].name == "svg" else (token.raw for token in kept if token.kind == "text")
    words = _SPACES.sub(" ", unescaped("".join(texts))).strip()
    is_whole = kept[-1].kind == "close" and kept[0].name in _INLINE
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
    after_space = False  # which white space that follows adds nothing to, unless a picture is between
    for token in [*read_tokens(source), Mark("break", "")]:
        if token.kind == "break":
            if block:
                document.add(block, write_with(escaping(block)))
                block = []
            after_space = False
            document.keep(partial(_in_language, token.raw) if token.name == "html" else token.raw)
        elif token.kind == "text":
            texts = list(shown_texts(token.raw, follows_space=after_space))
            after_space = next((item.text.endswith(" ") for item in reversed(texts) if item.text), after_space)
            block += texts
        else:
            after_space = after_space and not token.text and (token.kind != "void" or token.name in _UNSEEN)
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

    def ampersand(found: re.Match[str]) -> str:
        return found[0] if html.unescape(found[0]) == found[0] else f"&amp;{found[0][1:]}"

    def escape(text: str) -> str:
        text = ENTITIES.sub(ampersand, text) if "&" in bare else text.replace("&", "&amp;")
        text = _TAG_START.sub("&lt;", text) if "<" in bare else text.replace("<", "&lt;")
        return text if ">" in bare and not _TAG_START.search(bare) else text.replace(">", "&gt;")

    return escape
