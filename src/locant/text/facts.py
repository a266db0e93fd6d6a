"""Hashes, checksums and word counts of pairs: what cleaning, held-out sets and statistics need of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

# Scripts written without spaces (Thai, Lao, Burmese, Khmer, kana, Han): each character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_FIRST_BYTE = 0xE0
_WHITE_SPACE = [sign for sign in map(chr, range(0x3001)) if sign.isspace() and sign not in " \n"]


def split_words(text: str) -> list[str]:
    """Return the words; each character of a script without spaces is one."""
    return _WORD.findall(text)


def count_words(text: str) -> int:
    """Return the number of words; each character of a script without spaces counts as one."""
    return len(split_words(text))


def folded(sentence: str) -> str:
    """Return a sentence without differences of case and white space."""
    return " ".join(sentence.split()).casefold()


def utf8(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts as bytes, lone surrogates too."""
    return (text.encode("utf-8", "surrogatepass") for text in texts)


def hash64(text: str) -> int:
    """Return a 64-bit hash of a text, the same in every process and on every machine."""
    return int(_hashes(utf8([text]))[0])


def _hashes(texts: Iterable[bytes]) -> npt.NDArray[np.uint64]:
    found = b"".join([blake2b(text, digest_size=8).digest() for text in texts])
    return np.frombuffer(found, dtype="<u8").astype(np.uint64)


class Facts(NamedTuple):
    """Hashes, checksums and word counts of n pairs.

    Attributes:
        pair: 64-bit hash of the pair; [n] uint64.
        stripped: The same without white space around its sides; [n] uint64.
        words: Of source and target; [n, 2] uint32.
        checksums: CRC-32 of both; [n, 2] uint32.
        folded: CRC-32 of both, as :func:`folded` writes them; [n, 2] uint32.
    """

    pair: npt.NDArray[np.uint64]
    stripped: npt.NDArray[np.uint64]
    words: npt.NDArray[np.uint32]
    checksums: npt.NDArray[np.uint32]
    folded: npt.NDArray[np.uint32]

    def select(self, rows: npt.NDArray[np.int64]) -> Facts:
        """Return the facts of some rows."""
        columns: list[Any] = [column[rows] for column in self]
        return Facts(*columns)

    def turned(self) -> Facts:
        """Return the facts of the pairs with source and target exchanged; equal pairs still have equal hashes."""
        return Facts(self.pair, self.stripped, *(column[:, ::-1] for column in self[2:]))


def encoded(pairs: Sequence[tuple[str, str]]) -> list[bytes]:
    """Return all sentences in UTF-8, source and target in turns."""
    sentences = list(chain.from_iterable(pairs))
    found = "\n".join(sentences).encode("utf-8", "surrogatepass").split(b"\n")
    # One call for all, but where a sentence has several lines.
    return found if len(found) == len(sentences) else list(utf8(sentences))


def facts_of(pairs: Sequence[tuple[str, str]], data: Sequence[bytes] | None = None) -> Facts:
    """Return the facts of some pairs.

    Args:
        pairs: The text.
        data: What :func:`encoded` makes of them, where that is known.
    """
    data = encoded(pairs) if data is None else data
    sentences = list(chain.from_iterable(pairs))
    lines = _lines(sentences)
    letters = np.frombuffer(lines.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    spaces = np.searchsorted(np.flatnonzero(letters == ord(" ")), ends)
    words = np.diff(spaces, prepend=0).astype(np.uint32) + (np.diff(ends, prepend=-1) > 1)
    # All scripts without spaces are from U+0800 on, of which the first byte is at least this.
    for row in np.unique(np.searchsorted(ends, np.flatnonzero(letters >= _FIRST_BYTE))).tolist():
        if _UNSPACED_CHARACTER.search(sentences[row]):
            words[row] = count_words(sentences[row])
    plain = lines.casefold().encode("utf-8", "surrogatepass").split(b"\n")
    checksums, of_folded = (
        np.fromiter(map(crc32, texts), np.uint32, len(sentences)).reshape(-1, 2) for texts in (data, plain)
    )
    hashes = _hashes(map(b"\n".join, zip(data[::2], data[1::2], strict=True)))
    stripped = hashes.copy()
    bare = [(source.strip(), target.strip()) for source, target in pairs]
    rows = [row for row, (pair, other) in enumerate(zip(pairs, bare, strict=True)) if pair != other]
    stripped[rows] = _hashes(utf8("\n".join(bare[row]) for row in rows))
    return Facts(hashes, stripped, words.reshape(-1, 2), checksums, of_folded)


def _lines(sentences: Sequence[str]) -> str:
    """Return sentences as lines, each without white space at its sides and with single spaces; all of them at once."""
    text = "\n".join([*sentences, ""])
    if text.count("\n") > len(sentences):
        text = "\n".join([*(sentence.replace("\n", " ") for sentence in sentences), ""])
    for sign in _WHITE_SPACE:
        if sign in text:
            text = text.replace(sign, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.replace("\n ", "\n").replace(" \n", "\n").removeprefix(" ")
