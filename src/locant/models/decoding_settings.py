"""The decoding settings of a model: search, length of the output and batching."""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, model_validator

from locant.errors import ConfigError
from locant.settings import Settings
from locant.text.tokenizer_pair import LanguageTokens

MOST_HYPOTHESES = 1000
"""The widest beam, and the most translations of a sentence."""
LONGEST_SOURCE = 100_000
"""The most tokens that ``max_source_length`` and ``usual_source_length`` may allow."""


class SamplingSettings(Settings):
    """Sampling of translations instead of a search for the most probable one (Edunov et al. 2018, section 3).

    Attributes:
        temperature: What logits are divided by: 1 draws from the model's own distribution, less makes probable tokens
            more probable.
        top_k: How many of the most probable tokens may be drawn at each step; ``None`` for all. Edunov et al. take 10.
        seed: Decides what is drawn: the same seed gives the same translations, whatever the batches.
        first: How many sentences of the same text were translated before these.
    """

    temperature: float = Field(1.0, ge=0.001, le=1000)
    top_k: int | None = Field(None, ge=1, le=10_000_000)
    seed: int = Field(1, ge=0, lt=2**64)
    first: int = Field(0, ge=0, lt=2**62)


class DecodingSettings(Settings):
    """Search, output length and batching; the defaults are not tuned to a corpus.

    Every number has a limit far above what is of use, because settings also come with other people's models.

    Beam size and length penalty follow Vaswani et al. 2017, section 6.1 (beam 4, alpha 0.6, at most 50 tokens more
    than the input).

    Attributes:
        beam: Hypotheses kept for each sentence; 1 is greedy search.
        length_penalty: Exponent alpha of the length penalty (Wu et al. 2016, equation 14); 0 compares bare
            log-probabilities and so prefers short output.
        n_best: Translations returned for each sentence, at most ``beam`` where it searches.
        max_length_ratio: Longest output, in target tokens for each source token ...
        max_length_extra: ... and this many tokens more.
        batch_tokens: Budget of a batch: source tokens, padding included, times ``rows``.
        max_source_length: Longest sentence accepted, in tokens.
        usual_source_length: Longest sentence, in tokens, that the training text had often: longer ones in documents,
            in texts that a server is sent and on exported pages are cut at the end of a clause. ``None`` where it is
            not known: only what is too long for the model is cut.
        sampling: How to sample; ``None`` searches, by ``beam``.
    """

    beam: int = Field(5, ge=1, le=MOST_HYPOTHESES)
    length_penalty: float = Field(0.6, ge=0, le=5)
    n_best: int = Field(1, ge=1, le=MOST_HYPOTHESES)
    max_length_ratio: float = Field(1.0, gt=0, le=100)
    max_length_extra: int = Field(50, ge=0, le=10_000)
    batch_tokens: int = Field(8192, ge=1, le=10_000_000)
    max_source_length: int = Field(1024, ge=1, le=LONGEST_SOURCE)
    usual_source_length: int | None = Field(None, ge=1, le=LONGEST_SOURCE)
    sampling: SamplingSettings | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n_best > self.beam and not self.sampling:
            raise ConfigError(
                f"n_best is {self.n_best}, but a beam of {self.beam} finds no more than {self.beam} translations; "
                "raise beam or lower n_best"
            )
        return self

    @property
    def rows(self) -> int:
        """Hypotheses that are extended at once for each sentence."""
        return self.n_best if self.sampling else self.beam

    def continued(self, done: int) -> Self:
        """Return the settings for the sentences after the first ``done`` ones of a text that is translated in parts.

        Where they sample, each sentence is drawn as if the text were translated at once.
        """
        if not self.sampling or not done:
            return self
        return self.model_copy(update={"sampling": self.sampling.model_copy(update={"first": done})})

    def max_target_length(self, source_length: int) -> int:
        """Return the most tokens that the translation of that many source tokens may have, EOS included."""
        return math.ceil(self.max_length_ratio * source_length) + self.max_length_extra

    def longest_sequence(self, languages: LanguageTokens | None = None) -> int:
        """Return the positions of the longest source or target: its tokens, its languages', and EOS or BOS."""
        before, after = languages.places if languages else ((), ())
        longest_target = self.max_target_length(self.max_source_length)
        return 1 + max(len(before) + self.max_source_length, len(after) + longest_target)
