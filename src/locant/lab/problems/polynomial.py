"""The value of a polynomial."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import DIGITS, Problem, Tokens


class Polynomial(Problem):
    """``x = 3 ; 2 x ^ 1 + 4 x ^ 2`` -> ``2``: the value modulo 10, exponents from 0 to 3."""

    name = "polynomial"
    title = "Evaluate a polynomial modulo 10"
    length_means = "terms"
    symbols = (*DIGITS, "x", "=", ";", "^", "+")

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        x, value = random.randrange(10), 0
        question: Tokens = ["x", "=", str(x), ";"]
        for index in range(length):
            coefficient, exponent = random.randrange(10), random.randrange(4)
            value += coefficient * x**exponent
            question += [*(["+"] if index else []), str(coefficient), "x", "^", str(exponent)]
        return question, [str(value % 10)]
