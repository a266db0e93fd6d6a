"""The last digit of a sum."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import DIGITS, Problem, Tokens


class Summation(Problem):
    """``7 5 9`` -> ``1``: the sum of digits modulo 10."""

    name = "summation"
    title = "Sum digits modulo 10"
    length_means = "digits"
    symbols = DIGITS

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        digits = random.choices(DIGITS, k=length)
        return digits, [str(sum(map(int, digits)) % 10)]
