"""Monolingual text: a counted stream of lines that can be read as often as needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from locant.errors import DataError
from locant.text.readers import read_lines


@dataclass(frozen=True)
class MonolingualText:
    """A counted stream of lines; every ``iter()`` reads it again from the start, and nothing is held in memory.

    Attributes:
        open: Returns a fresh iterator over the lines, without their line ends.
        count: The number of lines.
        digest: A hash of the text; two streams with the same digest hold the same lines in the same order.
    """

    open: Callable[[], Iterator[str]] = field(repr=False)
    count: int
    digest: str

    def __iter__(self) -> Iterator[str]:
        return self.open()

    def __len__(self) -> int:
        return self.count


def survey_lines(open_lines: Callable[[], Iterator[str]]) -> MonolingualText:
    """Read a stream once, so that every mistake in it surfaces now, and return it with its count and digest.

    Raises:
        DataError: Whatever is wrong in the files behind the stream.
    """
    count, digest = 0, hashlib.sha256()
    for line in open_lines():
        count += 1
        digest.update(f"{line}\n".encode("utf-8", "surrogatepass"))
    return MonolingualText(open_lines, count, digest.hexdigest())


def read_monolingual(paths: Sequence[Path]) -> MonolingualText:
    """Open text files, one sentence a line (``.gz`` too), that follow one another, and read them once.

    Raises:
        DataError: A file is missing, unreadable or not UTF-8 (with the line number), or there is no text in them.
    """

    def lines() -> Iterator[str]:
        for path in paths:
            yield from read_lines(path)

    text = survey_lines(lines)
    if not len(text):
        named = ", ".join(map(str, paths))
        raise DataError(f"{named} {'is' if len(paths) == 1 else 'are'} empty; there is nothing to translate.")
    return text
