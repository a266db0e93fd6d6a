"""Retrieval tests: passkey, needle in a haystack, and three tasks in the manner of RULER."""

from __future__ import annotations

import math
import random
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from locant.errors import UsageError
from locant.settings import Settings

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
    """Return the longest question whose prompt is at most that many tokens long, and its tokens.

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

    if (least := len(ids(0))) > tokens:
        raise UsageError(f"A prompt of {tokens} tokens has no room for the question, which alone takes {least}.")
    low, high = 0, 256
    while (found := len(ids(high))) <= tokens:
        low, high = high, max(high + 1, int(high * tokens / max(found, 1) * 1.05))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(ids(middle)) <= tokens else (low, middle)
    return build(low), ids(low)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text) if sentence]


def spread(filling: Sequence[str], inserted: Sequence[tuple[float, str]]) -> list[str]:
    """Return pieces of text with others inserted at relative depths, from 0 (first) to 1 (last)."""
    pieces = list(filling)
    # From the end, so that earlier places stay where they are; equal depths keep their order.
    numbered = ((depth, index, text) for index, (depth, text) in enumerate(inserted))
    for depth, _, text in sorted(numbered, reverse=True):
        pieces.insert(round(depth * len(filling)), text)
    return pieces


def _filled(haystack: Sequence[str], sentences: int, inserted: Sequence[tuple[float, str]]) -> str:
    """Return that many sentences of a text, from its beginning again where it ends, with others inserted."""
    return " ".join(spread(list(islice(cycle(haystack), sentences)), inserted))


class Needle(Settings):
    """A sentence that is hidden in a long text, and the question about it.

    Attributes:
        text: The sentence.
        question: About it.
        expected: Phrases that the answer must contain, whatever their case.
    """

    text: str = "The best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day."
    question: str = "What is the best thing to do in San Francisco?"
    expected: tuple[str, ...] = ("sandwich", "Dolores Park")

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Raise UsageError where the needle does not hold its answer, or nothing is expected."""
        lacking = [phrase for phrase in self.expected if phrase.lower() not in self.text.lower()]
        if lacking or not self.expected:
            what = f"'{lacking[0]}' does not occur in it" if lacking else "no phrase is expected"
            raise UsageError(f"Nobody could find the answer in the needle '{self.text}': {what}.")
        return self


def needle_question(sentences: int, *, haystack: Sequence[str], depth: float, needle: Needle) -> Question:
    """Return a prompt with a needle between two of that many sentences, at a depth from 0 (before all) to 1 (after)."""
    text = _filled(haystack, sentences, [(depth, needle.text)])
    return Question(f"{text}\n\nQuestion: {needle.question}\nAnswer:", needle.expected)


_TASK = (
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. I will quiz you "
    "about the important information there."
)
_GARBAGE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."


def passkey_question(characters: int, *, depth: float, attempt: int) -> Question:
    """Return a prompt with a pass key in so much irrelevant text, in the words of Mohtashami and Jaggi's code.

    Args:
        characters: Length of the irrelevant text.
        depth: Where the key is in it, from 0 (its beginning) to 1 (its end).
        attempt: Which of the keys; the same number gives the same key.
    """
    key = random.Random(f"passkey {attempt}").randint(1, 50_000)
    garbage = " ".join([_GARBAGE] * (characters // len(_GARBAGE) + 1))
    before = round(depth * characters)
    information = f"The pass key is {key}. Remember it. {key} is the pass key."
    question = "What is the pass key? The pass key is"
    lines = [_TASK, garbage[:before], information, garbage[: characters - before], question]
    return Question("\n".join(lines), (str(key),), "first number")


_ADJECTIVES = ("ancient", "bitter", "clever", "distant", "eager", "fragile", "gentle", "hollow", "idle", "jolly")
_NOUNS = ("anchor", "basket", "candle", "desert", "engine", "feather", "garden", "hammer", "island", "jacket", "kettle")


def multikey(sentences: int, *, haystack: Sequence[str], attempt: int) -> Question:
    """Return a question for one of four numbers that are hidden in real text, each under a key of its own."""
    rng = random.Random(f"multikey {attempt}")
    keys = [f"{rng.choice(_ADJECTIVES)}-{noun}" for noun in rng.sample(_NOUNS, 4)]
    values = {key: rng.randint(1_000_000, 9_999_999) for key in keys}
    hidden = [(rng.random(), f"One of the special magic numbers for {key} is: {values[key]}.") for key in keys]
    asked = rng.choice(keys)
    return Question(
        "Some special magic numbers are hidden within the following text. Make sure to memorize it. I will quiz you "
        f"about the numbers afterwards.\n{_filled(haystack, sentences, hidden)}\n"
        f"What is the special magic number for {asked} mentioned in the provided text? The special magic number for "
        f"{asked} mentioned in the provided text is",
        (str(values[asked]),),
    )


def variable_tracking(sentences: int, *, haystack: Sequence[str], attempt: int) -> Question:
    """Return a question for five variables that hold a number, handed on from one to the next in irrelevant text."""
    del haystack  # the filling is the noise of the passkey test
    rng = random.Random(f"variable tracking {attempt}")
    names: list[str] = []
    while len(names) < 5:
        name = "".join(rng.choices(string.ascii_uppercase, k=5))
        names += [name] if name not in names else []
    value = rng.randint(10_000, 99_999)
    lines = [f"VAR {names[0]} = {value}"]
    lines += [f"VAR {later} = VAR {earlier}" for earlier, later in pairwise(names)]
    depths = sorted(rng.random() for _ in lines)
    text = "\n".join(spread([_GARBAGE] * sentences, list(zip(depths, lines, strict=True))))
    return Question(
        f"Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n{text}\n"
        f"Question: Find all variables that are assigned the value {value} in the text above. Answer: According to "
        f"the chain(s) of variable assignment in the text above, {len(names)} variables are assigned the value "
        f"{value}, they are:",
        tuple(names),
    )


def frequent_words(words: int, *, haystack: Sequence[str], attempt: int) -> Question:
    """Return a question for the three most frequent of coded words, whose counts follow Zipf's law, ``1 / rank^2``."""
    del haystack
    rng = random.Random(f"frequent words {attempt}")
    total = words + 80  # of fewer, two of the first ranks may occur equally often
    row: list[str] = []
    expected: list[str] = []
    rank = 1
    while len(row) < total:
        # The most frequent one is noise, which the question says to pass over.
        word = "...." if rank == 1 else "".join(rng.choices(string.ascii_lowercase, k=6))
        row += [word] * max(1, round(total * 6 / (math.pi * rank) ** 2))
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


TASKS: Mapping[str, Callable[..., Question]] = {
    "multikey": multikey,
    "variable-tracking": variable_tracking,
    "frequent-words": frequent_words,
}
"""The tasks of RULER by name; each makes a question of an amount of filling, a haystack and the number of the try."""

ANSWER_TOKENS = {"passkey": 10, "needle": 40, "multikey": 32, "variable-tracking": 40, "frequent-words": 50}
"""Tokens of an answer at most."""

THRESHOLD = 0.856
"""Score that a length must reach to count as effective: that of Llama 2 7B (chat) at 4k over all tasks of the paper."""
