"""Three tasks in the manner of RULER: several keys, variable tracking, frequent words.

Source: Hsieh et al. 2024, "RULER: What's the Real Context Size of Your Long-Context Language Models?", section 3 and
appendix B, for tasks, templates and the score (share of the expected strings that occur in the answer). The paper has
thirteen tasks of 500 examples and wraps prompts in each model's chat template; here are three, plain, and as many
examples as asked for, so scores are near those of the paper but not the same.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from locant.extension.passkey import GARBAGE
from locant.extension.retrieval import Question, filling, spread

THRESHOLD = 0.856
"""Score that a length must reach to count as effective: that of Llama 2 7B (chat) at 4k over all tasks of the paper."""

_KEYS, _VALUES = 4, (1_000_000, 9_999_999)
_HOPS = 4
_ZIPF = 2.0
_FEWEST_WORDS = 80  # of fewer, two of the first ranks may occur equally often
_ADJECTIVES = ("ancient", "bitter", "clever", "distant", "eager", "fragile", "gentle", "hollow", "idle", "jolly")
_NOUNS = ("anchor", "basket", "candle", "desert", "engine", "feather", "garden", "hammer", "island", "jacket", "kettle")


def multikey(haystack: Sequence[str], sentences: int, attempt: int) -> Question:
    """Return a question for one of four numbers that are hidden in real text, each under a key of its own."""
    rng = random.Random(f"multikey {attempt}")
    keys = [f"{rng.choice(_ADJECTIVES)}-{noun}" for noun in rng.sample(_NOUNS, _KEYS)]
    values = {key: rng.randint(*_VALUES) for key in keys}
    hidden = [(rng.random(), f"One of the special magic numbers for {key} is: {values[key]}.") for key in keys]
    asked = rng.choice(keys)
    return Question(
        "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you "
        f"about the numbers afterwards.\n{' '.join(spread(filling(haystack, sentences), hidden))}\n"
        f"What is the special magic number for {asked} mentioned in the provided text? The special magic number for "
        f"{asked} mentioned in the provided text is",
        (str(values[asked]),),
    )


def variable_tracking(haystack: Sequence[str], sentences: int, attempt: int) -> Question:
    """Return a question for all variables that hold a number, handed on from one to the next in irrelevant text."""
    del haystack  # the filling is the noise of the passkey test
    rng = random.Random(f"variable tracking {attempt}")
    names: list[str] = []
    while len(names) <= _HOPS:
        name = "".join(rng.choices(string.ascii_uppercase, k=5))
        names += [name] if name not in names else []
    value = rng.randint(10_000, 99_999)
    lines = [f"VAR {names[0]} = {value}"]
    lines += [f"VAR {later} = VAR {earlier}" for earlier, later in pairwise(names)]
    depths = sorted(rng.random() for _ in lines)
    text = "\n".join(spread([GARBAGE] * sentences, list(zip(depths, lines, strict=True))))
    return Question(
        f"Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{text}\n"
        f"Question: Find all variables that are assigned the value {value} in the text above. Answer: According to "
        f"the chain(s) of variable assignment in the text above, {len(names)} variables are assigned the value "
        f"{value}, they are:",
        tuple(names),
    )


def frequent_words(haystack: Sequence[str], words: int, attempt: int) -> Question:
    """Return a question for the three most frequent of coded words, whose counts follow Zipf's law."""
    del haystack
    rng = random.Random(f"frequent words {attempt}")
    total = words + _FEWEST_WORDS
    zeta = math.pi**2 / 6  # of _ZIPF
    row: list[str] = []
    expected: list[str] = []
    rank = 1
    while len(row) < total:
        # The most frequent one is noise, which the question says to pass over.
        word = "...." if rank == 1 else "".join(rng.choices(string.ascii_lowercase, k=6))
        row += [word] * max(1, round(total * rank**-_ZIPF / zeta))
        expected += [word] if rank in (2, 3, 4) else []
        rank += 1
    del row[total:]
    rng.shuffle(row)
    return Question(
        "Read the following coded text and track the frequency of each coded word. Find the three most frequently "
        f"appeared coded words. {' '.join(row)}\nQuestion: Do not provide any explanation. Please ignore the dots "
        "'....'. What are the three most frequently appeared words in the above coded text? Answer: According to the "
        "coded text above, the three most frequently appeared words are:",
        tuple(expected),
    )


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        build: Makes a question from a haystack of sentences, an amount of filling and the number of the example.
        answer_tokens: Tokens of the answer at most.
    """

    build: Callable[[Sequence[str], int, int], Question]
    answer_tokens: int


TASKS: Mapping[str, Task] = {
    "multikey": Task(multikey, 32),
    "variable-tracking": Task(variable_tracking, 40),
    "frequent-words": Task(frequent_words, 50),
}
"""The tasks by name."""


def effective_length(scores: Mapping[int, float], threshold: float = THRESHOLD) -> int | None:
    """Return the longest length whose score reaches the threshold, or ``None``.

    Args:
        scores: Mean score over the tasks, 0 to 1, by length in tokens.
        threshold: Least score.
    """
    return max((length for length, score in scores.items() if score >= threshold), default=None)
