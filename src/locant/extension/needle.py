"""A needle in a haystack: a sentence hidden in real text, and a question about it.

Source: Kamradt 2023, "LLMTest_NeedleInAHaystack" (github.com/gkamradt/LLMTest_NeedleInAHaystack), for the test, its
needle and its question. There another model judges the answer; here it must contain given phrases.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from locant.errors import UsageError
from locant.extension.retrieval import Question, filling, spread

ANSWER_TOKENS = 40
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Needle:
    """What is hidden and asked for.

    Attributes:
        text: The sentence.
        question: About it.
        expected: Phrases that the answer must contain, whatever their case.
    """

    text: str = "The best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day."
    question: str = "What is the best thing to do in San Francisco?"
    expected: tuple[str, ...] = ("sandwich", "Dolores Park")

    def __post_init__(self) -> None:
        """Check that the needle holds its answer.

        Raises:
            UsageError: It does not, or nothing is expected.
        """
        lacking = [phrase for phrase in self.expected if phrase.lower() not in self.text.lower()]
        if lacking or not self.expected:
            what = f"'{lacking[0]}' does not occur in it" if lacking else "no phrase is expected"
            raise UsageError(f"Nobody could find the answer in the needle '{self.text}': {what}.")


def needle_question(haystack: list[str], sentences: int, depth: float, needle: Needle) -> Question:
    """Return a prompt with a needle between two sentences.

    Args:
        haystack: Sentences, from :func:`sentences_of`.
        sentences: How many of them.
        depth: Where the needle stands among them, from 0 (before all) to 1 (after all).
        needle: What is hidden.
    """
    text = " ".join(spread(filling(haystack, sentences), [(depth, needle.text)]))
    return Question(f"{text}\n\nQuestion: {needle.question}\nAnswer:", needle.expected)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [sentence for sentence in _SENTENCE_END.split(text) if sentence]
