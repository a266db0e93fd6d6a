"""Lines to be translated: in windows that fit into memory, as they arrive, and as parts where they are too long."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from locant.errors import DataError
from locant.text.readers import decode_line, open_bytes, require_line_feeds
from locant.text.spans import Span

OnLong = Literal["error", "split", "empty"]
"""What becomes of a sentence that is too long: it is an error, it is cut into parts that are translated one by one, or
its translation is empty."""

WholeSpans = Callable[[str], Sequence[Span]]
"""Returns the spans of a text that are to stay in one part."""

LONGEST_LINE = 1_000_000
"""Bytes of the longest line that is read."""
_MOST_LINES = 10_000
_MOST_ARRIVING = 1_000  # fewer, because somebody may be waiting for the first of them
_MOST_CHARACTERS = 5_000_000
_BLOCK = 65_536
_PAUSE = 0.05  # seconds until an input that does not block is asked again


@dataclass(frozen=True)
class Line:
    """A line of an input without its end, or why it could not be read, in a sentence; its text is empty then."""

    text: str
    fault: str = ""


def read_windows(path: Path, *, returns_end_lines: bool = False) -> Iterator[list[Line]]:
    r"""Yield the lines of a UTF-8 file (gzipped when its name ends in ``.gz``) in windows that fit into memory.

    Args:
        path: The file.
        returns_end_lines: Whether it is read by something for which ``\r`` alone ends a line too.

    Raises:
        DataError: The file is missing, unreadable or not UTF-8, after the lines before have been yielded; or it has
            ``\r`` and no ``\n``, so that all of it is one line.
    """
    with open_bytes(path) as file:
        blocks = iter(lambda: file.read(_BLOCK), b"")
        lines = _lines(blocks, str(path), returns_end_lines=returns_end_lines)
        yield from _windows(lines, _MOST_LINES)


def check_lines(path: Path, *, returns_end_lines: bool = False) -> None:
    """Raise DataError unless all of a file can be read by :func:`read_windows`; reads it once, and keeps nothing."""
    for _ in read_windows(path, returns_end_lines=returns_end_lines):
        pass


def arriving_windows(raw: IO[bytes], name: str) -> Iterator[list[Line]]:
    """Yield lines as they arrive: those that are there, as soon as there is one.

    Args:
        raw: What they are read from, without a buffer: its ``read`` returns what there is.
        name: What it is, for messages.

    Raises:
        DataError: It cannot be read, or a line is not UTF-8, after the lines before have been yielded.
    """

    def arrived() -> Iterator[bytes | None]:
        block: bytes | None = b" "
        while block:
            yield None
            try:
                while (block := raw.read(_BLOCK)) is None:
                    time.sleep(_PAUSE)
            except (OSError, ValueError) as error:
                raise DataError(f"{name} cannot be read: {error}") from None
            yield block

    yield from _windows(_lines(arrived(), name, returns_end_lines=True), _MOST_ARRIVING)


def _windows(lines: Iterable[Line | None], most: int) -> Iterator[list[Line]]:
    """Gather lines into windows, which end where ``None`` says that there are no more yet.

    An error of the lines comes after those before it.
    """
    window: list[Line] = []
    characters = 0
    failed = None
    lines = iter(lines)
    while not failed:
        try:
            line = next(lines)
        except (StopIteration, DataError) as error:
            failed, line = error, None
        if line:
            window.append(line)
            characters += len(line.text)
        if window and (not line or len(window) == most or characters >= _MOST_CHARACTERS):
            yield window
            window, characters = [], 0
    if isinstance(failed, DataError):
        raise failed


def _lines(blocks: Iterable[bytes | None], name: str, *, returns_end_lines: bool) -> Iterator[Line | None]:
    r"""Yield the lines of blocks, which end at ``\n`` or ``\r\n``, and ``None`` where a block is."""

    def line(raw: bytes, number: int) -> Line:
        if len(raw) <= LONGEST_LINE:
            return Line(decode_line(raw, name, number))
        return Line("", f"{name}, line {number} is longer than {LONGEST_LINE:,} bytes, so it is not translated.")

    begun, number = b"", 0
    for block in blocks:
        if block is None:
            yield None
            continue
        *ends, rest = block.split(b"\n")
        for end in ends:
            number += 1
            yield line(begun + end, number)
            begun = b""
        begun = (begun + rest)[: LONGEST_LINE + 1]  # the rest of one that is too long is not kept
    if begun:
        if not number and not returns_end_lines:
            require_line_feeds(begun, name)
        yield line(begun, number + 1)


# After the end of a sentence, after a clause, between words.
_ENDS, _WIDE_ENDS, _BREAKS, _WIDE_BREAKS = (
    ".!?\u2026",
    "\u3002\uff01\uff1f\uff61",
    ",;:\u2013\u2014",
    "\uff0c\u3001\uff1b\uff1a",
)
_CUTS = (
    re.compile(rf"(?<=[{_ENDS}])[\"'\u00bb\u201d\u2019)\]]*\s+|(?<=[{_WIDE_ENDS}])"),
    re.compile(rf"(?<=[{_BREAKS}])\s+|(?<=[{_WIDE_BREAKS}])"),
    re.compile(r"\s+"),
)


def split_to_fit(text: str, fits: Callable[[str], bool], whole: WholeSpans | None = None) -> list[str]:
    """Cut a text into parts that fit, at the end of sentences near the middle where there is one.

    Where there is none, the cut is after a clause, else between words, else between characters.

    Args:
        text: The text.
        fits: Whether a part is short enough.
        whole: Returns the spans of a text that are not cut, unless there is no other place; ``None`` for none.

    Returns:
        The parts without white space around them, in their order; one that cannot be cut further is a character that
        does not fit.

    Example:
        >>> split_to_fit("One two. Three, four five.", lambda part: len(part) <= 10)
        ['One two.', 'Three,', 'four five.']
    """
    text = text.strip()
    if len(text) < 2 or fits(text):
        return [text] if text else []
    middle = len(text) // 2
    place = middle
    barred = {at for start, end in whole(text) for at in range(start + 1, end)} if whole else set()
    for cut in _CUTS:
        places = [found.end() for found in cut.finditer(text) if len(text) <= 4 * found.end() <= 3 * len(text)]
        if places := [place for place in places if place not in barred]:
            place = min(places, key=lambda end: abs(end - middle))
            break
    else:
        places = [place for place in range(1, len(text)) if place not in barred] if barred else []
        place = min(places, key=lambda end: abs(end - middle), default=middle)
    return split_to_fit(text[:place], fits, whole) + split_to_fit(text[place:], fits, whole)


def require_text(texts: Iterable[str], what: str, first: int = 1) -> None:
    """Raise DataError where a text has half of a character in it; the message has its number and ``what`` it is."""
    for number, text in enumerate(texts, start=first):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(
                f"{what} {number} has half of a character (a lone surrogate), which is no text. Remove it."
            ) from None


Part = tuple[str, list[int]]
"""A text and its token ids, at least one."""


def parts_of(
    sentences: Sequence[str],
    encode: Callable[[Sequence[str]], list[list[int]]],
    *,
    most: int,
    reason: str,
    on_long: OnLong,
    say: Callable[[str], None],
    whole: WholeSpans | None = None,
    first: int = 1,
) -> list[list[Part]]:
    """Return of each sentence its parts: itself, more where it is split, none where its translation is empty.

    Args:
        sentences: Texts.
        encode: Returns the token ids of each text.
        most: Tokens of the longest sentence that is translated whole.
        reason: What sets that limit.
        on_long: What becomes of longer ones; see :meth:`locant.translation.Translator.translate_chunks`.
        say: Called with a line about each of them that is not an error.
        whole: Returns what is not cut in a sentence that is split; ``None`` for nothing.
        first: Number of the first sentence in messages.

    Raises:
        DataError: A sentence is too long, or has half of a character in it.
    """
    require_text(sentences, "Sentence", first)
    parts: list[list[Part]] = []
    for number, (sentence, source) in enumerate(zip(sentences, encode(sentences), strict=True), start=first):
        parts.append([(sentence, source)] if source else [])
        if len(source) <= most:
            continue
        message = f"Sentence {number} has {len(source)} tokens, but at most {most} can be translated"
        message += f" ({reason})."
        if on_long == "error":
            raise DataError(f"{message} Split it into shorter sentences.")
        parts[-1] = []
        if on_long == "split":
            texts = split_to_fit(sentence, lambda part: len(encode([part])[0]) <= most, whole)
            pieces = [(text, ids) for text, ids in zip(texts, encode(texts), strict=True) if ids]
            if all(len(ids) <= most for _, ids in pieces):
                parts[-1] = pieces
        how = f"It is translated in {len(parts[-1])} parts." if parts[-1] else "It is not translated."
        say(f"{message} {how}")
    return parts
