"""Cleaning of training text: removal of pairs that teach nothing, or that would make the test dishonest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np
from pydantic import Field

from locant.errors import DataError
from locant.settings import Settings
from locant.text.pairs import Pair, ParallelText, hash_pair

# Scripts written without spaces (Thai, Lao, Burmese, Khmer, kana, Han): each character counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")

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
    keep: np.ndarray
    report: CleaningReport

    @classmethod
    def nothing(cls, text: ParallelText) -> CleanText:
        """Return a text none of which is trained on, so that there is nothing to clean."""
        return cls(text, np.zeros(len(text), dtype=bool), CleaningReport(0, dict.fromkeys(_REASONS.values(), 0)))

    def __iter__(self) -> Iterator[Pair]:
        return compress(self.text, self.keep)

    def __len__(self) -> int:
        return self.report.kept


def split_words(text: str) -> list[str]:
    """Return the words; each character of a script without spaces is one."""
    return _WORD.findall(text)


def count_words(text: str) -> int:
    """Return the number of words; each character of a script without spaces counts as one."""
    return len(split_words(text))


def clean(text: ParallelText, evaluation: Iterable[Pair], settings: CleaningSettings, *, of: str = "") -> CleanText:
    """Decide which training pairs to keep, in one pass over the text.

    Memory stays small for millions of pairs: 9 bytes each, sentences are compared by 64-bit hashes.

    Args:
        text: The training pairs.
        evaluation: All pairs of validation and test.
        settings: What to remove.
        of: The name of the text where there are several, for the message.

    Raises:
        DataError: Nothing is left.
    """
    reserved: tuple[set[str], set[str]] = (set(), set())
    if settings.overlap:
        for source, target in evaluation:
            reserved[0].add(folded(source))
            reserved[1].add(folded(target))
    reasons = np.zeros(len(text), dtype=np.uint8)
    hashes = np.zeros(len(text), dtype=np.uint64)
    for number, pair in enumerate(text):
        reasons[number] = _judge(pair, reserved, settings)
        hashes[number] = hash_pair((pair[0].strip(), pair[1].strip()))
    if settings.duplicates:
        first = np.zeros(len(text), dtype=bool)
        first[np.unique(hashes, return_index=True)[1]] = True
        reasons[(reasons == _KEPT) & ~first] = 5
    counts = np.bincount(reasons, minlength=len(_REASONS) + 1)
    report = CleaningReport(len(text), {reason: int(counts[code]) for code, reason in _REASONS.items()})
    if not report.kept:
        listed = ", ".join(f"{count} {reason}" for reason, count in report.removed.items() if count)
        pairs = f"{report.total} training pairs{f' of {of!r}' if of else ''}"
        raise DataError(f"Cleaning removed all {pairs}: {listed}. Relax the 'cleaning' settings.")
    return CleanText(text, reasons == _KEPT, report)


def _judge(pair: Pair, reserved: tuple[set[str], set[str]], settings: CleaningSettings) -> int:
    """Return the code of the first reason to remove a pair, or 0."""
    source, target = count_words(pair[0]), count_words(pair[1])
    if not source or not target:
        return 1
    if max(source, target) > settings.max_length:
        return 2
    if max(source, target) > settings.max_ratio * min(source, target):
        return 3
    if settings.overlap and (folded(pair[0]) in reserved[0] or folded(pair[1]) in reserved[1]):
        return 4
    return _KEPT


def folded(sentence: str) -> str:
    """Return a sentence without differences of case and white space."""
    return " ".join(sentence.split()).casefold()
