"""Hashes, checksums and word counts of pairs: what cleaning, held-out sets and statistics need of a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from zlib import crc32

import numpy as np
import numpy.typing as npt

# Scripts written without spaces (Thai, Lao, Burmese, Khmer, kana, Han): each character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_FIRST_BYTE = 0xE0

FACTS = np.dtype([("pair", "<u8"), ("stripped", "<u8"), ("words", "<u4", 2), ("folded", "<u4", 2)])
"""Of a pair: 64-bit hash; the same without white space around its sides; number of words of source and of target;
CRC-32 of both, as :func:`folded` writes them."""
Facts = npt.NDArray[np.void]
"""Of n pairs; [n] of ``FACTS``."""


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
    return np.frombuffer(b"".join([blake2b(text, digest_size=8).digest() for text in texts]), dtype="<u8")


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
    lines = "".join([" ".join(sentence.split()) + "\n" for sentence in sentences])
    letters = np.frombuffer(lines.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    spaces = np.searchsorted(np.flatnonzero(letters == ord(" ")), ends)
    words = np.diff(spaces, prepend=0) + (np.diff(ends, prepend=-1) > 1)
    # All scripts without spaces are from U+0800 on, of which the first byte is at least this.
    for row in np.unique(np.searchsorted(ends, np.flatnonzero(letters >= _FIRST_BYTE))).tolist():
        if _UNSPACED_CHARACTER.search(sentences[row]):
            words[row] = count_words(sentences[row])
    found = np.empty(len(pairs), FACTS)
    found["words"] = words.reshape(-1, 2)
    plain = lines.casefold().encode("utf-8", "surrogatepass").split(b"\n")
    found["folded"] = np.fromiter(map(crc32, plain), np.uint32, len(sentences)).reshape(-1, 2)
    found["pair"] = found["stripped"] = _hashes(map(b"\n".join, zip(data[::2], data[1::2], strict=True)))
    bare = [(source.strip(), target.strip()) for source, target in pairs]
    rows = [row for row, (pair, other) in enumerate(zip(pairs, bare, strict=True)) if pair != other]
    found["stripped"][rows] = _hashes(utf8("\n".join(bare[row]) for row in rows))
    return found


def turned_facts(facts: Facts) -> Facts:
    """Return the facts of the pairs with source and target exchanged; equal pairs still have equal hashes."""
    turned = facts.copy()
    for name in ("words", "folded"):
        turned[name] = facts[name][:, ::-1]
    return turned
