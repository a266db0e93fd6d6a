"""Reverse: say the question backwards."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import LETTERS, Problem, Tokens


class Reverse(Problem):
    """``q x a`` -> ``a x q``, letters drawn evenly."""

    name = "reverse"
    title = "Reverse a row of letters"
    length_means = "letters"
    symbols = LETTERS

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        letters = random.choices(LETTERS, k=length)
        return letters, letters[::-1]
