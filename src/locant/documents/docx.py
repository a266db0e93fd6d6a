"""Documents of Word (.docx): paragraphs are translated, of the text, headers, footers, notes and comments.

A paragraph that is translated is rebuilt from the marks of its passage: runs with the formats of its runs, links,
fields, pictures, notes and all else once and in its place; its own properties stay. Parts without a translated
paragraph stay as they are, byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple

from locant.documents.formats import Document, DocumentOptions
from locant.documents.office import Element, Language, OfficeDocument, Package, Paragraph, Tree
from locant.documents.passages import Item, Mark, Text
from locant.errors import DataError

_TITLE = "Word document"
_CONTENT_TYPES = "{http://schemas.openxmlformats.org/package/2006/content-types}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_PARTS = ("document.main", "template.main", "header", "footer", "footnotes", "endnotes", "comments")
_CONTAINERS = {"hyperlink", "smartTag", "ins", "moveTo", "fldSimple", "customXml", "dir", "bdo"}
_IGNORED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}
_PROPERTIES = {"pPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr", "fldData"}
_PAIRS = ("bookmark", "commentRange", "perm")
_DEPTHS = {"begin": 1, "end": -1}  # of the signs of a field
_INVISIBLE = {"lang", "noProof"}  # of a format
_AFTER_LANGUAGE = {"eastAsianLayout", "specVanish", "oMath", "rPrChange"}  # in a format, by the schema


def read_docx(content: bytes, options: DocumentOptions) -> Document:
    """Take a Word document apart.

    Raises:
        DataError: It is none, is damaged, or would be too large unpacked.
        MissingExtraError: The package ``lxml`` is not installed.
    """
    package = Package(content, _TITLE, options)
    types = package.parse("[Content_Types].xml").getroot()
    names = [
        str(each.get("PartName", "")).lstrip("/")
        for each in types.iter(f"{_CONTENT_TYPES}Override")
        if any(f"wordprocessingml.{part}+xml" in str(each.get("ContentType")) for part in _PARTS)
        or str(each.get("ContentType")).endswith(
            ("document.macroEnabled.main+xml", "template.macroEnabledTemplate.main+xml")
        )
    ]
    names = [name for name in dict.fromkeys(names) if name in package.names]
    if not names:
        raise DataError(f"The document is no {_TITLE}: it has no text.")
    return OfficeDocument(package, names, _is_translated, lambda tree: _Paragraph, _note_language)


def _is_translated(element: Element) -> bool:
    return _name(element) == "p" and _name(element.getparent()) != "moveFrom"


def _name(element: Any) -> str:
    """Return the name of an element of Word's own without its namespace; nothing for others."""
    tag = element.tag if element is not None else None
    if not isinstance(tag, str) or "wordprocessingml" not in tag:
        return ""
    return tag.rpartition("}")[2]


def _attribute(element: Element, name: str) -> str:
    return str(next((value for key, value in element.attrib.items() if str(key).endswith("}" + name)), ""))


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if _name(child) == name), None)


class _Format(NamedTuple):
    """The format of words that is not that of the others in the paragraph."""

    properties: Element | None


_Node = tuple[Any, Any, bool]
"""An element between words, the format of its run, and whether it is in one."""


class _Paragraph(Paragraph):
    """A paragraph."""

    def __init__(self, element: Element) -> None:
        self._plain_key, self._plain = _commonest_format(element)
        self._formats: list[Element | None] = [self._plain]  # of what is written
        self._open = ""  # name of the marks of a format that is not the plain one, and goes on
        self._field: list[_Node] = []  # elements of a field before its result
        self._depth = 0  # of fields within the instructions of one
        super().__init__(element)

    def _items(self, parent: Element) -> Iterator[Item]:
        for child in parent:
            name = _name(child)
            if name in _PROPERTIES or name in _IGNORED:
                continue
            if name == "r":
                yield from self._run(child)
                continue
            yield from self._format("")
            if name == "sdt" and (content := _child(child, "sdtContent")) is not None:
                yield from self._around(child, content)
            elif name in _CONTAINERS:
                yield from self._around(child, child)
            else:
                yield self._point(child, None, is_in_run=False)
        yield from self._format("")
        if parent is self.element and self._field:  # its result is in another paragraph
            yield Mark("void", tuple(self._field))

    def _format(self, key: str, properties: Element | None = None) -> Iterator[Item]:
        """Yield the marks between words of one format and of another; neighbouring runs of a format are one."""
        if self._open.partition(" ")[0] == key:
            return
        if self._open:
            yield Mark("close", None, self._open)
        self._open = self._unique(key) if key else ""
        if key:
            yield Mark("open", _Format(properties), self._open)

    def _point(self, element: Element, properties: Element | None, *, is_in_run: bool) -> Mark:
        """Return the mark for an element between words."""
        raw, name = ((element, properties, is_in_run),), _name(element)
        for pair in _PAIRS:
            if name in (f"{pair}Start", f"{pair}End"):
                kind: Literal["open", "close"] = "open" if name.endswith("Start") else "close"
                return Mark(kind, raw, f"{pair} {_attribute(element, 'id')}")
        return Mark("void", raw)

    def _run(self, run: Element) -> Iterator[Item]:
        properties = _child(run, "rPr")
        key = _format_key(properties)
        yield from self._format("" if key == self._plain_key else f"format-{key.hex()}", properties)
        for child in run:
            name = _name(child)
            if name == "rPr" or name in _IGNORED:
                continue
            if name == "fldChar" or self._field:
                yield from self._field_part(child, properties)
            elif name == "t":
                if child.text:
                    yield Text(str(child.text))
            elif name == "noBreakHyphen":
                yield Text("\u2011")
            elif name in ("tab", "br", "cr", "ptab"):
                yield Mark("break", ((child, properties, True),))
            else:
                yield self._point(child, properties, is_in_run=True)

    def _field_part(self, child: Element, properties: Element | None) -> Iterator[Item]:
        """Yield the marks of a field: what is before its result opens it, its end closes it."""
        is_sign = _name(child) == "fldChar"
        kind = _attribute(child, "fldCharType") if is_sign else ""
        part = (child, properties, True)
        if not self._field and kind != "begin":
            yield Mark("close", (part,), "field") if kind == "end" else Mark("void", (part,))
            return
        self._field.append(part)
        self._depth += _DEPTHS.get(kind, 0)
        if is_sign and ((kind == "separate" and self._depth == 1) or self._depth == 0):
            raw = tuple(self._field)
            self._field = []
            yield Mark("open", raw, "field") if self._depth else Mark("void", raw)
            self._depth = 0

    def _write(self, parent: Element, part: str | Mark) -> None:
        if isinstance(part, str):
            text = self.element.makeelement(_tag(self.element, "t"), {_SPACE: "preserve"})
            text.text = part
            parent.append(self._in_run(text, self._formats[-1]))
        elif isinstance(part.raw, _Format):
            self._formats.append(part.raw.properties)
        elif part.raw is None:
            self._formats.pop()
        else:
            for element, properties, is_in_run in part.raw:
                parent.append(self._in_run(element, properties) if is_in_run else element)

    def _empty(self, element: Element) -> None:
        element[:] = [child for child in element if _name(child) in _PROPERTIES]

    def _in_run(self, element: Element, properties: Element | None) -> Element:
        run = self.element.makeelement(_tag(self.element, "r"), {})
        if properties is not None:
            run.append(deepcopy(properties))
        run.append(element)
        return run


def _commonest_format(paragraph: Element) -> tuple[bytes, Element | None]:
    """Return the format that most words have: of those outside of links and fields, if there are any."""
    formats: dict[tuple[bool, bytes], int] = {}
    examples: dict[bytes, Element | None] = {}
    depth = 0  # of fields
    for run in paragraph.iter():
        if _name(run) == "fldChar":
            depth = max(depth + _DEPTHS.get(_attribute(run, "fldCharType"), 0), 0)
        elif _name(run) == "r":
            properties = _child(run, "rPr")
            key = _format_key(properties)
            size = sum(len(each.text or "") for each in run if _name(each) == "t")
            is_outside = not depth and _name(run.getparent()) not in ("hyperlink", "fldSimple")
            place = is_outside and size > 0, key
            formats[place] = formats.get(place, 0) + size
            examples.setdefault(key, properties)
    _, plain = max(formats, key=lambda place: (place[0], formats[place]), default=(False, b""))
    return plain, examples.get(plain)


def _note_language(tree: Tree, paragraphs: Sequence[Element], language: Language) -> bool:
    """Note the language of every run of translated paragraphs; styles stay, which others have as well."""
    name = {"western": "val", "asian": "eastAsia", "complex": "bidi"}[language.kind]
    code = f"{language.code}-{language.region}" if language.region else language.code
    for paragraph in paragraphs:
        for run in (each for each in paragraph.iter() if _name(each) == "r"):
            properties = _child(run, "rPr")
            if properties is None:
                properties = run.makeelement(_tag(run, "rPr"), {})
                run.insert(0, properties)
            noted = _child(properties, "lang")
            if noted is None:
                noted = run.makeelement(_tag(run, "lang"), {})
                place = next((at for at, child in enumerate(properties) if _name(child) in _AFTER_LANGUAGE), None)
                properties.insert(len(properties) if place is None else place, noted)
            noted.set(_tag(run, name), code)
    return bool(paragraphs)


def _tag(element: Element, name: str) -> str:
    """Return a name in the namespace of an element."""
    return str(element.tag).rpartition("}")[0] + "}" + name


def _format_key(properties: Element | None) -> bytes:
    """Return what tells formats apart; what is not seen does not count."""
    if properties is None:
        return b""
    return "".join(sorted(_content(child) for child in properties if _name(child) not in _INVISIBLE)).encode()


def _content(element: Element) -> str:
    """Return all that an element says, however it is written."""
    inner = [_content(child) for child in element]
    return repr((str(element.tag), sorted(element.attrib.items()), element.text or "", inner))
