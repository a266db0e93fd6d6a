"""Problems with exact answers, whose questions exist in every length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from string import ascii_letters
from typing import ClassVar

Tokens = list[str]

DIGITS = tuple("0123456789")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")


class Problem(ABC):
    """A family of questions with exact answers.

    Attributes:
        name: By which the task is called.
        title: One line.
        length_means: What the length of a question counts.
        symbols: Every token that questions and answers are made of.
        max_length: Longest question there is, or ``None``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    length_means: ClassVar[str]
    symbols: ClassVar[tuple[str, ...]]
    max_length: ClassVar[int | None] = None

    @abstractmethod
    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question of a length and return its tokens and those of the answer."""


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


_VERBS = ("walk", "look", "run", "jump")
_SIDES = ("left", "right")
_TIMES = {"": 1, "twice": 2, "thrice": 3}


def scan_clauses() -> list[tuple[Tokens, Tokens]]:
    """Return every command without conjunction, with its actions."""
    single: list[tuple[Tokens, Tokens]] = [([verb], [verb.upper()]) for verb in _VERBS]
    for side in _SIDES:
        turn = f"TURN-{side.upper()}"
        for verb, act in [("turn", []), *((verb, [verb.upper()]) for verb in _VERBS)]:
            single.append(([verb, side], [turn, *act]))
            single.append(([verb, "opposite", side], [turn, turn, *act]))
            single.append(([verb, "around", side], 4 * [turn, *act]))
    return [
        ([*command, *([often] if often else [])], times * actions)
        for command, actions in single
        for often, times in _TIMES.items()
    ]


class Commands(Problem):
    """``jump left after walk twice`` -> ``WALK WALK TURN-LEFT JUMP``.

    The words mean what they mean in SCAN; unlike there, any number of clauses is joined, from left to right, so that
    every length exists: ``x and y`` does x first, ``x after y`` does y first.
    """

    name = "commands"
    title = "Carry out commands (SCAN-like)"
    length_means = "actions of the answer"
    words = (*_VERBS, "turn", *_SIDES, "opposite", "around", "twice", "thrice", "and", "after")
    symbols = words + tuple(verb.upper() for verb in _VERBS) + ("TURN-LEFT", "TURN-RIGHT")

    def __init__(self) -> None:
        self._by_length: dict[int, list[tuple[Tokens, Tokens]]] = {}
        for command, actions in scan_clauses():
            self._by_length.setdefault(len(actions), []).append((command, actions))

    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question."""
        question: Tokens = []
        answer: Tokens = []
        while len(answer) < length:
            room = length - len(answer)
            size = random.choice([size for size in self._by_length if size <= room])
            command, actions = random.choice(self._by_length[size])
            if not question:
                question, answer = command, actions
            elif random.random() < 0.5:
                question, answer = [*question, "and", *command], answer + actions
            else:
                question, answer = [*question, "after", *command], actions + answer
        return question, answer


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
                question, text = [operation, *question], edit_string(operation, text)
            else:
                other = random.choices(LETTERS, k=random.randint(2, 3))
                question, text = [operation, *question, ",", *other], join_strings(operation, text, other)
        return question, text


def edit_string(operation: str, text: Tokens) -> Tokens:
    """Apply an operation of PCFG SET that takes one string."""
    match operation:
        case "reverse":
            return text[::-1]
        case "shift":
            return [*text[1:], text[0]]
        case "swap":
            return [text[-1], *text[1:-1], text[0]]
        case _:
            return text


def join_strings(operation: str, first: Tokens, second: Tokens) -> Tokens:
    """Apply an operation of PCFG SET that takes two strings."""
    match operation:
        case "append":
            return first + second
        case "prepend":
            return second + first
        case "remove-first":
            return second
        case _:
            return first


PROBLEMS: dict[str, type[Problem]] = {
    problem.name: problem
    for problem in (Copy, Reverse, Addition, Sorting, Summation, Parity, Polynomial, Chains, Commands, Edits)
}
"""Every problem by name."""
