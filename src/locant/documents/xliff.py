"""XLIFF 1.2 and 2: what has no translation gets one; all else stays, byte by byte."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from locant.documents.formats import Document, DocumentOptions, TextDocument, Write, decode, write_with
from locant.documents.markup import attributes, entity_texts, escaping, shown_texts, stretches, unescaped
from locant.documents.office import parse_xml
from locant.documents.passages import Item, Mark, Passage, Written, message_marks, with_marks
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
    root = parse_xml(content, "XLIFF", "it")
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
                ends = (at for at in range(number, len(tokens)) if tokens[at].kind == "close")
                end = next((at for at in ends if _name(tokens[at]) == _name(token)), number)
                if unit := _find_unit(tokens[number - 1 : end], preserved=preserved):
                    passage, write, size = unit
                    document.add(passage, write)
                    number += size - 1
                    continue
        elif token.kind == "close":
            around.pop()
        noted = token.kind == "open" and _name(token) == language_of
        document.keep(partial(_in_language, token.raw, _LANGUAGES[language_of]) if noted else token.raw)
    return document


def _name(token: Mark) -> str:
    return token.name.rpartition(":")[2]


def _find_unit(tokens: Sequence[Mark], *, preserved: bool) -> tuple[Passage, Write, int] | None:
    """Return the source of a unit, what writes the unit, and how many tokens it is up to where its translation is.

    Args:
        tokens: From the tag of the unit on; there is none where it has a translation, or characters in CDATA.
        preserved: Whether white space counts.
    """
    names = [(token.kind, _name(token)) for token in tokens]
    if ("open", "source") not in names:
        return None
    first, last = names.index(("open", "source")), names.index(("close", "source"))
    size = (names.index(("close", "seg-source")) if ("close", "seg-source") in names else last) + 1
    if any(kind == "break" for kind, _ in names[first:size]):
        return None
    target = size
    while target < len(tokens) and tokens[target].kind in ("text", "break"):
        target += 1
    new_state = _NEW_STATE[_name(tokens[0])]
    name = f"{tokens[first].name.removesuffix('source')}target"
    if names[target : target + 1] == [("void", "target")]:
        size = target + 1
    elif names[target : target + 1] == [("open", "target")]:
        size = names.index(("close", "target"), target) + 1
        is_empty = all(token.kind == "text" and not token.raw.strip() for token in tokens[target + 1 : size - 1])
        if not is_empty and not {attributes(tokens[at].raw).get("state") for at in (0, target)} & _UNTOUCHED:
            return None
    else:
        target = size
    raws = [token.raw for token in tokens[:size]]
    head = [re.sub(r"""(\sstate=)(["'])\w+\2""", rf"\g<1>\g<2>{new_state}\2", raws[0]), *raws[1:target]]
    if target < size:
        tag = re.sub(r"\s*/>$", ">", raws[target])
        head.append(re.sub(r"""(\sstate=)(["'])[\w-]+\2""", rf"\g<1>\g<2>{new_state}\2", tag))
    else:
        space = tokens[first - 1]
        own = f' state="{new_state}"' if _name(tokens[0]) == "trans-unit" else ""
        head += [space.raw if space.kind == "text" else "", f"<{name}{own}>"]
    passage = _items(tokens[first + 1 : last], preserved)
    write_target = write_with(escaping(passage))

    def write(written: Written) -> str:
        if not any(isinstance(part, str) for part in written):
            return "".join(raws)  # without a translation it stays
        return f"{''.join(head)}{write_target(written)}</{name}>"

    return passage, write, size


def _items(tokens: Sequence[Mark], preserved: bool) -> list[Item]:
    """Return the texts of a source, with its codes as marks."""
    items: list[Item] = []
    names: list[str] = []  # of the marks that are open
    kept: list[Mark] = []  # of an element that stays
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
            texts = [] if preserved else list(shown_texts(token.raw, follows_space=False))
            for line in re.split(r"(\r?\n)", token.raw) if preserved else ():
                # A line break ends a sentence where white space counts.
                texts += [Mark("break", line)] if line.endswith("\n") else entity_texts(line)
            items += with_marks(texts, message_marks)
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


def _in_language(tag: str, attribute: str, language: str | None) -> str:
    """Return a tag that says the language of the targets, if it does not yet."""
    if language is None or attribute.lower() in attributes(tag):
        return tag
    return f'{tag[:-1]} {attribute}="{parse_language(language).tag}">'
