"""Cleaning of training text: removal of pairs that teach nothing, or that would make the test dishonest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, compress
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
from pydantic import Field

from locant.errors import DataError
from locant.settings import Settings
from locant.text.pairs import Block, Pair, ParallelText, Rows

# Scripts written without spaces (Thai, Lao, Burmese, Khmer, kana, Han): each character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_FIRST_BYTE = 0xE0
_WHITE_SPACE = [sign for sign in map(chr, range(0x3001)) if sign.isspace() and sign not in " \n"]

_SORTED_AT_ONCE = 1 << 22
"""Hashes, of which each takes some 40 bytes while they are sorted."""

_KEPT = 0
_REASONS = {1: "empty side", 2: "too long", 3: "length ratio", 4: "also in valid or test", 5: "duplicate"}
TOO_MANY_TOKENS = "too many tokens"
"""The reason that is added when the text has been tokenised."""


class CleaningSettings(Settings):
    """What to remove from the training text; validation and test text is never touched.

    Length is counted in words; in scripts written without spaces (Chinese, Japanese, Thai ...) each character counts.

    Attributes:
        max_length: The longest sentence kept, in words, on either side.
        max_ratio: The largest ratio kept between the lengths of the two sides.
        duplicates: Remove all but the first of pairs that are exactly the same.
        overlap: Remove training pairs whose source or target also stands in validation or test, whatever the case
            and the white space.
    """

    max_length: int = Field(default=200, ge=1)
    max_ratio: float = Field(default=5.0, ge=1.0)
    duplicates: bool = True
    overlap: bool = True


@dataclass(frozen=True)
class CleaningReport:
    """How many pairs there were and how many were removed for each reason."""

    total: int
    removed: dict[str, int]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CleaningReport:
        """Build from plain data, as :meth:`to_dict` returns it.

        Raises:
            KeyError, TypeError, ValueError: Something is missing, or is no number.
        """
        return cls(int(data["total"]), {reason: int(count) for reason, count in dict(data["removed"]).items()})

    @classmethod
    def sum(cls, reports: Sequence[CleaningReport]) -> CleaningReport:
        """Return the counts of several texts together."""
        counts: Counter[str] = Counter()
        for report in reports:
            counts.update(report.removed)
        return cls(sum(report.total for report in reports), dict(counts))

    @property
    def kept(self) -> int:
        """The number of pairs that remain."""
        return self.total - sum(self.removed.values())

    def with_removed(self, reason: str, count: int) -> CleaningReport:
        """Return the report with one more reason."""
        return replace(self, removed={**self.removed, reason: count})

    def to_dict(self) -> dict[str, int | dict[str, int]]:
        """Return the counts as plain data."""
        return {"total": self.total, "removed": self.removed, "kept": self.kept}


@dataclass(frozen=True)
class CleanText:
    """The pairs that survived cleaning: re-iterable, streamed, one byte of memory a pair."""

    text: ParallelText
    keep: npt.NDArray[np.bool_]
    report: CleaningReport

    @classmethod
    def nothing(cls, text: ParallelText) -> CleanText:
        """Return a text none of which is trained on, so that there is nothing to clean."""
        return cls(text, np.zeros(len(text), dtype=bool), CleaningReport(0, dict.fromkeys(_REASONS.values(), 0)))

    def __iter__(self) -> Iterator[Pair]:
        return compress(self.text, self.keep)

    def __len__(self) -> int:
        return self.report.kept

    def blocks(self) -> Iterator[tuple[Block, Rows]]:
        """Yield blocks of the text, each with the rows of it that survived."""
        start = 0
        for block in self.text.blocks():
            yield block, np.flatnonzero(self.keep[start : start + len(block)])
            start += len(block)

    def some(self, rows: Rows) -> Iterator[Pair]:
        """Yield some of the pairs.

        Args:
            rows: Which of those that survived, in ascending order.
        """
        first = 0
        for block, kept in self.blocks():
            begin, end = np.searchsorted(rows, (first, first + len(kept)))
            if end > begin:
                yield from block.read(kept[rows[begin:end] - first])
            first += len(kept)


def split_words(text: str) -> list[str]:
    """Return the words; each character of a script without spaces is one."""
    return _WORD.findall(text)


def count_words(text: str) -> int:
    """Return the number of words; each character of a script without spaces counts as one."""
    return len(split_words(text))


class Facts(NamedTuple):
    """What cleaning looks at of n pairs, in numbers.

    Attributes:
        words: Of source and target; [n, 2] uint32.
        folded: CRC-32 of both, as :func:`folded` writes them; [n, 2] uint32.
        stripped: 64-bit hash of the pair without white space around its sides; [n] uint64.
    """

    words: npt.NDArray[np.uint32]
    folded: npt.NDArray[np.uint32]
    stripped: npt.NDArray[np.uint64]


def facts_of(pairs: Sequence[Pair], hashes: npt.NDArray[np.uint64] | None = None) -> Facts:
    """Return what cleaning looks at.

    Args:
        pairs: The text.
        hashes: Those of the pairs as they are, where they are known.
    """
    sentences = list(chain.from_iterable(pairs))
    lines = _lines(sentences)
    text = lines.encode("utf-8", "surrogatepass")
    letters = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    spaces = np.searchsorted(np.flatnonzero(letters == ord(" ")), ends)
    words = np.diff(spaces, prepend=0).astype(np.uint32) + (np.diff(ends, prepend=-1) > 1)
    # All scripts without spaces are from U+0800 on, of which the first byte is at least this.
    for row in np.unique(np.searchsorted(ends, np.flatnonzero(letters >= _FIRST_BYTE))).tolist():
        if _UNSPACED_CHARACTER.search(sentences[row]):
            words[row] = count_words(sentences[row])
    plain = lines.casefold().encode("utf-8", "surrogatepass").split(b"\n")
    checksums = np.fromiter(map(crc32, plain), np.uint32, len(sentences))
    return Facts(words.reshape(-1, 2), checksums.reshape(-1, 2), _stripped(pairs, hashes))


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


def _stripped(pairs: Sequence[Pair], hashes: npt.NDArray[np.uint64] | None) -> npt.NDArray[np.uint64]:
    """Return the hashes of pairs without white space around their sides, given those of the pairs as they are."""
    if hashes is None:
        return hashes64(utf8(f"{source.strip()}\n{target.strip()}" for source, target in pairs))
    found = hashes.copy()
    rows = [
        row for row, (one, other) in enumerate(pairs) if len(one.strip()) < len(one) or len(other.strip()) < len(other)
    ]
    if rows:
        found[rows] = _stripped([pairs[row] for row in rows], None)
    return found


def utf8(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts as bytes, lone surrogates too."""
    return (text.encode("utf-8", "surrogatepass") for text in texts)


def hashes64(texts: Iterable[bytes]) -> npt.NDArray[np.uint64]:
    """Return the hashes of :func:`~locant.text.pairs.hash64` of texts in UTF-8."""
    found = b"".join([blake2b(text, digest_size=8).digest() for text in texts])
    return np.frombuffer(found, dtype="<u8").astype(np.uint64)


def clean(text: ParallelText, evaluation: Iterable[Pair], settings: CleaningSettings, *, of: str = "") -> CleanText:
    """Decide which training pairs to keep, in one pass over the text, or over what was noted when it was read.

    Memory stays small for millions of pairs: 10 bytes each, sentences are compared by 64-bit hashes.

    Args:
        text: The training pairs.
        evaluation: All pairs of validation and test.
        settings: What to remove.
        of: The name of the text where there are several, for the message.

    Raises:
        DataError: Nothing is left.
    """
    reserved = _Reserved(evaluation if settings.overlap else ())
    reasons = np.zeros(len(text), dtype=np.uint8)
    hashes = np.zeros(len(text) if settings.duplicates else 0, dtype=np.uint64)
    start = 0
    for block in text.blocks():
        facts = _facts(block)
        end = start + len(block)
        reasons[start:end] = _judged(block, facts, reserved, settings)
        if settings.duplicates:
            hashes[start:end] = facts.stripped
        start = end
    if settings.duplicates:
        again = repeated(hashes)
        reasons[again[reasons[again] == _KEPT]] = 5
    counts = np.bincount(reasons, minlength=len(_REASONS) + 1)
    report = CleaningReport(len(text), {reason: int(counts[code]) for code, reason in _REASONS.items()})
    if not report.kept:
        listed = ", ".join(f"{count} {reason}" for reason, count in report.removed.items() if count)
        pairs = f"{report.total} training pairs{f' of {of!r}' if of else ''}"
        raise DataError(f"Cleaning removed all {pairs}: {listed}. Relax the 'cleaning' settings.")
    return CleanText(text, reasons == _KEPT, report)


def _facts(block: Block) -> Facts:
    words, checksums, stripped = (block.column(name) for name in Facts._fields)
    if words is None or checksums is None or stripped is None:
        return facts_of(block.read())
    return Facts(words, checksums, stripped)


class _Reserved:
    """Sentences of validation and test, by side, as :func:`folded` writes them."""

    def __init__(self, evaluation: Iterable[Pair]) -> None:
        self._sentences: tuple[set[str], set[str]] = (set(), set())
        for pair in evaluation:
            for sentence, found in zip(pair, self._sentences, strict=True):
                found.add(folded(sentence))
        self._checksums = [
            np.unique(np.array([crc32(one.encode("utf-8", "surrogatepass")) for one in side], dtype=np.uint32))
            for side in self._sentences
        ]

    def may_hold(self, checksums: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return which pairs may have a side among the sentences, given the checksums of both; [n] of [n, 2]."""
        sources, targets = (among(checksums[:, side], known) for side, known in enumerate(self._checksums))
        return sources | targets

    def holds(self, pair: Pair) -> bool:
        """Whether a side of a pair is among the sentences."""
        return any(folded(sentence) in known for sentence, known in zip(pair, self._sentences, strict=True))


def _judged(block: Block, facts: Facts, reserved: _Reserved, settings: CleaningSettings) -> npt.NDArray[np.uint8]:
    """Return the code of the first reason to remove each pair, or 0."""
    shorter, longer = facts.words.min(axis=1), facts.words.max(axis=1)
    wrong = [shorter == 0, longer > settings.max_length, longer > settings.max_ratio * shorter]
    reasons = np.select(wrong, [np.uint8(code) for code in (1, 2, 3)], np.uint8(_KEPT))
    doubtful = np.flatnonzero((reasons == _KEPT) & reserved.may_hold(facts.folded))
    if len(doubtful):
        held = [reserved.holds(pair) for pair in block.read(doubtful)]
        reasons[doubtful[held]] = 4
    return reasons


def among(values: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values occur in a sorted array."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[places] == values
    return found


def repeated(hashes: npt.NDArray[np.uint64]) -> Rows:
    """Return the places of all values that stand earlier in an array too, in no order.

    Values are sorted a share at a time, those of one range of hashes, so that little memory is needed besides theirs.
    """
    shares = -(-len(hashes) // _SORTED_AT_ONCE)
    bounds = [share * (1 << 64) // max(1, shares) for share in range(1, shares)]
    found = [np.zeros(0, dtype=np.int64)]
    for low, high in zip([0, *bounds], [*bounds, None], strict=True):
        places = []
        for start in range(0, len(hashes), _SORTED_AT_ONCE):
            some = hashes[start : start + _SORTED_AT_ONCE]
            inside = some >= np.uint64(low)
            if high is not None:
                inside &= some < np.uint64(high)
            places.append(np.flatnonzero(inside) + start)
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *places])
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        found.append(rows[1:][hashes[rows[1:]] == hashes[rows[:-1]]])
    return np.concatenate(found)


def folded(sentence: str) -> str:
    """Return a sentence without differences of case and white space."""
    return " ".join(sentence.split()).casefold()
