"""Problems with exact answers, whose questions exist in every length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from string import ascii_letters

Tokens = list[str]
Sample = Callable[[Random, int], tuple[Tokens, Tokens]]

DIGITS = tuple("0123456789")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Problem:
    """A family of questions with exact answers.

    Attributes:
        name: By which the task is called.
        title: One line.
        length_means: What the length of a question counts.
        symbols: Every token that questions and answers are made of.
        sample: Draws a question of a length and returns its tokens and those of the answer.
        max_length: Longest question there is, or ``None``.
    """

    name: str
    title: str
    length_means: str
    symbols: tuple[str, ...]
    sample: Sample
    max_length: int | None = None


PROBLEMS: dict[str, Problem] = {}
"""Every problem by name."""


def _problem(
    name: str, title: str, length_means: str, symbols: tuple[str, ...], max_length: int | None = None
) -> Callable[[Sample], Sample]:
    """Register the function that draws the questions of a problem."""

    def register(sample: Sample) -> Sample:
        PROBLEMS[name] = Problem(name, title, length_means, symbols, sample, max_length)
        return sample

    return register


@_problem("copy", "Copy a row of letters", "letters", LETTERS)
def copy_letters(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``q x a x`` -> ``q x a x``, letters drawn evenly."""
    letters = random.choices(LETTERS, k=length)
    return letters, letters


@_problem("reverse", "Reverse a row of letters", "letters", LETTERS)
def reverse_letters(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``q x a`` -> ``a x q``, letters drawn evenly."""
    letters = random.choices(LETTERS, k=length)
    return letters, letters[::-1]


@_problem("addition", "Add two decimal numbers", "digits of each number", (*DIGITS, "+"))
def add_numbers(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``4 7 + 8 5`` -> ``1 3 2``, highest digits first, both numbers with exactly ``length`` digits."""
    lowest = 10 ** (length - 1) if length > 1 else 0
    first, second = (random.randrange(lowest, 10**length) for _ in range(2))
    return [*str(first), "+", *str(second)], list(str(first + second))


_NUMBERS = tuple(str(number) for number in range(50))


@_problem("sorting", "Sort numbers", "numbers", _NUMBERS)
def sort_numbers(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``31 7 22 7`` -> ``7 7 22 31``; numbers from 0 to 49, one token each, repetitions allowed."""
    numbers = random.choices(_NUMBERS, k=length)
    return numbers, sorted(numbers, key=int)


@_problem("summation", "Sum digits modulo 10", "digits", DIGITS)
def sum_digits(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``7 5 9`` -> ``1``: the sum of digits modulo 10."""
    digits = random.choices(DIGITS, k=length)
    return digits, [str(sum(map(int, digits)) % 10)]


@_problem("parity", "Parity of a row of bits", "bits", ("0", "1", "even", "odd"))
def parity_of_bits(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``1 0 1 1`` -> ``odd``: whether the number of ones is even. Without a scratchpad Transformers fail at it."""
    bits = random.choices("01", k=length)
    return bits, ["odd" if bits.count("1") % 2 else "even"]


@_problem("polynomial", "Evaluate a polynomial modulo 10", "terms", (*DIGITS, "x", "=", ";", "^", "+"))
def evaluate_polynomial(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``x = 3 ; 2 x ^ 1 + 4 x ^ 2`` -> ``2``: the value modulo 10, exponents from 0 to 3."""
    x, value = random.randrange(10), 0
    question: Tokens = ["x", "=", str(x), ";"]
    for index in range(length):
        coefficient, exponent = random.randrange(10), random.randrange(4)
        value += coefficient * x**exponent
        question += [*(["+"] if index else []), str(coefficient), "x", "^", str(exponent)]
    return question, [str(value % 10)]


@_problem(
    "chains",
    "Follow a chain of signed assignments",
    "assignments",
    (*ascii_letters, "=", "+", "-", "1", ";", "?", "+1", "-1"),
    max_length=len(ascii_letters),
)
def follow_chain(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``b = - a ; a = + 1 ; ? b`` -> ``-1``: follow assignments of signs, given in any order, to the last variable."""
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
_COMMAND_WORDS = (*_VERBS, "turn", *_SIDES, "opposite", "around", "twice", "thrice", "and", "after")


@cache
def scan_clauses() -> dict[int, list[tuple[Tokens, Tokens]]]:
    """Return every command without conjunction, with its actions, by the number of actions."""
    single: list[tuple[Tokens, Tokens]] = [([verb], [verb.upper()]) for verb in _VERBS]
    for side in _SIDES:
        turn = f"TURN-{side.upper()}"
        for verb, act in [("turn", []), *((verb, [verb.upper()]) for verb in _VERBS)]:
            single.append(([verb, side], [turn, *act]))
            single.append(([verb, "opposite", side], [turn, turn, *act]))
            single.append(([verb, "around", side], 4 * [turn, *act]))
    found: dict[int, list[tuple[Tokens, Tokens]]] = {}
    for command, actions in single:
        for often, times in _TIMES.items():
            found.setdefault(times * len(actions), []).append(
                ([*command, *([often] if often else [])], times * actions)
            )
    return found


@_problem(
    "commands",
    "Carry out commands (SCAN-like)",
    "actions of the answer",
    (*_COMMAND_WORDS, *(verb.upper() for verb in _VERBS), "TURN-LEFT", "TURN-RIGHT"),
)
def carry_out_commands(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``jump left after walk twice`` -> ``WALK WALK TURN-LEFT JUMP``.

    The words mean what they mean in SCAN; unlike there, any number of clauses is joined, from left to right, so that
    every length exists: ``x and y`` does x first, ``x after y`` does y first.
    """
    clauses = scan_clauses()
    question: Tokens = []
    answer: Tokens = []
    while len(answer) < length:
        room = length - len(answer)
        size = random.choice([size for size in clauses if size <= room])
        command, actions = random.choice(clauses[size])
        if not question:
            question, answer = command, actions
        elif random.random() < 0.5:
            question, answer = [*question, "and", *command], answer + actions
        else:
            question, answer = [*question, "after", *command], actions + answer
    return question, answer


UNARY: dict[str, Callable[[Tokens], Tokens]] = {
    "copy": lambda text: text,
    "reverse": lambda text: text[::-1],
    "shift": lambda text: [*text[1:], text[0]],
    "swap": lambda text: [text[-1], *text[1:-1], text[0]],
}
"""Operations of PCFG SET that take one string."""
BINARY: dict[str, Callable[[Tokens, Tokens], Tokens]] = {
    "append": lambda first, second: first + second,
    "prepend": lambda first, second: second + first,
    "remove-first": lambda first, second: second,
    "remove-second": lambda first, second: first,
}
"""Those that take two."""


@_problem("edits", "Edit strings (PCFG-like)", "operations", (*LETTERS, *UNARY, *BINARY, ","))
def edit_strings(random: Random, length: int) -> tuple[Tokens, Tokens]:
    """``reverse append a b , c d`` -> ``d c b a``: operations in front of what they change.

    One argument: ``copy``, ``reverse``, ``shift`` (the first letter goes to the end), ``swap`` (first and last letter
    change places). Two, the second always plain letters: ``append`` (first, second), ``prepend`` (second, first),
    ``remove-first`` (second alone), ``remove-second`` (first alone). The operations that lengthen a string by itself
    are left out, so that answers grow with the number of operations and not with its power.
    """
    text = random.choices(LETTERS, k=random.randint(2, 4))
    question = list(text)
    for _ in range(length):
        operation = random.choice((*UNARY, *BINARY))
        if operation in UNARY:
            question, text = [operation, *question], UNARY[operation](text)
        else:
            other = random.choices(LETTERS, k=random.randint(2, 3))
            question, text = [operation, *question, ",", *other], BINARY[operation](text, other)
    return question, text
