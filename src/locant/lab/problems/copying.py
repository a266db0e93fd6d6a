"""Copy: say the question again."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import LETTERS, Problem, Tokens


class Copy(Problem):
    """``q x a x`` -> ``q x a x``, letters drawn evenly."""

    name = "copy"
    title = "Copy a row of letters"
    length_means = "letters"
    symbols = LETTERS

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        letters = random.choices(LETTERS, k=length)
        return letters, letters
