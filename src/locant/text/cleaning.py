"""Cleaning of training text: removal of pairs that teach nothing, or that would make the test dishonest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from pydantic import Field

from locant.errors import DataError
from locant.settings import Settings
from locant.text.facts import folded
from locant.text.pairs import ChangedBlock, Pair, ParallelText, Rows, among

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
    """The pairs that survived cleaning: re-iterable, streamed, one byte of memory a pair.

    Attributes:
        text: These pairs.
        report: What was removed.
    """

    text: ParallelText
    report: CleaningReport

    @classmethod
    def nothing(cls, text: ParallelText) -> CleanText:
        """Return a text none of which is trained on, so that there is nothing to clean."""
        return cls(text, CleaningReport(0, dict.fromkeys(_REASONS.values(), 0)))

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.text)

    def __len__(self) -> int:
        return len(self.text)


def clean(text: ParallelText, evaluation: Iterable[Pair], settings: CleaningSettings, *, of: str = "") -> CleanText:
    """Decide which training pairs to keep, in one pass over the text, or over what was noted when it was read.

    Memory stays small for millions of pairs: some 34 bytes each; sentences are compared by 64-bit hashes.

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
    for (block, size), facts in zip(text.blocks(), text.facts(), strict=True):
        end = start + size
        shorter, longer = facts["words"].min(axis=1), facts["words"].max(axis=1)
        wrong = [shorter == 0, longer > settings.max_length, longer > settings.max_ratio * shorter]
        judged = np.select(wrong, [np.uint8(code) for code in (1, 2, 3)], np.uint8(_KEPT))
        doubtful = np.flatnonzero((judged == _KEPT) & reserved.may_hold(facts["folded"]))
        if len(doubtful):
            judged[doubtful[[reserved.holds(pair) for pair in ChangedBlock(block, doubtful).read()]]] = 4
        reasons[start:end] = judged
        if settings.duplicates:
            hashes[start:end] = facts["stripped"]
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
    return CleanText(text.select(reasons == _KEPT, f"{text.digest}-clean"), report)


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


def repeated(hashes: npt.NDArray[np.uint64]) -> Rows:
    """Return the places of all values that stand earlier in an array too, in no order; 24 bytes each meanwhile."""
    rows = np.argsort(hashes, kind="stable")
    return rows[1:][hashes[rows[1:]] == hashes[rows[:-1]]]
