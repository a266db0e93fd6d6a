"""Questions about something that stands somewhere in a long text: what the passkey, needle and RULER tests share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING

from locant.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ANSWER_RULES = {
    "first number": "the first run of digits in the continuation is the number asked for",
    "contains": "share of the expected phrases that the continuation contains, whatever their case",
}
"""What an answer is worth, from 0 to 1, by the name of the rule."""


@dataclass(frozen=True)
class Question:
    """A prompt and what should follow it.

    Attributes:
        prompt: The text that is read.
        expected: What the answer must contain.
        rule: One of :data:`ANSWER_RULES`.
    """

    prompt: str
    expected: tuple[str, ...]
    rule: str = "contains"

    def score(self, answer: str) -> float:
        """Return what an answer is worth, from 0 to 1."""
        if self.rule == "first number":
            found = re.search(r"\d+", answer)
            return float(found is not None and int(found[0]) == int(self.expected[0]))
        return sum(phrase.lower() in answer.lower() for phrase in self.expected) / len(self.expected)


def longest_prompt(
    build: Callable[[int], Question], tokenizer: PreTrainedTokenizerBase, tokens: int
) -> tuple[Question, list[int]]:
    """Return the longest question whose prompt is at most so many tokens long, and its tokens.

    Args:
        build: Makes a question from an amount of filling text, in units of its own; more never means fewer tokens.
        tokenizer: Of the model.
        tokens: Length that the prompt must not exceed, start token included.

    Raises:
        UsageError: Even the question without any filling is longer.
    """

    def ids(amount: int) -> list[int]:
        found: list[int] = tokenizer(build(amount).prompt, verbose=False).input_ids
        return found

    least = ids(0)
    if len(least) > tokens:
        raise UsageError(f"A prompt of {tokens} tokens has no room for the question, which alone takes {len(least)}.")
    low, high = 0, 256
    while len(ids(high)) <= tokens:
        low, high = high, max(high + 1, int(high * tokens / max(len(ids(high)), 1) * 1.05))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(ids(middle)) <= tokens else (low, middle)
    return build(low), ids(low)


def filling(haystack: Sequence[str], count: int) -> list[str]:
    """Return so many sentences of a text, from its beginning again where it ends."""
    return list(islice(cycle(haystack), count))


def spread(filling: Sequence[str], inserted: Sequence[tuple[float, str]]) -> list[str]:
    """Return pieces of text with others inserted at relative depths, from 0 (first) to 1 (last)."""
    pieces = list(filling)
    # From the end, so that earlier places stay where they are; equal depths keep their order.
    numbered = ((depth, index, text) for index, (depth, text) in enumerate(inserted))
    for depth, _, text in sorted(numbered, reverse=True):
        pieces.insert(round(depth * len(filling)), text)
    return pieces
