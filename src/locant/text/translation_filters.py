"""Filters of machine-translated text: which translations are not worth training on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from locant.settings import Settings
from locant.text.facts import count_words, folded, split_words

_LONGEST_PHRASE = 4  # words of a phrase whose repetitions are counted

Reason = Literal["empty translation", "low score", "length ratio", "copy", "repetition"]
"""Why a translation is removed, in the order in which the reasons are looked for."""


class TranslationFilters(Settings):
    """Which translations to remove; empty ones always are.

    Length is counted in words; in scripts written without spaces (Chinese, Japanese, Thai ...) each character counts.

    Attributes:
        min_score: The lowest score kept: log-probability (natural) per token, so 0 is certainty.
        max_ratio: The largest ratio kept between the lengths of a sentence and its translation.
        copies: Remove translations that are their source again, whatever the case and the white space.
        max_repetitions: How often a phrase of up to four words may stand in succession, where the source does not
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
            lengths = sorted((count_words(sentence), count_words(translation)))
            if lengths[1] > self.max_ratio * lengths[0]:
                return "length ratio"
        if self.copies and folded(sentence) == folded(translation):
            return "copy"
        if self.max_repetitions is not None:
            times = most_repetitions(split_words(folded(translation)))
            if times > self.max_repetitions and times > most_repetitions(split_words(folded(sentence))):
                return "repetition"
        return None


def most_repetitions(words: Sequence[str]) -> int:
    """Return how often the most repeated phrase of up to four words stands in direct succession; 1 for no repetition.

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
