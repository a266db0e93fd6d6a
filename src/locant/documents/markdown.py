"""Markdown: texts are translated; code, addresses, formulas and all that marks a text stay.

What is text says a parser of CommonMark with GitHub's extensions (pulldown-cmark, by the package pyromark), which tells
where in the document each piece of it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from locant.documents.formats import Document, DocumentOptions, Layout, decode
from locant.documents.markup import KEPT_TAGS, VOID_TAGS, cut_html
from locant.documents.passages import Item, Mark, Text, Written
from locant.errors import MissingExtraError

_OPTIONS = (
    "ENABLE_TABLES ENABLE_FOOTNOTES ENABLE_STRIKETHROUGH ENABLE_TASKLISTS ENABLE_HEADING_ATTRIBUTES "
    "ENABLE_YAML_STYLE_METADATA_BLOCKS ENABLE_MATH ENABLE_GFM"
)
_INLINE = {"Emphasis", "Strong", "Strikethrough", "Link", "Image", "Superscript", "Subscript"}
_WITHOUT_TEXT = {"CodeBlock", "MetadataBlock", "HtmlBlock"}
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)[^<>]*?(/?)>\Z", re.DOTALL)
_LONGEST_KEPT = 100  # characters of code or of a formula that a sentence has inside

_MARKUP = re.compile(r"[\\`*\[\]<~]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)")
_LINE_START = re.compile(r"#{1,6}(?=\s|\Z)|[-+](?!\w)|[>=|:]|\d{1,9}(?=[.)](?:\s|\Z))")


@dataclass(frozen=True)
class _Event:
    """What the parser has found.

    Attributes:
        kind: ``Start`` and ``End`` of something, or what it is.
        name: Of what starts or ends.
        value: What the parser says of it.
        start: Where it begins, in bytes.
        end: Where it ends.
    """

    kind: str
    name: str
    value: Any
    start: int
    end: int


def _events(text: str) -> Iterator[_Event]:
    try:
        import pyromark
    except ImportError:
        raise MissingExtraError("Reading Markdown", "pyromark", "documents") from None
    options = pyromark.Options(0)
    for name in _OPTIONS.split():
        options |= pyromark.Options[name]
    found: Any
    kind: Any
    value: Any
    for found, span in pyromark.events_with_range(text, options=options, merge_text=False):
        kind, value = (found, None) if isinstance(found, str) else next(iter(found.items()))
        name, inner = next(iter(value.items())) if isinstance(value, dict) else (value, value)
        yield _Event(kind, name if kind in ("Start", "End") else "", inner, span["start"], span["end"])


def read_markdown(content: bytes, options: DocumentOptions) -> Document:
    """Take Markdown apart.

    Raises:
        DataError: It is not UTF-8 text.
        MissingExtraError: The package ``pyromark`` is not installed.
    """
    start, text = decode(content)
    raw, layout, place = text.encode("utf-8"), Layout(_write), 0
    blocks: list[str] = []
    line: list[_Event] = []
    skipped: _Event | None = None  # a block that has no text
    for event in [*_events(text), _Event("Rule", "", None, len(raw), len(raw))]:
        if skipped:
            if event.kind == "End" and event.name == skipped.name:
                place = _end_skipped(raw, layout, place, skipped, event, blocks)
                skipped = None
            continue
        is_block = event.kind in ("Rule", "Html") or (event.kind in ("Start", "End") and event.name not in _INLINE)
        if not is_block:
            line.append(event)
            continue
        if line:
            first, place_after, items = _passage(raw, line)
            layout.keep(raw[place:first].decode("utf-8"))
            layout.add(items, partial(_write, in_table="TableCell" in blocks))
            place, line = place_after, []
        if event.kind == "Start" and event.name in _WITHOUT_TEXT:
            skipped = event
        elif event.kind == "Start":
            blocks.append(event.name)
        elif event.kind == "End":
            blocks.pop()
    layout.keep(raw[place:].decode("utf-8"))
    return layout.document(start)


def _end_skipped(raw: bytes, layout: Layout, place: int, begun: _Event, ended: _Event, blocks: Sequence[str]) -> int:
    """Take a block of HTML apart, and return where what follows begins; other blocks stay."""
    # Lines of a quotation begin with signs that are no HTML.
    if begun.name != "HtmlBlock" or "BlockQuote" in blocks:
        return place
    layout.keep(raw[place : begun.start].decode("utf-8"))
    inner = cut_html(raw[begun.start : ended.end].decode("utf-8"))
    for part in inner.layout:
        if isinstance(part, str):
            layout.keep(part)
        else:
            layout.add(inner.passages[part], inner.writers[part])
    return ended.end


def _passage(raw: bytes, line: Sequence[_Event]) -> tuple[int, int, list[Item]]:
    """Return where a passage begins and ends, and its items."""
    line = list(_merged(line))
    first = line[0].start
    if line[0].kind == "Text" and raw[first - 1 : first] == b"\\":
        first -= 1
    items: list[Item] = []
    place = first
    grows = False  # whether what stands before the next event belongs to the last item
    links: list[_Event] = []
    for event in line:
        if event.kind == "End":
            begun = links.pop()
            end = event.end
            if begun.name == "Link" and begun.value["link_type"] == "Collapsed" and raw[end : end + 2] == b"[]":
                end += 2
            close = raw[place:end].decode("utf-8")
            items.append(Mark("close", _reference(raw, begun, place, close), event.name))
            place, grows = end, False
            continue
        gap = raw[place : event.start].decode("utf-8")
        own = gap
        if grows:
            own = "\\" if event.kind == "Text" and gap.endswith("\\") else ""
            items[-1] = _grown(items[-1], gap.removesuffix(own))
        place, grows = max(place, event.start), False
        if event.kind == "Start":
            items.append(Mark("open", own, event.name))
            links.append(event)
            grows = True
            continue
        written = own + raw[event.start : event.end].decode("utf-8")
        place = max(place, event.end)
        if event.kind == "Text":
            items += _texts(str(event.value), own, written)
        else:
            items.append(_item(event, written))
            grows = event.kind in ("SoftBreak", "HardBreak", "TaskListMarker")
    return first, place, items


def _merged(line: Sequence[_Event]) -> Iterator[_Event]:
    """Yield events; images, addresses in angle brackets and elements of HTML whose content stays are one event each."""
    begun: _Event | None = None
    name, depth = "", 0
    words: list[str] = []
    for event in line:
        tag = _TAG.match(str(event.value)) if event.kind == "InlineHtml" else None
        if begun is None:
            is_address = (
                event.name == "Link" and event.kind == "Start" and event.value["link_type"] in ("Autolink", "Email")
            )
            if event.kind == "Start" and (event.name == "Image" or is_address):
                begun, name, depth, words = event, event.name, 1, []
            elif tag and not tag[1] and not tag[3] and tag[2].lower() in KEPT_TAGS:
                begun, name, depth, words = event, tag[2].lower(), 1, []
            else:
                yield event
            continue
        if event.kind in ("Text", "Code"):
            words.append(str(event.value))
        if tag and tag[2].lower() == name:
            depth += -1 if tag[1] else 1
        elif event.name == name:
            depth += 1 if event.kind == "Start" else -1
        if not depth:
            kind = "Void" if name == "Image" else "Kept"
            yield _Event(kind, "", " ".join("".join(words).split()), begun.start, event.end)
            begun = None
    if begun:  # a tag without an end
        yield _Event("Void", "", "", begun.start, line[-1].end)


def _grown(item: Item, raw: str) -> Item:
    return replace(item, raw=(item.source if isinstance(item, Text) else item.raw) + raw)


def _reference(raw: bytes, begun: _Event, end: int, close: str) -> str | tuple[str, str]:
    """Return the end of a link; of one whose words are its reference, besides that with the reference in full."""
    if begun.name != "Link" or begun.value["link_type"] not in ("Shortcut", "Collapsed"):
        return close
    label = " ".join(raw[begun.start + 1 : end].decode("utf-8").split())
    return close, f"][{label}]"


def _texts(value: str, own: str, written: str) -> Iterator[Text]:
    """Yield text as it is read and written."""
    if own and written == own + value:  # a character with a backslash before it
        yield Text(value[0], own + value[0])
        value = value[1:]
        if value:
            yield Text(value)
    else:
        yield Text(value, None if value == written else written)


def _item(event: _Event, written: str) -> Item:
    if event.kind == "SoftBreak":
        return Text(" ", written, "loose")
    if event.kind in ("HardBreak", "TaskListMarker"):
        return Mark("break", written)
    if event.kind in ("Code", "InlineMath", "DisplayMath", "Kept"):
        words = " ".join(str(event.value).split())
        kept = words and len(words) <= _LONGEST_KEPT
        return Mark("kept", written, text=words) if kept else Mark("break" if words else "void", written)
    tag = _TAG.match(written) if event.kind == "InlineHtml" else None
    if tag is None or tag[3] or tag[2].lower() in VOID_TAGS:
        return Mark("void", written)
    return Mark("close" if tag[1] else "open", written, f"<{tag[2].lower()}>")


def _write(passage: Written, *, in_table: bool = False) -> str:
    """Return a translated passage as Markdown in which nothing is markup that was none."""
    written: list[str] = []
    starts = [0]  # of lines, in numbers of what is written
    translated = [False]  # whether anything is, of all and in each pair of marks
    # Two dollar signs may be a formula.
    dollar = "\\$" if sum(part.count("$") for part in passage if isinstance(part, str)) > 1 else "$"
    for part in passage:
        if isinstance(part, str):
            escaped = _MARKUP.sub(lambda found: f"\\{found[0]}", part).replace("$", dollar)
            written.append(escaped.replace("|", "\\|") if in_table else escaped)
            translated = [True] * len(translated)
            continue
        raw = part.source if isinstance(part, Text) else part.raw
        if isinstance(part, Mark) and part.kind == "open":
            translated.append(False)
        elif isinstance(part, Mark) and part.kind == "close" and len(translated) > 1:
            inner = translated.pop()
            raw = raw[inner] if isinstance(raw, tuple) else raw
        written.append(raw if isinstance(raw, str) else raw[0])
        if "\n" in written[-1]:
            starts.append(len(written))
    if translated[0]:
        for number in starts:
            line = "".join(written[number : number + 3])
            if begins := _LINE_START.match(line):
                sign = begins.end() if begins[0].isdigit() else 0
                written[number : number + 3] = [f"{line[:sign]}\\{line[sign:]}", "", ""]
    return "".join(written)
