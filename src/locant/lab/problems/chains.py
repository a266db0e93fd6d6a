"""Chains of assignments, in the style of LEGO (Zhang et al. 2022, "Unveiling Transformers with LEGO")."""

from __future__ import annotations

from random import Random
from string import ascii_letters

from locant.lab.problems.problem import Problem, Tokens


class Chains(Problem):
    """``b = - a ; a = + 1 ; ? b`` -> ``-1``: follow assignments of signs, given in any order, to the last variable."""

    name = "chains"
    title = "Follow a chain of signed assignments"
    length_means = "assignments"
    symbols = (*ascii_letters, "=", "+", "-", "1", ";", "?", "+1", "-1")
    max_length = len(ascii_letters)

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        names = random.sample(ascii_letters, length)
        signs = random.choices("+-", k=length)
        assignments = [
            [name, "=", sign, before, ";"] for name, sign, before in zip(names, signs, ["1", *names[:-1]], strict=True)
        ]
        random.shuffle(assignments)
        question = [token for assignment in assignments for token in assignment]
        return [*question, "?", names[-1]], ["-1" if signs.count("-") % 2 else "+1"]
