"""The decoding settings of a model: search, length of the output and batching."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, model_validator

from locant.errors import ConfigError
from locant.settings import Settings
from locant.text.tokenizer import LanguageTokens


class DecodingSettings(Settings):
    """Search, output length and batching; the defaults are not tuned to a corpus.

    Beam size and length penalty follow Vaswani et al. 2017, section 6.1 (beam 4, alpha 0.6, at most 50 tokens more
    than the input).

    Attributes:
        beam: Hypotheses kept for each sentence; 1 is greedy search.
        length_penalty: Exponent alpha of the length penalty (Wu et al. 2016, equation 14); 0 compares bare
            log-probabilities and so prefers short output.
        n_best: Translations returned for each sentence, at most ``beam``.
        max_length_ratio: Longest output, in target tokens for each source token ...
        max_length_extra: ... and this many tokens more.
        batch_tokens: Budget of a batch: source tokens, padding included, times ``beam``.
        max_source_length: Longest sentence accepted, in tokens.
    """

    beam: int = Field(5, ge=1)
    length_penalty: float = Field(0.6, ge=0)
    n_best: int = Field(1, ge=1)
    max_length_ratio: float = Field(1.0, gt=0)
    max_length_extra: int = Field(50, ge=0)
    batch_tokens: int = Field(8192, ge=1)
    max_source_length: int = Field(1024, ge=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n_best > self.beam:
            raise ConfigError(
                f"n_best is {self.n_best}, but a beam of {self.beam} finds no more than {self.beam} translations; "
                "raise beam or lower n_best"
            )
        return self

    def max_target_length(self, source_length: int) -> int:
        """Return the most tokens that the translation of so many source tokens may have, EOS included."""
        return math.ceil(self.max_length_ratio * source_length) + self.max_length_extra

    def longest_sequence(self, languages: LanguageTokens | None = None) -> int:
        """Return the positions of the longest source or target: its tokens, its languages', and EOS or BOS."""
        before, after = languages.places if languages else ((), ())
        longest_target = self.max_target_length(self.max_source_length)
        return 1 + max(len(before) + self.max_source_length, len(after) + longest_target)
