"""Prompts, depths and scores of the retrieval tests, against the wording of their sources."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import UsageError
from locant.extension.evaluate.retrieval import (
    TASKS,
    Needle,
    Question,
    longest_prompt,
    needle_question,
    passkey_question,
)

HAYSTACK = [f"Sentence number {index} is here." for index in range(50)]


class _Words:
    def __call__(self, text: str, *, verbose: bool = True) -> Any:
        return SimpleNamespace(input_ids=re.findall(r"\w+|\W", text))


def _landmark_prompt(n_garbage: int, n_prefix: int, key: int) -> str:
    """The prompt of Mohtashami and Jaggi's llama/run_test.py, written out."""
    line = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
    garbage = " ".join([line] * 2000)
    return "\n".join(
        [
            "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. I will quiz "
            "you about the important information there.",
            garbage[:n_prefix],
            f"The pass key is {key}. Remember it. {key} is the pass key.",
            garbage[: n_garbage - n_prefix],
            "What is the pass key? The pass key is",
        ]
    )


@settings(deadline=None, max_examples=40)
@given(characters=st.integers(0, 5000), depth=st.sampled_from([0.0, 0.25, 0.5, 1.0]), attempt=st.integers(0, 20))
def test_the_passkey_prompt_is_that_of_the_paper(characters: int, depth: float, attempt: int) -> None:
    question = passkey_question(characters, depth=depth, attempt=attempt)
    key = int(question.expected[0])
    assert 1 <= key <= 50_000
    assert question.prompt == _landmark_prompt(characters, round(depth * characters), key)


@pytest.mark.parametrize(
    ("answer", "score"),
    [(" 4711.", 1), (" is 4711, and 5", 1), (" 47110", 0), (" 5 4711", 0), (" 04711", 1), ("", 0), ("four", 0)],
)
def test_a_pass_key_is_the_first_number(answer: str, score: float) -> None:
    assert Question("", ("4711",), "first number").score(answer) == score


@settings(deadline=None, max_examples=40)
@given(limit=st.integers(60, 3000), attempt=st.integers(0, 3))
def test_prompts_fill_the_length(limit: int, attempt: int) -> None:
    def build(amount: int) -> Question:
        return passkey_question(amount, depth=0.5, attempt=attempt)

    tokenizer: Any = _Words()
    if len(tokenizer(build(0).prompt).input_ids) > limit:
        with pytest.raises(UsageError):
            longest_prompt(build, tokenizer, limit)
        return
    question, ids = longest_prompt(build, tokenizer, limit)
    assert limit - 2 <= len(ids) <= limit
    assert ids == tokenizer(question.prompt).input_ids


def test_a_needle_of_ones_own() -> None:
    needle = Needle(text="Ada keeps the key under a stone.", question="Where is the key?", expected=("stone",))
    question = needle_question(4, haystack=HAYSTACK, depth=0.5, needle=needle)
    assert question.prompt == (
        "Sentence number 0 is here. Sentence number 1 is here. Ada keeps the key under a stone. Sentence number 2 is "
        "here. Sentence number 3 is here.\n\nQuestion: Where is the key?\nAnswer:"
    )
    assert (
        needle_question(120, haystack=HAYSTACK, depth=0.0, needle=needle).prompt.count("Sentence number 0 ") == 3
    )  # it begins again
    with pytest.raises(UsageError):
        Needle(text="Ada keeps the key under a stone.", question="Where?", expected=("rock",))


@settings(deadline=None, max_examples=40)
@given(amount=st.integers(0, 400), attempt=st.integers(0, 20))
def test_ruler_answers_follow_from_the_prompts(amount: int, attempt: int) -> None:
    asked = {name: task(amount, haystack=HAYSTACK, attempt=attempt) for name, task in TASKS.items()}

    prompt = asked["multikey"].prompt
    key = re.findall(r"number for (\S+) mentioned", prompt)
    hidden = dict(re.findall(r"One of the special magic numbers for (\S+) is: (\d{7})\.", prompt))
    assert len(hidden) == 4
    assert asked["multikey"].expected == (hidden[key[0]],)

    prompt = asked["variable-tracking"].prompt
    values: dict[str, str] = {}
    for name, value in re.findall(r"^VAR ([A-Z]{5}) = (?:VAR )?(\S+)$", prompt, re.MULTILINE):
        values[name] = values.get(value, value)
    assert len(set(values.values())) == 1
    assert set(values) == set(asked["variable-tracking"].expected)
    assert f"assigned the value {next(iter(values.values()))}" in prompt

    prompt = asked["frequent-words"].prompt
    words = prompt.partition("coded words. ")[2].partition("\nQuestion")[0].split()
    counts = Counter(words).most_common(4)
    assert counts[0][0] == "...."
    assert tuple(word for word, _ in counts[1:]) == asked["frequent-words"].expected
