"""Nested edits of strings, in the style of PCFG SET (Hupkes et al. 2020, "Compositionality Decomposed")."""

from __future__ import annotations

from random import Random

from locant.lab.problems.problem import LETTERS, Problem, Tokens

_UNARY = ("copy", "reverse", "shift", "swap")
_BINARY = ("append", "prepend", "remove-first", "remove-second")


class Edits(Problem):
    """``reverse append a b , c d`` -> ``d c b a``: operations in front of what they change.

    One argument: ``copy``, ``reverse``, ``shift`` (the first letter goes to the end), ``swap`` (first and last letter
    change places). Two, the second always plain letters: ``append`` (first, second), ``prepend`` (second, first),
    ``remove-first`` (second alone), ``remove-second`` (first alone). The operations that lengthen a string by itself
    are left out, so that answers grow with the number of operations and not with its power.
    """

    name = "edits"
    title = "Edit strings (PCFG-like)"
    length_means = "operations"
    symbols = (*LETTERS, *_UNARY, *_BINARY, ",")

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        text = random.choices(LETTERS, k=random.randint(2, 4))
        question = list(text)
        for _ in range(length):
            operation = random.choice(_UNARY + _BINARY)
            if operation in _UNARY:
                question, text = [operation, *question], _edit(operation, text)
            else:
                other = random.choices(LETTERS, k=random.randint(2, 3))
                question, text = [operation, *question, ",", *other], _join(operation, text, other)
        return question, text


def _edit(operation: str, text: Tokens) -> Tokens:
    match operation:
        case "reverse":
            return text[::-1]
        case "shift":
            return [*text[1:], text[0]]
        case "swap":
            return [text[-1], *text[1:-1], text[0]]
        case _:
            return text


def _join(operation: str, first: Tokens, second: Tokens) -> Tokens:
    match operation:
        case "append":
            return first + second
        case "prepend":
            return second + first
        case "remove-first":
            return second
        case _:
            return first
