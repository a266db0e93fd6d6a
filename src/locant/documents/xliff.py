"""XLIFF 1.2 and 2: what has no translation gets one; all else stays, byte by byte."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from locant.documents.formats import Document, DocumentOptions, TextDocument, decode, write_with
from locant.documents.markup import Token, attributes, escaping, shown_texts, stretches, unescaped
from locant.documents.office import parse_xml
from locant.documents.passages import Item, Mark, Passage, Text, Written, in_messages
from locant.errors import DataError
from locant.languages import parse_language

_UNITS = {"trans-unit", "segment"}
_POINTS = {"x", "bx", "ex", "ph", "bpt", "ept", "it", "sc", "ec", "cp", "sm", "em"}  # codes, not words
_LANGUAGES = {"file": "target-language", "xliff": "trgLang"}  # of version 1.2, and of 2
_UNTOUCHED = {"new", "needs-translation", "initial"}  # states of a target that is no translation yet
_NEW_STATE = {"trans-unit": "needs-review-translation", "segment": "translated"}


def read_xliff(content: bytes, options: DocumentOptions) -> Document:
    """Take XLIFF apart.

    Raises:
        DataError: It is no XML, no XLIFF of version 1.2 or 2, or not UTF-8.
        MissingExtraError: The package ``lxml`` is not installed.
    """
    start, text = decode(content)
    root = parse_xml(content, "XLIFF", "it").getroot()
    version = str(root.get("version"))
    if not str(root.tag).endswith("xliff") or not (version == "1.2" or version.startswith("2.")):
        raise DataError("The document is no XLIFF of version 1.2 or 2.")
    language_of = "file" if version == "1.2" else "xliff"
    tokens = list(stretches(text, is_xml=True))
    document = TextDocument(start)
    around = [(True, False)]  # of each element whether it is translated, and whether its white space counts
    number = 0
    while number < len(tokens):
        token = tokens[number]
        number += 1
        if token.kind == "open":
            said = attributes(token.raw)
            translated = {"yes": True, "no": False}.get(said.get("translate", ""), around[-1][0])
            preserved = said["xml:space"] == "preserve" if "xml:space" in said else around[-1][1]
            around.append((translated, preserved))
            if translated and _name(token) in _UNITS:
                end = next((at for at in range(number, len(tokens)) if _is(tokens[at], "close", _name(token))), number)
                if unit := _Unit.found(tokens[number - 1 : end], preserved=preserved):
                    document.add(unit.passage, unit.write)
                    number += unit.size - 1
                    continue
        elif token.kind == "close":
            around.pop()
        noted = token.kind == "open" and _name(token) == language_of
        document.keep(partial(_in_language, token.raw, _LANGUAGES[language_of]) if noted else token.raw)
    return document


def _name(token: Token) -> str:
    return token.name.rpartition(":")[2]


def _is(token: Token, kind: str, name: str) -> bool:
    return token.kind == kind and _name(token) == name


class _Unit:
    """A source without a translation, from the tag around it to where the translation has its place.

    Args:
        tokens: From the tag around the source to behind its target.
        source: Where the source begins and ends among them.
        target: Where the target begins; ``None`` where there is none.
        preserved: Whether white space counts.
    """

    def __init__(self, tokens: Sequence[Token], source: tuple[int, int], target: int | None, preserved: bool) -> None:
        self.size = len(tokens)
        self.passage: Passage = _items(tokens[source[0] + 1 : source[1]], preserved)
        self._raw = "".join(token.raw for token in tokens)
        tags = [token.raw for token in tokens[: self.size if target is None else target]]
        state = _NEW_STATE[_name(tokens[0])]
        tags[0] = re.sub(r"""(\sstate=)(["'])\w+\2""", rf"\g<1>\g<2>{state}\2", tags[0])
        prefix = tokens[source[0]].name.removesuffix("source")
        space = tokens[source[0] - 1]
        if target is None:
            own = ' state="needs-review-translation"' if _name(tokens[0]) == "trans-unit" else ""
            tags += [space.raw if space.kind == "text" else "", f"<{prefix}target{own}>"]
        else:
            tag = re.sub(r"\s*/>$", ">", tokens[target].raw)
            tags.append(re.sub(r"""(\sstate=)(["'])[\w-]+\2""", rf"\g<1>\g<2>{state}\2", tag))
        self._head, self._tail = "".join(tags), f"</{prefix}target>"

    @classmethod
    def found(cls, tokens: Sequence[Token], *, preserved: bool) -> _Unit | None:
        """Return the unit that tokens begin with; ``None`` where it has a translation, or characters in CDATA."""
        names = [(token.kind, _name(token)) for token in tokens]
        if ("open", "source") not in names:
            return None
        source = names.index(("open", "source")), names.index(("close", "source"))
        last = names.index(("close", "seg-source")) if ("close", "seg-source") in names else source[1]
        if any(kind == "break" for kind, _ in names[source[0] : last]):
            return None
        target = last + 1
        while target < len(tokens) and tokens[target].kind in ("text", "break"):
            target += 1
        if names[target : target + 1] == [("void", "target")]:
            return cls(tokens[: target + 1], source, target, preserved)
        if names[target : target + 1] != [("open", "target")]:
            return cls(tokens[: last + 1], source, None, preserved)
        end = names.index(("close", "target"), target)
        inside = tokens[target + 1 : end]
        is_empty = all(token.kind == "text" and not token.raw.strip() for token in inside)
        states = {attributes(tokens[at].raw).get("state") for at in (0, target)}
        return cls(tokens[: end + 1], source, target, preserved) if is_empty or states & _UNTOUCHED else None

    def write(self, passage: Written) -> str:
        """Return the unit with a translation; without one it stays."""
        if not any(isinstance(part, str) for part in passage):
            return self._raw
        return f"{self._head}{write_with(escaping(self.passage))(passage)}{self._tail}"


def _items(tokens: Sequence[Token], preserved: bool) -> list[Item]:
    """Return the texts of a source, with its codes as marks."""
    items: list[Item] = []
    names: list[str] = []  # of the marks that are open
    kept: list[Token] = []  # of an element that stays
    depth = 0
    for token in tokens:
        if kept:
            kept.append(token)
            depth += {"open": 1, "close": -1}.get(token.kind, 0)
            if not depth:
                raw = "".join(each.raw for each in kept)
                words = unescaped("".join(each.raw for each in kept if each.kind == "text"))
                is_word = _name(kept[0]) not in _POINTS and words.strip()
                items.append(Mark("kept", raw, text=words) if is_word else Mark("void", raw))
                kept = []
        elif token.kind == "text":
            items += in_messages(_lines(token.raw) if preserved else shown_texts(token.raw, follows_space=False))
        elif token.kind == "void":
            items.append(Mark("void", token.raw))
        elif token.kind == "close":
            items.append(Mark("close", token.raw, names.pop()))
        else:
            said = attributes(token.raw)
            if _name(token) in _POINTS or said.get("translate") == "no" or said.get("mtype") == "protected":
                kept, depth = [token], 1
            else:
                names.append(f"{token.name} {len(items)}")
                items.append(Mark("open", token.raw, names[-1]))
    return items


def _lines(raw: str) -> list[Item]:
    """Return text whose white space counts: a line break ends a sentence."""
    parts = re.split(r"(\r?\n|&[^;\s]*;)", raw)
    return [
        Text(part) if not number % 2 else Mark("break", part) if part.endswith("\n") else Text(unescaped(part), part)
        for number, part in enumerate(parts)
        if part
    ]


def _in_language(tag: str, attribute: str, language: str | None) -> str:
    """Return a tag that says the language of the targets, if it does not yet."""
    if language is None or attribute.lower() in attributes(tag):
        return tag
    return f'{tag[:-1]} {attribute}="{parse_language(language).tag}">'
