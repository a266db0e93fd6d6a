"""Packages of XML in a zip, as word processors write them, read within limits, and written with paragraphs changed."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from locant.documents.formats import DocumentOptions
from locant.documents.passages import Mark, Passage, Text, Written
from locant.errors import DataError, MissingExtraError
from locant.languages import parse_language

Element = Any
"""An element of lxml, which is imported where it is needed."""
Tree = Any
"""A tree of such elements."""
_MOST_MEMBERS = 10_000
_ENCRYPTED = 0x1  # of the flags of a member
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


class Paragraph(Protocol):
    """A paragraph of a part."""

    element: Element
    passage: Passage

    def rebuild(self, written: Written) -> None:
        """Put a translated passage in the place of the content; elements of the source move, none is copied."""


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
            DataError: It is missing, damaged, no XML, or declares entities.
            MissingExtraError: The package ``lxml`` is not installed.
        """
        try:
            from lxml import etree
        except ImportError:
            raise MissingExtraError(f"Reading {self._title}", "lxml", "documents") from None
        content = self.read(name)
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
        try:
            tree = etree.parse(io.BytesIO(content), parser)
        except etree.XMLSyntaxError as error:
            raise DataError(f"The document is damaged: {name} in it is no XML ({error.msg}).") from None
        if tree.docinfo.doctype or tree.docinfo.internalDTD is not None:
            raise DataError(f"The document is no {self._title}: {name} in it declares a document type.")
        return tree

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


def runs_of(written: Written) -> Iterator[str | Mark]:
    """Yield the marks of a translated passage but those for white space, and what is written between two of them."""
    words: list[str] = []
    for part in written:
        if not isinstance(part, Mark):
            words.append(part if isinstance(part, str) else part.text)
        elif part.kind != "space":
            if text := "".join(words):
                yield text
            words.clear()
            yield part
    if text := "".join(words):
        yield text


def has_words(passage: Iterable[Any]) -> bool:
    """Whether a passage has letters that may be translated."""
    return any(isinstance(item, Text) and any(map(str.isalpha, item.text)) for item in passage)
