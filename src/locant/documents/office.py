"""Packages of XML in a zip, as word processors write them, read within limits, and written with paragraphs changed."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
_COMPLEX = frozenset(
    re.findall(
        r"\w+",
        "Arab Hebr Thaa Syrc Deva Beng Taml Telu Guru Gujr Knda Mlym Sinh Orya Olck Thai Laoo Khmr Mymr Tibt",
    )
)
_REGIONS = {"Hans": "CN", "Hant": "TW"}  # by which word processors tell the scripts of Chinese apart


class Language(NamedTuple):
    """A language as word processors note it.

    Attributes:
        code: As BCP 47 has it, without script and region.
        region: ISO 3166, or nothing.
        kind: Which of the three languages of a text it is: that of East Asia (``asian``), that of scripts that run from
            right to left or join and stack their letters (``complex``), or that of all others (``western``).
    """

    code: str
    region: str
    kind: str

    @classmethod
    def of(cls, name: str) -> Language:
        """Return the language that a model's code names: ``de``, ``pt-BR``, ``zh_Hans``, ``deu_Latn``."""
        said = parse_language(name)
        region = said.region or (_REGIONS.get(said.script, "") if said.says_script else "")
        script = said.script
        return cls(said.code, region, "asian" if script in _ASIAN else "complex" if script in _COMPLEX else "western")


class Around(NamedTuple):
    """What marks hold that are around words.

    Attributes:
        element: The element.
        inner: Where in it the words are.
    """

    element: Element
    inner: Element


class Paragraph(ABC):
    """A paragraph: its passage, and how it is rebuilt.

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
        """Add words, or what a mark holds that is around nothing."""

    @abstractmethod
    def _empty(self, element: Element) -> None:
        """Take out of an element what is translated and what is between."""

    def _unique(self, name: str) -> str:
        self._names += 1
        return f"{name} {self._names}"

    def _around(self, element: Element, inner: Element) -> Iterator[Item]:
        """Yield an element around words, and these."""
        name, raw = self._unique("around"), Around(element, inner)
        yield Mark("open", raw, name)
        yield from self._items(inner)
        yield Mark("close", raw, name)

    def rebuild(self, written: Written) -> Element:
        """Put a translated passage in the place of the content, and return the paragraph.

        Elements of the source move, none is copied.
        """
        self._empty(self.element)
        parents, words = [self.element], ""
        for part in [*written, None]:
            if isinstance(part, (str, Text)):
                words += part if isinstance(part, str) else part.text
            elif part is None or part.kind != "space":
                if words:
                    self._write(parents[-1], words)
                    words = ""
                if part is None or not isinstance(part.raw, Around):
                    if part:
                        self._write(parents[-1], part)
                elif part.kind == "open":
                    self._empty(part.raw.inner)
                    parents[-1].append(part.raw.element)
                    part.raw.element.tail = None
                    parents.append(part.raw.inner)
                else:
                    parents.pop()
        return self.element


NoteLanguage = Callable[[Tree, Sequence[Element], Language], bool]
"""Notes the language of the translated paragraphs of a file; returns whether it has changed anything."""


class OfficeDocument:
    """A document of paragraphs in a package.

    Args:
        package: The package.
        names: Its files with paragraphs, or with what the language of paragraphs is noted in.
        is_paragraph: Whether an element is a paragraph whose words are translated.
        reader: Returns what takes the paragraphs of a file apart.
        note: Notes the language of translations.

    Raises:
        DataError: A file is missing, damaged or too large.
        MissingExtraError: The package ``lxml`` is not installed.
    """

    def __init__(
        self,
        package: Package,
        names: Iterable[str],
        is_paragraph: Callable[[Element], bool],
        reader: Callable[[Tree], Callable[[Element], Paragraph]],
        note: NoteLanguage,
    ) -> None:
        self._package, self._note = package, note
        self._parts: list[tuple[str, Tree, list[Paragraph]]] = []
        for name in names:
            tree = package.parse(name)
            paragraphs = map(reader(tree), _with_words(tree, is_paragraph))
            self._parts.append((name, tree, [each for each in paragraphs if _has_words(each)]))
        self.passages: list[Passage] = [each.passage for *_, paragraphs in self._parts for each in paragraphs]

    def written(self, translated: Sequence[Written], language: str | None = None) -> bytes:
        """Return the document with its passages translated; paragraphs without a translation stay as they are.

        Its paragraphs are changed, so it can be written once.
        """
        from lxml import etree

        remaining = iter(translated)
        rebuilt: list[list[Element]] = []
        for *_, paragraphs in self._parts:
            pairs = list(zip(paragraphs, remaining, strict=False))
            # Those within others first.
            rebuilt.append([each.rebuild(new) for each, new in reversed(pairs) if any(isinstance(p, str) for p in new)])
        said = Language.of(language) if language is not None and any(rebuilt) else None
        changed: dict[str, bytes] = {}
        for (name, tree, _), elements in zip(self._parts, rebuilt, strict=True):
            if (said and self._note(tree, elements, said)) or elements:
                changed[name] = etree.tostring(
                    tree, xml_declaration=True, encoding="UTF-8", standalone=tree.docinfo.standalone
                )
        return self._package.written(changed)


def _with_words(tree: Tree, is_paragraph: Callable[[Element], bool]) -> list[Element]:
    """Return the paragraphs of a file that have letters, in its order; one within another is behind it."""
    found = set()
    for element in tree.iter():
        for text, owner in ((element.text, element), (element.tail, element.getparent())):
            if text and _LETTER.search(text):
                while owner is not None and not is_paragraph(owner):
                    owner = owner.getparent()
                found.add(owner)
    return [element for element in tree.iter() if element in found]


def _has_words(paragraph: Paragraph) -> bool:
    return any(_LETTER.search(item.text) for item in paragraph.passage if isinstance(item, Text))


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
        self._title, self._content = title, content
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
        if not changed:
            return self._content
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for member in self._zip.infolist():
                copy = zipfile.ZipInfo(member.filename, member.date_time)
                copy.compress_type, copy.external_attr = member.compress_type, member.external_attr
                copy.create_system, copy.comment = member.create_system, member.comment
                found = changed.get(member.filename)
                target.writestr(copy, self.read(member.filename) if found is None else found)
        return out.getvalue()
