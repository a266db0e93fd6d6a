"""Cleaning: training pairs that teach nothing or make the test dishonest, and bad machine translations, are removed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np
from pydantic import Field

from locant.errors import DataError
from locant.settings import Settings
from locant.text.pairs import ChangedBlock, Pair, ParallelText, among, folded, split_words, utf8

_KEPT = 0
REASONS = {1: "empty side", 2: "too long", 3: "length ratio", 4: "also in valid or test", 5: "duplicate"}
TOO_MANY_TOKENS = "too many tokens"
"""The reason that is added when the text has been tokenised."""
_LONGEST_PHRASE = 4  # words of a phrase whose repetitions are counted

Reason = Literal["empty translation", "low score", "length ratio", "copy", "repetition"]
"""Why a translation is removed, in the order in which the reasons are looked for."""


class CleaningSettings(Settings):
    """What to remove from the training text; validation and test text is never touched.

    Length is counted in words; in scripts written without spaces (Chinese, Japanese, Thai ...) each character counts.

    Attributes:
        max_length: The longest sentence kept, in words, on either side.
        max_ratio: The largest ratio kept between the lengths of the two sides.
        duplicates: Remove all but the first of pairs that are exactly the same.
        overlap: Remove training pairs whose source or target is also in validation or test, whatever the case
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

    @property
    def kept(self) -> int:
        """The number of pairs that remain."""
        return self.total - sum(self.removed.values())

    def to_dict(self) -> dict[str, int | dict[str, int]]:
        """Return the counts as plain data."""
        return {"total": self.total, "removed": self.removed, "kept": self.kept}


def clean(
    text: ParallelText, evaluation: Iterable[Pair], settings: CleaningSettings, *, of: str = ""
) -> tuple[ParallelText, CleaningReport]:
    """Decide which training pairs to keep, by the facts of the text; sentences are compared by 64-bit hashes.

    Memory stays small for millions of pairs: some 10 bytes each.

    Args:
        text: The training pairs.
        evaluation: All pairs of validation and test.
        settings: What to remove.
        of: The name of the text where there are several, for the message.

    Returns:
        The pairs that are kept, streamed, with one byte of memory a pair; and what was removed.

    Raises:
        DataError: Nothing is left.
    """
    reserved: list[set[str]] = [set(), set()]
    for pair in evaluation if settings.overlap else ():
        for sentence, side in zip(pair, reserved, strict=True):
            side.add(folded(sentence))
    checksums = [np.unique(np.fromiter(map(crc32, utf8(side)), np.uint32, len(side))) for side in reserved]
    reasons = np.zeros(len(text), dtype=np.uint8)
    hashes = np.zeros(len(text) if settings.duplicates else 0, dtype=np.uint64)
    start = 0
    for block, facts in text.blocks():
        shorter, longer = facts["words"].min(axis=1), facts["words"].max(axis=1)
        wrong = [shorter == 0, longer > settings.max_length, longer > settings.max_ratio * shorter]
        judged = np.select(wrong, [np.uint8(code) for code in (1, 2, 3)], np.uint8(_KEPT))
        may_overlap = among(facts["folded"][:, 0], checksums[0]) | among(facts["folded"][:, 1], checksums[1])
        doubtful = np.flatnonzero((judged == _KEPT) & may_overlap)
        for row, pair in zip(doubtful, ChangedBlock(block, doubtful).read() if len(doubtful) else (), strict=True):
            if any(folded(sentence) in side for sentence, side in zip(pair, reserved, strict=True)):
                judged[row] = 4
        reasons[start : start + len(facts)] = judged
        if settings.duplicates:
            hashes[start : start + len(facts)] = facts["stripped"]
        start += len(facts)
    hashes.sort()
    repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    del hashes
    seen, start = np.zeros(len(repeated), bool), 0
    for facts in text.open_facts() if len(repeated) else ():
        rows = np.flatnonzero(among(facts["stripped"], repeated))
        which, first = np.unique(np.searchsorted(repeated, facts["stripped"][rows]), return_index=True)
        rows = np.delete(rows, first[~seen[which]]) + start
        seen[which] = True
        reasons[rows[reasons[rows] == _KEPT]] = 5
        start += len(facts)
    removed = {reason: int(np.count_nonzero(reasons == code)) for code, reason in REASONS.items()}
    report = CleaningReport(len(text), removed)
    if not report.kept:
        listed = ", ".join(f"{count} {reason}" for reason, count in report.removed.items() if count)
        pairs = f"{report.total} training pairs{f' of {of!r}' if of else ''}"
        raise DataError(f"Cleaning removed all {pairs}: {listed}. Relax the 'cleaning' settings.")
    return text.select(reasons == _KEPT, f"{text.digest}-clean"), report


class TranslationFilters(Settings):
    """Which machine translations to remove; empty ones always are.

    Length is counted in words; in scripts written without spaces (Chinese, Japanese, Thai ...) each character counts.

    Attributes:
        min_score: The lowest score kept: log-probability (natural) per token, so 0 is certainty.
        max_ratio: The largest ratio kept between the lengths of a sentence and its translation.
        copies: Remove translations that are their source again, whatever the case and the white space.
        max_repetitions: How often a phrase of up to four words may occur in succession, where the source does not
            repeat one as often; a model that is stuck writes one again and again.
    """

    min_score: float | None = Field(default=None, le=0)
    max_ratio: float | None = Field(default=None, ge=1)
    copies: bool = False
    max_repetitions: int | None = Field(default=None, ge=1)

    def reason_to_remove(self, sentence: str, translation: str, score: float) -> Reason | None:
        """Return the first reason that applies, or ``None`` for a translation that is kept.

        Args:
            sentence: What was translated.
            translation: Its translation.
            score: Log-probability (natural) per token of the translation.
        """
        if not translation.strip():
            return "empty translation"
        if self.min_score is not None and not score >= self.min_score:
            return "low score"
        if self.max_ratio is not None:
            shorter, longer = sorted(len(split_words(text)) for text in (sentence, translation))
            if longer > self.max_ratio * shorter:
                return "length ratio"
        if self.copies and folded(sentence) == folded(translation):
            return "copy"
        if self.max_repetitions is not None:
            times = most_repetitions(split_words(folded(translation)))
            if times > self.max_repetitions and times > most_repetitions(split_words(folded(sentence))):
                return "repetition"
        return None


def most_repetitions(words: Sequence[str]) -> int:
    """Return how often the most repeated phrase of up to four words occurs in direct succession; 1 for no repetition.

    >>> most_repetitions("holy holy holy is he".split())
    3
    >>> most_repetitions("on and on and on".split())
    2
    """
    most = min(1, len(words))
    for size in range(1, _LONGEST_PHRASE + 1):
        same = 0  # words in a row that equal the one `size` before them
        for one, other in zip(words, words[size:], strict=False):
            same = same + 1 if one == other else 0
            most = max(most, same // size + 1)
    return most
