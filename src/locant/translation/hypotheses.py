"""Hypotheses: outputs of a model, and what they are ranked by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, overload

from numpy.typing import NDArray
from torch import Tensor

from locant.errors import LocantError
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
    """Return the hypothesis of what was written.

    Args:
        tokens: Target ids; those from the first EOS on are no part of the hypothesis.
        total: Log-probability (natural) of the tokens up to EOS.
        limit: Most tokens that might have been written, EOS included.
        alpha: Exponent of the length penalty.

    Raises:
        LocantError: The log-probability is not a finite number.
    """
    if not math.isfinite(total):
        raise LocantError(NOT_A_NUMBER)
    length = next((place for place, token in enumerate(tokens) if token == EOS), len(tokens))
    return Hypothesis(tokens[:length], total / length_penalty(min(length + 1, limit), alpha), total)
