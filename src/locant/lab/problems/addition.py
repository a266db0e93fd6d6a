"""Addition of two decimal numbers."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import DIGITS, Problem, Tokens


class Addition(Problem):
    """``4 7 + 8 5`` -> ``1 3 2``, highest digits first, both numbers with exactly ``length`` digits."""

    name = "addition"
    title = "Add two decimal numbers"
    length_means = "digits of each number"
    symbols = (*DIGITS, "+")

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        lowest = 10 ** (length - 1) if length > 1 else 0
        first, second = (random.randrange(lowest, 10**length) for _ in range(2))
        return [*str(first), "+", *str(second)], list(str(first + second))
