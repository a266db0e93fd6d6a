"""The formats of documents: their names, the names of their files, and what reads each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import Protocol

from locant.documents.passages import Item, Passage, Text, Written
from locant.errors import ConfigError, DataError, LocantError, UsageError, nearest

LARGEST = 100_000_000
"""Bytes of the largest document that is read as a whole; plain text may have any size."""
LARGEST_UNPACKED = 500_000_000
"""Bytes that a packed document (.docx, .odt) may have in all."""
MOST_ITEMS = 1_000_000
"""Texts and marks that a document may have in all, and signs of markup in a file of XML or Markdown."""
LONGEST_KEPT = 100
"""Characters of what a sentence may have inside and is not translated, such as code or a field."""


@dataclass(frozen=True)
class DocumentOptions:
    """How documents are read.

    Attributes:
        keys: Of JSON, which values are translated: names of keys, or some at the end of a path with dots between; all
            texts where there are none.
        wrapped: Of plain text, whether lines are wrapped, so that sentences go over line breaks within a paragraph.
        largest: Bytes of the largest document.
        largest_unpacked: Bytes that it may have when it is unpacked.
    """

    keys: tuple[str, ...] = ()
    wrapped: bool = False
    largest: int = LARGEST
    largest_unpacked: int = LARGEST_UNPACKED


class Document(Protocol):
    """A document that has been taken apart."""

    @property
    def passages(self) -> Sequence[Passage]:
        """What is translated, in the order of the document."""

    def written(self, translated: Sequence[Written], language: str | None = None) -> bytes:
        """Return the document with its passages translated.

        Args:
            translated: The passages.
            language: The code of their language, which documents of word processors note; ``None`` where it is not
                known.
        """


Write = Callable[[Written], str]
"""Returns a translated passage as a format writes it."""
Note = Callable[[str | None], str]
"""Returns characters that say the language of a document; of the language that is not known, those of the source."""


class TextDocument:
    """A document of characters: what stays, and places for passages. It is filled while it is read.

    Args:
        start: Bytes before the characters.
        write: Returns a translated passage as the format writes it; by default as it is.

    Attributes:
        layout: Characters that stay or say the language, and numbers of passages.
        passages: What is translated.
        writers: Of each passage what returns its translation as the document has to write it.
    """

    def __init__(self, start: bytes = b"", write: Write | None = None) -> None:
        self._start, self._write, self._items = start, write or write_with(str), 0
        self.layout: list[str | int | Note] = []
        self.passages: list[Passage] = []
        self.writers: list[Write] = []

    def keep(self, raw: str | Note) -> None:
        """Add characters that stay, or that say the language."""
        if raw:
            self.layout.append(raw)

    def add(self, passage: Sequence[Item], write: Write | None = None) -> None:
        """Add a passage, and what writes it where that is not what writes the others.

        Raises:
            DataError: There are too many texts and marks.
        """
        self._items += len(passage) + 1
        check_items(self._items)
        self.layout.append(len(self.passages))
        self.passages.append(tuple(passage))
        self.writers.append(write or self._write)

    def text(self, translated: Sequence[Written], language: str | None = None) -> str:
        """Return the characters of the document with its passages translated."""
        if not any(isinstance(part, str) for passage in translated for part in passage):
            language = None  # nothing is in another language than before
        return "".join(
            part
            if isinstance(part, str)
            else self.writers[part](translated[part])
            if isinstance(part, int)
            else part(language)
            for part in self.layout
        )

    def written(self, translated: Sequence[Written], language: str | None = None) -> bytes:
        """Return the document with its passages translated; their language is noted where it says one."""
        return self._start + self.text(translated, language).encode("utf-8")


def check_items(number: int) -> None:
    """Check how many texts and marks, or signs of markup, a document has.

    Raises:
        DataError: They are too many.
    """
    if number > MOST_ITEMS:
        raise DataError(f"The document has more than {MOST_ITEMS:,} texts and marks. Cut it into several.")


def write_with(escape: Callable[[str], str]) -> Write:
    """Return what writes passages whose marks are characters.

    Args:
        escape: Returns a translation so that nothing in it is markup.
    """

    def write(passage: Written) -> str:
        return "".join(
            escape(part) if isinstance(part, str) else part.source if isinstance(part, Text) else part.raw
            for part in passage
        )

    return write


Reader = Callable[[bytes, DocumentOptions], Document]


@dataclass(frozen=True)
class Format:
    """A format of documents.

    Attributes:
        name: As options have it.
        title: As people call it.
        suffixes: Ends of the names of its files.
        home: Module and function that read it.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    home: str

    def read(self, content: bytes, options: DocumentOptions | None = None) -> Document:
        """Take a document apart.

        Raises:
            DataError: It is too large, or not of this format.
            MissingExtraError: A package that reads it is not installed.
        """
        options = options or DocumentOptions()
        if len(content) > options.largest:
            raise DataError(f"The document has {len(content):,} bytes; at most {options.largest:,} are read.")
        module, name = self.home.split(":")
        reader: Reader = getattr(import_module(f"locant.documents.{module}"), name)
        try:
            return reader(content, options)
        except LocantError:
            raise
        except (ValueError, ArithmeticError, AssertionError, LookupError, RecursionError) as error:
            raise DataError(f"The document cannot be read as {self.title}: something in it is damaged.") from error


_FORMATS = (
    Format("text", "plain text", (".txt", ".text"), "plain:read_plain"),
    Format("markdown", "Markdown", (".md", ".markdown", ".mkd", ".mdown"), "markdown:read_markdown"),
    Format("html", "HTML", (".html", ".htm", ".xhtml", ".shtml"), "markup:read_html"),
    Format("srt", "SubRip", (".srt",), "subtitles:read_subrip"),
    Format("vtt", "WebVTT", (".vtt",), "subtitles:read_webvtt"),
    Format("json", "JSON", (".json",), "json_values:read_json_values"),
    Format("po", "gettext PO", (".po", ".pot"), "po:read_po"),
    Format("xliff", "XLIFF", (".xliff", ".xlf"), "xliff:read_xliff"),
    Format("docx", "Word", (".docx", ".docm", ".dotx", ".dotm"), "office:read_docx"),
    Format("odt", "OpenDocument", (".odt", ".ott"), "office:read_odt"),
)
FORMATS = {each.name: each for each in _FORMATS}
"""The formats by their names."""
SUFFIXES = {suffix: each for each in _FORMATS for suffix in each.suffixes}
"""The formats by the ends of their files' names."""

_STRUCTURED = frozenset(
    re.findall(
        r"\S+",
        ".yml .yaml .toml .ini .properties .strings .csv .tsv .tmx .resx .xml .arb .jsonl .ipynb .mdx .tex .bib .rst "
        ".adoc .org .ttml .sbv .sub .ass .ssa .lrc .qmd .rmd .ftl .xcstrings .plist .json5 .ndjson "
        ".sdlxliff .ts .svg .rss .eml .ics .vcf .j2 .erb .vue .svelte .php .js .jsx .tsx .css .py .java .cpp "
        ".sql .cfg .conf .pdf .doc .rtf .pages .epub .mobi .fodt .pptx .ppt .xlsx .xls .odp .ods .zip .tar .tgz .bz2 "
        ".xz .zst .7z .rar .mo .parquet .png .jpg .jpeg .gif .webp .mp3 .wav .mp4 .mkv",
    )
)
"""Ends of names of files with a structure that is not known, which a translation of their lines would destroy."""


def check_lines_of(name: str | PurePath) -> None:
    """Check that the name of a file does not speak of a structure that a translation of its lines would destroy.

    Raises:
        UsageError: It does.
    """
    path = PurePath(name)
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if inner != path and (kind := format_of(inner)) and kind.name != "text":
        raise UsageError(f"{path}: {kind.title} is read unpacked. Unpack it first (gunzip).")
    if inner.suffix.lower() in _STRUCTURED:
        raise UsageError(
            f"{path}: the structure of {inner.suffix} files is not known, and a translation of the lines would destroy "
            "it. Save it as .docx, .odt, .html or text, or give --format lines to translate every line all the same."
        )


def find_format(name: str) -> Format:
    """Return the format of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in FORMATS:
        raise ConfigError(f"There is no format '{name}'.{nearest(name, FORMATS)} Known formats: {', '.join(FORMATS)}.")
    return FORMATS[name]


def format_of(name: str | PurePath) -> Format | None:
    """Return the format that the name of a file speaks of, if any."""
    return SUFFIXES.get(PurePath(name).suffix.lower())


def decode(content: bytes) -> tuple[bytes, str]:
    """Return the mark at the beginning of UTF-8, if there is one, and the characters behind it.

    Raises:
        DataError: It is not UTF-8, or no text.
    """
    start = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError("The document is UTF-16, but only UTF-8 is read. Save it as UTF-8.")
    try:
        text = content[len(start) :].decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, len(start) + error.start) + 1
        raise DataError(f"The document is not UTF-8: line {line} has other bytes. Save it as UTF-8.") from None
    if "\0" in text:
        raise DataError("The document is no text: it has characters of value 0.")
    return start, text
