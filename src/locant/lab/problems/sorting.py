"""Sorting numbers."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import Problem, Tokens

_NUMBERS = tuple(str(number) for number in range(50))


class Sorting(Problem):
    """``31 7 22 7`` -> ``7 7 22 31``; numbers from 0 to 49, one token each, repetitions allowed."""

    name = "sorting"
    title = "Sort numbers"
    length_means = "numbers"
    symbols = _NUMBERS

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        numbers = random.choices(_NUMBERS, k=length)
        return numbers, sorted(numbers, key=int)
