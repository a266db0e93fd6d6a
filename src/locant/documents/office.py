"""Packages of XML in a zip, as word processors write them, read within limits, and written with paragraphs changed."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from locant.documents.formats import DocumentOptions, check_items
from locant.documents.passages import Item, Mark, Passage, Text, Written
from locant.errors import DataError
from locant.languages import parse_language
from locant.lazy import require_package

Element = Any
"""An element of lxml, which is imported where it is needed."""
Tree = Any
"""A tree of such elements."""
_MOST_MEMBERS = 10_000
_ENCRYPTED = 0x1  # of the flags of a member
_LETTER = re.compile(r"[^\W\d_]")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


# Word processors note three languages of a text, of which the script decides.
_ASIAN = {"Hans", "Hant", "Hani", "Jpan", "Kore"}
_COMPLEX = {
    *("Arab", "Hebr", "Thaa", "Syrc", "Deva", "Beng", "Taml", "Telu", "Guru", "Gujr", "Knda", "Mlym", "Sinh", "Orya"),
    *("Olck", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"),
}
_REGIONS = {"Hans": "CN", "Hant": "TW"}
"""Where the scripts of Chinese are written, which word processors tell apart by region."""


@dataclass(frozen=True)
class Language:
    """A language as word processors note it.

    Attributes:
        code: As BCP 47 has it, without script and region.
        region: ISO 3166, or nothing.
        kind: Which of the three languages of a text it is: those of East Asia, those of scripts that run from right to
            left or join and stack their letters, and all others.
    """

    code: str
    region: str
    kind: Literal["western", "asian", "complex"]

    @classmethod
    def of(cls, name: str) -> Language:
        """Return the language that a model's code names: ``de``, ``pt-BR``, ``zh_Hans``, ``deu_Latn``."""
        said = parse_language(name)
        region = said.region or (_REGIONS.get(said.script, "") if said.says_script else "")
        script = said.script
        return cls(said.code, region, "asian" if script in _ASIAN else "complex" if script in _COMPLEX else "western")


@dataclass(frozen=True)
class Around:
    """What marks hold that stand around words.

    Attributes:
        element: The element.
        inner: Where in it the words are.
    """

    element: Element
    inner: Element


class Paragraph(ABC):
    """A paragraph: its passage, and how it is written anew.

    Attributes:
        element: The paragraph.
        passage: What it says.
    """

    def __init__(self, element: Element) -> None:
        self.element = element
        self._names = 0
        self.passage: Passage = tuple(self._items(element))

    @abstractmethod
    def _items(self, parent: Element) -> Iterator[Item]:
        """Yield the texts and marks within an element."""

    @abstractmethod
    def _write(self, parent: Element, part: str | Mark) -> None:
        """Add words, or what a mark holds that stands around nothing."""

    @abstractmethod
    def _empty(self, element: Element) -> None:
        """Take out of an element what is translated and what stands between."""

    def _unique(self, name: str) -> str:
        self._names += 1
        return f"{name} {self._names}"

    def _around(self, element: Element, inner: Element) -> Iterator[Item]:
        """Yield an element around words, and these."""
        name, raw = self._unique("around"), Around(element, inner)
        yield Mark("open", raw, name)
        yield from self._items(inner)
        yield Mark("close", raw, name)

    def rebuild(self, written: Written) -> None:
        """Put a translated passage in the place of the content; elements of the source move, none is copied."""
        self._empty(self.element)
        parents = [self.element]
        for part in _joined(written):
            if isinstance(part, str) or not isinstance(part.raw, Around):
                self._write(parents[-1], part)
            elif part.kind == "open":
                self._empty(part.raw.inner)
                parents[-1].append(part.raw.element)
                part.raw.element.tail = None
                parents.append(part.raw.inner)
            else:
                parents.pop()


@dataclass
class Part:
    """A file of XML in a package.

    Attributes:
        name: Of the file.
        tree: What it holds.
        paragraphs: In the order of the file; one within another stands behind it.
    """

    name: str
    tree: Tree
    paragraphs: Sequence[Paragraph]


def read_part(
    name: str, tree: Tree, is_paragraph: Callable[[Element], bool], read: Callable[[Element], Paragraph]
) -> Part:
    """Return a file of XML with those of its paragraphs that have words; of others nothing is kept.

    Args:
        name: Of the file.
        tree: What it holds.
        is_paragraph: Whether an element is a paragraph whose words are translated.
        read: Takes a paragraph apart.
    """
    found = set()
    for element in tree.iter():
        for text, owner in ((element.text, element), (element.tail, element.getparent())):
            if text and _LETTER.search(text):
                while owner is not None and not is_paragraph(owner):
                    owner = owner.getparent()
                found.add(owner)
    paragraphs = [read(element) for element in tree.iter() if element in found]
    return Part(
        name,
        tree,
        [
            each
            for each in paragraphs
            if any(_LETTER.search(item.text) for item in each.passage if isinstance(item, Text))
        ],
    )


NoteLanguage = Callable[[Tree, Sequence[Element], Language], bool]
"""Notes the language of the translated paragraphs of a part; returns whether it has changed anything."""


class OfficeDocument:
    """A document of paragraphs in a package.

    Args:
        package: The package.
        parts: Those with paragraphs, or with what the language of paragraphs is noted in.
        note: Notes the language of translations.
    """

    def __init__(self, package: Package, parts: Sequence[Part], note: NoteLanguage) -> None:
        self._package, self._parts, self._note = package, parts, note
        self.passages: list[Passage] = [paragraph.passage for part in parts for paragraph in part.paragraphs]

    def written(self, translated: Sequence[Written], language: str | None = None) -> bytes:
        """Return the document with its passages translated; paragraphs without a translation stay as they are.

        Its paragraphs are changed, so it can be written once.
        """
        from lxml import etree

        remaining = iter(translated)
        rebuilt: dict[str, list[Element]] = {part.name: [] for part in self._parts}
        for part in self._parts:
            pairs = [(paragraph, next(remaining)) for paragraph in part.paragraphs]
            for paragraph, written in reversed(pairs):  # those within others first
                if any(isinstance(each, str) for each in written):
                    paragraph.rebuild(written)
                    rebuilt[part.name].append(paragraph.element)
        is_noted = language is not None and any(rebuilt.values())
        changed: dict[str, bytes] = {}
        for part in self._parts:
            noted = is_noted and self._note(part.tree, rebuilt[part.name], Language.of(str(language)))
            if noted or rebuilt[part.name]:
                changed[part.name] = etree.tostring(
                    part.tree, xml_declaration=True, encoding="UTF-8", standalone=part.tree.docinfo.standalone
                )
        return self._package.written(changed)


def parse_xml(content: bytes, title: str, name: str) -> Tree:
    """Return XML; nothing outside of it is read, and no entity is expanded.

    Args:
        content: The XML.
        title: What a document with it is called.
        name: What it is called itself.

    Raises:
        DataError: It is no XML, has too many elements and attributes, or declares entities.
        MissingExtraError: The package ``lxml`` is not installed.
    """
    require_package("lxml", f"Reading {title}")
    from lxml import etree

    check_items(content.count(b"<") + content.count(b"="))
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        tree = etree.parse(io.BytesIO(content), parser)
    except etree.XMLSyntaxError as error:
        raise DataError(f"The document is damaged: {name} is no XML ({str(error.msg)[:100]}).") from None
    if tree.docinfo.doctype or tree.docinfo.internalDTD is not None:
        raise DataError(f"The document is no {title}: {name} declares a document type.")
    return tree


class Package:
    """A zip of files.

    Args:
        content: The zip.
        title: What such a document is called.
        options: With the limits.

    Raises:
        DataError: It is no zip, is damaged or encrypted, or would be too large unpacked.
    """

    def __init__(self, content: bytes, title: str, options: DocumentOptions) -> None:
        self._title = title
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, OSError) as error:
            raise DataError(f"The document is no {title}: it is no zip file, or a damaged one.") from error
        members = self._zip.infolist()
        self.names = {member.filename for member in members}
        size = sum(member.file_size for member in members)
        if len(members) > _MOST_MEMBERS or size > options.largest_unpacked:
            raise DataError(
                f"The document has {len(members):,} files of {size:,} bytes inside; at most {_MOST_MEMBERS:,} of "
                f"{options.largest_unpacked:,} are read."
            )
        if len(self.names) < len(members):
            raise DataError(f"The document is no {title}: it has two files of the same name.")
        if any(member.flag_bits & _ENCRYPTED for member in members):
            raise DataError("The document is encrypted. Save it without a password.")
        if any(member.compress_type not in _METHODS for member in members):
            raise DataError(f"The document is no {title}: it is packed in a way that such documents are not.")

    def read(self, name: str) -> bytes:
        """Return a file.

        Raises:
            DataError: It is missing or damaged.
        """
        try:
            return self._zip.read(name)
        except KeyError:
            raise DataError(f"The document is no {self._title}: {name} is missing in it.") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise DataError(f"The document is damaged: {name} in it cannot be unpacked.") from error

    def parse(self, name: str) -> Tree:
        """Return a file of XML; nothing outside of it is read, and no entity is expanded.

        Raises:
            DataError: It is missing, damaged, no XML, has too many elements and attributes, or declares entities.
            MissingExtraError: The package ``lxml`` is not installed.
        """
        return parse_xml(self.read(name), self._title, f"{name} in it")

    def written(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the package with some files changed; all others, and their order, stay."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for member in self._zip.infolist():
                copy = zipfile.ZipInfo(member.filename, member.date_time)
                copy.compress_type, copy.external_attr = member.compress_type, member.external_attr
                copy.create_system, copy.comment = member.create_system, member.comment
                found = changed.get(member.filename)
                target.writestr(copy, self.read(member.filename) if found is None else found)
        return out.getvalue()


def _joined(written: Written) -> Iterator[str | Mark]:
    """Yield the marks of a translated passage but those for white space, and what is written between two of them."""
    words: list[str] = []
    for part in [*written, None]:
        if isinstance(part, (str, Text)):
            words.append(part if isinstance(part, str) else part.text)
        elif part is None or part.kind != "space":
            if text := "".join(words):
                yield text
            words.clear()
            if part:
                yield part
