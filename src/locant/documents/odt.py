"""Texts of OpenDocument (.odt): paragraphs and headings are translated, in headers, notes and frames too.

A paragraph that is translated is rebuilt from the marks of its passage: spans, links, fields, pictures, notes and
all else once and in its place; its own attributes stay. Files without a translated paragraph stay as they are, byte by
byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from locant.documents.formats import LONGEST_KEPT, Document, DocumentOptions
from locant.documents.office import Element, Language, OfficeDocument, Package, Paragraph, Tree
from locant.documents.passages import Item, Mark, Text, Written
from locant.errors import DataError

_TITLE = "OpenDocument text"
_TYPES = ("application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text-template")
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_FORMAT = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_UNSEEN = "{http://openoffice.org/2009/office}"  # attributes that word processors note for themselves
_AROUND = {f"{_TEXT}{name}" for name in ("span", "a", "meta")}
_SIGNS = {f"{_TEXT}tab", f"{_TEXT}line-break"}
_FIELDS = "page-number page-count date time title sequence chapter author-name file-name reference-ref bookmark-ref"
_KEPT = {f"{_TEXT}{name}" for name in _FIELDS.split()}
_PARAGRAPHS = (f"{_TEXT}p", f"{_TEXT}h")
_LONGEST_SPACE = 1_000
_WHITE = re.compile(r"[ \t\r\n]+")
_HIDDEN = re.compile("((?<= ) +)")  # spaces behind another


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
    names = [name for name in ("content.xml", "styles.xml") if name == "content.xml" or name in package.names]
    return OfficeDocument(
        package, names, _is_translated, lambda tree: partial(_Paragraph, unseen=_unseen_styles(tree)), _note_language
    )


def _is_translated(element: Element) -> bool:
    return element.tag in _PARAGRAPHS and next(element.iterancestors(f"{_TEXT}tracked-changes"), None) is None


def _unseen_styles(tree: Tree) -> set[str]:
    """Return the names of styles of words that change nothing that is seen."""
    found = set()
    for style in tree.iter(f"{_STYLE}style"):
        if style.get(f"{_STYLE}family") == "text" and style.get(f"{_STYLE}parent-style-name") is None:
            attributes = [str(key) for child in style for key in child.attrib]
            if all(key.startswith(_UNSEEN) for key in attributes):
                found.add(str(style.get(f"{_STYLE}name")))
    return found


class _Paragraph(Paragraph):
    """A paragraph or heading."""

    def __init__(self, element: Element, unseen: set[str]) -> None:
        self._unseen = unseen
        self._after_space = True  # white space is one space, and none at the beginning
        super().__init__(element)

    def _items(self, parent: Element) -> Iterator[Item]:
        yield from self._texts(parent.text)
        for child in parent:
            tag = child.tag
            if not isinstance(tag, str):  # a comment
                pass
            elif tag == f"{_TEXT}span" and child.get(f"{_TEXT}style-name") in self._unseen:
                yield from self._items(child)
            elif tag in _AROUND:
                yield from self._around(child, child)
            elif tag == f"{_TEXT}s":
                spaces = str(child.get(f"{_TEXT}c", "1"))
                yield Text(" " * min(int(spaces[:9]) if spaces.isdecimal() else 1, _LONGEST_SPACE))
                self._after_space = False
            elif tag == f"{_TEXT}soft-page-break":
                yield Mark("space", None)
            elif tag in _SIGNS:
                yield Mark("break", child)
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

    def _point(self, element: Element) -> Mark:
        tag = str(element.tag)
        for pair in ("bookmark", "reference-mark", "alphabetical-index-mark", "toc-mark", "user-index-mark"):
            if tag in (f"{_TEXT}{pair}-start", f"{_TEXT}{pair}-end"):
                number = element.get(f"{_TEXT}name") or element.get(f"{_TEXT}id") or ""
                return Mark("open" if tag.endswith("start") else "close", element, f"{pair} {number}")
        words = " ".join("".join(map(str, element.itertext())).split()) if tag in _KEPT else ""
        return Mark("kept" if 0 < len(words) <= LONGEST_KEPT else "void", element, text=words[:LONGEST_KEPT])

    def rebuild(self, written: Written) -> None:
        """Rebuild the paragraph."""
        self._after_space = True
        super().rebuild(written)

    def _write(self, parent: Element, part: str | Mark) -> None:
        if isinstance(part, str):
            _append_text(parent, part, after_space=self._after_space)
            self._after_space = part.endswith(" ")
        else:
            part.raw.tail = None
            parent.append(part.raw)
            self._after_space = part.raw.tag in _SIGNS

    def _empty(self, element: Element) -> None:
        element[:] = []
        element.text = None


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


def _append_text(parent: Element, text: str, *, after_space: bool) -> None:
    """Add text at the end of an element; spaces that would not be shown, as they follow others, are elements."""
    before = " " if after_space else ""
    for number, part in enumerate(_HIDDEN.split(before + text)):
        words = part if number else part.removeprefix(before)
        if number % 2:
            parent.append(parent.makeelement(f"{_TEXT}s", {f"{_TEXT}c": str(len(words))}))
        elif len(parent):
            parent[-1].tail = (parent[-1].tail or "") + words
        elif words:
            parent.text = (parent.text or "") + words
