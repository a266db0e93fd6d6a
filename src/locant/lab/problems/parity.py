"""Parity of a row of bits."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import Problem, Tokens


class Parity(Problem):
    """``1 0 1 1`` -> ``odd``: whether the number of ones is even. Without a scratchpad Transformers fail at it."""

    name = "parity"
    title = "Parity of a row of bits"
    length_means = "bits"
    symbols = ("0", "1", "even", "odd")

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        bits = random.choices("01", k=length)
        return bits, ["odd" if bits.count("1") % 2 else "even"]
