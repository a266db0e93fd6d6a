"""Hypotheses, which a model writes and which are ranked by their scores, and translations, which are their texts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, overload

from numpy.typing import NDArray
from torch import Tensor

from locant.errors import LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.text.tokenizer import EOS

Array = NDArray[Any]

NOT_A_NUMBER = (
    "The model's output is not a number, so it cannot translate: its weights are damaged, or its training diverged."
)


@dataclass(frozen=True)
class Hypothesis:
    """An output of the model.

    Attributes:
        tokens: Target ids, without BOS and EOS.
        score: ``log_probability`` divided by the length penalty; what hypotheses are compared by.
        log_probability: Log-probability (natural) of the tokens and of EOS, if the model wrote it.
    """

    tokens: list[int]
    score: float
    log_probability: float


@overload
def length_penalty(length: int, alpha: float) -> float: ...
@overload
def length_penalty(length: Tensor, alpha: float) -> Tensor: ...
@overload
def length_penalty(length: Array, alpha: float | Array) -> Array: ...
def length_penalty(length: int | Tensor | Array, alpha: float | Array) -> Any:
    """Return ``((5 + |Y|) / 6)^alpha`` (Wu et al. 2016, equation 14).

    Args:
        length: ``|Y|``, the number of tokens that were scored, EOS included.
        alpha: Exponent; 0 leaves log-probabilities as they are.
    """
    return ((5 + length) / 6) ** alpha


def hypothesis_of(tokens: list[int], total: float, limit: int, alpha: float) -> Hypothesis:
    """Return the hypothesis of the ids that were written, those from the first EOS on left out.

    ``total`` is the log-probability (natural) of the tokens up to EOS, ``limit`` the most tokens that might have been
    written, EOS included, and ``alpha`` the exponent of the length penalty. LocantError where the total is not finite.
    """
    if not math.isfinite(total):
        raise LocantError(NOT_A_NUMBER)
    length = next((place for place, token in enumerate(tokens) if token == EOS), len(tokens))
    return Hypothesis(tokens[:length], total / length_penalty(min(length + 1, limit), alpha), total)


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
