"""Translations as a translator returns them: texts with what the model makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from locant.models.decoding_settings import DecodingSettings
from locant.translation.hypotheses import Hypothesis, length_penalty


@dataclass(frozen=True)
class Translation:
    """A translation with what the model makes of it.

    Attributes:
        text: The translation.
        score: Log-probability (natural) divided by the length penalty; of what the model wrote, before terms of a
            glossary were put in.
        log_probability: Log-probability (natural) of its tokens.
        tokens: Number of target tokens that have a part in it, EOS included; 0 where nothing was translated.
    """

    text: str
    score: float
    log_probability: float = 0.0
    tokens: int = 0

    @property
    def log_probability_per_token(self) -> float:
        """Mean log-probability (natural) of a token; 0 where nothing was translated."""
        return self.log_probability / max(1, self.tokens)


def of_hypotheses(hypotheses: Sequence[Hypothesis], texts: Sequence[str], longest: int) -> list[Translation]:
    """Return what an engine has found for a sentence, with its texts; it was allowed ``longest`` tokens."""
    return [
        Translation(text, each.score, each.log_probability, min(len(each.tokens) + 1, longest))
        for text, each in zip(texts, hypotheses, strict=True)
    ]


def joined(parts: list[list[Translation]], settings: DecodingSettings) -> list[Translation]:
    """Return the translations of a sentence from those of its parts: the best of all, the second of all, ..."""
    if not parts:
        return [Translation("", 0.0)]
    if len(parts) == 1:
        return parts[0]
    whole = []
    for chosen in zip(*(part[: min(map(len, parts))] for part in parts), strict=True):
        total, tokens = sum(each.log_probability for each in chosen), sum(each.tokens for each in chosen)
        text = " ".join(each.text for each in chosen if each.text)
        whole.append(Translation(text, total / length_penalty(tokens, settings.length_penalty), total, tokens))
    return whole
