"""Texts of OpenDocument (.odt): paragraphs and headings are translated, in headers, notes and frames too.

A paragraph that is translated is written anew from the marks of its passage: spans, links, fields, pictures, notes and
all else once and in its place; its own attributes stay. Files without a translated paragraph stay as they are, byte by
byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from locant.documents.formats import Document, DocumentOptions
from locant.documents.office import Element, Language, OfficeDocument, Package, Part, Tree, has_words, runs_of
from locant.documents.passages import Item, Mark, Passage, Text, Written
from locant.errors import DataError

_TITLE = "OpenDocument text"
_TYPES = ("application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text-template")
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_FORMAT = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_UNSEEN = "{http://openoffice.org/2009/office}"  # attributes that word processors note for themselves
_CONTAINERS = {f"{_TEXT}{name}" for name in ("span", "a", "meta")}
_SIGNS = {f"{_TEXT}tab", f"{_TEXT}line-break"}
_FIELDS = "page-number page-count date time title sequence chapter author-name file-name reference-ref bookmark-ref"
_KEPT = {f"{_TEXT}{name}" for name in _FIELDS.split()}
_LONGEST_KEPT = 100  # characters of a field
_LONGEST_SPACE = 1_000
_WHITE = re.compile(r"[ \t\r\n]+")
_SPACES = re.compile(r"( *)([^ ]*)")


def read_odt(content: bytes, options: DocumentOptions) -> Document:
    """Take a text of OpenDocument apart.

    Raises:
        DataError: It is none, is damaged or encrypted, or would be too large unpacked.
        MissingExtraError: The package ``lxml`` is not installed.
    """
    package = Package(content, _TITLE, options)
    if package.read("mimetype").decode("ascii", "replace").strip() not in _TYPES:
        raise DataError(f"The document is no {_TITLE}: its file mimetype says that it is another.")
    if "META-INF/manifest.xml" in package.names and b"encryption-data" in package.read("META-INF/manifest.xml"):
        raise DataError("The document is encrypted. Save it without a password.")
    parts = []
    for name in ("content.xml", "styles.xml"):
        if name == "styles.xml" and name not in package.names:
            continue
        tree = package.parse(name)
        unseen = _unseen_styles(tree)
        deleted = {each for changes in tree.iter(f"{_TEXT}tracked-changes") for each in changes.iter()}
        found = [_Paragraph(each, unseen) for each in tree.iter(f"{_TEXT}p", f"{_TEXT}h") if each not in deleted]
        parts.append(Part(name, tree, [each for each in found if has_words(each.passage)]))
    return OfficeDocument(package, parts, _note_language)


def _unseen_styles(tree: Tree) -> set[str]:
    """Return the names of styles of words that change nothing that is seen."""
    found = set()
    for style in tree.iter(f"{_STYLE}style"):
        if style.get(f"{_STYLE}family") == "text" and style.get(f"{_STYLE}parent-style-name") is None:
            attributes = [str(key) for child in style for key in child.attrib]
            if all(key.startswith(_UNSEEN) for key in attributes):
                found.add(str(style.get(f"{_STYLE}name")))
    return found


@dataclass(frozen=True)
class _Container:
    """An element around words."""

    element: Element


@dataclass(frozen=True)
class _Whole:
    """An element that stays as it is."""

    element: Element


class _Paragraph:
    """A paragraph or heading: its passage, and how it is written anew."""

    def __init__(self, element: Element, unseen: set[str]) -> None:
        self.element, self._unseen = element, unseen
        self._names = 0
        self._after_space = True  # white space is one space, and none at the beginning
        self.passage: Passage = tuple(self._items(element))

    def _items(self, parent: Element) -> Iterator[Item]:
        yield from self._texts(parent.text)
        for child in parent:
            tag = child.tag
            if not isinstance(tag, str):  # a comment
                pass
            elif tag in _CONTAINERS:
                yield from self._container(child)
            elif tag == f"{_TEXT}s":
                spaces = str(child.get(f"{_TEXT}c", "1"))
                yield Text(" " * min(int(spaces) if spaces.isdecimal() else 1, _LONGEST_SPACE))
                self._after_space = False
            elif tag == f"{_TEXT}soft-page-break":
                yield Mark("space", None)
            elif tag in _SIGNS:
                yield Mark("break", _Whole(child))
                self._after_space = True
            else:
                yield self._point(child)
                self._after_space = False
            yield from self._texts(child.tail)

    def _texts(self, text: str | None) -> Iterator[Item]:
        seen = _WHITE.sub(" ", text or "")
        if self._after_space:
            seen = seen.removeprefix(" ")
        if seen:
            self._after_space = seen.endswith(" ")
            yield Text(seen)

    def _container(self, child: Element) -> Iterator[Item]:
        if child.get(f"{_TEXT}style-name") in self._unseen and child.tag == f"{_TEXT}span":
            yield from self._items(child)
            return
        self._names += 1
        name = f"{child.tag} {self._names}"
        yield Mark("open", _Container(child), name)
        yield from self._items(child)
        yield Mark("close", _Container(child), name)

    def _point(self, element: Element) -> Mark:
        tag = str(element.tag)
        for pair in ("bookmark", "reference-mark", "alphabetical-index-mark", "toc-mark", "user-index-mark"):
            if tag in (f"{_TEXT}{pair}-start", f"{_TEXT}{pair}-end"):
                number = element.get(f"{_TEXT}name") or element.get(f"{_TEXT}id") or ""
                return Mark("open" if tag.endswith("start") else "close", _Whole(element), f"{pair} {number}")
        words = " ".join("".join(map(str, element.itertext())).split()) if tag in _KEPT else ""
        return Mark("kept" if 0 < len(words) <= _LONGEST_KEPT else "void", _Whole(element), text=words[:_LONGEST_KEPT])

    def rebuild(self, written: Written) -> None:
        """Write the paragraph anew."""
        _empty(self.element)
        parents = [self.element]
        after_space = True
        for part in runs_of(written):
            if isinstance(part, str):
                _append_text(parents[-1], part, after_space=after_space)
                after_space = part.endswith(" ")
                continue
            element = part.raw.element
            if isinstance(part.raw, _Whole):
                element.tail = None
                parents[-1].append(element)
                after_space = element.tag in _SIGNS
            elif part.kind == "open":
                _empty(element)
                element.tail = None
                parents[-1].append(element)
                parents.append(element)
            else:
                parents.pop()


def _note_language(tree: Tree, paragraphs: Sequence[Element], language: Language) -> bool:
    """Note the language in every style that says one of the same kind, as all the text is translated.

    What the styles are told is the document's own language, and words without a style have that of the default one.
    """
    kind = "" if language.kind == "western" else f"-{language.kind}"
    own = _STYLE if kind else _FORMAT
    code, region = f"{own}language{kind}", f"{own}country{kind}"
    scripts = (f"{own}script{kind}", f"{_STYLE}rfc-language-tag{kind}")
    found = [each for each in tree.iter(f"{_STYLE}text-properties") if each.get(code) not in (None, "zxx")]
    for properties in found:
        properties.set(code, language.code)
        properties.set(region, language.region or "none")
        for name in scripts:
            properties.attrib.pop(name, None)
    return bool(found)


def _empty(element: Element) -> None:
    for child in list(element):
        element.remove(child)
    element.text = None


def _append_text(parent: Element, text: str, *, after_space: bool) -> None:
    """Add text at the end of an element; spaces that would not be shown, as they follow others, are elements."""
    for spaces, words in _SPACES.findall(text):
        hidden = len(spaces) - (0 if after_space else 1)
        if spaces and not after_space:
            _append_words(parent, " ")
        if hidden > 0:
            parent.append(parent.makeelement(f"{_TEXT}s", {f"{_TEXT}c": str(hidden)}))
        if words:
            _append_words(parent, words)
        after_space = False


def _append_words(parent: Element, words: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + words
    else:
        parent.text = (parent.text or "") + words
