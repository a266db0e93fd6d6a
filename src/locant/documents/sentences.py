"""Texts of any length cut into sentences, by the rules of their language, which the package sentencex knows.

Line breaks and the white space around sentences stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from locant.languages import parse_language
from locant.lazy import require_package
from locant.text.spans import Span
from locant.translation.lines import WholeSpans, split_to_fit

Splitter = Callable[[str], Sequence[str]]
"""Cuts a line into sentences, which together hold all its characters but white space, in their order."""

_LINE = re.compile(r"[^\r\n]+")
_WINDOW = 4_000  # characters; a sentence that is longer is cut


@lru_cache(maxsize=256)
def sentence_splitter(language: str) -> Splitter:
    """Return what cuts lines of a language into sentences.

    Args:
        language: Its code in any form; region and script do not count.

    Raises:
        MissingExtraError: The package ``sentencex`` is not installed.
    """
    segment = require_package("sentencex", "Cutting texts into sentences").segment
    return partial(_split, segment, parse_language(language).code)


def _split(segment: Any, language: str, line: str) -> Sequence[str]:
    """Cut a line, a long one window by window: the package takes time with the square of the length of some lines."""
    found: list[str] = []
    while len(line) > _WINDOW:
        end = line.rfind(" ", _WINDOW // 2, _WINDOW) + 1 or _WINDOW
        *whole, last = segment(language, line[:end])
        # The last sentence goes on in the next window.
        at = line.rfind(last, 0, end)
        if whole and at > 0 and not line[at + len(last) : end].strip():
            found, line = [*found, *whole], line[at:]
        else:
            found, line = [*found, line[:end]], line[end:]
    return [*found, *segment(language, line)]


def fitting_splitter(split: Splitter, fits: Callable[[str], bool], whole: WholeSpans | None = None) -> Splitter:
    """Return what besides cuts sentences that are too long, at the end of a clause where there is one.

    Args:
        split: Cuts lines into sentences.
        fits: Whether a sentence is short enough for a model.
        whole: Returns the spans of a line that stay in one sentence; ``None`` for none.
    """

    def split_and_fit(line: str) -> Sequence[str]:
        sentences = split(line)
        if uncut := whole(line) if whole else ():
            found: list[Span] = []
            for start, end in _spans(line, sentences):
                if found and any(first < start and found[-1][1] < last for first, last in uncut):
                    start = found.pop()[0]
                found.append((start, end))
            sentences = [line[start:end] for start, end in found]
        return [
            part
            for sentence in sentences
            for part in ([sentence] if fits(sentence) else split_to_fit(sentence, fits, whole))
        ]

    return split_and_fit


def _spans(line: str, sentences: Sequence[str]) -> list[Span]:
    """Return where sentences are in their line; what is behind one that the splitter has changed is one more."""
    spans: list[Span] = []
    place = 0
    for words in map(str.strip, sentences):
        start = line.find(words, place)
        if start < 0 or line[place:start].strip():
            break
        if words:
            place = start + len(words)
            spans.append((start, place))
    if rest := line[place:].strip():
        start = line.index(rest, place)
        spans.append((start, start + len(rest)))
    return spans


def sentence_spans(text: str, split: Splitter) -> list[Span]:
    """Return where the sentences of a text are, which have no white space around them.

    Args:
        text: Any text; a line break always ends a sentence.
        split: Cuts a line without white space around it.
    """
    spans: list[Span] = []
    for line in _LINE.finditer(text):
        inner = line[0].strip()
        found = _spans(line[0], split(inner) if inner else ())
        spans += [(line.start() + start, line.start() + end) for start, end in found]
    return spans
