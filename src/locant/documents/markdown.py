"""Markdown: texts are translated; code, addresses, formulas and all that marks a text stay.

What is text says a parser of CommonMark with GitHub's extensions (pulldown-cmark, by the package pyromark), which tells
where in the document each piece of it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, NamedTuple

from locant.documents.formats import LONGEST_KEPT, Document, DocumentOptions, TextDocument, check_items, decode
from locant.documents.markup import KEPT_TAGS, VOID_TAGS, cut_html
from locant.documents.passages import FoundMark, Item, Mark, Passage, Text, Written, with_marks
from locant.lazy import require_package
from locant.text.spans import Span

_OPTIONS = (
    "ENABLE_TABLES ENABLE_FOOTNOTES ENABLE_STRIKETHROUGH ENABLE_TASKLISTS ENABLE_HEADING_ATTRIBUTES "
    "ENABLE_YAML_STYLE_METADATA_BLOCKS ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS ENABLE_DEFINITION_LIST ENABLE_MATH "
    "ENABLE_GFM"
)
_INLINE = {"Emphasis", "Strong", "Strikethrough", "Link", "Image", "Superscript", "Subscript"}
_WITHOUT_TEXT = {"CodeBlock", "MetadataBlock", "HtmlBlock"}
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)[^<>]*?(/?)>\Z", re.DOTALL)

# What generators of sites and editors have besides Markdown: commands in braces, formulas, links of wikis, marked
# words, callouts, keys, lines that include files, say what letters mean (*[HTML]: ...) or are comments of MyST (% ...),
# fences of colons, directives, blocks that are indented.
_COMMAND = re.compile(
    r"\{\{[^{}`]*\}\}|\{%[^{}`]*%\}|\{[:#.][^{}`\n]*\}|(?i:\[\[_?toc_?\]\]|\[toc\](?![(\[:]))"
    r"|\{[A-Za-z][\w:+-]*\}(?=`)|^\([\w.-]+\)=[ \t]*(?=\r?$)"
    r"|\\\((?:[^\\A-Za-z\n]|\\(?:[A-Za-z]+|[^()\[\]\s\\])|\{[^{}\n]*\}|(?<![A-Za-z])[A-Za-z](?![A-Za-z]))*+\\\)"
    r"|^[ \t>]*\\\[[ \t]*(?=\r?$)(?:\r?\n(?![ \t>]*(?:\\[\[\]]|\r?$))[^\r\n]*)*+\r?\n[ \t>]*\\\]"
    r"|!?\[\[[^\[\]|\n]+\]\](?![(\[:])|\[![A-Za-z]+\][-+]?(?=[ \t])|\+\+[a-z][a-z0-9+-]*\+\+"
    r"|(?<=\w)\^[^\s^\[\]]{1,20}\^"
    r"|(?:\[\[[^\[\]|\n]+\|(?=[^=\n\[\]]+\]\])|==(?=[^\s=][^=\n\[\]]*==))(?P<inside>[^=\n\[\]]+)(?:\]\]|==)"
    r"|\{![^{}\n]*!\}|(?<=[)\]`*_])\{[\w-]+=[^{}\n]*\}|^\*\[[^\]\n]+\]:|^-+8<-+[^\n]*|^<<<[ \t]*@?[\w./][^\n]*"
    r"|(?<![^\r\n]\n)(?<![^\r\n]\r\n)^%[ \t][^\n]*(?:\n%[^\n]*)*|^\+\+\+[ \t]+\{[^\n]*"
    r"|^(?:import|export)[ ][^\n]*?[ ]from[ ]+['\"][^\n'\"]*['\"];?[ \t]*(?=\r?$)",
    re.MULTILINE,
)
_ROLE = re.compile(r"\{[A-Za-z][\w:+-]*\}")  # of the code that follows
_NAME = re.compile(r"\{[{%][<%-]*\s*(/|end)?([\w-]+)|(\]\])|\[\[.*\||==")
_AROUND_CODE = {"highlight", "code", "mermaid", "katex", "comment"}
_FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<head>(?P<sign>:{3,}|`{3,}|~{3,}|/{3,})[ \t]*(?P<name>\{[^{}\n]*\}|[\w.-]+)?[ \t]*"
    r"[\[|]?)(?P<rest>[^\r\n]*)(?P<options>(?:\r?\n[ \t>]*:[\w-]+:(?=\s)[^\r\n]*)*"
    r"(?:(?<=\})\r?\n[ \t>]*---[ \t]*(?:\r?\n(?![ \t>]*(?:---|:::|```|~~~|\r?$))[^\r\n]*)*+\r?\n[ \t>]*---[ \t]*"
    r"(?=\r?$))?)",
    re.MULTILINE,
)
_CODE_INSIDE = re.compile(
    r"\{?(?:code|code-block|code-cell|sourcecode|math|raw|mermaid|toctree|csv-table|eval-rst|include|literalinclude)\}?"
)
_PROSE_INSIDE = re.compile(
    r"\{(?:admonition|attention|caution|danger|dropdown|error|hint|important|margin|note|seealso|sidebar|tip|topic|warning"
    r"|versionadded|versionchanged|deprecated)\}"
)
_PATH = re.compile(r"\S*[./]\w\S*")
_BLOCK = re.compile(
    r"^(?P<indent>[ \t]*)(?P<head>(?:(?:!!!|\?\?\?\+?) +[\w-]+(?: +[\w-]+)*|===[!+]?)(?: +\"|(?=[ \t\r]*$)))"
    r"(?P<title>[^\"\r\n]*)(?P<tail>\"?[ \t]*)(?=\r?\n(?:[ \t]*\r?\n)?(?P=indent)(?: {4}|\t))",
    re.MULTILINE,
)
_STEP = 1_000  # characters
_DEFINITION = re.compile(r"^ {0,3}\[([^\]\n]+)\]:", re.MULTILINE)

# Signs that are markup somewhere, or where a line begins.
_SIGN = re.compile(r"[\\`*_~\[\]<&$|{#^=+]|(?<=\{)%|!(?=\[)|^[ \t]*[-!?>:]", re.MULTILINE)
_NUMBERED = re.compile(r"^([ \t]*\d{1,9})(?=[.)](?:\s|\Z))", re.MULTILINE)


class _Event(NamedTuple):
    """What the parser has found, and the offsets of its first character and behind its last one."""

    kind: str  # ``Start`` and ``End`` of something, or what it is
    name: str  # of what starts or ends
    value: Any  # what the parser says of it
    start: int
    end: int


def _events(text: str, hidden: Sequence[Span]) -> Iterator[_Event]:
    """Yield what the parser finds; where something is hidden from it, that is an event of its own."""
    pyromark = require_package("pyromark", "Reading Markdown")
    options = pyromark.Options(0)
    for name in _OPTIONS.split():
        options |= pyromark.Options[name]
    raw = text.encode()
    steps = range(0, len(text) - _STEP, _STEP)
    starts = [0, *accumulate(len(text[at : at + _STEP].encode()) for at in steps)]

    def characters(size: int) -> int:
        """Return how many characters that many bytes are."""
        step = bisect_right(starts, size) - 1
        return step * _STEP + len(raw[starts[step] : size].decode())

    found: Any
    kind: Any
    value: Any
    number = 0
    for found, span in pyromark.events_with_range(text, options=options, merge_text=False):
        kind, value = (found, None) if isinstance(found, str) else next(iter(found.items()))
        name, inner = next(iter(value.items())) if isinstance(value, dict) else (value, value)
        start, end = characters(span["start"]), characters(span["end"])
        while kind == "Text" and number < len(hidden) and hidden[number][0] < end:
            first, last = hidden[number]
            number += 1
            if start <= first and last <= end == start + len(inner):
                if start < first:
                    yield _Event("Text", "", inner[: first - start], start, first)
                yield _Event("Hidden", "", "", first, last)
                inner, start = inner[last - start :], last
        if kind != "Text" or start < end:
            yield _Event(kind, name if kind in ("Start", "End") else "", inner, start, end)


def _without_commands(text: str) -> tuple[str, list[Span]]:
    """Return text without commands in braces, and where they were.

    Where they are alone on their lines, nothing is in their place, else letters; the characters are as many.
    """
    commands: list[Span] = []
    begun: tuple[str, int] | None = None  # a command around code
    for start, end in _commands(text):
        named = _NAME.match(text, start, end)
        if begun:
            if not (named and named[1] and named[2] == begun[0]):
                continue
            start, begun = begun[1], None
        elif named and not named[1] and named[2] in _AROUND_CODE:
            begun = named[2], start
            continue
        if commands and not text[commands[-1][1] : start].strip(" \t"):
            start = commands.pop()[0]
        commands.append((start, end))
    pieces: list[str] = []
    hidden: list[Span] = []
    place = 0
    for number, (start, end) in enumerate(commands):
        gap, following = text[place:start], commands[number + 1][0] if number + 1 < len(commands) else None
        rest, newline, _ = text[end:following].partition("\n")
        begins_line = (not place or "\n" in gap) and not gap.rpartition("\n")[2].strip(" \t>")
        is_alone = begins_line and not rest.strip() and (newline or following is None)
        pieces += [gap, _blank(text[start:end]) if is_alone else "z" * (end - start)]
        if not is_alone:
            hidden.append((start, end))
        place = end
    return "".join([*pieces, text[place:]]), hidden


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _without_fences(text: str) -> str:
    """Return text with blanks for fences and heads of blocks around text, and with headings for their titles."""
    open_fences: list[tuple[str, bool]] = []  # their signs, and whether there is code inside

    def fence(found: re.Match[str]) -> str:
        indent, head, sign, name, rest, options = (found[key] or "" for key in _FENCE.groupindex)
        is_colons = sign[0] in ":/"
        opened, is_code = open_fences[-1] if open_fences else ("", False)
        if not name and not rest.strip() and sign[0] in opened and (is_colons or len(sign) >= len(opened)):
            open_fences.pop()
        elif is_code or (is_colons and not name and (opened or rest.strip())) or (sign[0] == "`" and "`" in rest):
            return found[0]
        elif name or not is_colons:
            is_code = bool(_CODE_INSIDE.fullmatch(name)) if is_colons else not _PROSE_INSIDE.fullmatch(name)
            open_fences.append((sign, is_code))
        if is_code and not is_colons:
            return found[0]
        if is_code:
            return f"{indent}~~~{_blank(found[0][len(indent) + 3 :])}"
        title = rest[: rest.rfind("]")] if head.endswith("[") else re.sub(r"\{[^{}]*\}$", "", rest.rstrip(" \t:"))
        if not title.strip() or _PATH.fullmatch(title.strip()):
            title = ""
        sign = "#" if title else " "
        return f"{indent}{sign}{_blank(head[1:])}{title}{_blank(rest[len(title) :] + options)}"

    def block(found: re.Match[str]) -> str:
        return f"{found['indent']}- # {_blank(found['head'][4:])}{found['title']}{_blank(found['tail'])}"

    return _BLOCK.sub(block, _FENCE.sub(fence, text))


def read_markdown(content: bytes, options: DocumentOptions) -> Document:
    """Take Markdown apart.

    Raises:
        DataError: It is not UTF-8 text.
        MissingExtraError: The package ``pyromark`` is not installed.
    """
    start, text = decode(content)
    check_items(sum(text.count(sign) for sign in "\n*_[]<>`~|&$\\"))
    document, place = TextDocument(start), 0
    labels = {" ".join(found[1].lower().split()) for found in _DEFINITION.finditer(text)}
    blocks: list[str] = []
    line: list[_Event] = []
    skipped: _Event | None = None  # a block that has no text
    without, hidden = _without_commands(text)
    seen = _without_fences(without)
    for event in chain(_events(seen, hidden), [_Event("Rule", "", None, len(text), len(text))]):
        if skipped:
            if event.kind == "End" and event.name == skipped.name:
                # Lines of a quotation begin with signs that are no HTML.
                if event.name == "HtmlBlock" and "BlockQuote" not in blocks:
                    document.keep(text[place : skipped.start])
                    _add_html(text[skipped.start : event.end], document)
                    place = event.end
                skipped = None
            continue
        is_block = event.kind in ("Rule", "Html") or (event.kind in ("Start", "End") and event.name not in _INLINE)
        if not is_block:
            line.append(event)
            continue
        if line:
            first, place_after, items = _passage(text, line)
            document.keep(text[place:first])
            before = seen[text.rfind("\n", 0, first) + 1 : first].lstrip()
            behind = "\n\n    x"
            if "TableCell" in blocks:
                before, behind = "|", "|\n|-|"
            document.add(items, partial(_write, source=items, place=_Place(before, behind, labels)))
            place, line = place_after, []
        if event.kind == "Start" and event.name in _WITHOUT_TEXT:
            skipped = event
        elif event.kind == "Start":
            blocks.append(event.name)
        elif event.kind == "End":
            blocks.pop()
    document.keep(text[place:])
    return document


def _add_html(raw: str, document: TextDocument) -> None:
    """Add a block of HTML to a document."""
    inner = cut_html(raw)
    for part in inner.layout:
        if isinstance(part, int):
            document.add(_paired(with_marks(inner.passages[part], _find_commands)), inner.writers[part])
        else:
            document.keep(part)


class _Reference(NamedTuple):
    """The end of a link whose words are the label of its address: behind these words, and behind others."""

    words: str
    short: str
    full: str


def _passage(text: str, line: Sequence[_Event]) -> tuple[int, int, list[Item]]:
    """Return where a passage begins and ends, and its items."""
    line = list(_merged(line))
    first = line[0].start
    if line[0].kind == "Text" and text[first - 1 : first] == "\\":
        first -= 1
    items: list[Item] = []
    place = first
    grows = False  # whether what is before the next event belongs to the last item
    links: list[_Event] = []
    for event in line:
        if event.kind == "End":
            begun = links.pop()
            end = event.end
            if begun.name == "Link" and begun.value["link_type"] == "Collapsed" and text[end : end + 2] == "[]":
                end += 2
            close: str | _Reference = text[place:end]
            if begun.name == "Link" and begun.value["link_type"] in ("Shortcut", "Collapsed"):
                words = text[begun.start + 1 : place]
                close = _Reference(words, text[place:end], f"][{' '.join(words.split())}]")
            items.append(Mark("close", close, event.name))
            place, grows = end, False
            continue
        gap = text[place : event.start]
        own = gap
        if grows:
            own = "\\" if event.kind == "Text" and gap.endswith("\\") else ""
            last = items[-1]
            items[-1] = replace(last, raw=(last.source if isinstance(last, Text) else last.raw) + gap.removesuffix(own))
        place, grows = max(place, event.start), False
        if event.kind == "Start":
            items.append(Mark("open", own, event.name))
            links.append(event)
            grows = True
            continue
        written = own + text[event.start : event.end]
        place = max(place, event.end)
        if event.kind == "Hidden":
            commands = [written[first:last] for first, last in _commands(written)]
            items += map(_command, commands if "".join(commands) == written else [written])
        elif event.kind == "Text":
            items += _texts(str(event.value), own, written)
        else:
            items.append(_item(event, written))
            role = items[-2] if event.kind == "Code" and len(items) > 1 else None
            if isinstance(role, Mark) and _ROLE.fullmatch(str(role.raw)):
                items[-2:] = [replace(items[-1], raw=role.raw + written)]
            grows = event.kind in ("SoftBreak", "HardBreak", "TaskListMarker")
    return first, place, _paired(items)


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


def _texts(value: str, own: str, written: str) -> Iterator[Text]:
    """Yield text as it is read and written."""
    if own and written == own + value:  # a character with a backslash before it
        yield Text(value[0], own + value[0])
        value = value[1:]
        if value:
            yield Text(value)
    else:
        yield Text(value, None if value == written else written)


def _paired(items: Sequence[Item]) -> list[Item]:
    """Return items in which commands that begin and end something are pairs."""
    paired = list(items)
    begun: list[tuple[str, int]] = []
    names: Counter[str] = Counter()
    for number, item in enumerate(items):
        if not (isinstance(item, Mark) and item.kind == "void") or not (named := _NAME.match(item.raw)):
            continue
        own = named[2] or item.raw[:2].replace("]]", "[[")
        if not (named[1] or named[3] or (own == "==" and names[own])):
            begun.append((own, number))
            names[own] += 1
        elif names[own]:
            name, first = begun.pop()
            while name != own:
                names[name] -= 1
                name, first = begun.pop()
            names[name] -= 1
            paired[first] = Mark("open", paired[first].raw, f"{{{name}}}")
            paired[number] = Mark("close", item.raw, f"{{{name}}}")
    return paired


def _commands(text: str) -> Iterator[tuple[int, int]]:
    """Yield where commands begin and end; those around words are two."""
    for found in _COMMAND.finditer(text):
        if found["inside"]:
            yield found.start(), found.start("inside")
            yield found.end("inside"), found.end()
        else:
            yield found.span()


def _command(written: str) -> Mark:
    """Return the mark for a command."""
    if written.startswith(("*[", "[!")):
        return Mark("break", written)
    if written.startswith(("\\", "++")) or (written.startswith("[[") and written.endswith("]]")):
        return Mark("kept", written, text=" ".join(written.strip("\\()[]+ ").split())[:LONGEST_KEPT])
    return Mark("void", written)


def _find_commands(text: str) -> Iterator[FoundMark]:
    for start, end in _commands(text):
        yield start, end, _command(text[start:end])


def _item(event: _Event, written: str) -> Item:
    if event.kind == "SoftBreak":
        return Text(" ", written, "loose")
    if event.kind in ("HardBreak", "TaskListMarker"):
        return Mark("break", written)
    if event.kind in ("Code", "InlineMath", "DisplayMath", "Kept"):
        words = " ".join((written.strip("`$") if event.kind != "Kept" else str(event.value)).split())
        kept = words and len(words) <= LONGEST_KEPT and not (event.kind == "Kept" and _COMMAND.search(written))
        return Mark("kept", written, text=words) if kept else Mark("break" if words else "void", written)
    tag = _TAG.match(written) if event.kind == "InlineHtml" else None
    if tag is None or tag[3] or tag[2].lower() in VOID_TAGS:
        return Mark("void", written)
    return Mark("close" if tag[1] else "open", written, f"<{tag[2].lower()}>")


class _Place(NamedTuple):
    """Where in a document a passage is, as far as it decides what is markup there."""

    before: str  # on its first line
    after: str  # a block with an indent, or the rest of a table
    labels: Set[str]  # of references, which words in brackets may be

    def structure(self, text: str, passage: Sequence[str | Item]) -> Counter[str]:
        """Return what a parser finds in a passage, as it is written, but for the characters of its words."""
        words = {" ".join(each.lower().split()) for each in re.findall(r"\[([^\[\]]+)\]", text)}
        references = "".join(f"\n\n[{each}]: x" for each in sorted(words & self.labels))
        without, hidden = _without_commands(f"x\n\n{self.before}{text}{self.after}{references}")
        found = Counter(text[start:end] for start, end in _commands(text))
        for event in _events(_without_fences(without), hidden):
            if event.kind == "Text":
                found.update("".join(event.value.split()))
            elif event.kind not in ("SoftBreak", "Hidden"):
                found[f"{event.kind} {event.name} {'' if event.name in ('Link', 'Image') else event.value}"] += 1
        # Of marks only those have words that a rule has made of texts.
        words_of = (part if isinstance(part, str) else part.text for part in passage if not _is_markup(part))
        found.subtract("".join("".join(words_of).split()))
        return found


def _is_markup(part: str | Item) -> bool:
    return isinstance(part, Mark) and not (part.kind == "kept" and part.name)


def _write(passage: Written, *, source: Passage, place: _Place) -> str:
    """Return a translated passage as Markdown in which nothing is markup that was none.

    Signs that the source escapes are escaped, and all signs where a parser finds other markup than in the source.
    """
    if not any(isinstance(part, str) for part in passage):
        return _joined(passage)
    texts = [item for item in source if isinstance(item, Text)]
    escaped = {item.text for item in texts if item.raw == f"\\{item.text}"}
    escaped -= {sign for item in texts if item.raw is None for sign in item.text}
    written = _joined(passage, re.compile("|".join(map(re.escape, escaped)) or r"(?!)"))
    if not _SIGN.search(written) and not _NUMBERED.search(written):
        return written
    has_link = any(isinstance(part, str) and re.search(r"\][(\[]", part) for part in passage)
    if not has_link and place.structure(written, passage) == place.structure(_joined(source), source):
        return written
    return _NUMBERED.sub(r"\1\\", _joined(passage, _SIGN, in_texts=True))


def _joined(passage: Sequence[str | Item], signs: re.Pattern[str] = _SIGN, *, in_texts: bool = False) -> str:
    """Return a passage as a document has it.

    Args:
        passage: Translations, texts and marks.
        signs: Signs that are escaped in translations.
        in_texts: Whether they are escaped in texts of the source too.
    """

    def escape(text: str) -> str:
        return signs.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", text)

    pieces: list[str] = []
    opened: list[int] = []
    for part in passage:
        if isinstance(part, str):
            pieces.append(escape(part))
        elif isinstance(part, Text):
            pieces.append(escape(part.text) if in_texts and part.raw is None else part.source)
        else:
            begun = opened.pop() if part.kind == "close" and opened else 0
            raw = part.raw
            if isinstance(raw, _Reference):  # whose words are the reference unless they are translated
                raw = raw.short if "".join(pieces[begun:]) == raw.words else raw.full
            pieces.append(raw)
            if part.kind == "open":
                opened.append(len(pieces))
    return "".join(pieces)
