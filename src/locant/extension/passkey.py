"""Passkey retrieval.

Source: Mohtashami and Jaggi 2023, "Landmark Attention: Random-Access Infinite Context Length for Transformers",
section 4.2; wording, range of the keys, length of the answer and what counts as found are those of the authors' code
(github.com/epfml/landmark-attention, llama/run_test.py). The key stands at a given depth here, not at a random one.
"""

from __future__ import annotations

import random

from locant.extension.retrieval import Question

TASK = (
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. I will quiz you "
    "about the important information there."
)
GARBAGE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
QUESTION = "What is the pass key? The pass key is"
ANSWER_TOKENS = 10
_KEYS = (1, 50_000)


def passkey_question(characters: int, depth: float, attempt: int) -> Question:
    """Return a prompt with a pass key hidden in it.

    Args:
        characters: Length of the irrelevant text.
        depth: Where the key stands in it, from 0 (its beginning) to 1 (its end).
        attempt: Which of the keys; the same number gives the same key.
    """
    key = random.Random(f"passkey {attempt}").randint(*_KEYS)
    garbage = " ".join([GARBAGE] * (characters // len(GARBAGE) + 1))
    before = round(depth * characters)
    information = f"The pass key is {key}. Remember it. {key} is the pass key."
    lines = [TASK, garbage[:before], information, garbage[: characters - before], QUESTION]
    return Question("\n".join(lines), (str(key),), "first number")
