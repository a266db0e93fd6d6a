"""Documents of Word (.docx) and OpenDocument (.odt): zips of XML, of which paragraphs are translated.

The content of a translated paragraph is written from the marks of its passage: runs or spans with their formats, links,
fields, pictures, notes and all else once and in its place. All around it stays as it is, character by character.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, Literal, NamedTuple

from locant.documents.formats import LONGEST_KEPT, Document, DocumentOptions, check_items
from locant.documents.markup import attributes, stretches
from locant.documents.passages import Item, Mark, Passage, Text, Written
from locant.errors import DataError
from locant.languages import parse_language
from locant.lazy import require_package

_MOST_MEMBERS = 10_000
_REGIONS = {"Hans": "CN", "Hant": "TW"}  # by which word processors tell the scripts of Chinese apart
_PAIR = re.compile(r"([^:]+?)-?(start|end)")  # names of elements that begin and end something, as bookmarks do
_Language = tuple[str, str]
"""A language as word processors note it: its code without script and region, and the region or nothing."""
_PLACE = re.compile("\0([0-9]+)\0")  # of a paragraph, by its number; no XML has such a character


# Zip and XML.


def parse_xml(content: bytes, title: str, name: str) -> Any:
    """Return the root of XML, an element of lxml; nothing outside of it is read, and no entity is expanded.

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
    return tree.getroot()


class Package:
    """A zip of files.

    Args:
        content: The zip.
        title: What such a document is called.
        options: With the limits.

    Raises:
        DataError: It is no zip, is damaged, or would be too large unpacked.
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

    def read(self, name: str) -> bytes:
        """Return a file.

        Raises:
            DataError: It is missing, damaged or encrypted.
        """
        try:
            return self._zip.read(name)
        except KeyError:
            raise DataError(f"The document is no {self._title}: {name} is missing in it.") from None
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            OSError,
            ValueError,
            RuntimeError,
            NotImplementedError,
        ) as error:
            raise DataError(f"The document is damaged or encrypted: {name} in it cannot be unpacked.") from error

    def parse(self, name: str) -> Any:
        """Return the root of a file of XML; see :func:`parse_xml`."""
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


# Paragraphs of both formats.


class _Node(NamedTuple):
    """An element, or characters between elements."""

    name: str  # of the format's own without prefix, in lower case; of others with it; of characters none
    tag: str  # or the characters
    inside: Sequence[_Node] = ()
    end: str = ""

    @property
    def raw(self) -> str:
        """All its characters."""
        return self.tag + "".join([each.raw for each in self.inside]) + self.end

    @property
    def text(self) -> str:
        """Its words."""
        if self.name or self.tag.startswith("<"):
            own = self.tag[9:-3] if self.tag.startswith("<![CDATA[") else ""
            return own + "".join([each.text for each in self.inside])
        return html.unescape(self.tag)

    def attribute(self, *names: str) -> str:
        """Return the first of some attributes that the element has, whatever their prefix."""
        given = {key.rpartition(":")[2]: value for key, value in attributes(self.tag).items()}
        return next((given[name] for name in names if given.get(name)), "")


class _Raw(NamedTuple):
    """What a mark holds: characters of the file, or, not to be written, the format of words."""

    xml: str
    is_format: bool = False


class _Paragraph:
    """A paragraph, read and written; each format has its own.

    Args:
        nodes: Its content.
    """

    properties: frozenset[str] = frozenset()
    """Names of elements that belong to the beginning of those that they are in."""

    def __init__(self, nodes: Sequence[_Node]) -> None:
        self.nodes, self._names = nodes, 0
        self.language: _Language | None = None  # of what is written

    def items(self, nodes: Sequence[_Node]) -> Iterator[Item]:
        """Yield the texts and marks of nodes."""
        raise NotImplementedError

    def words(self, words: str) -> str:
        """Return words as the format writes them."""
        raise NotImplementedError

    def mark(self, mark: Mark) -> str:
        """Return a mark as the format writes it."""
        return str(mark.raw.xml)

    def _head(self, nodes: Sequence[_Node]) -> str:
        return "".join([node.raw for node in nodes if node.name in self.properties])

    def _unique(self, name: str) -> str:
        self._names += 1
        return f"{name} {self._names}"

    def _around(self, node: _Node) -> Iterator[Item]:
        """Yield an element around words, and these."""
        name = self._unique("around")
        yield Mark("open", _Raw(node.tag + self._head(node.inside)), name)
        yield from self.items(node.inside)
        yield Mark("close", _Raw(node.end), name)

    def _point(self, node: _Node, raw: str, *names: str) -> Mark:
        """Return the mark for an element between words: one of a pair where its name says so.

        Args:
            node: The element.
            raw: What the document has.
            names: Of the attributes that tell pairs apart.
        """
        pair = _PAIR.fullmatch(node.name)
        kind: Literal["open", "close", "void"] = "void" if not pair else "open" if pair[2] == "start" else "close"
        return Mark(kind, _Raw(raw), f"{pair[1]} {node.attribute(*names)}" if pair else "")

    def write(self, written: Written, language: _Language | None) -> str:
        """Return the content with a translation; without one, as it was."""
        if not any(isinstance(part, str) for part in written):
            return "".join([node.raw for node in self.nodes])
        self.language = language
        pieces, words = [self._head(self.nodes)], ""
        for part in [*written, None]:
            if isinstance(part, (str, Text)):
                words += part if isinstance(part, str) else part.text
            elif part and isinstance(part.raw, str):  # what a rule keeps
                words += part.raw
            else:
                pieces += [self.words(words)] if words else []
                pieces += [self.mark(part)] if part and part.kind != "space" else []
                words = ""
        return "".join(pieces)


class OfficeDocument:
    """A document of paragraphs in a package. It is filled while it is read.

    Args:
        package: The package.
        note: Returns a file in which a language is noted; ``None`` where paragraphs note it.

    Attributes:
        passages: What is translated.
    """

    def __init__(self, package: Package, note: Callable[[str, _Language], str] | None = None) -> None:
        self._package, self._note = package, note
        self.passages: list[Passage] = []
        self._paragraphs: list[_Paragraph] = []
        self._files: dict[str, str] = {}  # with numbers of paragraphs in place of their content

    def read(
        self, name: str, prefix: str, paragraphs: Sequence[str], make: Callable[[Sequence[_Node]], _Paragraph]
    ) -> None:
        """Add a file.

        Args:
            name: Of the file, which is valid XML.
            prefix: Of the names of the format.
            paragraphs: Names of paragraphs.
            make: Returns the paragraph of some nodes.
        """

        def added(nodes: Sequence[_Node]) -> Sequence[_Node]:
            """Add a paragraph that has words, and return what represents its content."""
            paragraph = make(nodes)
            passage = tuple(paragraph.items(nodes))
            if not any(map(str.isalpha, "".join([item.text for item in passage if isinstance(item, Text)]))):
                return nodes
            self.passages.append(passage)
            self._paragraphs.append(paragraph)
            return [_Node("", f"\0{len(self._paragraphs) - 1}\0")]

        def content(*, is_deleted: bool) -> tuple[Sequence[_Node], str]:
            """Return the nodes up to the end of an element, and that end."""
            nodes: list[_Node] = []
            for token in tokens:
                if token.kind == "close":
                    return nodes, token.raw
                own, end = token.name.removeprefix(prefix.lower()), ""
                inside: Sequence[_Node] = ()
                if token.kind == "open":
                    inside, end = content(is_deleted=is_deleted or own == "tracked-changes")
                    if own in paragraphs and not is_deleted:
                        inside = added(inside)
                nodes.append(_Node(own, token.raw, inside, end))
            return nodes, ""

        tokens = stretches(self._package.read(name).decode(), is_xml=True)
        self._files[name] = "".join([node.raw for node in content(is_deleted=False)[0]])

    def written(self, translated: Sequence[Written], language: str | None = None) -> bytes:
        """Return the document with its passages translated; files in which nothing is translated stay."""
        is_translated = any(isinstance(part, str) for written in translated for part in written)
        said = _language(language) if language is not None and is_translated else None

        def content(found: re.Match[str]) -> str:
            number = int(found[1])
            xml = self._paragraphs[number].write(translated[number], said)
            return _PLACE.sub(content, xml)

        changed: dict[str, bytes] = {}
        for name, layout in self._files.items():
            xml = _PLACE.sub(content, layout)
            raw = (self._note(xml, said) if self._note and said else xml).encode()
            if raw != self._package.read(name):
                changed[name] = raw
        return self._package.written(changed)


def _language(code: str) -> _Language:
    tag = parse_language(code)
    return tag.code, tag.region or (_REGIONS.get(tag.script, "") if tag.says_script else "")


# Word.

_WORD_TITLE = "Word document"
_CONTENT_TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
_PARTS = re.compile(
    r".*(?:wordprocessingml\.(?:document\.main|template\.main|header|footer|footnotes|endnotes|comments)"
    r"|document\.macroEnabled\.main|template\.macroEnabledTemplate\.main)\+xml"
)
_CONTAINERS = frozenset(re.findall(r"\w+", "hyperlink smarttag ins moveto fldsimple customxml dir bdo sdt sdtcontent"))
_IGNORED = {"", "prooferr", "lastrenderedpagebreak", "softhyphen"}
_DEPTHS = {"begin": 1, "end": -1}  # of the signs of a field
_INVISIBLE = {"", "lang", "noproof"}  # of a format


def read_docx(content: bytes, options: DocumentOptions) -> Document:
    """Take a Word document apart: its text, headers, footers, notes and comments.

    Raises:
        DataError: It is none, is damaged, or would be too large unpacked.
        MissingExtraError: The package ``lxml`` is not installed.
    """
    package = Package(content, _WORD_TITLE, options)
    document, is_empty = OfficeDocument(package), True
    for each in package.parse("[Content_Types].xml").iter(f"{_CONTENT_TYPES}Override"):
        name = str(each.get("PartName", "")).lstrip("/")
        if _PARTS.fullmatch(str(each.get("ContentType"))) and name in package.names:
            prefix = package.parse(name).prefix
            prefix = f"{prefix}:" if prefix else ""
            document.read(name, prefix, ["p"], partial(_WordParagraph, prefix))
            is_empty = False
    if is_empty:
        raise DataError(f"The document is no {_WORD_TITLE}: it has no text.")
    return document


class _WordParagraph(_Paragraph):
    """A paragraph of Word: runs, each of one format."""

    properties = frozenset({"ppr", "sdtpr", "sdtendpr", "smarttagpr", "customxmlpr", "flddata"})

    def __init__(self, prefix: str, nodes: Sequence[_Node]) -> None:
        super().__init__(nodes)
        self._prefix = prefix
        self._plain, self._formats = _plain_format(nodes)
        self._open = ""  # name of the marks of a format that is not the plain one, and goes on
        self._field: list[str] = []  # what a field has before its result
        self._depth = 0  # of fields within the instructions of one

    def items(self, nodes: Sequence[_Node]) -> Iterator[Item]:
        """Yield the texts and marks of nodes."""
        for node in nodes:
            if node.name == "r":
                yield from self._run(node)
            elif node.name not in self.properties | _IGNORED:
                yield from self._format("")
                yield from self._around(node) if node.name in _CONTAINERS else [self._point(node, node.raw, "id")]
        yield from self._format("")
        if nodes is self.nodes and self._field:  # its result is in another paragraph
            yield Mark("void", _Raw("".join(self._field)))

    def _format(self, key: str, properties: str = "") -> Iterator[Item]:
        """Yield the marks between words of one format and of another; neighbouring runs of a format are one."""
        if self._open.partition(" ")[0] == key:
            return
        if self._open:
            yield Mark("close", _Raw("", is_format=True), self._open)
        self._open = self._unique(key) if key else ""
        if key:
            yield Mark("open", _Raw(properties, is_format=True), self._open)

    def _run(self, run: _Node) -> Iterator[Item]:
        key, properties = _format_of(run)
        yield from self._format("" if key == self._plain else f"format-{key.encode().hex()}", properties)
        for node in run.inside:
            raw = f"{run.tag}{properties}{node.raw}{run.end}"
            if node.name == "rpr" or node.name in _IGNORED:
                continue
            if node.name == "fldchar" or self._field:
                yield from self._field_part(node, raw)
            elif node.name == "t":
                yield Text(node.text)
            elif node.name == "nobreakhyphen":
                yield Text("\u2011")
            elif node.name in ("tab", "br", "cr", "ptab"):
                yield Mark("break", _Raw(raw))
            else:
                yield self._point(node, raw, "id")

    def _field_part(self, node: _Node, raw: str) -> Iterator[Item]:
        """Yield the marks of a field: what is before its result opens it, its end closes it."""
        kind = node.attribute("fldchartype") if node.name == "fldchar" else ""
        if not self._field and kind != "begin":
            yield Mark("close" if kind == "end" else "void", _Raw(raw), "field")
            return
        self._field.append(raw)
        self._depth += _DEPTHS.get(kind, 0)
        if self._depth == 0 or (kind == "separate" and self._depth == 1):
            yield Mark("open" if self._depth else "void", _Raw("".join(self._field)), "field")
            self._field, self._depth = [], 0

    def words(self, words: str) -> str:
        """Return words as a run of the format that goes on, with the language noted."""
        name, properties = self._prefix, self._formats[-1]
        if self.language:
            own = name or "w:"  # of attributes, which have one
            code = "-".join(filter(None, self.language))
            said = " ".join(f'{own}{key}="{code}"' for key in ("val", "eastAsia", "bidi"))  # for letters of all kinds
            inner = re.sub(rf"^<{name}rPr[^>]*>|<{name}lang\b[^>]*>|</{name}(?:lang|rPr)>$", "", properties)
            behind = rf"(?=<{name}(?:eastAsianLayout|specVanish|oMath|rPrChange)\b|\Z)"  # by the schema
            properties = f"<{name}rPr>{re.sub(behind, f'<{name}lang {said}/>', inner, count=1)}</{name}rPr>"
        text = f'<{name}t xml:space="preserve">{html.escape(words, quote=False)}</{name}t>'
        return f"<{name}r>{properties}{text}</{name}r>"

    def mark(self, mark: Mark) -> str:
        """Return a mark; one of a format changes that of the words that follow."""
        if not mark.raw.is_format:
            return str(mark.raw.xml)
        if mark.kind == "open":
            self._formats.append(mark.raw.xml)
        else:
            self._formats.pop()
        return ""


def _format_of(run: _Node) -> tuple[str, str]:
    """Return what formats share that look the same, and the format as the document has it."""
    properties = next((node for node in run.inside if node.name == "rpr"), _Node("", ""))
    seen = sorted(node.raw for node in properties.inside if node.name not in _INVISIBLE)
    return "".join(seen), properties.raw


def _plain_format(nodes: Sequence[_Node]) -> tuple[str, list[str]]:
    """Return the format of the longest run, outside of links if there is one."""

    def runs(nodes: Sequence[_Node], *, is_outside: bool) -> Iterator[tuple[bool, int, _Node]]:
        for node in nodes:
            if node.name == "r":
                size = sum(len(each.text) for each in node.inside if each.name == "t")
                yield is_outside and size > 0, size, node
            else:
                yield from runs(node.inside, is_outside=is_outside and node.name not in ("hyperlink", "fldsimple"))

    *_, longest = max(runs(nodes, is_outside=True), key=lambda found: found[:2], default=(_Node("", ""),))
    key, properties = _format_of(longest)
    return key, [properties]


# OpenDocument.

_ODT_TITLE = "OpenDocument text"
_TYPES = ("application/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text-template")
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_UNSEEN = "{http://openoffice.org/2009/office}"  # attributes that word processors note for themselves
_AROUND = {"span", "a", "meta"}
_FIELDS = "page-number page-count date time title sequence chapter author-name file-name reference-ref bookmark-ref"
_KEPT = frozenset(re.findall(r"\S+", _FIELDS))
_LONGEST_SPACE = 1_000
_WHITE = re.compile(r"[ \t\r\n]+")
_HIDDEN = re.compile("((?<= ) +)")  # spaces behind another


def read_odt(content: bytes, options: DocumentOptions) -> Document:
    """Take a text of OpenDocument apart: paragraphs and headings, in headers, notes and frames too.

    Raises:
        DataError: It is none, is damaged or encrypted, or would be too large unpacked.
        MissingExtraError: The package ``lxml`` is not installed.
    """
    package = Package(content, _ODT_TITLE, options)
    if package.read("mimetype").decode("ascii", "replace").strip() not in _TYPES:
        raise DataError(f"The document is no {_ODT_TITLE}: its file mimetype says that it is another.")
    if "META-INF/manifest.xml" in package.names and b"encryption-data" in package.read("META-INF/manifest.xml"):
        raise DataError("The document is encrypted. Save it without a password.")
    document = OfficeDocument(package, _note_in_styles)
    for name in ("content.xml", "styles.xml"):
        if name == "content.xml" or name in package.names:
            root = package.parse(name)
            prefix = next((f"{key}:" for key, space in root.nsmap.items() if key and space == _TEXT), "text:")
            document.read(name, prefix, ["p", "h"], partial(_OdtParagraph, prefix, _unseen_styles(root)))
    return document


def _unseen_styles(root: Any) -> set[str]:
    """Return the names of styles of words that change nothing that is seen."""
    return {
        str(style.get(f"{_STYLE}name"))
        for style in root.iter(f"{_STYLE}style")
        if style.get(f"{_STYLE}family") == "text"
        and style.get(f"{_STYLE}parent-style-name") is None
        and all(str(key).startswith(_UNSEEN) for child in style for key in child.attrib)
    }


class _OdtParagraph(_Paragraph):
    """A paragraph or heading of OpenDocument, in which white space is one space, and none at the beginning."""

    def __init__(self, prefix: str, unseen: Set[str], nodes: Sequence[_Node]) -> None:
        super().__init__(nodes)
        self._prefix, self._unseen = prefix, unseen
        self._after_space = self._after_written = True  # of what is read, and of what is written

    def items(self, nodes: Sequence[_Node]) -> Iterator[Item]:
        """Yield the texts and marks of nodes."""
        for node in nodes:
            if not node.name:
                seen = _WHITE.sub(" ", node.text)
                if self._after_space:
                    seen = seen.removeprefix(" ")
                if seen:
                    self._after_space = seen.endswith(" ")
                    yield Text(seen)
            elif node.name == "span" and node.attribute("style-name") in self._unseen:
                yield from self.items(node.inside)
            elif node.name in _AROUND:
                yield from self._around(node)
            elif node.name == "s":
                spaces = node.attribute("c") or "1"
                yield Text(" " * min(int(spaces[:9]) if spaces.isdecimal() else 1, _LONGEST_SPACE))
                self._after_space = False
            elif node.name == "soft-page-break":
                yield Mark("space", None)
            elif node.name in ("tab", "line-break"):
                yield Mark("break", _Raw(node.raw))
                self._after_space = True
            else:
                words = " ".join(node.text.split()) if node.name in _KEPT else ""
                is_kept = 0 < len(words) <= LONGEST_KEPT
                point = self._point(node, node.raw, "change-id", "name", "id")
                yield Mark("kept", point.raw, text=words) if is_kept else point
                self._after_space = False

    def words(self, words: str) -> str:
        """Return words; spaces that would not be shown, as they follow others, are elements."""
        before = " " if self._after_written else ""
        self._after_written = words.endswith(" ")
        shown, *rest = _HIDDEN.split(before + words)
        pieces = [html.escape(shown.removeprefix(before), quote=False)]
        for spaces, text in zip(rest[::2], rest[1::2], strict=True):
            pieces += [f'<{self._prefix}s {self._prefix}c="{len(spaces)}"/>', html.escape(text, quote=False)]
        return "".join(pieces)

    def write(self, written: Written, language: _Language | None) -> str:
        """Return the content with a translation; without one, as it was."""
        self._after_written = True
        return super().write(written, language)

    def mark(self, mark: Mark) -> str:
        """Return a mark."""
        if mark.kind not in ("open", "close"):
            self._after_written = mark.kind == "break"
        return super().mark(mark)


def _note_in_styles(xml: str, language: _Language) -> str:
    """Note the language in every style that has one, as all the text is translated.

    Styles name the document's own language, and words without a style have that of the default one.
    """

    def note(found: re.Match[str]) -> str:
        tag = found[0]
        for kind in ("", "-asian", "-complex"):
            said = re.search(rf"\s([\w-]+:)language{kind}=[\"']([^\"']*)", tag)
            if said and said[2] not in ("zxx", "none"):
                tag = re.sub(rf"\s[\w-]+:(?:language|country|script|rfc-language-tag){kind}=[\"'][^\"']*[\"']", "", tag)
                own = f' {said[1]}language{kind}="{language[0]}" {said[1]}country{kind}="{language[1] or "none"}"'
                tag = re.sub(r"(?=\s|/?>)", own, tag, count=1)
        return tag

    return re.sub(r"<(?:[\w-]+:)?text-properties\s[^>]*>", note, xml)
